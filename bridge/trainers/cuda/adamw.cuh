/* AdamW (Loshchilov and Hutter, arXiv 1711.05101) in one kernel, after the gradient's norm: clipping, weight
 * decay, moments, the step, and the copy of the parameters that the products read. */
#pragma once

#include "blocksum.cuh"
#include "progress.h"

/* The first half of the gradient's norm: a sum of squares for each block. */
__global__ static void square_pieces(double *pieces, const float *grad, size_t n) {
	double sum = 0;
	for (size_t i = element(); i < n; i += gridDim.x * threads)
		sum += (double)grad[i] * grad[i];
	sum = block_sum(sum);
	if (threadIdx.x == 0)
		pieces[blockIdx.x] = sum;
}

/* The second, one block. limit <= 0: no clipping. */
__global__ static void take_norm(Progress *p, const double *pieces, int count, float limit, uint64_t step) {
	double sum = 0;
	for (int i = threadIdx.x; i < count; i += threads)
		sum += pieces[i];
	sum = block_sum(sum);
	if (threadIdx.x != 0)
		return;
	p->norm = sqrt(sum);
	p->scale = limit > 0 && p->norm > limit ? (float)(limit / p->norm) : 1;
	if (is_number(p->norm))
		p->norm_sum += p->norm;
	else if (p->bad_step == 0)
		p->bad_step = step;
}

/* A stretch of the flat vector inside one tensor. One block does one. */
struct Piece {
	uint32_t begin, count;
	uint32_t decays; /* matrices alone */
};
constexpr uint32_t piece_elements = 4 * threads;

/* What is the same for all elements of a step; both moments' bias corrections are folded in. */
struct Rates {
	float beta1, beta2, epsilon;
	float size; /* learning rate / (1 - beta1^t) */
	float root; /* 1 / sqrt(1 - beta2^t) */
	float keep; /* 1 - learning rate x weight decay */
};

/* copy is null where the products read the parameters themselves. */
template <class T>
__global__ void adamw(float *params, T *copy, float *first, float *second, const float *grad, const Piece *pieces, const Progress *p, Rates r) {
	if (p->bad_step != 0)
		return;
	Piece piece = pieces[blockIdx.x];
	for (uint32_t at = threadIdx.x; at < piece.count; at += threads) {
		size_t i = piece.begin + at;
		float g = grad[i] * p->scale;
		float m = r.beta1 * first[i] + (1 - r.beta1) * g;
		float v = r.beta2 * second[i] + (1 - r.beta2) * g * g;
		float before = piece.decays ? params[i] * r.keep : params[i];
		float after = before - r.size * m / (sqrtf(v) * r.root + r.epsilon);
		first[i] = m, second[i] = v, params[i] = after;
		if (copy)
			copy[i] = stored<T>(after);
	}
}
