/* The loss and its gradient. */
#pragma once

#include "blocksum.cuh"
#include "progress.h"

/* Cross-entropy of each row of logits (rows, vocab) with its target, in nats. d_logits, unless null, becomes
 * the gradient of the mean loss; it may be logits itself. One warp a row. */
template <class T>
__global__ void softmax_loss(float *losses, T *d_logits, const float *logits, const uint8_t *targets, size_t rows, int vocab) {
	size_t row = warp_row();
	if (row >= rows)
		return;
	logits += row * vocab;
	float top = -INFINITY, sum = 0, nan = 0;
	for (int i = lane(); i < vocab; i += lanes) {
		top = fmaxf(top, logits[i]);
		nan += logits[i] - logits[i]; /* fmaxf passes over NaNs */
	}
	top = warp_max(top) + warp_sum(nan);
	for (int i = lane(); i < vocab; i += lanes)
		sum += expf(logits[i] - top);
	sum = warp_sum(sum);
	int target = targets[row];
	if (lane() == 0)
		losses[row] = logf(sum) - (logits[target] - top);
	if (!d_logits)
		return;
	__syncwarp(); /* lane 0 has read the target's logit, which may be overwritten */
	float share = 1 / (float)rows, inverse = 1 / sum;
	for (int i = lane(); i < vocab; i += lanes)
		d_logits[row * vocab + i] = stored<T>((expf(logits[i] - top) * inverse - (i == target ? 1.0f : 0.0f)) * share);
}

/* One block: the mean of the rows' losses, added to p. */
__global__ static void take_loss(Progress *p, const float *losses, size_t rows, uint64_t step) {
	double sum = 0;
	for (size_t i = threadIdx.x; i < rows; i += threads)
		sum += losses[i];
	sum = block_sum(sum);
	if (threadIdx.x != 0)
		return;
	p->loss = sum / (double)rows;
	if (is_number(p->loss))
		p->loss_sum += p->loss;
	else if (p->bad_step == 0)
		p->bad_step = step;
}
