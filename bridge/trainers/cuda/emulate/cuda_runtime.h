/*
 * A stand-in for CUDA's runtime that runs on the CPU, so that the trainer's kernels and its use of
 * streams can be tested where there is no GPU and no nvcc. It is for tests alone: it is slow, and
 * says nothing about speed. Only what the trainer uses is here, under CUDA's names (CUDA 11.8 and 13
 * have all of it). It is stricter than a GPU:
 *
 * - The blocks of a grid, and the threads of a block between two barriers, run in random order; a
 *   barrier or shuffle that not all threads reach ends the process and says so.
 * - Streams are lazy. Work waits in its stream until something waits for it, and streams that no
 *   event orders overtake each other at random. A copy that nobody waited for has not happened;
 *   page-locked memory that is written too early is seen so.
 * - Device memory is out of the host's reach (it faults), new memory and every block's shared memory
 *   hold NaNs, and behind each allocation lies a page that faults.
 *
 * P2PDILOCO_EMULATE_SEED picks the order, and by its rest modulo 3 how much runs before somebody
 * waits; P2PDILOCO_EMULATE_MEMORY is the device's bytes, P2PDILOCO_EMULATE_FAIL=cudaMalloc:3 makes
 * the third call of that name fail, and P2PDILOCO_EMULATE_STRICT makes leaks an error.
 */
#pragma once

#define P2PDILOCO_EMULATED 1
#define PIECE ((size_t)1000)
#define LAUNCH(t, kernel, blocks, ...) \
	check(emulate::launch(kernel, #kernel, blocks, threads, (t)->compute, __VA_ARGS__), #kernel, HERE)

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <tuple>

#define __device__
#define __global__
#define __shared__ static __attribute__((section("emulated_shared")))

struct uint3 {
	unsigned x; /* the trainer has grids and blocks of one dimension alone */
};

struct float2 {
	float x, y;
};
inline float2 make_float2(float x, float y) { return {x, y}; }

/* CUDA's own numbers. */
enum cudaError_t {
	cudaSuccess = 0,
	cudaErrorInvalidValue = 1,
	cudaErrorMemoryAllocation = 2,
	cudaErrorInsufficientDriver = 35,
	cudaErrorNoDevice = 100,
	cudaErrorInvalidDevice = 101,
	cudaErrorNoKernelImageForDevice = 209,
	cudaErrorIllegalAddress = 700,
	cudaErrorHostMemoryAlreadyRegistered = 712,
	cudaErrorHostMemoryNotRegistered = 713,
	cudaErrorNotSupported = 801,
};

enum cudaMemcpyKind { cudaMemcpyHostToDevice = 1, cudaMemcpyDeviceToHost = 2, cudaMemcpyDeviceToDevice = 3 };

enum {
	cudaStreamNonBlocking = 1, cudaEventBlockingSync = 1, cudaEventDisableTiming = 2, cudaHostRegisterDefault = 0,
	cudaHostAllocDefault = 0, cudaDeviceScheduleBlockingSync = 4
};

struct cudaDeviceProp {
	char name[256];
	size_t totalGlobalMem;
	int major, minor;
};

namespace emulate {
struct Stream;
struct Event;
}
typedef emulate::Stream *cudaStream_t;
typedef emulate::Event *cudaEvent_t;

const char *cudaGetErrorName(cudaError_t);
const char *cudaGetErrorString(cudaError_t);
cudaError_t cudaGetLastError();
cudaError_t cudaSetDevice(int);
cudaError_t cudaSetDeviceFlags(unsigned);
cudaError_t cudaGetDeviceProperties(cudaDeviceProp *, int);
cudaError_t cudaMemGetInfo(size_t *, size_t *);

cudaError_t cudaMalloc(void **, size_t);
cudaError_t cudaFree(void *);
cudaError_t cudaHostAlloc(void **, size_t, unsigned);
cudaError_t cudaFreeHost(void *);
cudaError_t cudaHostRegister(void *, size_t, unsigned);
cudaError_t cudaHostUnregister(void *);
cudaError_t cudaMemcpyAsync(void *, const void *, size_t, cudaMemcpyKind, cudaStream_t);
cudaError_t cudaMemsetAsync(void *, int, size_t, cudaStream_t);

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *, unsigned);
cudaError_t cudaStreamDestroy(cudaStream_t);
cudaError_t cudaStreamSynchronize(cudaStream_t);
cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned flags = 0);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *, unsigned);
cudaError_t cudaEventDestroy(cudaEvent_t);
cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t);
cudaError_t cudaEventSynchronize(cudaEvent_t);
cudaError_t cudaDeviceSynchronize();

extern uint3 threadIdx, blockIdx, gridDim;

inline float rsqrtf(float x) { return 1.0f / std::sqrt(x); }

namespace emulate {

/* Puts work at the end of a stream. what names it in messages. */
cudaError_t enqueue(cudaStream_t, const char *what, std::function<void()>);

/* Runs thread for all threads of all blocks of a grid. */
cudaError_t launch_grid(unsigned grid, unsigned block, cudaStream_t, const char *kernel, std::function<void()> thread);

/* kernel<<<grid, block, 0, stream>>>(args...): arguments are taken now, the kernel runs later. */
template <class... Params, class... Args>
cudaError_t launch(void (*kernel)(Params...), const char *name, unsigned grid, unsigned block, cudaStream_t stream,
	Args &&...args) {
	std::tuple<Params...> taken(static_cast<Params>(args)...);
	return launch_grid(grid, block, stream, name, [=] { std::apply(kernel, taken); });
}

void block_barrier();

/* Exchanges 8 bytes with the lane that differs in these bits. */
uint64_t shuffle_xor(unsigned mask, uint64_t bits, int lane_mask);

/* A place in a kernel or an API call that must not be reached. */
[[noreturn]] void fault(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Whether the call of this name is the one that P2PDILOCO_EMULATE_FAIL names. */
bool shall_fail(const char *name);

} // namespace emulate

inline void __syncthreads() { emulate::block_barrier(); }
inline void __syncwarp() { emulate::shuffle_xor(0xffffffffu, 0, 0); }

template <class V> V __shfl_xor_sync(unsigned mask, V value, int lane_mask) {
	static_assert(sizeof(V) <= 8, "at most 8 bytes");
	uint64_t bits = 0;
	memcpy(&bits, &value, sizeof value);
	bits = emulate::shuffle_xor(mask, bits, lane_mask);
	memcpy(&value, &bits, sizeof value);
	return value;
}
