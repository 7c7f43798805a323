#include "random.h"

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
