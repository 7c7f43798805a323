/* Types and sums that all kernels use. T is what the model's activations are stored as, float or bf16;
 * arithmetic is float. */
#pragma once

#include "device.h"

__device__ inline float value(float v) { return v; }
__device__ inline float value(bf16 v) { return __bfloat162float(v); }

template <class T> __device__ inline T stored(float v);
template <> __device__ inline float stored<float>(float v) { return v; }
template <> __device__ inline bf16 stored<bf16>(float v) { return __float2bfloat16(v); }

constexpr unsigned lanes = 32;      /* of a warp */
constexpr unsigned threads = 256;   /* of a block, unless it is said otherwise */
constexpr unsigned warps = threads / lanes;

/* All lanes get the same bits. */
__device__ inline float warp_sum(float v) {
	for (int bit = lanes / 2; bit > 0; bit /= 2)
		v += __shfl_xor_sync(0xffffffffu, v, bit);
	return v;
}

__device__ inline float warp_max(float v) {
	for (int bit = lanes / 2; bit > 0; bit /= 2)
		v = fmaxf(v, __shfl_xor_sync(0xffffffffu, v, bit));
	return v;
}

/* One warp a row: the row of this thread, and where rows of a grid end is for the caller to look at. */
__device__ inline unsigned warp_row() { return blockIdx.x * warps + threadIdx.x / lanes; }
__device__ inline unsigned lane() { return threadIdx.x % lanes; }
/* The element of this thread. No buffer has 2^32 of them (common/config.h), and 64-bit division is slow on a GPU. */
__device__ inline unsigned element() { return blockIdx.x * blockDim.x + threadIdx.x; }

/* Neither NaN nor infinite. */
__device__ inline bool is_number(double v) { return v - v == 0; }
