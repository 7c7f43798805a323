/* Matrix products of cuBLAS, for matrices that lie row by row. */
#pragma once

#include "device.h"

/* A view: element (i, j) is data[i * stride + j], or (j, i) when transposed. In a batch the next matrix lies
 * step elements on. */
struct Matrix {
	const void *data;
	cudaDataType type;
	int stride;
	bool transposed;
	long long step;

	Matrix t() const { return {data, type, stride, !transposed, step}; }
};

inline Matrix matrix(const float *data, int stride, long long step = 0) { return {data, CUDA_R_32F, stride, false, step}; }
inline Matrix matrix(const bf16 *data, int stride, long long step = 0) { return {data, CUDA_R_16BF, stride, false, step}; }

class Products {
public:
	/* tf32: float32 factors may be rounded to ten bits, which lets tensor cores multiply them. */
	Products(const Stream &stream, bool tf32);
	Products(const Products &) = delete;
	Products &operator=(const Products &) = delete;
	~Products() { cublasDestroy(handle_); }

	/* out (m x n) = a (m x k) b (k x n), or += when add is set, in float32. Where a and b are bf16, out may be
	 * either. */
	void multiply(Matrix out, Matrix a, Matrix b, int m, int n, int k, bool add) const;

	/* The same for count matrices each. */
	void multiply_batch(Matrix out, Matrix a, Matrix b, int m, int n, int k, int count) const;

private:
	cublasHandle_t handle_ = nullptr;
	cublasComputeType_t compute_;
};
