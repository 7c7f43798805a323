#include "transfer.h"

#include <algorithm>
#include <cstring>

static constexpr size_t most_stages = 4;

Transfer::~Transfer() {
	if (base_)
		cudaHostUnregister(base_);
}

bool Transfer::lock(void *base, size_t bytes, std::string *why) {
	if (base_)
		throw Failure("register_memory: other memory is registered: unregister that first");
	cudaError_t e = cudaHostRegister(base, bytes, cudaHostRegisterDefault);
	if (e != cudaSuccess) {
		cudaGetLastError();
		*why = std::string(cudaGetErrorName(e)) + " (" + cudaGetErrorString(e) + ")";
		return false;
	}
	base_ = (char *)base;
	bytes_ = bytes;
	return true;
}

void Transfer::unlock(void *base) {
	if (!base_ || base != base_)
		return; /* it could not be locked */
	base_ = nullptr;
	CUDA(cudaHostUnregister(base));
}

bool Transfer::locked(const void *at, size_t bytes) const {
	const char *p = (const char *)at;
	return base_ && p >= base_ && p + bytes <= base_ + bytes_;
}

/* The buffer whose turn it is, free. */
Transfer::Stage &Transfer::next_stage() {
	if (stages_.size() < most_stages)
		stages_.push_back(std::make_unique<Stage>());
	Stage &s = *stages_[turn_++ % stages_.size()];
	s.done.wait();
	deliver(s);
	return s;
}

void Transfer::deliver(Stage &s) {
	if (s.dst)
		memcpy(s.dst, s.host, s.count * sizeof(float));
	s.dst = nullptr;
}

void Transfer::download(float *dst, const float *src, size_t count, const Stream &compute, const Work &prepare) {
	const bool direct = locked(dst, count * sizeof(float));
	for (size_t at = 0; at < count; at += piece) {
		size_t n = std::min(piece, count - at);
		prepare(at, n);
		compute.record(made_);
		copies_.after(made_);
		if (direct) {
			CUDA(cudaMemcpyAsync(dst + at, src + at, n * sizeof(float), cudaMemcpyDeviceToHost, copies_));
			continue;
		}
		Stage &s = next_stage();
		CUDA(cudaMemcpyAsync(s.host, src + at, n * sizeof(float), cudaMemcpyDeviceToHost, copies_));
		copies_.record(s.done);
		s.dst = dst + at, s.count = n;
	}
	copies_.wait_awake();
	for (auto &s : stages_)
		deliver(*s);
}

void Transfer::upload(float *dst, const float *src, size_t count, const Stream &compute, const Work &finish) {
	const bool direct = locked(src, count * sizeof(float));
	compute.record(made_); /* what is under way may still read dst */
	copies_.after(made_);
	for (size_t at = 0; at < count; at += piece) {
		size_t n = std::min(piece, count - at);
		const float *from = src + at;
		Stage *s = direct ? nullptr : &next_stage();
		if (s)
			from = (const float *)memcpy(s->host, from, n * sizeof(float));
		CUDA(cudaMemcpyAsync(dst + at, from, n * sizeof(float), cudaMemcpyHostToDevice, copies_));
		if (s)
			copies_.record(s->done);
		copies_.record(made_);
		compute.after(made_);
		finish(at, n);
	}
	compute.wait_awake();
}
