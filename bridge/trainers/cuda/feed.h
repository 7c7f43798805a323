/* Batches on their way to the GPU: drawn by the host into page-locked memory, copied on a stream of their own,
 * so that the next one is there when a step ends. There are two of each buffer. */
#pragma once

#include "model.h"
#include "sampler.h"

class Feed {
public:
	Feed(int sequences, int context);

	/* Draws the next batch. What is queued on compute afterwards sees it. The caller says used when all of that
	 * is queued. */
	Batch next(sampler *, const Stream &compute);
	/* The same of bytes that are given, as many sequences as there is room for at most. */
	Batch next(const uint8_t *inputs, const uint8_t *targets, int sequences, const Stream &compute);
	void used(const Stream &compute);

private:
	struct Slot {
		Pinned<uint8_t> host;
		Buffer<uint8_t> device;
		Event uploaded; /* host may be written again */
		Event read;     /* device may be */
		explicit Slot(size_t bytes) : host(bytes, "a batch"), device(bytes, "a batch") {}
	};

	size_t rows() const { return (size_t)sequences_ * context_; }
	Batch upload(int sequences, const Stream &compute);

	int sequences_, context_;
	size_t bytes_;
	Slot slots_[2];
	Slot *now_ = &slots_[0];
	Stream copies_;
};
