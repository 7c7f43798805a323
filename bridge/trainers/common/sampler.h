/* Draws training sequences from one peer's shards for one round: the same ones as the built-in trainer on that peer. */
#ifndef P2PDILOCO_COMMON_SAMPLER_H
#define P2PDILOCO_COMMON_SAMPLER_H

#include <stddef.h>
#include <stdint.h>

#include "corpus.h"
#include "p2pdiloco_trainer.h"
#include "random.h"

#ifdef __cplusplus
extern "C" {
#endif

struct sampler {
	const struct corpus *corpus;
	size_t *shards; /* this peer's, ascending; never none */
	size_t count;
	struct chacha8 random;
};

/* Prepares the draw for a task. Each shard goes to the member with the highest hash of (seed, shard, member): rendezvous hashing
 * (Thaler and Ravishankar 1998). A member to which no shard fell takes the one for which its hash is highest. The draw is
 * seeded with (seed, slot, peer). It refuses a task that makes no sense. */
int sampler_open(struct sampler *s, const struct corpus *corpus, const p2pdiloco_trainer_task *task, struct failure *why);
void sampler_close(struct sampler *s);

/* Writes random windows, each inside one shard, and the byte after each input: sequences * length bytes each. */
void sampler_draw(struct sampler *s, uint8_t *inputs, uint8_t *targets, size_t sequences, size_t length);

#ifdef __cplusplus
}
#endif

#endif
