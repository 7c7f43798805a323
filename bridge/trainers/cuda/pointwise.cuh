/* Kernels that work element by element: embeddings, biases, GELU, conversions. One thread an element. */
#pragma once

#include "numbers.cuh"

/* out = byte embedding + position embedding, (rows, d). */
__global__ static void embed(float *out, const uint8_t *inputs, const float *wte, const float *wpe, unsigned n, unsigned d, unsigned context) {
	unsigned i = element();
	if (i >= n)
		return;
	unsigned row = i / d, column = i % d;
	out[i] = wte[inputs[row] * d + column] + wpe[row % context * d + column];
}

/* Adds to the gradient of each byte's embedding (the head left its own there) that of the positions where it
 * stands: order lists positions by byte, those of byte b from starts[b] on, ascending. One block a byte and 128
 * columns: no two threads write to one place, and the order of the sum is always the same. */
__global__ static void embed_backward_bytes(float *grad, const float *stream, const int *order, const int *starts, int d) {
	int byte = blockIdx.x, column = blockIdx.y * blockDim.x + threadIdx.x;
	if (column >= d)
		return;
	float sum = 0;
	for (int i = starts[byte]; i < starts[byte + 1]; i++)
		sum += stream[order[i] * (size_t)d + column];
	grad[byte * (size_t)d + column] += sum;
}

/* The gradient of the position embedding, (context, d). */
__global__ static void embed_backward_positions(float *grad, const float *stream, int sequences, int context, int d) {
	unsigned i = element(), n = (unsigned)context * d;
	if (i >= n)
		return;
	float sum = 0;
	for (int s = 0; s < sequences; s++)
		sum += stream[(size_t)s * n + i];
	grad[i] = sum;
}

/* out = bias in every row, plus residual unless that is null: what a product then adds to. */
template <class T>
__global__ void begin_rows(T *out, const float *bias, const float *residual, unsigned n, unsigned columns) {
	unsigned i = element();
	if (i < n)
		out[i] = stored<T>(bias[i % columns] + (residual ? residual[i] : 0));
}

/* GELU's tanh form written with a logistic function, as the built-in trainer has it: out = x logistic(2
 * sqrt(2/pi) (x + c x^3)). */
constexpr float gelu_scale = 2 * 0.7978845608028654f;
constexpr float gelu_cube = 0.044715f;

__device__ inline float gelu_gate(float x) { return 1 / (1 + expf(-gelu_scale * (x + gelu_cube * x * x * x))); }

template <class T> __global__ void gelu_forward(T *out, const T *in, unsigned n) {
	unsigned i = element();
	if (i >= n)
		return;
	float x = value(in[i]);
	out[i] = stored<T>(x * gelu_gate(x));
}

/* grad, the gradient of the output, becomes that of the input. */
template <class T> __global__ void gelu_backward(T *grad, const T *in, unsigned n) {
	unsigned i = element();
	if (i >= n)
		return;
	float x = value(in[i]), g = gelu_gate(x);
	grad[i] = stored<T>(value(grad[i]) * (g + x * g * (1 - g) * gelu_scale * (1 + 3 * gelu_cube * x * x)));
}

template <class T> __global__ void convert(T *out, const float *in, unsigned n) {
	unsigned i = element();
	if (i < n)
		out[i] = stored<T>(in[i]);
}
