#include "layers.h"

#include <math.h>
#include <string.h>

#include "config.h"
#include "matmul.h"

void add_to(float *dst, const float *src, size_t n) {
	for (size_t i = 0; i < n; i++) dst[i] += src[i];
}

void linear_forward(struct team *team, const struct linear *l, float *out, const float *in, const float *residual, size_t rows) {
	for (size_t r = 0; r < rows; r++) {
		float *row = out + r * l->outputs;
		memcpy(row, l->bias, l->outputs * sizeof *row);
		if (residual) add_to(row, residual + r * l->outputs, l->outputs);
	}
	matmul(team, out, l->outputs, mat(in, l->inputs), transposed(mat(l->weight, l->inputs)), rows, l->outputs, l->inputs, true);
}

void linear_backward(struct team *team, const struct linear *l, float *in_grad, const float *out_grad, const float *in, size_t rows) {
	struct matrix grad = mat(out_grad, l->outputs);
	matmul(team, in_grad, l->inputs, grad, mat(l->weight, l->inputs), rows, l->inputs, l->outputs, false);
	matmul(team, l->weight_grad, l->inputs, transposed(grad), mat(in, l->inputs), l->outputs, l->inputs, rows, true);
	for (size_t r = 0; r < rows; r++) add_to(l->bias_grad, out_grad + r * l->outputs, l->outputs);
}

/* Norms. */

struct norm_operation {
	const struct norm *norm;
	const struct normed *normed;
	const float *in, *out_grad;
	float *in_grad;
};

static float sum(const float *v, size_t n) {
	float total = 0;
	for (size_t i = 0; i < n; i++) total += v[i];
	return total;
}

static void norm_rows(const void *operation, size_t begin, size_t end) {
	const struct norm_operation *o = operation;
	const float *gain = o->norm->gain, *bias = o->norm->bias;
	size_t d = o->norm->width;
	for (size_t r = begin; r < end; r++) {
		float *scaled = o->normed->scaled + r * d, *out = o->normed->out + r * d;
		const float *in = o->in + r * d;
		float mean = sum(in, d) / (float)d;
		for (size_t i = 0; i < d; i++) scaled[i] = in[i] - mean;
		float squares = dot(scaled, scaled, d);
		float inverse = o->normed->inverse[r] = (float)(1 / sqrt((double)squares / (double)d + 1e-5)); /* GPT-2's epsilon */
		for (size_t i = 0; i < d; i++) {
			scaled[i] *= inverse;
			out[i] = scaled[i] * gain[i] + bias[i];
		}
	}
}

void norm_forward(struct team *team, const struct norm *n, const struct normed *a, const float *in, size_t rows) {
	split(team, rows, norm_rows, &(struct norm_operation){.norm = n, .normed = a, .in = in});
}

static void norm_rows_backward(const void *operation, size_t begin, size_t end) {
	const struct norm_operation *o = operation;
	const float *gain = o->norm->gain;
	size_t d = o->norm->width;
	for (size_t r = begin; r < end; r++) {
		const float *scaled = o->normed->scaled + r * d, *grad = o->out_grad + r * d;
		float *in_grad = o->in_grad + r * d, mean = 0, slope = 0;
		for (size_t i = 0; i < d; i++) {
			float v = grad[i] * gain[i];
			mean += v;
			slope += v * scaled[i];
		}
		mean /= (float)d, slope /= (float)d;
		for (size_t i = 0; i < d; i++) in_grad[i] += (grad[i] * gain[i] - mean - scaled[i] * slope) * o->normed->inverse[r];
	}
}

void norm_backward(struct team *team, const struct norm *n, const struct normed *a, float *in_grad, const float *out_grad, size_t rows) {
	struct norm_operation o = {.norm = n, .normed = a, .in_grad = in_grad, .out_grad = out_grad};
	split(team, rows, norm_rows_backward, &o);
	for (size_t r = 0; r < rows; r++) {
		const float *scaled = a->scaled + r * n->width, *grad = out_grad + r * n->width;
		for (size_t i = 0; i < n->width; i++) n->gain_grad[i] += grad[i] * scaled[i];
		add_to(n->bias_grad, grad, n->width);
	}
}

/* GELU: tanh(u) = 2 logistic(2u) - 1 in 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x³))). */

static const float scale = 2 * 0.7978845608028654f, cube = 0.044715f;

struct gelu_operation {
	float *out, *gate;
	const float *in;
};

static void gelu_part(const void *operation, size_t begin, size_t end) {
	const struct gelu_operation *o = operation;
	for (size_t i = begin; i < end; i++) {
		float x = o->in[i], gate = 1 / (1 + expf(-scale * (x + cube * x * x * x)));
		o->gate[i] = gate;
		o->out[i] = x * gate;
	}
}

void gelu_forward(struct team *team, float *out, float *gate, const float *in, size_t n) {
	split(team, n, gelu_part, &(struct gelu_operation){out, gate, in});
}

struct gelu_gradient {
	float *grad;
	const float *gate, *in;
};

static void gelu_part_backward(const void *operation, size_t begin, size_t end) {
	const struct gelu_gradient *o = operation;
	for (size_t i = begin; i < end; i++) {
		float x = o->in[i], gate = o->gate[i];
		o->grad[i] *= gate + x * gate * (1 - gate) * scale * (1 + 3 * cube * x * x);
	}
}

void gelu_backward(struct team *team, float *grad, const float *gate, const float *in, size_t n) {
	split(team, n, gelu_part_backward, &(struct gelu_gradient){grad, gate, in});
}

/* The loss. */

struct loss_operation {
	float *rows;
	const uint8_t *targets;
	double *losses;
	float share;
};

static void loss_rows(const void *operation, size_t begin, size_t end) {
	const struct loss_operation *o = operation;
	for (size_t r = begin; r < end; r++) {
		float *row = o->rows + r * VOCABULARY, top = row[0];
		for (int i = 1; i < VOCABULARY; i++) top = row[i] > top ? row[i] : top;
		double hit = row[o->targets[r]] - top, total = 0;
		for (int i = 0; i < VOCABULARY; i++) total += row[i] = expf(row[i] - top);
		float inverse = (float)(1 / total);
		for (int i = 0; i < VOCABULARY; i++) row[i] *= inverse;
		o->losses[r] = log(total) - hit;
	}
}

double loss_forward(struct team *team, float *logits, const uint8_t *targets, double *losses, size_t rows) {
	double total = 0;
	split(team, rows, loss_rows, &(struct loss_operation){.rows = logits, .targets = targets, .losses = losses});
	for (size_t r = 0; r < rows; r++) total += losses[r];
	return total / (double)rows;
}

static void loss_rows_backward(const void *operation, size_t begin, size_t end) {
	const struct loss_operation *o = operation;
	for (size_t r = begin; r < end; r++) {
		float *row = o->rows + r * VOCABULARY;
		row[o->targets[r]] -= 1;
		for (int i = 0; i < VOCABULARY; i++) row[i] *= o->share;
	}
}

void loss_backward(struct team *team, float *probabilities, const uint8_t *targets, size_t rows) {
	struct loss_operation o = {.rows = probabilities, .targets = targets, .share = 1 / (float)rows};
	split(team, rows, loss_rows_backward, &o);
}
