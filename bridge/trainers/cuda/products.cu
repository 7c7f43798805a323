#include "products.h"

Products::Products(const Stream &stream, bool tf32) : compute_(tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F) {
	CUDA(cublasCreate(&handle_));
	try {
		CUDA(cublasSetStream(handle_, stream));
	} catch (...) {
		cublasDestroy(handle_);
		throw;
	}
}

namespace {

cublasOperation_t operation(const Matrix &m) { return m.transposed ? CUBLAS_OP_T : CUBLAS_OP_N; }

/* FAST_TF32 is for float32 factors alone. */
cublasComputeType_t compute_for(const Matrix &a, cublasComputeType_t wanted) { return a.type == CUDA_R_32F ? wanted : CUBLAS_COMPUTE_32F; }

} // namespace

/* cuBLAS counts columns where we count rows, so it sees every matrix transposed: out^T = b^T a^T is what it is
 * asked for. */
void Products::multiply(Matrix out, Matrix a, Matrix b, int m, int n, int k, bool add) const {
	const float one = 1, beta = add ? 1 : 0;
	CUDA(cublasGemmEx(handle_, operation(b), operation(a), n, m, k, &one, b.data, b.type, b.stride, a.data, a.type, a.stride, &beta,
		const_cast<void *>(out.data), out.type, out.stride, compute_for(a, compute_), CUBLAS_GEMM_DEFAULT));
}

void Products::multiply_batch(Matrix out, Matrix a, Matrix b, int m, int n, int k, int count) const {
	const float one = 1, zero = 0;
	CUDA(cublasGemmStridedBatchedEx(handle_, operation(b), operation(a), n, m, k, &one, b.data, b.type, b.stride, b.step, a.data, a.type,
		a.stride, a.step, &zero, const_cast<void *>(out.data), out.type, out.stride, out.step, count, compute_for(a, compute_),
		CUBLAS_GEMM_DEFAULT));
}
