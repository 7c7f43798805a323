/* Layer norm, and sums over the rows of a matrix. */
#pragma once

#include "numbers.cuh"

constexpr float norm_epsilon = 1e-5f; /* GPT-2's */

/* Normalizes each row of in, (rows, d), and keeps its mean and 1/deviation. One warp a row. */
template <class T>
__global__ void norm_forward(T *out, float2 *kept, const float *in, const float *gain, const float *bias, size_t rows, int d) {
	size_t row = warp_row();
	if (row >= rows)
		return;
	in += row * d;
	float sum = 0, squares = 0;
	for (int i = lane(); i < d; i += lanes)
		sum += in[i];
	float mean = warp_sum(sum) / (float)d;
	for (int i = lane(); i < d; i += lanes)
		squares += (in[i] - mean) * (in[i] - mean);
	float inverse = rsqrtf(warp_sum(squares) / (float)d + norm_epsilon);
	for (int i = lane(); i < d; i += lanes)
		out[row * d + i] = stored<T>((in[i] - mean) * inverse * gain[i] + bias[i]);
	if (lane() == 0)
		kept[row] = make_float2(mean, inverse);
}

/* Adds the gradient of the input to d_in, since the residual stream around the norm has one already; with add
 * false d_in is replaced. One warp a row. */
template <class T>
__global__ void norm_backward(float *d_in, const T *d_out, const float *in, const float2 *kept, const float *gain, size_t rows, int d, bool add) {
	size_t row = warp_row();
	if (row >= rows)
		return;
	in += row * d, d_in += row * d, d_out += row * d;
	float mean = kept[row].x, inverse = kept[row].y, sum = 0, dot = 0;
	for (int i = lane(); i < d; i += lanes) {
		float v = value(d_out[i]) * gain[i];
		sum += v;
		dot += v * (in[i] - mean) * inverse;
	}
	sum = warp_sum(sum) / (float)d;
	dot = warp_sum(dot) / (float)d;
	for (int i = lane(); i < d; i += lanes) {
		float g = (value(d_out[i]) * gain[i] - sum - (in[i] - mean) * inverse * dot) * inverse;
		d_in[i] = add ? d_in[i] + g : g;
	}
}

/* Sums over rows are taken in two steps, of which the second adds the pieces' sums in order: always the same
 * bits, which atomic additions would not give. A block of 32 columns x 8 threads sums one piece of the rows. */
constexpr unsigned sum_columns = 32, sum_rows = 8, most_pieces = 64;

/* Sums what the threads of one column hold; those of the first row get it. */
__device__ static float column_sum(float v) {
	__shared__ float held[sum_rows][sum_columns];
	__syncthreads(); /* an earlier sum is still being read */
	held[threadIdx.y][threadIdx.x] = v;
	__syncthreads();
	float sum = 0;
	for (unsigned y = 0; y < sum_rows; y++)
		sum += held[y][threadIdx.x];
	return sum;
}

/* pieces (gridDim.y, columns) = sums of m (rows, columns). */
template <class T> __global__ void sum_pieces(float *pieces, const T *m, size_t rows, int columns) {
	int column = blockIdx.x * sum_columns + threadIdx.x;
	size_t begin = rows * blockIdx.y / gridDim.y, end = rows * (blockIdx.y + 1) / gridDim.y;
	float sum = 0;
	if (column < columns)
		for (size_t r = begin + threadIdx.y; r < end; r += sum_rows)
			sum += value(m[r * columns + column]);
	sum = column_sum(sum);
	if (threadIdx.y == 0 && column < columns)
		pieces[blockIdx.y * (size_t)columns + column] = sum;
}

/* The same for a norm's gain and bias, whose gradients are sums of d_out x (normalized input) and of d_out. */
template <class T>
__global__ void norm_sum_pieces(float *gains, float *biases, const T *d_out, const float *in, const float2 *kept, size_t rows, int d) {
	int column = blockIdx.x * sum_columns + threadIdx.x;
	size_t begin = rows * blockIdx.y / gridDim.y, end = rows * (blockIdx.y + 1) / gridDim.y;
	float gain = 0, bias = 0;
	if (column < d)
		for (size_t r = begin + threadIdx.y; r < end; r += sum_rows) {
			float g = value(d_out[r * d + column]);
			gain += g * (in[r * d + column] - kept[r].x) * kept[r].y;
			bias += g;
		}
	gain = column_sum(gain);
	bias = column_sum(bias);
	if (threadIdx.y == 0 && column < d) {
		gains[blockIdx.y * (size_t)d + column] = gain;
		biases[blockIdx.y * (size_t)d + column] = bias;
	}
}

/* out = the sum of the pieces. One thread a column. */
__global__ static void add_pieces(float *out, const float *pieces, int count, int columns) {
	unsigned column = element();
	if (column >= (unsigned)columns)
		return;
	float sum = 0;
	for (int i = 0; i < count; i++)
		sum += pieces[i * (size_t)columns + column];
	out[column] = sum;
}
