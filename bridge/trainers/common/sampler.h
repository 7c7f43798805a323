/*
 * Draws the training sequences of one task: samples without replacement, from a part of the data that is this
 * peer's alone (docs/data.md), the same ones as the built-in trainer's. An epoch is the training text cut into
 * windows, from a place of its own on, in an order of its own.
 */
#ifndef P2PDILOCO_COMMON_SAMPLER_H
#define P2PDILOCO_COMMON_SAMPLER_H

#include <stddef.h>
#include <stdint.h>

#include "corpus.h"
#include "p2pdiloco_trainer.h"

#ifdef __cplusplus
extern "C" {
#endif

/* An order of the numbers below n that needs no memory: a Feistel network of four rounds over the least even
 * number of bits that holds them, applied again until the result is below n (cycle walking: Black and Rogaway
 * 2002). */
struct permutation {
	uint64_t n;
	int half; /* bits of a half */
	uint64_t keys[4];
};

void permutation_make(struct permutation *p, uint64_t n, const uint8_t key[32]);
uint64_t permutation_at(const struct permutation *p, uint64_t x);

struct sampler {
	const struct corpus *corpus;
	uint64_t seed, part, part_steps;
	uint64_t step; /* the next one, of the part's */
	uint64_t batch, length; /* sequences a step, bytes of one */
	uint64_t windows; /* in an epoch; what follows is that epoch's */
	uint64_t epoch, offset; /* of the first window */
	struct permutation order;
};

/* Prepares the draw for a task, batch sequences of length bytes a step. It refuses a task that makes no sense. */
int sampler_open(struct sampler *s, const struct corpus *corpus, const p2pdiloco_trainer_task *task, uint64_t batch, uint64_t length,
                 struct failure *why);

/* Writes the next step's sequences, and the byte after each input: batch * length bytes each. */
void sampler_draw(struct sampler *s, uint8_t *inputs, uint8_t *targets);

#ifdef __cplusplus
}
#endif

#endif
