/* The numbers of one AdamW step, which are the same for all parameters (Loshchilov and Hutter, arXiv 1711.05101). */
#ifndef P2PDILOCO_COMMON_UPDATE_H
#define P2PDILOCO_COMMON_UPDATE_H

#include <stdint.h>

#include "config.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 *     g = scale gradient                     the whole gradient is clipped to a norm
 *     m = beta1 m + (1-beta1) g
 *     v = beta2 v + (1-beta2) g g
 *     value = keep value                     matrices only: decoupled weight decay
 *     value = value - size m / (root sqrt(v) + epsilon)
 *
 * size and root hold the moments' bias corrections: rate/(1-beta1^t) and 1/sqrt(1-beta2^t).
 */
struct update {
	float scale, beta1, beta2, keep, size, root, epsilon;
};

/* For this peer's own step t, from 1, and the norm of its gradient. The rate rises linearly over the warm-up. */
struct update update_at(const struct config *c, uint64_t t, double norm);

#ifdef __cplusplus
}
#endif

#endif
