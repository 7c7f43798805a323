/* AdamW: Adam with decoupled weight decay, after the whole gradient was clipped to a norm. update.h has the
 * formulas. */
#ifndef P2PDILOCO_CPU_ADAMW_H
#define P2PDILOCO_CPU_ADAMW_H

#include "layout.h"
#include "state.h"

/* Takes one step: updates values and s by the gradient. It returns the gradient's norm before clipping. */
double adamw_step(struct state *s, const struct config *c, const struct layout *l, float *values, const float *grads);

#endif
