/*
 * Runs a kernel's blocks one after the other, in random order, and the threads of a block as
 * coroutines. A coroutine runs threads until one of them comes to a barrier: then it waits there,
 * and another coroutine goes on with the threads that have not begun. So a kernel without barriers
 * needs a single one.
 */
#include <setjmp.h>
#include <ucontext.h>

#include <memory>
#include <numeric>
#include <vector>

#include "internal.h"

uint3 threadIdx, blockIdx, gridDim;

/* Where all __shared__ variables lie. */
extern "C" char __start_emulated_shared[] __attribute__((weak, visibility("hidden")));
extern "C" char __stop_emulated_shared[] __attribute__((weak, visibility("hidden")));

namespace emulate {
namespace {

constexpr unsigned lanes = 32;
constexpr size_t stack_bytes = 64 << 10;

enum class Wait { none, block, warp };

struct Coroutine {
	ucontext_t start;
	jmp_buf here;
	bool begun = false;
	std::unique_ptr<char[]> stack{new char[stack_bytes]};
	Wait wait = Wait::none;
	unsigned thread = 0; /* that waits */
};

/* What the block under way consists of. */
struct Block {
	const char *kernel;
	const std::function<void()> *body;
	unsigned size = 0, begun = 0, ended = 0;
	std::vector<unsigned> order;
	std::vector<unsigned> shuffles;      /* done, by thread */
	std::vector<uint64_t> exchange[2];   /* by thread: the next shuffle does not disturb who reads this one's */
} block;

std::vector<std::unique_ptr<Coroutine>> pool;
Coroutine *running;
jmp_buf scheduler;

void work() {
	for (;;) {
		while (block.begun < block.size) {
			threadIdx.x = running->thread = block.order[block.begun++];
			(*block.body)();
			block.ended++;
		}
		running->wait = Wait::none;
		if (_setjmp(running->here) == 0) _longjmp(scheduler, 1);
	}
}

/* Lets a coroutine run until it waits or has nothing left to do. */
void resume(Coroutine *c) {
	running = c;
	if (_setjmp(scheduler) != 0) return;
	if (c->begun) _longjmp(c->here, 1);
	c->begun = true;
	getcontext(&c->start);
	c->start.uc_stack.ss_sp = c->stack.get();
	c->start.uc_stack.ss_size = stack_bytes;
	c->start.uc_link = nullptr;
	makecontext(&c->start, work, 0);
	setcontext(&c->start);
}

Coroutine *idle() {
	for (auto &c : pool)
		if (c->wait == Wait::none) return c.get();
	pool.push_back(std::make_unique<Coroutine>());
	return pool.back().get();
}

void wait_at(Wait kind) {
	Coroutine *me = running;
	me->wait = kind;
	if (_setjmp(me->here) == 0) _longjmp(scheduler, 1);
	running = me;
	threadIdx.x = me->thread;
}

/* Those that wait and may go on: all of the block, or whole warps. */
std::vector<Coroutine *> released() {
	std::vector<Coroutine *> at_block, at_warp, out;
	std::vector<unsigned> waiting((block.size + lanes - 1) / lanes);
	for (auto &c : pool) {
		if (c->wait == Wait::block) at_block.push_back(c.get());
		if (c->wait == Wait::warp) {
			at_warp.push_back(c.get());
			waiting[c->thread / lanes]++;
		}
	}
	for (auto *c : at_warp)
		if (waiting[c->thread / lanes] == lanes) out.push_back(c);
	if (out.empty() && at_warp.empty() && at_block.size() == block.size) out = at_block;
	return out;
}

void run_block() {
	std::shuffle(block.order.begin(), block.order.end(), dice());
	memset(__start_emulated_shared, 0xff, __stop_emulated_shared - __start_emulated_shared);
	block.begun = block.ended = 0;
	std::fill(block.shuffles.begin(), block.shuffles.end(), 0);
	while (block.begun < block.size) resume(idle());
	while (block.ended < block.size) {
		auto ready = released();
		if (ready.empty())
			fault("%s, block %u: of %u threads %u have ended, and not all others reach the same barrier or shuffle",
				block.kernel, blockIdx.x, block.size, block.ended);
		std::shuffle(ready.begin(), ready.end(), dice());
		for (auto *c : ready) c->wait = Wait::none;
		for (auto *c : ready) resume(c);
	}
}

void run_grid(unsigned grid, unsigned size, const char *kernel, const std::function<void()> &body) {
	gridDim.x = grid;
	block.kernel = kernel;
	block.body = &body;
	block.size = size;
	block.order.resize(block.size);
	std::iota(block.order.begin(), block.order.end(), 0u);
	block.shuffles.assign(block.size, 0);
	for (auto &e : block.exchange) e.assign(block.size, ~0ull);
	std::vector<unsigned> blocks(grid);
	std::iota(blocks.begin(), blocks.end(), 0u);
	std::shuffle(blocks.begin(), blocks.end(), dice());
	for (unsigned b : blocks) {
		blockIdx.x = b;
		run_block();
	}
}

} // namespace

void block_barrier() { wait_at(Wait::block); }

uint64_t shuffle_xor(unsigned mask, uint64_t bits, int lane_mask) {
	unsigned me = running->thread;
	if (mask != 0xffffffffu || block.size % lanes != 0)
		fault("%s: a shuffle among part of a warp", block.kernel);
	auto &slots = block.exchange[block.shuffles[me]++ % 2];
	slots[me] = bits;
	wait_at(Wait::warp);
	return slots[(me & ~(lanes - 1)) | ((me ^ (unsigned)lane_mask) & (lanes - 1))];
}

cudaError_t launch_grid(unsigned grid, unsigned size, cudaStream_t stream, const char *kernel,
	std::function<void()> thread) {
	Turn turn;
	if (size == 0 || size > 1024 || grid == 0 || grid > 0x7fffffffu || shall_fail("launch"))
		return set_last_error(cudaErrorInvalidValue);
	return enqueue(stream, kernel, [=] { run_grid(grid, size, kernel, thread); });
}

} // namespace emulate
