/* What the parts of the emulation share. */
#pragma once

#include <algorithm>
#include <mutex>
#include <random>

#include "cuda_runtime.h"

namespace emulate {

/* Threads take turns: every call of CUDA holds this. */
struct Turn {
	static std::recursive_mutex &mutex();
	std::lock_guard<std::recursive_mutex> lock{mutex()};
};

/* Decides every order that CUDA leaves open. */
std::mt19937_64 &dice();

/* What cudaGetLastError returns next. */
cudaError_t set_last_error(cudaError_t);

/* Runs queued work, chosen at random, until done() holds. Between such calls the host cannot reach
 * device memory. */
void run_until(const std::function<bool()> &done);

/* Lets the device reach its memory, or takes it away from the host again. */
void open_device_memory(bool open);

} // namespace emulate
