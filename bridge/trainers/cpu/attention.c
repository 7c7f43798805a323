#include <math.h>
#include <string.h>

#include "layers.h"
#include "matmul.h"

struct operation {
	const struct attention *shape;
	float *out, *weights; /* forward */
	const float *out_grad, *attended;
	float *qkv_grad, *scratch; /* backward */
	const float *qkv;
};

/* Where one head's query begins in qkv, at a sequence's first position. Its key is width further on, its value
 * 2 width. */
static size_t query_at(const struct attention *a, size_t sequence, size_t head) {
	return sequence * a->context * 3 * a->width + head * (a->width / a->heads);
}

/* Where one head's part of the output begins. */
static size_t output_at(const struct attention *a, size_t sequence, size_t head) {
	return sequence * a->context * a->width + head * (a->width / a->heads);
}

static size_t weights_at(const struct attention *a, size_t sequence, size_t head) {
	return (sequence * a->heads + head) * a->context * a->context;
}

static float scale(const struct attention *a) { return (float)(1 / sqrt((double)(a->width / a->heads))); }

/* Turns the scores of position i into weights over positions 0 to i. */
static void causal_softmax(float *row, size_t i, size_t context, float scale) {
	float top = row[0], sum = 0;
	for (size_t j = 1; j <= i; j++) top = row[j] > top ? row[j] : top;
	for (size_t j = 0; j <= i; j++) sum += row[j] = expf((row[j] - top) * scale);
	for (size_t j = 0; j <= i; j++) row[j] *= 1 / sum;
	memset(row + i + 1, 0, (context - i - 1) * sizeof *row);
}

/* weights = softmax(scale query keyᵀ) under the causal mask; out = weights value. */
static void forward_head(const struct operation *o, size_t sequence, size_t head) {
	const struct attention *a = o->shape;
	size_t t = a->context, size = a->width / a->heads;
	const float *qkv = o->qkv + query_at(a, sequence, head);
	struct matrix query = mat(qkv, 3 * a->width), key = mat(qkv + a->width, 3 * a->width), value = mat(qkv + 2 * a->width, 3 * a->width);
	float *weights = o->weights + weights_at(a, sequence, head);
	matmul(NULL, weights, t, query, transposed(key), t, t, size, false);
	for (size_t i = 0; i < t; i++) causal_softmax(weights + i * t, i, t, scale(a));
	matmul(NULL, o->out + output_at(a, sequence, head), a->width, mat(weights, t), value, t, size, t, false);
}

static void forward_sequences(const void *operation, size_t begin, size_t end) {
	const struct operation *o = operation;
	for (size_t s = begin; s < end; s++) {
		for (size_t h = 0; h < o->shape->heads; h++) forward_head(o, s, h);
	}
}

void attention_forward(struct team *team, const struct attention *a, float *out, float *weights, const float *qkv) {
	split(team, a->sequences, forward_sequences, &(struct operation){.shape = a, .out = out, .weights = weights, .qkv = qkv});
}

/* Turns the gradient of position i's weights into that of its scores. */
static void causal_softmax_backward(float *grad, const float *weights, size_t i, size_t context, float scale) {
	float mean = 0;
	for (size_t j = 0; j <= i; j++) mean += grad[j] * weights[j];
	for (size_t j = 0; j <= i; j++) grad[j] = weights[j] * (grad[j] - mean) * scale;
	memset(grad + i + 1, 0, (context - i - 1) * sizeof *grad);
}

static void backward_head(const struct operation *o, size_t sequence, size_t head) {
	const struct attention *a = o->shape;
	size_t t = a->context, size = a->width / a->heads, row = 3 * a->width, at = query_at(a, sequence, head);
	struct matrix query = mat(o->qkv + at, row), key = mat(o->qkv + at + a->width, row), value = mat(o->qkv + at + 2 * a->width, row);
	struct matrix out_grad = mat(o->out_grad + output_at(a, sequence, head), a->width);
	const float *weights = o->attended + weights_at(a, sequence, head);
	float *scores = o->scratch + sequence * t * t, *grad = o->qkv_grad + at;

	matmul(NULL, grad + 2 * a->width, row, transposed(mat(weights, t)), out_grad, t, size, t, false);
	matmul(NULL, scores, t, out_grad, transposed(value), t, t, size, false);
	for (size_t i = 0; i < t; i++) causal_softmax_backward(scores + i * t, weights + i * t, i, t, scale(a));
	matmul(NULL, grad, row, mat(scores, t), key, t, size, t, false);
	matmul(NULL, grad + a->width, row, transposed(mat(scores, t)), query, t, size, t, false);
}

static void backward_sequences(const void *operation, size_t begin, size_t end) {
	const struct operation *o = operation;
	for (size_t s = begin; s < end; s++) {
		for (size_t h = 0; h < o->shape->heads; h++) backward_head(o, s, h);
	}
}

void attention_backward(struct team *team, const struct attention *a, float *qkv_grad, const float *out_grad, const float *weights,
    const float *qkv, float *scratch) {
	struct operation o = {.shape = a, .out_grad = out_grad, .attended = weights, .qkv_grad = qkv_grad, .scratch = scratch, .qkv = qkv};
	split(team, a->sequences, backward_sequences, &o);
}
