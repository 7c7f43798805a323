#pragma once

#include "numbers.cuh"

/* The sum over a block of threads, in an order that is always the same; thread 0 gets it. */
__device__ static double block_sum(double v) {
	__shared__ double partial[warps];
	for (int bit = lanes / 2; bit > 0; bit /= 2)
		v += __shfl_xor_sync(0xffffffffu, v, bit);
	if (threadIdx.x % lanes == 0)
		partial[threadIdx.x / lanes] = v;
	__syncthreads();
	double sum = 0;
	for (unsigned w = 0; w < warps; w++)
		sum += partial[w];
	return sum;
}
