/* What a trainer holds on the GPU, and a round of inner steps on it. */
#pragma once

#include <atomic>

#include "feed.h"
#include "optimizer.h"
#include "transfer.h"

/* Keys of --trainer-config beyond those of all trainers. */
struct Options {
	int64_t device = 0;
	enum { f32, tf32, bf16 } dtype = f32;
	char trace[4096] = ""; /* a file to which every call appends a line; empty for none */
};

class Gpu {
public:
	Gpu(const config &, const layout &, const corpus &, const Options &);

	/* Replaces part of the parameters, and takes it as the anchor. */
	void load(size_t begin, size_t count, const float *src);
	void export_params(size_t begin, size_t count, float *dst);
	/* anchor - parameters, subtracted on the GPU. */
	void export_gradient(size_t begin, size_t count, float *dst);

	/* Does task.steps inner steps, or fewer when cancelled: then it returns false. stats are what was done in
	 * any case, and after a failure stats->steps alone. */
	bool run(sampler *, const p2pdiloco_trainer_task &task, const std::atomic<bool> &cancelled, p2pdiloco_trainer_stats *stats);

	/* The mean held-out loss. False: cancelled. */
	bool evaluate(const std::atomic<bool> &cancelled, double *loss);

	/* The inner optimizer's state; first and second have room for D elements each. */
	void get_state(float *first, float *second);
	void set_state(const float *first, const float *second, uint64_t steps);
	uint64_t steps() const { return optimizer_.steps; }

	/* Of the last run: from the first to the last thing done on the GPU. */
	double gpu_seconds() const { return gpu_seconds_; }

	Transfer transfer;

private:
	/* Steps that are queued while the oldest of them runs. The host needs the time to draw and queue the next. */
	static constexpr uint64_t in_flight = 3;
	/* How often the host looks at the loss; it must be more than in_flight. */
	static constexpr uint64_t look_every = 8;

	void enqueue_step(sampler *, uint64_t step);
	void finish_step(uint64_t step);
	void look();

	const config &config_;
	const layout &layout_;
	std::vector<uint8_t> held_out_inputs_, held_out_targets_;

	Stream compute_;
	Products products_;
	std::unique_ptr<Model> model_;
	Optimizer optimizer_;
	Buffer<float> anchor_;
	Feed feed_;
	Buffer<Progress> progress_; /* of the round; then one for each held-out batch */
	size_t held_out_batches_;
	Pinned<Progress> seen_;
	Event done_[in_flight];
	Event began_{true}, ended_{true};
	uint64_t steps_before_ = 0; /* the round */
	double gpu_seconds_ = 0;
};
