/*
 * The layers of the transformer, each a forward and a backward function. Rows are positions: sequences x
 * context. Vectors are row-major, one row after the other without gaps. Gradients of parameters are added to
 * what is there.
 */
#ifndef P2PDILOCO_CPU_LAYERS_H
#define P2PDILOCO_CPU_LAYERS_H

#include <stddef.h>
#include <stdint.h>

#include "team.h"

/* out = residual + in weightᵀ + bias, for weight (outputs, inputs); residual may be NULL. */
struct linear {
	size_t inputs, outputs;
	const float *weight, *bias;
	float *weight_grad, *bias_grad;
};
void linear_forward(struct team *, const struct linear *, float *out, const float *in, const float *residual, size_t rows);
void linear_backward(struct team *, const struct linear *, float *in_grad, const float *out_grad, const float *in, size_t rows);

/* Layer norm: scaled = (in - mean) / deviation; out = scaled gain + bias. backward adds to in_grad, since the
 * residual stream around the norm has a gradient already. */
struct norm {
	size_t width;
	const float *gain, *bias;
	float *gain_grad, *bias_grad;
};
struct normed {
	float *out, *scaled; /* (rows, width) */
	float *inverse;      /* (rows): 1/deviation */
};
void norm_forward(struct team *, const struct norm *, const struct normed *, const float *in, size_t rows);
void norm_backward(struct team *, const struct norm *, const struct normed *, float *in_grad, const float *out_grad, size_t rows);

/* GELU in its tanh form, written with a logistic function: out = in gate. backward turns the gradient of out
 * into that of in. */
void gelu_forward(struct team *, float *out, float *gate, const float *in, size_t n);
void gelu_backward(struct team *, float *grad, const float *gate, const float *in, size_t n);

/* Causal attention of several heads. A row of qkv holds a position's query, key and value, (3, heads, width /
 * heads). weights are (sequences, heads, context, context), zero above the diagonal; scratch is (sequences,
 * context, context). */
struct attention {
	size_t sequences, context, heads, width;
};
void attention_forward(struct team *, const struct attention *, float *out, float *weights, const float *qkv);
void attention_backward(struct team *, const struct attention *, float *qkv_grad, const float *out_grad, const float *weights,
    const float *qkv, float *scratch);

/* Turns each row of logits (rows, 256) into probabilities, and returns the mean cross-entropy of the targets,
 * in nats. losses has room for one number a row. backward turns the probabilities into the gradient of the
 * logits. */
double loss_forward(struct team *, float *logits, const uint8_t *targets, double *losses, size_t rows);
void loss_backward(struct team *, float *probabilities, const uint8_t *targets, size_t rows);

/* Adds src to dst. */
void add_to(float *dst, const float *src, size_t n);

#endif
