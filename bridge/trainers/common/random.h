/*
 * The two random generators of Go's math/rand/v2, bit for bit: what a peer starts from and trains on must not depend on the language of its
 * trainer. PCG-DXSM is O'Neill's (pcg-random.org), ChaCha8Rand is specified at c2sp.org/chacha8rand.
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

struct chacha8 {
	uint32_t key[8];
	uint32_t counter;  /* of the first of the four blocks in out */
	uint32_t out[64];  /* four blocks, word by word in turn */
	unsigned at, most; /* 64-bit values of out used, and how many may be */
};

void chacha8_seed(struct chacha8 *c, const uint8_t seed[32]);
uint64_t chacha8_next(struct chacha8 *c);

/* A uniform draw from [0, n), n > 0: rand.Rand's Uint64N and IntN. */
uint64_t chacha8_below(struct chacha8 *c, uint64_t n);

#ifdef __cplusplus
}
#endif

#endif
