/*
 * What stands between the trainer and CUDA: every call checked, memory, streams and events that free
 * themselves, and LAUNCH.
 *
 * A call that fails throws Failure, whose text is one line: what was called, where, what CUDA said, and what to
 * do. trainer.cu catches it at the border to C.
 */
#pragma once

#include <cublas_v2.h>
#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>

using bf16 = __nv_bfloat16;

struct Failure : std::runtime_error {
	using std::runtime_error::runtime_error;
};

void check(cudaError_t, const char *call, const char *file, int line);
void check(cublasStatus_t, const char *call, const char *file, int line);

/* CUDA(cudaFoo(...)) */
#define CUDA(call) check((call), #call, __FILE__, __LINE__)

/* LAUNCH(kernel, grid, block, stream, arguments...): a kernel whose name has a comma in it stands in
 * parentheses. A grid of no blocks is no launch. The launch itself is checked; what goes wrong in the kernel
 * shows at the next wait. */
#ifdef P2PDILOCO_EMULATED
#define LAUNCH(kernel, grid, block, stream, ...) \
	check(emulate::launch(kernel, #kernel, grid, block, stream, __VA_ARGS__), #kernel, __FILE__, __LINE__)
#else
#define LAUNCH(kernel, grid, block, stream, ...) \
	do { \
		kernel<<<grid, block, 0, stream>>>(__VA_ARGS__); \
		check(cudaGetLastError(), #kernel, __FILE__, __LINE__); \
	} while (0)
#endif

/* Device memory; what says in errors what it is for. */
void *device_alloc(size_t bytes, const char *what);
void *pinned_alloc(size_t bytes, const char *what);

/* count elements on the device. They hold anything at first. */
template <class T> class Buffer {
public:
	Buffer() = default;
	Buffer(size_t count, const char *what) : data_((T *)device_alloc(count * sizeof(T), what)), count_(count) {}
	Buffer(Buffer &&from) noexcept : data_(std::exchange(from.data_, nullptr)), count_(std::exchange(from.count_, 0)) {}
	Buffer &operator=(Buffer &&from) noexcept {
		std::swap(data_, from.data_);
		std::swap(count_, from.count_);
		return *this;
	}
	~Buffer() { cudaFree(data_); }
	operator T *() const { return data_; }
	size_t count() const { return count_; }
	size_t bytes() const { return count_ * sizeof(T); }

private:
	T *data_ = nullptr;
	size_t count_ = 0;
};

/* count elements of page-locked host memory: only from and to such memory do copies run beside the host's work. */
template <class T> class Pinned {
public:
	Pinned(size_t count, const char *what) : data_((T *)pinned_alloc(count * sizeof(T), what)) {}
	Pinned(const Pinned &) = delete;
	Pinned &operator=(const Pinned &) = delete;
	~Pinned() { cudaFreeHost(data_); }
	operator T *() const { return data_; }

private:
	T *data_;
};

class Event {
public:
	/* timed events can be subtracted. */
	explicit Event(bool timed = false);
	Event(const Event &) = delete;
	Event &operator=(const Event &) = delete;
	~Event() { cudaEventDestroy(event_); }
	operator cudaEvent_t() const { return event_; }
	void wait() const { CUDA(cudaEventSynchronize(event_)); }

private:
	cudaEvent_t event_ = nullptr;
};

class Stream {
public:
	Stream() { CUDA(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking)); }
	Stream(const Stream &) = delete;
	Stream &operator=(const Stream &) = delete;
	~Stream() { cudaStreamDestroy(stream_); }
	operator cudaStream_t() const { return stream_; }
	void wait() const { CUDA(cudaStreamSynchronize(stream_)); }
	/* The same for what takes less time than falling asleep and waking up. */
	void wait_awake() const;
	/* What is queued here from now on comes after what event was recorded behind. */
	void after(const Event &event) const { CUDA(cudaStreamWaitEvent(stream_, event, 0)); }
	void record(const Event &event) const { CUDA(cudaEventRecord(event, stream_)); }

private:
	cudaStream_t stream_ = nullptr;
};

/* Picks the GPU and says which it is, "NVIDIA H200 (compute capability 9.0, 139.8 GiB)". */
std::string use_device(int ordinal);

/* The number of blocks of so many threads for n elements. */
inline unsigned blocks_for(size_t n, size_t threads) { return (unsigned)((n + threads - 1) / threads); }
