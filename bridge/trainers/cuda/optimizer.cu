#include "optimizer.h"

#include <algorithm>
#include <vector>

#include "adamw.cuh"

static std::vector<Piece> cut(const layout &l) {
	std::vector<Piece> out;
	for (size_t i = 0; i < l.count; i++) {
		const tensor &t = l.tensors[i];
		for (size_t at = 0; at < t.count; at += piece_elements)
			out.push_back({(uint32_t)(t.begin + at), (uint32_t)std::min<size_t>(piece_elements, t.count - at), t.dims > 1});
	}
	return out;
}

Optimizer::Optimizer(const config &c, const layout &l, const Stream &on)
	: first(l.elements, "the optimizer's state"), second(l.elements, "the optimizer's state"), config_(c), on_(on) {
	auto pieces = cut(l);
	pieces_ = {pieces.size(), "the optimizer's state"};
	squares_ = {std::min<size_t>(1024, blocks_for(l.elements, threads)), "the gradient's norm"};
	CUDA(cudaMemcpyAsync(pieces_, pieces.data(), pieces_.bytes(), cudaMemcpyHostToDevice, on));
	CUDA(cudaMemsetAsync(first, 0, first.bytes(), on));
	CUDA(cudaMemsetAsync(second, 0, second.bytes(), on));
	on.wait();
}

void Optimizer::step(Model &m, Progress *progress, uint64_t step) {
	update u = update_at(&config_, ++steps, 0); /* the device knows the norm, and scales */
	Rates r{u.beta1, u.beta2, u.epsilon, u.size, u.root, u.keep};
	float limit = (float)std::max(0.0, config_.clip);
	unsigned blocks = (unsigned)squares_.count(), pieces = (unsigned)pieces_.count();
	LAUNCH(square_pieces, blocks, threads, on_, squares_, m.gradients, m.gradients.count());
	LAUNCH(take_norm, 1, threads, on_, progress, squares_, (int)blocks, limit, step);
	if (auto *copy = (bf16 *)m.copy())
		LAUNCH(adamw<bf16>, pieces, threads, on_, m.params, copy, first, second, m.gradients, pieces_, progress, r);
	else
		LAUNCH(adamw<float>, pieces, threads, on_, m.params, (float *)nullptr, first, second, m.gradients, pieces_, progress, r);
}
