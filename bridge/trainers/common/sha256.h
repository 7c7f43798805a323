/* SHA-256 (FIPS 180-4). */
#ifndef P2PDILOCO_COMMON_SHA256_H
#define P2PDILOCO_COMMON_SHA256_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct sha256 {
	uint32_t state[8];
	uint64_t length; /* bytes hashed so far */
	uint8_t block[64];
};

void sha256_begin(struct sha256 *h);
void sha256_add(struct sha256 *h, const void *data, size_t size);
void sha256_end(struct sha256 *h, uint8_t sum[32]);

/* The big-endian number in the first 8 bytes. */
uint64_t big_endian(const uint8_t bytes[8]);

#ifdef __cplusplus
}
#endif

#endif
