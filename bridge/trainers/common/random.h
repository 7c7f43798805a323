/*
 * A random generator of Go's math/rand/v2, bit for bit: what a peer starts from must not depend on the language
 * of its trainer. PCG-DXSM is O'Neill's (pcg-random.org).
 */
#ifndef P2PDILOCO_COMMON_RANDOM_H
#define P2PDILOCO_COMMON_RANDOM_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Made by its two words: rand.NewPCG(high, low). */
struct pcg {
	uint64_t high, low;
};

uint64_t pcg_next(struct pcg *p);

#ifdef __cplusplus
}
#endif

#endif
