#include "model.h"

#include <stdlib.h>
#include <string.h>

#include "matmul.h"

/* What visits all buffers, to make or to free them. It returns whether it could. */
typedef bool (*visit)(void **buffer, size_t count, size_t size);

static bool make(void **buffer, size_t count, size_t size) { return (*buffer = calloc(count, size)) != NULL; }

static bool drop(void **buffer, size_t count, size_t size) {
	(void)count, (void)size;
	free(*buffer);
	*buffer = NULL;
	return true;
}

static bool each_float(float **buffer, size_t count, visit v) {
	void *at = *buffer;
	bool ok = v(&at, count, sizeof **buffer);
	*buffer = at;
	return ok;
}

static bool each_of_norm(struct normed *n, size_t rows, size_t width, visit v) {
	return each_float(&n->out, rows * width, v) && each_float(&n->scaled, rows * width, v) && each_float(&n->inverse, rows, v);
}

static bool each_of_layer(struct activations *a, size_t rows, size_t d, size_t squares, visit v) {
	return each_float(&a->in, rows * d, v) && each_of_norm(&a->ln1, rows, d, v) && each_float(&a->qkv, 3 * rows * d, v) &&
	       each_float(&a->weights, squares, v) && each_float(&a->mixed, rows * d, v) && each_float(&a->mid, rows * d, v) &&
	       each_of_norm(&a->ln2, rows, d, v) && each_float(&a->up, 4 * rows * d, v) && each_float(&a->gate, 4 * rows * d, v) &&
	       each_float(&a->gelu, 4 * rows * d, v);
}

/* Every buffer of m but the array of layers. */
static bool each_buffer(struct model *m, visit v) {
	const struct config *c = m->config;
	size_t rows = (size_t)(c->batch * c->context), d = (size_t)c->width, squares = rows * (size_t)c->context;
	void *losses = m->losses;
	bool ok = v(&losses, rows, sizeof *m->losses);
	m->losses = losses;
	ok = ok && each_float(&m->values, m->layout->elements, v) && each_float(&m->grads, m->layout->elements, v) &&
	     each_float(&m->last, rows * d, v) && each_of_norm(&m->final, rows, d, v) && each_float(&m->logits, rows * VOCABULARY, v) &&
	     each_float(&m->back.stream, rows * d, v) && each_float(&m->back.narrow, rows * d, v) &&
	     each_float(&m->back.qkv, 3 * rows * d, v) && each_float(&m->back.wide, 4 * rows * d, v) && each_float(&m->back.scores, squares, v);
	for (int64_t i = 0; i < c->layers && ok; i++) ok = each_of_layer(&m->layers[i], rows, d, squares * (size_t)c->heads, v);
	return ok;
}

int model_make(struct model *m, const struct config *config, const struct layout *layout, struct team *team, struct failure *why) {
	*m = (struct model){.config = config, .layout = layout, .team = team};
	m->layers = calloc((size_t)config->layers, sizeof *m->layers);
	if (!m->layers || !each_buffer(m, make)) return fail(why, "out of memory: take a smaller model, batch or context");
	return 0;
}

void model_free(struct model *m) {
	if (m->layers) each_buffer(m, drop);
	free(m->layers);
	m->layers = NULL;
}

static float *value(const struct model *m, size_t tensor) { return m->values + m->layout->tensors[tensor].begin; }
static float *grad(const struct model *m, size_t tensor) { return m->grads + m->layout->tensors[tensor].begin; }

/* The norm whose gain is a tensor; its bias follows. */
static struct norm norm_of(const struct model *m, size_t tensor) {
	return (struct norm){
		(size_t)m->config->width, value(m, tensor), value(m, tensor + 1), grad(m, tensor), grad(m, tensor + 1),
	};
}

/* The linear map whose weight is a tensor; its bias follows. */
static struct linear linear_of(const struct model *m, size_t tensor) {
	const uint64_t *shape = m->layout->tensors[tensor].shape;
	return (struct linear){
		(size_t)shape[1], (size_t)shape[0], value(m, tensor), value(m, tensor + 1), grad(m, tensor), grad(m, tensor + 1),
	};
}

static struct attention attention_of(const struct model *m, size_t sequences) {
	return (struct attention){sequences, (size_t)m->config->context, (size_t)m->config->heads, (size_t)m->config->width};
}

/* The residual stream before a block, or after the last one. */
static float *stream_at(const struct model *m, int64_t layer) { return layer == m->config->layers ? m->last : m->layers[layer].in; }

/* Writes the sum of byte and position embedding of every position. */
static void embed(const struct model *m, float *out, const uint8_t *inputs, size_t rows) {
	size_t d = (size_t)m->config->width;
	for (size_t r = 0; r < rows; r++) {
		memcpy(out + r * d, value(m, WTE) + inputs[r] * d, d * sizeof *out);
		add_to(out + r * d, value(m, WPE) + r % (size_t)m->config->context * d, d);
	}
}

/* mid = in + proj(attention(qkv(ln1(in)))); out = mid + down(gelu(up(ln2(mid)))). */
static void forward_block(struct model *m, int64_t layer, size_t sequences) {
	struct activations *a = &m->layers[layer];
	size_t rows = sequences * (size_t)m->config->context, first = BLOCK(layer);
	struct norm ln1 = norm_of(m, first + LN1_WEIGHT), ln2 = norm_of(m, first + LN2_WEIGHT);
	struct linear qkv = linear_of(m, first + QKV_WEIGHT), proj = linear_of(m, first + PROJ_WEIGHT);
	struct linear up = linear_of(m, first + UP_WEIGHT), down = linear_of(m, first + DOWN_WEIGHT);
	struct attention attention = attention_of(m, sequences);

	norm_forward(m->team, &ln1, &a->ln1, a->in, rows);
	linear_forward(m->team, &qkv, a->qkv, a->ln1.out, NULL, rows);
	attention_forward(m->team, &attention, a->mixed, a->weights, a->qkv);
	linear_forward(m->team, &proj, a->mid, a->mixed, a->in, rows);

	norm_forward(m->team, &ln2, &a->ln2, a->mid, rows);
	linear_forward(m->team, &up, a->up, a->ln2.out, NULL, rows);
	gelu_forward(m->team, a->gelu, a->gate, a->up, rows * up.outputs);
	linear_forward(m->team, &down, stream_at(m, layer + 1), a->gelu, a->mid, rows);
}

double model_forward(struct model *m, const uint8_t *inputs, const uint8_t *targets, size_t sequences) {
	size_t rows = sequences * (size_t)m->config->context, d = (size_t)m->config->width;
	struct norm lnf = norm_of(m, FINAL(m->config->layers));
	embed(m, stream_at(m, 0), inputs, rows);
	for (int64_t i = 0; i < m->config->layers; i++) forward_block(m, i, sequences);
	norm_forward(m->team, &lnf, &m->final, m->last, rows);
	matmul(m->team, m->logits, VOCABULARY, mat(m->final.out, d), transposed(mat(value(m, WTE), d)), rows, VOCABULARY, d, false);
	return loss_forward(m->team, m->logits, targets, m->losses, rows);
}

/* Turns m->back.stream, the gradient after a block, into that before it. */
static void backward_block(struct model *m, int64_t layer, size_t sequences) {
	struct activations *a = &m->layers[layer];
	struct gradients *back = &m->back;
	size_t rows = sequences * (size_t)m->config->context, first = BLOCK(layer);
	struct norm ln1 = norm_of(m, first + LN1_WEIGHT), ln2 = norm_of(m, first + LN2_WEIGHT);
	struct linear qkv = linear_of(m, first + QKV_WEIGHT), proj = linear_of(m, first + PROJ_WEIGHT);
	struct linear up = linear_of(m, first + UP_WEIGHT), down = linear_of(m, first + DOWN_WEIGHT);
	struct attention attention = attention_of(m, sequences);

	linear_backward(m->team, &down, back->wide, back->stream, a->gelu, rows);
	gelu_backward(m->team, back->wide, a->gate, a->up, rows * up.outputs);
	linear_backward(m->team, &up, back->narrow, back->wide, a->ln2.out, rows);
	norm_backward(m->team, &ln2, &a->ln2, back->stream, back->narrow, rows);

	linear_backward(m->team, &proj, back->narrow, back->stream, a->mixed, rows);
	attention_backward(m->team, &attention, back->qkv, back->narrow, a->weights, a->qkv, back->scores);
	linear_backward(m->team, &qkv, back->narrow, back->qkv, a->ln1.out, rows);
	norm_backward(m->team, &ln1, &a->ln1, back->stream, back->narrow, rows);
}

/* Adds the stream's gradient to the rows that embed read. wte holds the head's gradient already. */
static void embed_backward(const struct model *m, const float *stream, const uint8_t *inputs, size_t rows) {
	size_t d = (size_t)m->config->width;
	for (size_t r = 0; r < rows; r++) {
		add_to(grad(m, WTE) + inputs[r] * d, stream + r * d, d);
		add_to(grad(m, WPE) + r % (size_t)m->config->context * d, stream + r * d, d);
	}
}

void model_backward(struct model *m, const uint8_t *inputs, const uint8_t *targets, size_t sequences) {
	size_t rows = sequences * (size_t)m->config->context, d = (size_t)m->config->width;
	struct norm lnf = norm_of(m, FINAL(m->config->layers));
	memset(m->grads, 0, m->layout->elements * sizeof *m->grads);
	memset(m->back.stream, 0, rows * d * sizeof *m->back.stream);

	loss_backward(m->team, m->logits, targets, rows);
	struct matrix logits = mat(m->logits, VOCABULARY);
	matmul(m->team, m->back.narrow, d, logits, mat(value(m, WTE), d), rows, d, VOCABULARY, false);
	matmul(m->team, grad(m, WTE), d, transposed(logits), mat(m->final.out, d), VOCABULARY, d, rows, true);
	norm_backward(m->team, &lnf, &m->final, m->back.stream, m->back.narrow, rows);

	for (int64_t i = m->config->layers; i-- > 0;) backward_block(m, i, sequences);
	embed_backward(m, m->back.stream, inputs, rows);
}
