/*
 * The model: GPT-2's form, with learned positions, pre-norm blocks of causal attention and a GELU MLP four
 * times as wide, and an output head tied to the byte embedding. One step is
 *
 *     draw a batch -> model_forward -> model_backward -> adamw_step
 *     (sampler.c)     (model.c, layers.c, attention.c)    (adamw.c)
 *
 * All parameters live in one flat vector, in the layout's order; gradients have the same form.
 */
#ifndef P2PDILOCO_CPU_MODEL_H
#define P2PDILOCO_CPU_MODEL_H

#include "layers.h"
#include "layout.h"

/* What one block keeps for the backward pass. */
struct activations {
	float *in; /* (rows, width): the residual stream before the block */
	struct normed ln1;
	float *qkv;     /* (rows, 3 width) */
	float *weights; /* (sequences, heads, context, context) */
	float *mixed;   /* (rows, width): the heads' outputs before the projection */
	float *mid;     /* (rows, width): the residual stream between attention and MLP */
	struct normed ln2;
	float *up, *gate, *gelu; /* (rows, 4 width) */
};

/* The backward pass's own buffers, used again by every block. */
struct gradients {
	float *stream; /* (rows, width): of the residual stream */
	float *narrow; /* (rows, width): of a norm's or the attention's output */
	float *qkv;    /* (rows, 3 width) */
	float *wide;   /* (rows, 4 width): of the MLP's inner values */
	float *scores; /* (sequences, context, context) */
};

struct model {
	const struct config *config;
	const struct layout *layout;
	struct team *team;
	float *values, *grads; /* D each */

	struct activations *layers;
	float *last;         /* (rows, width): the residual stream after all blocks */
	struct normed final; /* lnf's */
	float *logits;       /* (rows, 256): logits, then probabilities, then their gradient */
	double *losses;      /* (rows) */
	struct gradients back;
};

/* Makes a model with room for config->batch sequences, parameters zero. The three must outlive it. What
 * model_free is for is in m on failure, too. */
int model_make(struct model *m, const struct config *config, const struct layout *layout, struct team *team, struct failure *why);
void model_free(struct model *m);

/* The mean loss over so many sequences, in nats per byte: at most as many as there is room for. inputs and
 * targets are sequences * context bytes each. */
double model_forward(struct model *m, const uint8_t *inputs, const uint8_t *targets, size_t sequences);

/* Computes the gradient of the last forward's mean loss into m->grads, replacing what was there. The batch must
 * be the same. */
void model_backward(struct model *m, const uint8_t *inputs, const uint8_t *targets, size_t sequences);

#endif
