/* What the parts of the emulation share. */
#pragma once

#include <algorithm>
#include <mutex>

#include "cuda_runtime.h"

namespace emulate {

/* Threads take turns: every call of CUDA holds this. */
struct Turn {
	static std::recursive_mutex &mutex();
	std::lock_guard<std::recursive_mutex> lock{mutex()};
};

/* Decides every order that CUDA leaves open: SplitMix64. */
struct Dice {
	typedef uint64_t result_type;
	uint64_t state;
	static constexpr uint64_t min() { return 0; }
	static constexpr uint64_t max() { return ~(uint64_t)0; }
	uint64_t operator()() {
		uint64_t z = state += 0x9e3779b97f4a7c15u;
		z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
		z = (z ^ z >> 27) * 0x94d049bb133111ebu;
		return z ^ z >> 31;
	}
};
Dice &dice();

/* What cudaGetLastError returns next. */
cudaError_t set_last_error(cudaError_t);

/* How many were made and not destroyed. */
size_t streams_and_events();

/* Runs queued work, chosen at random, until done() holds. Between such calls the host cannot reach
 * device memory. */
void run_until(const std::function<bool()> &done);

/* Lets the device reach its memory, or takes it away from the host again. */
void open_device_memory(bool open);

} // namespace emulate
