/* AdamW's state on the GPU. */
#pragma once

#include "model.h"
#include "update.h"

struct Piece;

class Optimizer {
public:
	Optimizer(const config &, const layout &, const Stream &);

	/* Queues one step: clips the model's gradients and updates its parameters, unless progress tells of a bad
	 * step. step is what a gradient that is no number is reported as. */
	void step(Model &, Progress *, uint64_t step);

	Buffer<float> first, second; /* D each: means of gradients and of squared gradients */
	uint64_t steps = 0;          /* queued so far, ever */

private:
	const config &config_;
	const Stream &on_;
	Buffer<Piece> pieces_;
	Buffer<double> squares_;
};
