#include "feed.h"

#include <cstring>

/* A slot holds inputs, targets, order and starts, one after the other; the numbers on a multiple of four bytes. */
static size_t order_at(size_t rows) { return (2 * rows + 3) / 4 * 4; }
static size_t starts_at(size_t rows) { return order_at(rows) + rows * sizeof(int); }
static size_t slot_bytes(size_t rows) { return starts_at(rows) + (VOCABULARY + 1) * sizeof(int); }

/* Sorts positions by their byte, stably: by counting. */
static void sort_positions(int *order, int *starts, const uint8_t *inputs, int rows) {
	memset(starts, 0, (VOCABULARY + 1) * sizeof *starts);
	for (int i = 0; i < rows; i++)
		starts[inputs[i] + 1]++;
	for (int b = 0; b < VOCABULARY; b++)
		starts[b + 1] += starts[b];
	int next[VOCABULARY];
	memcpy(next, starts, sizeof next);
	for (int i = 0; i < rows; i++)
		order[next[inputs[i]]++] = i;
}

Feed::Feed(int sequences, int context)
	: sequences_(sequences), context_(context), bytes_(slot_bytes(rows())), slots_{Slot(bytes_), Slot(bytes_)} {}

Batch Feed::next(sampler *s, const Stream &compute) {
	now_->uploaded.wait();
	sampler_draw(s, now_->host, now_->host + rows());
	return upload(sequences_, compute);
}

Batch Feed::next(const uint8_t *inputs, const uint8_t *targets, int sequences, const Stream &compute) {
	size_t n = (size_t)sequences * context_;
	now_->uploaded.wait();
	memcpy(now_->host, inputs, n);
	memcpy(now_->host + rows(), targets, n);
	return upload(sequences, compute);
}

Batch Feed::upload(int sequences, const Stream &compute) {
	uint8_t *host = now_->host, *device = now_->device;
	sort_positions((int *)(host + order_at(rows())), (int *)(host + starts_at(rows())), host, sequences * context_);
	copies_.after(now_->read);
	CUDA(cudaMemcpyAsync(device, host, bytes_, cudaMemcpyHostToDevice, copies_));
	copies_.record(now_->uploaded);
	compute.after(now_->uploaded);
	return {device, device + rows(), (const int *)(device + order_at(rows())), (const int *)(device + starts_at(rows())), sequences};
}

void Feed::used(const Stream &compute) {
	compute.record(now_->read);
	now_ = now_ == &slots_[0] ? &slots_[1] : &slots_[0];
}
