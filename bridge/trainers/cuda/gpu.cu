#include "gpu.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "numbers.cuh"

/* The pseudo-gradient. */
__global__ static void subtract(float *out, const float *anchor, const float *live, unsigned n) {
	unsigned i = element();
	if (i < n)
		out[i] = anchor[i] - live[i];
}

static Sizes sizes_of(const config &c) {
	return {(int)c.layers, (int)c.width, (int)c.heads, (int)c.context, (int)c.batch};
}

static size_t batches_of(const config &c) { return (size_t)((c.held_out + c.batch - 1) / c.batch); }

/* Until the first load the parameters are those that a run of seed 0 begins with. */
Gpu::Gpu(const config &c, const layout &l, const corpus &data, const Options &o)
	: config_(c), layout_(l), held_out_inputs_((size_t)(c.held_out * c.context)), held_out_targets_(held_out_inputs_.size()),
	  products_(compute_, o.dtype == Options::tf32), model_(make_model(sizes_of(c), l, o.dtype == Options::bf16, compute_, products_)),
	  optimizer_(c, l, compute_), anchor_(l.elements, "the anchor"), feed_((int)c.batch, (int)c.context),
	  progress_(1 + batches_of(c), "the losses"), held_out_batches_(batches_of(c)), seen_(1 + batches_of(c), "the losses") {
	corpus_held_out(&data, held_out_inputs_.data(), held_out_targets_.data(), (size_t)c.held_out, (size_t)c.context);
	std::vector<float> start(l.elements);
	initialize(&l, &c, 0, start.data());
	load(0, start.size(), start.data());
}

void Gpu::load(size_t begin, size_t count, const float *src) {
	transfer.upload(anchor_ + begin, src, count, compute_, [&](size_t at, size_t n) {
		at += begin;
		CUDA(cudaMemcpyAsync(model_->params + at, anchor_ + at, n * sizeof(float), cudaMemcpyDeviceToDevice, compute_));
		model_->changed(at, n);
	});
}

void Gpu::export_params(size_t begin, size_t count, float *dst) {
	transfer.download(dst, model_->params + begin, count, compute_, [](size_t, size_t) {});
}

/* The gradients' memory is free between two rounds. */
void Gpu::export_gradient(size_t begin, size_t count, float *dst) {
	transfer.download(dst, model_->gradients + begin, count, compute_, [&](size_t at, size_t n) {
		at += begin;
		LAUNCH(subtract, blocks_for(n, threads), threads, compute_, model_->gradients + at, anchor_ + at, model_->params + at, (unsigned)n);
	});
}

void Gpu::get_state(float *first, float *second) {
	transfer.download(first, optimizer_.first, layout_.elements, compute_, [](size_t, size_t) {});
	transfer.download(second, optimizer_.second, layout_.elements, compute_, [](size_t, size_t) {});
}

void Gpu::set_state(const float *first, const float *second, uint64_t steps) {
	transfer.upload(optimizer_.first, first, layout_.elements, compute_, [](size_t, size_t) {});
	transfer.upload(optimizer_.second, second, layout_.elements, compute_, [](size_t, size_t) {});
	optimizer_.steps = steps;
}

/* Queues a step:
 *
 *     host: draw a batch -> copies: to the GPU -> compute: forward -> backward -> norm -> AdamW -> event
 *
 * The three run beside each other: while the GPU does one step, the next batch is on its way and the one after
 * is drawn. */
void Gpu::enqueue_step(sampler *data, uint64_t step) {
	Batch b = feed_.next(data, compute_);
	model_->forward(b, progress_, step);
	model_->backward(b);
	feed_.used(compute_);
	optimizer_.step(*model_, progress_, step);
	if (step % look_every == 0)
		CUDA(cudaMemcpyAsync(seen_, progress_, sizeof(Progress), cudaMemcpyDeviceToHost, compute_));
	compute_.record(done_[step % in_flight]);
}

/* Waits until the GPU has done a step. */
void Gpu::finish_step(uint64_t step) {
	done_[step % in_flight].wait();
	if (step % look_every == 0)
		look();
}

/* Refuses to go on after a step that changed nothing because it would have changed all to NaN. */
void Gpu::look() {
	const Progress &p = seen_[0];
	if (p.bad_step != 0)
		throw Failure("training diverged: the loss or the gradient at inner step " + std::to_string(steps_before_ + p.bad_step) +
			" is no finite number: take a lower learning_rate");
}

bool Gpu::run(sampler *data, const p2pdiloco_trainer_task &task, const std::atomic<bool> &cancelled, p2pdiloco_trainer_stats *stats) {
	const auto began = std::chrono::steady_clock::now();
	uint64_t queued = 0, &done = stats->steps;
	done = 0;
	steps_before_ = optimizer_.steps;
	CUDA(cudaMemsetAsync(progress_, 0, sizeof(Progress), compute_));
	compute_.record(began_);
	while (queued < task.steps && !cancelled) {
		if (queued - done == in_flight) {
			finish_step(done + 1);
			*task.steps_done = ++done;
		}
		enqueue_step(data, ++queued);
	}
	compute_.record(ended_);
	for (; done < queued; *task.steps_done = ++done)
		finish_step(done + 1);
	CUDA(cudaMemcpyAsync(seen_, progress_, sizeof(Progress), cudaMemcpyDeviceToHost, compute_));
	compute_.wait();
	look();
	float ms = 0;
	CUDA(cudaEventElapsedTime(&ms, began_, ended_));
	gpu_seconds_ = ms / 1e3;
	const double n = (double)std::max<uint64_t>(1, done);
	stats->samples = done * (uint64_t)config_.batch;
	stats->tokens = stats->samples * (uint64_t)config_.context;
	stats->loss = seen_[0].loss_sum / n;
	stats->gradient_norm = seen_[0].norm_sum / n;
	stats->seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
	return done == task.steps;
}

bool Gpu::evaluate(const std::atomic<bool> &cancelled, double *loss) {
	const size_t batch = (size_t)config_.batch, context = (size_t)config_.context, all = (size_t)config_.held_out;
	Progress *losses = progress_ + 1;
	CUDA(cudaMemsetAsync(losses, 0, held_out_batches_ * sizeof(Progress), compute_));
	for (size_t i = 0; i < held_out_batches_; i++) {
		if (cancelled)
			break;
		int sequences = (int)std::min(batch, all - i * batch);
		size_t at = i * batch * context;
		model_->forward(feed_.next(&held_out_inputs_[at], &held_out_targets_[at], sequences, compute_), losses + i, 1);
		feed_.used(compute_);
		if (i % in_flight == in_flight - 1)
			compute_.wait(); /* so that cancel need not wait for all of them */
	}
	CUDA(cudaMemcpyAsync(seen_, losses, held_out_batches_ * sizeof(Progress), cudaMemcpyDeviceToHost, compute_));
	compute_.wait();
	double sum = 0;
	for (size_t i = 0; i < held_out_batches_; i++)
		sum += seen_[i].loss * (double)std::min(batch, all - i * batch);
	*loss = sum / (double)all;
	return !cancelled;
}
