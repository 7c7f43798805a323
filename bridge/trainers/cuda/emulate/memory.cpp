/* Device memory, page-locked memory and copies. See cuda_runtime.h. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <map>
#include <vector>

#include "internal.h"

namespace emulate {
namespace {

/* A run of pages, with one behind it that faults. The memory handed out ends where that begins. */
struct Pages {
	char *base = nullptr;
	size_t bytes = 0;
};

std::map<char *, size_t> device;       /* what cudaMalloc returned, and its bytes */
std::map<char *, Pages> device_pages;  /* by the same */
std::map<char *, size_t> pinned;       /* page-locked, by begin */
size_t used;

size_t device_bytes() {
	const char *text = getenv("P2PDILOCO_EMULATE_MEMORY");
	return text ? strtoull(text, nullptr, 10) : (size_t)8 << 30;
}

/* Whether [at, at + bytes) lies in one of the pieces. */
bool inside(const std::map<char *, size_t> &pieces, const void *at, size_t bytes) {
	auto *p = (char *)at;
	auto next = pieces.upper_bound(p);
	if (next == pieces.begin()) return false;
	auto [begin, size] = *std::prev(next);
	return p + bytes <= begin + size;
}

/* A copy between places that CUDA would not take, or that reaches beyond an allocation. */
void check_copy(const void *dst, const void *src, size_t bytes, cudaMemcpyKind kind) {
	bool to = kind != cudaMemcpyDeviceToHost, from = kind != cudaMemcpyHostToDevice;
	if (inside(device, dst, bytes) != to || inside(device, src, bytes) != from)
		fault("a copy of %zu bytes of kind %d from %p to %p leaves its allocation or goes the wrong way", bytes,
			(int)kind, src, dst);
}

} // namespace

void open_device_memory(bool open) {
	static bool is_open;
	if (open == is_open) return;
	is_open = open;
	for (auto &[data, pages] : device_pages)
		if (mprotect(pages.base, pages.bytes, open ? PROT_READ | PROT_WRITE : PROT_NONE) != 0)
			fault("mprotect: %m");
}

} // namespace emulate

using namespace emulate;

cudaError_t cudaMalloc(void **out, size_t bytes) {
	Turn turn;
	*out = nullptr;
	if (shall_fail("cudaMalloc") || bytes + used > device_bytes())
		return set_last_error(cudaErrorMemoryAllocation);
	if (bytes == 0) return cudaSuccess;
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	Pages p;
	p.bytes = (bytes + page - 1) / page * page;
	p.base = (char *)mmap(nullptr, p.bytes + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p.base == MAP_FAILED || mprotect(p.base + p.bytes, page, PROT_NONE) != 0)
		return set_last_error(cudaErrorMemoryAllocation);
	memset(p.base, 0xff, p.bytes);
	char *data = p.base + p.bytes - (bytes + 15) / 16 * 16;
	mprotect(p.base, p.bytes, PROT_NONE);
	device[data] = bytes;
	device_pages[data] = p;
	used += bytes;
	*out = data;
	return cudaSuccess;
}

cudaError_t cudaFree(void *at) {
	Turn turn;
	if (!at) return cudaSuccess;
	auto found = device.find((char *)at);
	if (found == device.end()) return set_last_error(cudaErrorInvalidValue);
	cudaDeviceSynchronize();
	Pages p = device_pages[found->first];
	munmap(p.base, p.bytes + (size_t)sysconf(_SC_PAGESIZE));
	used -= found->second;
	device_pages.erase(found->first);
	device.erase(found);
	return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t *left, size_t *all) {
	Turn turn;
	*all = device_bytes();
	*left = used < *all ? *all - used : 0;
	return cudaSuccess;
}

cudaError_t cudaHostAlloc(void **out, size_t bytes, unsigned) {
	Turn turn;
	*out = nullptr;
	if (shall_fail("cudaHostAlloc")) return set_last_error(cudaErrorMemoryAllocation);
	*out = memset(malloc(bytes), 0xff, bytes);
	pinned[(char *)*out] = bytes;
	return cudaSuccess;
}

cudaError_t cudaFreeHost(void *at) {
	Turn turn;
	if (!at) return cudaSuccess;
	if (!pinned.count((char *)at)) return set_last_error(cudaErrorInvalidValue);
	cudaDeviceSynchronize();
	pinned.erase((char *)at);
	free(at);
	return cudaSuccess;
}

cudaError_t cudaHostRegister(void *at, size_t bytes, unsigned) {
	Turn turn;
	if (shall_fail("cudaHostRegister")) return set_last_error(cudaErrorNotSupported);
	if (pinned.count((char *)at)) return set_last_error(cudaErrorHostMemoryAlreadyRegistered);
	pinned[(char *)at] = bytes;
	return cudaSuccess;
}

cudaError_t cudaHostUnregister(void *at) {
	Turn turn;
	if (!pinned.count((char *)at)) return set_last_error(cudaErrorHostMemoryNotRegistered);
	cudaDeviceSynchronize();
	pinned.erase((char *)at);
	return cudaSuccess;
}

/* From page-locked memory the copy happens when the stream comes to it. From other memory it is
 * taken at once, and into other memory the call waits for it. */
cudaError_t cudaMemcpyAsync(void *dst, const void *src, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
	Turn turn;
	if (shall_fail("cudaMemcpyAsync")) return set_last_error(cudaErrorIllegalAddress);
	check_copy(dst, src, bytes, kind);
	if (kind == cudaMemcpyHostToDevice && !inside(pinned, src, bytes)) {
		std::vector<char> taken((const char *)src, (const char *)src + bytes);
		return enqueue(stream, "cudaMemcpyAsync", [dst, taken] { memcpy(dst, taken.data(), taken.size()); });
	}
	enqueue(stream, "cudaMemcpyAsync", [=] {
		check_copy(dst, src, bytes, kind);
		memcpy(dst, src, bytes);
	});
	if (kind == cudaMemcpyDeviceToHost && !inside(pinned, dst, bytes)) return cudaStreamSynchronize(stream);
	return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void *at, int value, size_t bytes, cudaStream_t stream) {
	Turn turn;
	if (!inside(device, at, bytes)) fault("a memset of %zu bytes at %p leaves its allocation", bytes, at);
	return enqueue(stream, "cudaMemsetAsync", [=] { memset(at, value, bytes); });
}

cudaError_t cudaSetDeviceFlags(unsigned) { return cudaSuccess; }

cudaError_t cudaSetDevice(int n) {
	Turn turn;
	if (shall_fail("cudaSetDevice")) return set_last_error(cudaErrorNoDevice);
	return n == 0 ? cudaSuccess : set_last_error(cudaErrorInvalidDevice);
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp *p, int) {
	Turn turn;
	*p = {};
	snprintf(p->name, sizeof p->name, "emulated on the CPU");
	p->totalGlobalMem = device_bytes();
	return cudaSuccess;
}

const char *cudaGetErrorName(cudaError_t e) {
	switch (e) {
	case cudaSuccess: return "cudaSuccess";
	case cudaErrorMemoryAllocation: return "cudaErrorMemoryAllocation";
	case cudaErrorNoDevice: return "cudaErrorNoDevice";
	case cudaErrorInvalidDevice: return "cudaErrorInvalidDevice";
	case cudaErrorIllegalAddress: return "cudaErrorIllegalAddress";
	case cudaErrorNotSupported: return "cudaErrorNotSupported";
	case cudaErrorInvalidValue: return "cudaErrorInvalidValue";
	default: return "cudaErrorUnknown";
	}
}

const char *cudaGetErrorString(cudaError_t e) { return cudaGetErrorName(e); }

namespace {

/* Says at the end what was never given back; with P2PDILOCO_EMULATE_STRICT it is an error. */
struct Ending {
	~Ending() {
		if (device.empty() && pinned.empty() && streams_and_events() == 0) return;
		fprintf(stderr, "emulated CUDA: not freed: %zu allocations, %zu page-locked pieces, %zu streams and events\n",
			device.size(), pinned.size(), streams_and_events());
		if (getenv("P2PDILOCO_EMULATE_STRICT")) _exit(97);
	}
} ending;

} // namespace
