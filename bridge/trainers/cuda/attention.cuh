/* Causal attention's own kernels; the products between them are cuBLAS's. A head's queries, keys and values lie
 * together, (sequences, heads, steps, size), so that one batched product serves all heads of all sequences. */
#pragma once

#include "numbers.cuh"

/* How positions' rows and heads' matrices lie. */
struct Heads {
	unsigned heads, steps, size;
};

/* Where element i of (sequences, heads, steps, size) lies in a row-wise (sequences x steps, parts x heads x
 * size), in its first part. */
__device__ inline unsigned in_rows(unsigned i, Heads h, unsigned parts) {
	unsigned column = i % h.size, step = i / h.size % h.steps, head = i / h.size / h.steps % h.heads;
	unsigned sequence = i / h.size / h.steps / h.heads;
	return (sequence * h.steps + step) * parts * h.heads * h.size + head * h.size + column;
}

/* to_heads: out, parts one after the other of n elements each, from rows (n elements x parts). */
template <class T> __global__ void to_heads(T *out, const T *rows, unsigned n, unsigned parts, Heads h) {
	unsigned i = element();
	if (i >= n * parts)
		return;
	unsigned part = i / n;
	out[i] = rows[in_rows(i % n, h, parts) + part * h.heads * h.size];
}

template <class T> __global__ void to_rows(T *rows, const T *in, unsigned n, unsigned parts, Heads h) {
	unsigned i = element();
	if (i >= n * parts)
		return;
	unsigned part = i / n;
	rows[in_rows(i % n, h, parts) + part * h.heads * h.size] = in[i];
}

/* Turns the scores of each position, (…, steps, steps), into weights over the positions up to it, and zeros
 * after it. One warp a row. */
template <class T> __global__ void causal_softmax(T *scores, size_t rows, int steps, float scale) {
	size_t row = warp_row();
	if (row >= rows)
		return;
	scores += row * steps;
	int seen = (int)(row % steps) + 1;
	float top = -INFINITY, sum = 0;
	for (int i = lane(); i < seen; i += lanes)
		top = fmaxf(top, value(scores[i]));
	top = warp_max(top);
	for (int i = lane(); i < seen; i += lanes)
		sum += expf((value(scores[i]) - top) * scale);
	float inverse = 1 / warp_sum(sum);
	for (int i = lane(); i < steps; i += lanes)
		scores[i] = stored<T>(i < seen ? expf((value(scores[i]) - top) * scale) * inverse : 0);
}

/* Turns the gradient of the weights into that of the scores. One warp a row. */
template <class T> __global__ void causal_softmax_backward(T *grad, const T *weights, size_t rows, int steps, float scale) {
	size_t row = warp_row();
	if (row >= rows)
		return;
	grad += row * steps, weights += row * steps;
	int seen = (int)(row % steps) + 1;
	float dot = 0;
	for (int i = lane(); i < seen; i += lanes)
		dot += value(grad[i]) * value(weights[i]);
	dot = warp_sum(dot);
	for (int i = lane(); i < steps; i += lanes)
		grad[i] = stored<T>(i < seen ? value(weights[i]) * (value(grad[i]) - dot) * scale : 0);
}
