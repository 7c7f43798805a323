/*
 * The file of save and restore: the inner optimizer's state. There is no data position in it: what a peer draws
 * follows from its task alone.
 *
 *     magic "p2pdtrn1" | layout hash, 32 bytes | steps, uint64 | D, uint64 | D float32 first moments | D float32 second moments
 *     | SHA-256 of all before
 */
#ifndef P2PDILOCO_COMMON_STATE_H
#define P2PDILOCO_COMMON_STATE_H

#include <stdint.h>

#include "layout.h"

#ifdef __cplusplus
extern "C" {
#endif

struct state {
	uint64_t steps; /* done so far */
	float *first;   /* D: mean of gradients */
	float *second;  /* D: mean of squared gradients */
};

/* Writes the file in full before it takes path's place. */
int state_save(const char *path, const struct layout *l, const struct state *s, struct failure *why);

/* Fills s, whose vectors have room for D elements each. It reads the file through before it changes anything:
 * one that is cut short, damaged or of another model is refused and leaves s as it was. */
int state_restore(const char *path, const struct layout *l, struct state *s, struct failure *why);

#ifdef __cplusplus
}
#endif

#endif
