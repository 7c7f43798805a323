#include "sha256.h"

#include <string.h>

/* The first 32 bits of the fractions of the cube roots of the first 64 primes. */
static const uint32_t constants[64] = {
	0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
	0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
	0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
	0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
	0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
	0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
	0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
	0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static inline uint32_t rotate(uint32_t v, int n) { return v >> n | v << (32 - n); }

static inline uint32_t word(const uint8_t *b) {
	return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
}

uint64_t big_endian(const uint8_t bytes[8]) { return (uint64_t)word(bytes) << 32 | word(bytes + 4); }

static void compress(uint32_t state[8], const uint8_t block[64]) {
	uint32_t w[64], s[8];
	for (int i = 0; i < 16; i++) w[i] = word(block + 4 * i);
	for (int i = 16; i < 64; i++) {
		uint32_t a = w[i - 15], b = w[i - 2];
		a = rotate(a, 7) ^ rotate(a, 18) ^ a >> 3;
		b = rotate(b, 17) ^ rotate(b, 19) ^ b >> 10;
		w[i] = w[i - 16] + a + w[i - 7] + b;
	}
	memcpy(s, state, sizeof s);
	for (int i = 0; i < 64; i++) {
		uint32_t a = s[0], e = s[4];
		uint32_t choice = (e & s[5]) ^ (~e & s[6]), majority = (a & s[1]) ^ (a & s[2]) ^ (s[1] & s[2]);
		uint32_t t1 = s[7] + (rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25)) + choice + constants[i] + w[i];
		uint32_t t2 = (rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22)) + majority;
		memmove(s + 1, s, 7 * sizeof *s);
		s[4] += t1;
		s[0] = t1 + t2;
	}
	for (int i = 0; i < 8; i++) state[i] += s[i];
}

void sha256_begin(struct sha256 *h) {
	static const uint32_t start[8] = {
		0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19,
	};
	memcpy(h->state, start, sizeof start);
	h->length = 0;
}

void sha256_add(struct sha256 *h, const void *data, size_t size) {
	const uint8_t *from = (const uint8_t *)data;
	while (size > 0) {
		size_t at = h->length % 64, n = 64 - at < size ? 64 - at : size;
		memcpy(h->block + at, from, n);
		h->length += n, from += n, size -= n;
		if (h->length % 64 == 0) compress(h->state, h->block);
	}
}

void sha256_end(struct sha256 *h, uint8_t sum[32]) {
	uint64_t bits = h->length * 8;
	uint8_t length[8], padding[64] = {0x80};
	for (int i = 0; i < 8; i++) length[i] = (uint8_t)(bits >> (56 - 8 * i));
	sha256_add(h, padding, 1 + (119 - h->length % 64) % 64);
	sha256_add(h, length, 8);
	for (int i = 0; i < 32; i++) sum[i] = (uint8_t)(h->state[i / 4] >> (24 - 8 * (i % 4)));
}
