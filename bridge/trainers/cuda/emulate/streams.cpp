/* Streams and events: work waits until somebody waits for it. See cuda_runtime.h. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <deque>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "internal.h"

namespace emulate {

struct Event {
	uint64_t recorded = 0, completed = 0; /* how many times */
};

struct Op {
	std::function<void()> run;
	Event *awaited = nullptr; /* a wait: until it completed so many times */
	uint64_t times = 0;
};

struct Stream {
	std::deque<Op> ops;
	bool blocked() const { return ops.front().awaited && ops.front().awaited->completed < ops.front().times; }
};

namespace {

std::set<Stream *> streams;
std::set<Event *> events;
thread_local cudaError_t last_error = cudaSuccess;

/* The streams whose first operation could run. */
std::vector<Stream *> runnable() {
	std::vector<Stream *> out;
	for (auto *s : streams)
		if (!s->ops.empty() && !s->blocked()) out.push_back(s);
	return out;
}

/* Streams have different speeds, which change: one is preferred for a while. */
Stream *pick(const std::vector<Stream *> &ready) {
	static Stream *preferred;
	if (dice()() % 32 == 0) preferred = nullptr;
	bool there = std::find(ready.begin(), ready.end(), preferred) != ready.end();
	if (there && dice()() % 8 != 0) return preferred;
	return preferred = ready[dice()() % ready.size()];
}

bool run_one() {
	auto ready = runnable();
	if (ready.empty()) return false;
	Stream *s = pick(ready);
	Op op = std::move(s->ops.front());
	s->ops.pop_front();
	if (op.run) op.run();
	return true;
}

uint64_t number(const char *variable, uint64_t otherwise) {
	const char *text = getenv(variable);
	return text && *text ? strtoull(text, nullptr, 10) : otherwise;
}

void run_some() {
	unsigned times = 1 + dice()() % 8;
	open_device_memory(true);
	while (times-- > 0 && run_one()) {
	}
	open_device_memory(false);
}

/* The GPU does something by itself: often, seldom or never, by the seed. */
void maybe_run_some() {
	static const unsigned periods[] = {0, 4, 64};
	static const unsigned period = periods[number("P2PDILOCO_EMULATE_SEED", 1) % 3];
	if (period != 0 && dice()() % period == 0) run_some();
}

} // namespace

std::recursive_mutex &Turn::mutex() {
	static std::recursive_mutex one;
	return one;
}

Dice &dice() {
	static Dice one{number("P2PDILOCO_EMULATE_SEED", 1)};
	return one;
}

void fault(const char *format, ...) {
	char text[512];
	va_list args;
	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	fprintf(stderr, "emulated CUDA: %s\n", text);
	abort();
}

bool shall_fail(const char *name) {
	static std::string before;
	static uint64_t calls;
	const char *which = getenv("P2PDILOCO_EMULATE_FAIL"), *colon = which ? strchr(which, ':') : nullptr;
	if (before != (which ? which : "")) /* a process may ask for one failure after the other */
		before = which ? which : "", calls = 0;
	return colon && std::string(which, colon) == name && ++calls == strtoull(colon + 1, nullptr, 10);
}

cudaError_t set_last_error(cudaError_t e) { return last_error = e; }

size_t streams_and_events() { return streams.size() + events.size(); }

cudaError_t enqueue(cudaStream_t stream, const char *what, std::function<void()> run) {
	if (!streams.count(stream))
		fault("%s is given a stream that is none: the trainer uses none but its own", what);
	stream->ops.push_back({std::move(run), nullptr, 0});
	maybe_run_some();
	return cudaSuccess;
}

void run_until(const std::function<bool()> &done) {
	open_device_memory(true);
	while (!done())
		if (!run_one()) fault("the host waits for work that waits for an event which nobody will record");
	open_device_memory(false);
}

} // namespace emulate

using namespace emulate;

cudaError_t cudaGetLastError() {
	Turn turn;
	return std::exchange(last_error, cudaSuccess);
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *out, unsigned) {
	Turn turn;
	if (shall_fail("cudaStreamCreate")) return set_last_error(cudaErrorMemoryAllocation);
	*out = *streams.insert(new Stream).first;
	return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t s) {
	Turn turn;
	if (!streams.count(s)) return set_last_error(cudaErrorInvalidValue);
	cudaStreamSynchronize(s);
	streams.erase(s);
	delete s;
	return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t s) {
	Turn turn;
	if (!streams.count(s)) return set_last_error(cudaErrorInvalidValue);
	run_until([=] { return s->ops.empty(); });
	return shall_fail("cudaStreamSynchronize") ? set_last_error(cudaErrorIllegalAddress) : cudaSuccess;
}

cudaError_t cudaDeviceSynchronize() {
	Turn turn;
	run_until([] {
		return std::all_of(streams.begin(), streams.end(), [](Stream *s) { return s->ops.empty(); });
	});
	return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t e, unsigned) {
	Turn turn;
	if (!streams.count(s) || !events.count(e)) return set_last_error(cudaErrorInvalidValue);
	s->ops.push_back({nullptr, e, e->recorded});
	return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *out, unsigned) {
	Turn turn;
	*out = *events.insert(new Event).first;
	return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t e) {
	Turn turn;
	if (!events.count(e)) return set_last_error(cudaErrorInvalidValue);
	run_until([=] { return e->completed == e->recorded; });
	events.erase(e);
	delete e;
	return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t s) {
	Turn turn;
	if (!events.count(e)) return set_last_error(cudaErrorInvalidValue);
	uint64_t times = ++e->recorded;
	return enqueue(s, "cudaEventRecord", [=] { e->completed = std::max(e->completed, times); });
}

cudaError_t cudaEventSynchronize(cudaEvent_t e) {
	Turn turn;
	if (!events.count(e)) return set_last_error(cudaErrorInvalidValue);
	run_until([=] { return e->completed == e->recorded; });
	return shall_fail("cudaEventSynchronize") ? set_last_error(cudaErrorIllegalAddress) : cudaSuccess;
}
