#include "sampler.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "sha256.h"

enum { MAX_PEER = 64 }; /* bytes of a peer ID, as everywhere in p2pdiloco */

struct peer {
	uint8_t id[MAX_PEER];
	size_t size;
};

/* Reads a peer ID from its text, base58 as libp2p prints it. */
static bool parse_peer(struct peer *p, const char *text) {
	static const char alphabet[] = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";
	uint8_t number[MAX_PEER] = {0}; /* little-endian */
	size_t used = 0, zeros = strspn(text, "1");
	for (const char *c = text + zeros; *c; c++) {
		const char *digit = strchr(alphabet, *c);
		if (!digit) return false;
		unsigned carry = (unsigned)(digit - alphabet);
		for (size_t i = 0; i < used || carry; i++) {
			if (i == MAX_PEER) return false;
			carry += number[i] * 58u;
			number[i] = (uint8_t)carry;
			carry >>= 8;
			if (i == used) used++;
		}
	}
	if (zeros + used == 0 || zeros + used > MAX_PEER) return false;
	memset(p->id, 0, zeros);
	for (size_t i = 0; i < used; i++) p->id[zeros + i] = number[used - 1 - i];
	p->size = zeros + used;
	return true;
}

/* Whether a comes before b in the order of peer IDs. */
static bool before(const struct peer *a, const struct peer *b) {
	int order = memcmp(a->id, b->id, a->size < b->size ? a->size : b->size);
	return order ? order < 0 : a->size < b->size;
}

static void add_number(struct sha256 *h, uint64_t n) {
	uint8_t bytes[8];
	for (int i = 0; i < 8; i++) bytes[i] = (uint8_t)(n >> (56 - 8 * i));
	sha256_add(h, bytes, sizeof bytes);
}

/* Hashes its arguments. */
static void keyed(const char *purpose, uint64_t seed, uint64_t n, const struct peer *p, uint8_t sum[32]) {
	struct sha256 h;
	sha256_begin(&h);
	sha256_add(&h, purpose, strlen(purpose));
	add_number(&h, seed);
	add_number(&h, n);
	sha256_add(&h, p->id, p->size);
	sha256_end(&h, sum);
}

static uint64_t shard_weight(uint64_t seed, uint64_t shard, const struct peer *p) {
	uint8_t sum[32];
	keyed("p2pdiloco/shard/1", seed, shard, p, sum);
	return big_endian(sum);
}

/* Whether no member outweighs self; equal hashes go to the lower ID. */
static bool wins(uint64_t seed, uint64_t shard, uint64_t mine, const struct peer *peers, uint32_t count, uint32_t self) {
	for (uint32_t i = 0; i < count; i++) {
		uint64_t w = i == self ? 0 : shard_weight(seed, shard, &peers[i]);
		if (i != self && (w > mine || (w == mine && before(&peers[i], &peers[self])))) return false;
	}
	return true;
}

static void own_shards(struct sampler *s, const p2pdiloco_trainer_task *task, const struct peer *peers) {
	size_t nearest = 0;
	uint64_t most = 0;
	for (size_t i = 0; i < s->corpus->shards; i++) {
		uint64_t mine = shard_weight(task->seed, i, &peers[task->rank]);
		if (mine > most) nearest = i, most = mine;
		if (wins(task->seed, i, mine, peers, task->member_count, task->rank)) s->shards[s->count++] = i;
	}
	if (s->count == 0) s->shards[s->count++] = nearest;
}

static int check(const p2pdiloco_trainer_task *task, struct failure *why) {
	if (task->size < sizeof *task || !task->steps_done || !task->members) return fail(why, "a task of another interface: update the trainer");
	if (task->steps < 1) return fail(why, "a task of no steps");
	if (task->rank >= task->member_count || task->member_count > 1 << 16) {
		return fail(why, "a task for member %u of %u", (unsigned)task->rank, (unsigned)task->member_count);
	}
	return 0;
}

static int parse_peers(struct peer *peers, const p2pdiloco_trainer_task *task, struct failure *why) {
	for (uint32_t i = 0; i < task->member_count; i++) {
		const char *text = task->members[i];
		if (!text || !parse_peer(&peers[i], text)) return fail(why, "member %u is no peer ID: %s", (unsigned)i, text ? text : "none");
	}
	return 0;
}

int sampler_open(struct sampler *s, const struct corpus *corpus, const p2pdiloco_trainer_task *task, struct failure *why) {
	memset(s, 0, sizeof *s);
	if (check(task, why)) return 1;
	struct peer *peers = (struct peer *)calloc(task->member_count, sizeof *peers);
	s->corpus = corpus;
	s->shards = (size_t *)calloc(corpus->shards, sizeof *s->shards);
	int code = peers && s->shards ? parse_peers(peers, task, why) : fail(why, "out of memory");
	if (!code) {
		uint8_t key[32];
		own_shards(s, task, peers);
		keyed("p2pdiloco/sample/1", task->seed, task->slot, &peers[task->rank], key);
		chacha8_seed(&s->random, key);
	}
	free(peers);
	if (code) sampler_close(s);
	return code;
}

void sampler_close(struct sampler *s) {
	free(s->shards);
	s->shards = NULL;
}

void sampler_draw(struct sampler *s, uint8_t *inputs, uint8_t *targets, size_t sequences, size_t length) {
	for (size_t i = 0; i < sequences; i++) {
		size_t bytes;
		const uint8_t *shard = corpus_shard(s->corpus, s->shards[chacha8_below(&s->random, s->count)], &bytes);
		const uint8_t *window = shard + chacha8_below(&s->random, bytes - length);
		memcpy(inputs + i * length, window, length);
		memcpy(targets + i * length, window + 1, length);
	}
}
