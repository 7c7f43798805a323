/*
 * Copies of large vectors between the GPU and the peer's memory, in pieces, several of them in flight.
 *
 * Memory that the peer announced (register_memory) is page-locked, and copies go straight from and to it. Where
 * it could not be, or a vector lies elsewhere, they go through page-locked buffers of our own, which costs the
 * host a copy.
 */
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "device.h"

class Transfer {
public:
	/* Elements of a piece: large enough that what a copy costs by itself (some microseconds) does not count. */
#ifdef P2PDILOCO_EMULATED
	static constexpr size_t piece = 1000; /* so that small models have many */
#else
	static constexpr size_t piece = 1 << 20;
#endif

	~Transfer();

	/* Page-locks memory. False: it could not, and why says so; copies then take the longer way. */
	bool lock(void *base, size_t bytes, std::string *why);
	void unlock(void *base);

	/* Called for every piece, [begin, begin + count) of the vector. */
	using Work = std::function<void(size_t begin, size_t count)>;

	/* Copies count elements from the device to dst, and waits for them. For each piece it first calls prepare,
	 * which queues on compute what makes the piece. */
	void download(float *dst, const float *src, size_t count, const Stream &compute, const Work &prepare);
	/* Copies count elements to the device, and waits. As soon as a piece has arrived, what finish queues on
	 * compute may use it. */
	void upload(float *dst, const float *src, size_t count, const Stream &compute, const Work &finish);

private:
	struct Stage {
		Pinned<float> host;
		Event done;
		float *dst = nullptr; /* where host has to go once done, and how much of it */
		size_t count = 0;
		Stage() : host(piece, "copies") {}
	};

	bool locked(const void *at, size_t bytes) const;
	Stage &next_stage();
	void deliver(Stage &);

	char *base_ = nullptr; /* page-locked */
	size_t bytes_ = 0;
	Stream copies_;
	Event made_;
	std::vector<std::unique_ptr<Stage>> stages_; /* made when they are first needed */
	size_t turn_ = 0;
};
