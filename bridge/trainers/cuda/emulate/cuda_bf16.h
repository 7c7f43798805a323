/* bfloat16 on the CPU: a float32's upper half, rounded to nearest even. */
#pragma once

#include "cuda_runtime.h"

struct __nv_bfloat16 {
	uint16_t bits;
};

inline float __bfloat162float(__nv_bfloat16 v) {
	uint32_t wide = (uint32_t)v.bits << 16;
	float f;
	memcpy(&f, &wide, sizeof f);
	return f;
}

inline __nv_bfloat16 __float2bfloat16(float f) {
	uint32_t wide;
	memcpy(&wide, &f, sizeof wide);
	if (std::isnan(f))
		return {0x7fff};
	wide += 0x7fff + (wide >> 16 & 1);
	return {(uint16_t)(wide >> 16)};
}
