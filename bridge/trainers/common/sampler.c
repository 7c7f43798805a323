#include "sampler.h"

#include <string.h>

#include "sha256.h"

static void add_number(struct sha256 *h, uint64_t n) {
	uint8_t bytes[8];
	for (int i = 0; i < 8; i++) bytes[i] = (uint8_t)(n >> (56 - 8 * i));
	sha256_add(h, bytes, sizeof bytes);
}

/* Hashes its arguments. */
static void keyed(const char *purpose, uint64_t seed, uint64_t n, uint8_t sum[32]) {
	struct sha256 h;
	sha256_begin(&h);
	sha256_add(&h, purpose, strlen(purpose));
	add_number(&h, seed);
	add_number(&h, n);
	sha256_end(&h, sum);
}

/* The finalizer of SplitMix64 (Steele, Lea and Flood 2014). */
static uint64_t mix(uint64_t z) {
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

void permutation_make(struct permutation *p, uint64_t n, const uint8_t key[32]) {
	int bits = 0;
	for (uint64_t last = n - 1; last; last >>= 1) bits++;
	p->n = n;
	p->half = bits < 2 ? 1 : (bits + 1) / 2;
	for (int i = 0; i < 4; i++) p->keys[i] = big_endian(key + 8 * i);
}

uint64_t permutation_at(const struct permutation *p, uint64_t x) {
	const uint64_t mask = ((uint64_t)1 << p->half) - 1;
	do {
		uint64_t left = x >> p->half, right = x & mask;
		for (int i = 0; i < 4; i++) {
			uint64_t next = left ^ (mix(right + p->keys[i]) & mask);
			left = right;
			right = next;
		}
		x = left << p->half | right;
	} while (x >= p->n);
	return x;
}

static void enter(struct sampler *s, uint64_t epoch) {
	uint8_t key[32];
	s->epoch = epoch;
	keyed("p2pdiloco/offset/1", s->seed, epoch, key);
	s->offset = big_endian(key) % s->length;
	keyed("p2pdiloco/order/1", s->seed, epoch, key);
	permutation_make(&s->order, s->windows, key);
}

int sampler_open(struct sampler *s, const struct corpus *corpus, const p2pdiloco_trainer_task *task, uint64_t batch, uint64_t length,
                 struct failure *why) {
	if (task->size < sizeof *task || !task->steps_done) return fail(why, "a task of an older interface, without parts of the data: update p2pdiloco");
	if (task->steps < 1) return fail(why, "a task of no steps");
	if (task->rank >= task->member_count) return fail(why, "a task for member %u of %u", (unsigned)task->rank, (unsigned)task->member_count);
	*s = (struct sampler){
		.corpus = corpus, .seed = task->seed, .part = task->part, .part_steps = task->part_steps, .step = task->done,
		.batch = batch, .length = length, .windows = (corpus->train_bytes - length) / length,
	};
	if (s->part_steps == 0) { /* the task assigns no parts */
		s->part = task->slot * task->member_count + task->rank;
		s->part_steps = task->steps;
	}
	enter(s, 0);
	return 0;
}

/* Where the sequence at a place begins. */
static uint64_t window(struct sampler *s, uint64_t place) {
	if (place / s->windows != s->epoch) enter(s, place / s->windows);
	return s->offset + permutation_at(&s->order, place % s->windows) * s->length;
}

void sampler_draw(struct sampler *s, uint8_t *inputs, uint8_t *targets) {
	uint64_t place = (s->part * s->part_steps + s->step++ % s->part_steps) * s->batch;
	for (uint64_t i = 0; i < s->batch; i++) {
		const uint8_t *text = s->corpus->train + window(s, place + i);
		memcpy(inputs + i * s->length, text, s->length);
		memcpy(targets + i * s->length, text + 1, s->length);
	}
}
