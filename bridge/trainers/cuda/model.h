/*
 * The model on the GPU: parameters, gradients, and one step's forward and backward pass. Everything is queued
 * on one stream; nothing here waits.
 *
 * Parameters, gradients and the residual stream are float32. What lies between two products (T) is float32 or
 * bf16; with bf16 the matrices are read from a bf16 copy of the parameters, and products add up in float32.
 */
#pragma once

#include <memory>
#include <vector>

#include "layout.h"
#include "products.h"
#include "progress.h"

struct Sizes {
	int layers, width, heads, context, sequences;
	int head() const { return width / heads; }
	int rows() const { return sequences * context; }
};

/* One step's bytes, on the device. */
struct Batch {
	const uint8_t *inputs, *targets; /* sequences * context each */
	const int *order, *starts;       /* see embed_backward_bytes */
	int sequences;
};

/* What does not depend on T. */
class Model {
public:
	virtual ~Model() = default;

	/* The mean loss of a batch, into progress. step is what a loss that is no number is reported as. */
	virtual void forward(const Batch &, Progress *, uint64_t step) = 0;
	/* The gradient of the same batch's mean loss, into gradients. */
	virtual void backward(const Batch &) = 0;
	/* To be called when elements [begin, begin + count) of params were changed from outside. */
	virtual void changed(size_t begin, size_t count) = 0;
	/* For code that changes params itself: the copy that products read, or null if they read params. */
	virtual void *copy() = 0;

	Buffer<float> params, gradients; /* D each, in the layout's order */

protected:
	explicit Model(size_t elements)
		: params(elements, "the parameters"), gradients(elements, "the gradients") {}
};

std::unique_ptr<Model> make_model(const Sizes &, const layout &, bool in_bf16, const Stream &, const Products &);
