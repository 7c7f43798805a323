#include "random.h"

#include <string.h>

__extension__ typedef unsigned __int128 uint128;

uint64_t pcg_next(struct pcg *p) {
	const uint128 factor = (uint128)2549297995355413924u << 64 | 4865540595714422341u;
	const uint128 increment = (uint128)6364136223846793005u << 64 | 1442695040888963407u;
	uint128 state = ((uint128)p->high << 64 | p->low) * factor + increment;
	uint64_t high = p->high = (uint64_t)(state >> 64), low = p->low = (uint64_t)state;
	high ^= high >> 32;
	high *= 0xda942042e4dd58b5u;
	high ^= high >> 48;
	return high * (low | 1);
}

static inline uint32_t rotate(uint32_t v, int n) { return v << n | v >> (32 - n); }

static void quarter_round(uint32_t *a, uint32_t *b, uint32_t *c, uint32_t *d) {
	*a += *b, *d = rotate(*d ^ *a, 16);
	*c += *d, *b = rotate(*b ^ *c, 12);
	*a += *b, *d = rotate(*d ^ *a, 8);
	*c += *d, *b = rotate(*b ^ *c, 7);
}

/* One ChaCha block of 8 rounds. Only the key's words are added back: the others are known to all. */
static void chacha8_block(const uint32_t key[8], uint32_t counter, uint32_t out[16]) {
	uint32_t x[16] = {0x61707865, 0x3320646e, 0x79622d32, 0x6b206574, [12] = counter};
	memcpy(x + 4, key, 8 * sizeof *key);
	for (int round = 0; round < 8; round += 2) {
		for (int i = 0; i < 4; i++) quarter_round(&x[i], &x[4 + i], &x[8 + i], &x[12 + i]);
		for (int i = 0; i < 4; i++) quarter_round(&x[i], &x[4 + (i + 1) % 4], &x[8 + (i + 2) % 4], &x[12 + (i + 3) % 4]);
	}
	for (int i = 0; i < 8; i++) x[4 + i] += key[i];
	memcpy(out, x, sizeof x);
}

/* Four blocks. The last 32 bytes of sixteen are not given out: they are the next key. */
static void fill(struct chacha8 *c) {
	for (uint32_t i = 0; i < 4; i++) {
		uint32_t block[16];
		chacha8_block(c->key, c->counter + i, block);
		for (int k = 0; k < 16; k++) c->out[4 * k + (int)i] = block[k];
	}
	c->at = 0;
	c->most = c->counter == 12 ? 28 : 32;
}

void chacha8_seed(struct chacha8 *c, const uint8_t seed[32]) {
	memset(c, 0, sizeof *c);
	memcpy(c->key, seed, 32); /* words are little-endian, as this machine is */
	fill(c);
}

uint64_t chacha8_next(struct chacha8 *c) {
	if (c->at == c->most) {
		c->counter += 4;
		if (c->counter == 16) {
			memcpy(c->key, c->out + 56, sizeof c->key);
			c->counter = 0;
		}
		fill(c);
	}
	uint64_t low = c->out[2 * c->at], high = c->out[2 * c->at + 1];
	c->at++;
	return high << 32 | low;
}

/* The high word of a product of a draw and n, without the draws that would make some results more frequent (Lemire, arXiv
 * 1805.10941). Powers of two take the low bits instead. */
uint64_t chacha8_below(struct chacha8 *c, uint64_t n) {
	if ((n & (n - 1)) == 0) return chacha8_next(c) & (n - 1);
	uint128 product;
	uint64_t surplus = -n % n;
	do product = (uint128)chacha8_next(c) * n;
	while ((uint64_t)product < surplus);
	return (uint64_t)(product >> 64);
}
