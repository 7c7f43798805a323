/*
 * The model's tensors in flat order: all parameters live in one vector, and each tensor is a part of it.
 * Matrices are (outputs x inputs), row-major.
 *
 *     wte (256, width)  wpe (context, width)  then for each layer i, h.i.:
 *     ln1  attn.qkv (3 width, width)  attn.proj (width, width)  ln2  mlp.up (4 width, width)  mlp.down (width, 4 width)
 *     and at the end lnf. Norms have a weight (the gain) and a bias, matrices a weight and a bias.
 */
#ifndef P2PDILOCO_COMMON_LAYOUT_H
#define P2PDILOCO_COMMON_LAYOUT_H

#include <stddef.h>
#include <stdint.h>

#include "config.h"
#include "p2pdiloco_trainer.h"

#ifdef __cplusplus
extern "C" {
#endif

struct tensor {
	char name[32];
	size_t begin, count; /* in the flat vector */
	uint32_t dims;       /* 1 or 2 */
	uint64_t shape[2];
};

/* Indices into layout.tensors: WTE, WPE, those of layer i at BLOCK(i) + LN1_WEIGHT..., those of lnf at
 * FINAL(layers) + 0 and 1. */
enum { WTE, WPE, FIRST_BLOCK };
enum {
	LN1_WEIGHT, LN1_BIAS, QKV_WEIGHT, QKV_BIAS, PROJ_WEIGHT, PROJ_BIAS,
	LN2_WEIGHT, LN2_BIAS, UP_WEIGHT, UP_BIAS, DOWN_WEIGHT, DOWN_BIAS, BLOCK_TENSORS
};
#define BLOCK(layer) (FIRST_BLOCK + BLOCK_TENSORS * (size_t)(layer))
#define FINAL(layers) BLOCK(layers)

struct layout {
	struct tensor *tensors;
	size_t count;
	size_t elements;                 /* D */
	p2pdiloco_trainer_tensor *table; /* the same for the peer, of type dtype */
};

/* D for sizes that need not be within the caps, and about how many values a step's activations take. */
uint64_t layout_elements(const struct config *c);
uint64_t buffer_elements(const struct config *c);

/* dtype is of the live tensors, P2PDILOCO_F32 or another. */
int layout_make(struct layout *l, const struct config *c, uint32_t dtype, struct failure *why);
void layout_free(struct layout *l);

/* Writes the initial parameters, D elements: the same bits as the built-in trainer's. Gains are 1, biases 0,
 * and matrices are normal values: of deviation 1/sqrt(width), but 0.02/sqrt(2 layers) for what writes into the
 * residual stream. */
void initialize(const struct layout *l, const struct config *c, uint64_t seed, float *dst);

#ifdef __cplusplus
}
#endif

#endif
