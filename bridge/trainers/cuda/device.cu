#include "device.h"

#include <sched.h>

#include <cstdio>
#include <cstring>

namespace {

/* What to do about an error, for those that are not the trainer's own. */
const char *advice(cudaError_t e) {
	switch (e) {
	case cudaErrorNoDevice:
		return "no NVIDIA GPU is to be seen: does nvidia-smi list one, and does CUDA_VISIBLE_DEVICES allow it?";
	case cudaErrorInsufficientDriver:
		return "there is no NVIDIA driver, or it is older than the CUDA this was built with: update it, or build with an older toolkit";
	case cudaErrorInvalidDevice:
		return "there is no GPU of this number: set \"device\" in --trainer-config";
	case cudaErrorNoKernelImageForDevice:
		return "this was built for other GPUs: build it on this machine, or with CUDA_ARCHS naming this one's";
	case cudaErrorMemoryAllocation:
		return "out of GPU memory: take a smaller batch or context, or end other programs on this GPU (nvidia-smi lists them)";
	case cudaErrorECCUncorrectable:
		return "the GPU's memory is faulty: look at nvidia-smi -q -d ECC, and use another one";
	case cudaErrorIllegalAddress:
	case cudaErrorLaunchFailure:
		return "a fault of this trainer or of the GPU: run it under compute-sanitizer to tell, and report it";
	default:
		return "nvidia-smi and the kernel's log (dmesg, Xid) may say more";
	}
}

[[noreturn]] void refuse(const char *call, const char *file, int line, const char *said, const char *what_to_do) {
	const char *slash = strrchr(file, '/');
	char text[768];
	int name = (int)strcspn(call, "("); /* without the arguments */
	snprintf(text, sizeof text, "%s:%d: %.*s: %s: %s", slash ? slash + 1 : file, line, name, call, said, what_to_do);
	throw Failure(text);
}

std::string size_text(size_t bytes) {
	char text[32];
	if (bytes >= (size_t)1 << 30)
		snprintf(text, sizeof text, "%.1f GiB", (double)bytes / (1 << 30));
	else
		snprintf(text, sizeof text, "%.1f MiB", (double)bytes / (1 << 20));
	return text;
}

} // namespace

void check(cudaError_t e, const char *call, const char *file, int line) {
	if (e == cudaSuccess)
		return;
	cudaGetLastError(); /* it would be taken for the next call's */
	char said[200];
	snprintf(said, sizeof said, "%s (%s)", cudaGetErrorName(e), cudaGetErrorString(e));
	refuse(call, file, line, said, advice(e));
}

void check(cublasStatus_t s, const char *call, const char *file, int line) {
	if (s == CUBLAS_STATUS_SUCCESS)
		return;
	refuse(call, file, line, cublasGetStatusString(s),
		s == CUBLAS_STATUS_ALLOC_FAILED || s == CUBLAS_STATUS_NOT_INITIALIZED ? advice(cudaErrorMemoryAllocation)
		: s == CUBLAS_STATUS_ARCH_MISMATCH || s == CUBLAS_STATUS_NOT_SUPPORTED
			? "this GPU cannot do that product: set \"dtype\":\"f32\" in --trainer-config"
			: advice(cudaErrorLaunchFailure));
}

void *device_alloc(size_t bytes, const char *what) {
	void *out = nullptr;
	cudaError_t e = cudaMalloc(&out, bytes);
	if (e == cudaErrorMemoryAllocation) {
		size_t left = 0, all = 0;
		cudaGetLastError();
		CUDA(cudaMemGetInfo(&left, &all));
		throw Failure("out of GPU memory: " + size_text(bytes) + " asked for " + what + ", and " + size_text(left) + " of the GPU's " +
			size_text(all) + " are free: take a smaller batch or context, or end other programs on this GPU (nvidia-smi lists them)");
	}
	check(e, "cudaMalloc", __FILE__, __LINE__);
	return out;
}

void *pinned_alloc(size_t bytes, const char *what) {
	void *out = nullptr;
	cudaError_t e = cudaHostAlloc(&out, bytes, cudaHostAllocDefault);
	if (e == cudaErrorMemoryAllocation) {
		cudaGetLastError();
		throw Failure("out of page-locked host memory: " + size_text(bytes) + " asked for " + what +
			": end other programs, or raise the limit of locked memory (ulimit -l)");
	}
	check(e, "cudaHostAlloc", __FILE__, __LINE__);
	return out;
}

Event::Event(bool timed) {
	CUDA(cudaEventCreateWithFlags(&event_, cudaEventBlockingSync | (timed ? 0 : cudaEventDisableTiming)));
}

void Stream::wait_awake() const {
	cudaError_t e;
	while ((e = cudaStreamQuery(stream_)) == cudaErrorNotReady)
		sched_yield();
	check(e, "cudaStreamQuery", __FILE__, __LINE__);
}

std::string use_device(int ordinal) {
	int count = 0;
	CUDA(cudaGetDeviceCount(&count));
	CUDA(cudaSetDevice(ordinal));
	/* Waiting sleeps: a spinning host would take the core that the peer needs. Some versions refuse it for a
	 * device in use. */
	if (cudaSetDeviceFlags(cudaDeviceScheduleBlockingSync) != cudaSuccess)
		cudaGetLastError();
	cudaDeviceProp p;
	CUDA(cudaGetDeviceProperties(&p, ordinal));
	return std::string(p.name) + " (compute capability " + std::to_string(p.major) + "." + std::to_string(p.minor) + ", " +
		size_text(p.totalGlobalMem) + ")";
}
