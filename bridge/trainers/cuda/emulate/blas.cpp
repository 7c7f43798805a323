/* Matrix products as cuBLAS defines them (column by column), in plain loops. See cuda_runtime.h. */
#include <vector>

#include "cublas_v2.h"
#include "cuda_bf16.h"
#include "internal.h"

struct cublasContext {
	cudaStream_t stream = nullptr;
};

namespace {

float read(const void *at, cudaDataType type, size_t i) {
	return type == CUDA_R_32F ? ((const float *)at)[i] : __bfloat162float(((const __nv_bfloat16 *)at)[i]);
}

/* TF32 keeps ten bits of the fraction. */
float to_tf32(float f) {
	uint32_t bits;
	memcpy(&bits, &f, sizeof bits);
	bits = (bits + 0x1000) & ~0x1fffu;
	memcpy(&f, &bits, sizeof f);
	return f;
}

struct Operand {
	const void *data;
	cudaDataType type;
	int stride;
	bool transposed;
};

/* op(m), rows x cols, without gaps, row by row. */
std::vector<float> gather(const Operand &m, size_t from, int rows, int cols, bool tf32) {
	std::vector<float> out((size_t)rows * cols);
	for (int i = 0; i < rows; i++)
		for (int j = 0; j < cols; j++) {
			float v = read(m.data, m.type, from + (m.transposed ? (size_t)i * m.stride + j : (size_t)j * m.stride + i));
			out[(size_t)i * cols + j] = tf32 ? to_tf32(v) : v;
		}
	return out;
}

struct Product {
	int m, n, k;
	Operand a, b;
	float *c;
	int ldc;
	float alpha, beta;
	bool tf32;

	/* c = alpha op(a) op(b) + beta c. With beta 0, c is not read. */
	void run(size_t at_a, size_t at_b, size_t at_c) const {
		auto left = gather(a, at_a, m, k, tf32), right = gather(b, at_b, k, n, tf32);
		std::vector<float> row(n);
		for (int i = 0; i < m; i++) {
			std::fill(row.begin(), row.end(), 0.0f);
			for (int l = 0; l < k; l++) {
				const float x = left[(size_t)i * k + l], *y = &right[(size_t)l * n];
				for (int j = 0; j < n; j++) row[j] += x * y[j];
			}
			for (int j = 0; j < n; j++) {
				float *to = c + at_c + (size_t)j * ldc + i;
				*to = alpha * row[j] + (beta == 0 ? 0 : beta * *to);
			}
		}
	}
};

/* What cuBLAS would refuse. */
bool fits(cublasOperation_t op, int rows, int cols, int stride) { return stride >= (op == CUBLAS_OP_N ? rows : cols); }

} // namespace

const char *cublasGetStatusString(cublasStatus_t s) {
	switch (s) {
	case CUBLAS_STATUS_SUCCESS: return "CUBLAS_STATUS_SUCCESS";
	case CUBLAS_STATUS_ALLOC_FAILED: return "CUBLAS_STATUS_ALLOC_FAILED";
	case CUBLAS_STATUS_INVALID_VALUE: return "CUBLAS_STATUS_INVALID_VALUE";
	case CUBLAS_STATUS_EXECUTION_FAILED: return "CUBLAS_STATUS_EXECUTION_FAILED";
	default: return "another CUBLAS_STATUS";
	}
}

cublasStatus_t cublasCreate(cublasHandle_t *out) {
	emulate::Turn turn;
	if (emulate::shall_fail("cublasCreate")) return CUBLAS_STATUS_ALLOC_FAILED;
	*out = new cublasContext;
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasDestroy(cublasHandle_t h) {
	emulate::Turn turn;
	delete h;
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetStream(cublasHandle_t h, cudaStream_t stream) {
	emulate::Turn turn;
	h->stream = stream;
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasGemmStridedBatchedEx(cublasHandle_t h, cublasOperation_t op_a, cublasOperation_t op_b, int m,
	int n, int k, const void *alpha, const void *a, cudaDataType a_type, int lda, long long stride_a, const void *b,
	cudaDataType b_type, int ldb, long long stride_b, const void *beta, void *c, cudaDataType c_type, int ldc,
	long long stride_c, int count, cublasComputeType_t compute, cublasGemmAlgo_t) {
	emulate::Turn turn;
	if (emulate::shall_fail("cublasGemm")) return CUBLAS_STATUS_EXECUTION_FAILED;
	if (m < 0 || n < 0 || k < 0 || count < 0 || !fits(op_a, m, k, lda) || !fits(op_b, k, n, ldb) || ldc < m ||
		a_type != b_type || c_type != CUDA_R_32F)
		return CUBLAS_STATUS_INVALID_VALUE;
	Product p{m, n, k, {a, a_type, lda, op_a == CUBLAS_OP_T}, {b, b_type, ldb, op_b == CUBLAS_OP_T}, (float *)c, ldc,
		*(const float *)alpha, *(const float *)beta, compute == CUBLAS_COMPUTE_32F_FAST_TF32 && a_type == CUDA_R_32F};
	emulate::enqueue(h->stream, "cublasGemm", [=] {
		for (int i = 0; i < count; i++) p.run(i * stride_a, i * stride_b, i * stride_c);
	});
	return CUBLAS_STATUS_SUCCESS;
}
