#include "model.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "attention.cuh"
#include "buffers.h"
#include "loss.cuh"
#include "norm.cuh"
#include "pointwise.cuh"

namespace {

/* A matrix (out x in) and its bias, or a norm's gain and bias: where they begin in the flat vector. */
struct Linear {
	size_t weight, bias;
	int in, out;
};
struct Norm {
	size_t gain, bias;
};

struct Block {
	Norm ln1, ln2;
	Linear qkv, proj, up, down;
};

template <class T> class Transformer final : public Model {
public:
	Transformer(const Sizes &, const layout &, const Stream &, const Products &);

	void forward(const Batch &, Progress *, uint64_t step) override;
	void backward(const Batch &) override;
	void changed(size_t begin, size_t count) override;
	void *copy() override { return is_float ? nullptr : (T *)copy_; }

private:
	static constexpr bool is_float = std::is_same<T, float>::value;

	void forward_block(size_t layer, int sequences);
	void backward_block(size_t layer, int sequences);
	void attend(Activations<T> &, int sequences);
	void attend_backward(Activations<T> &, T *d_qkv, const T *d_out, int sequences);

	void norm(Norm, T *out, float2 *kept, const float *in, int rows);
	void norm_grad(Norm, float *d_in, const T *d_out, const float2 *kept, const float *in, int rows, bool add);
	template <class Out> void linear(const Linear &, Out *out, const T *in, const float *residual, int rows);
	void linear_grad(const Linear &, T *d_in, const T *d_out, const T *in, int rows);

	const T *matrices() const;
	const T *stream_as_t(size_t n);
	float *stream_before(size_t layer) { return layer == blocks_.size() ? (float *)scratch_.last : (float *)kept_[layer].in; }
	Heads heads() const { return {(unsigned)sizes_.heads, (unsigned)sizes_.context, (unsigned)sizes_.head()}; }
	int pieces(int rows) const { return std::max(1, std::min((int)most_pieces, rows / (int)(4 * sum_rows))); }

	Sizes sizes_;
	const Stream &on_;
	const Products &products_;
	size_t wte_, wpe_;
	std::vector<Block> blocks_;
	Norm final_;
	Buffer<T> copy_; /* of params; none where T is float */
	std::vector<Activations<T>> kept_;
	Scratch<T> scratch_;
};

/* Says where the layout's tensors are. */
Linear linear_at(const tensor *weight) {
	return {weight[0].begin, weight[1].begin, (int)weight[0].shape[1], (int)weight[0].shape[0]};
}
Norm norm_at(const tensor *gain) { return {gain[0].begin, gain[1].begin}; }

template <class T>
Transformer<T>::Transformer(const Sizes &s, const layout &l, const Stream &on, const Products &products)
	: Model(l.elements), sizes_(s), on_(on), products_(products), wte_(l.tensors[WTE].begin), wpe_(l.tensors[WPE].begin),
	  scratch_(s, (size_t)most_pieces * 4 * s.width) {
	for (int i = 0; i < s.layers; i++) {
		const tensor *t = &l.tensors[BLOCK(i)];
		blocks_.push_back({norm_at(t + LN1_WEIGHT), norm_at(t + LN2_WEIGHT), linear_at(t + QKV_WEIGHT), linear_at(t + PROJ_WEIGHT),
			linear_at(t + UP_WEIGHT), linear_at(t + DOWN_WEIGHT)});
		kept_.emplace_back(s);
	}
	final_ = norm_at(&l.tensors[FINAL(s.layers)]);
	if (!is_float)
		copy_ = {l.elements, "the parameters in bf16"};
}

/* Where products read matrices. */
template <> const float *Transformer<float>::matrices() const { return params; }
template <> const bf16 *Transformer<bf16>::matrices() const { return copy_; }

/* The gradient of the residual stream as the products want it. */
template <> const float *Transformer<float>::stream_as_t(size_t) { return scratch_.stream; }
template <> const bf16 *Transformer<bf16>::stream_as_t(size_t n) {
	LAUNCH(convert<bf16>, blocks_for(n, threads), threads, on_, (bf16 *)scratch_.stream_copy, (const float *)scratch_.stream, (unsigned)n);
	return scratch_.stream_copy;
}

template <> void Transformer<float>::changed(size_t, size_t) {}
template <> void Transformer<bf16>::changed(size_t begin, size_t count) {
	LAUNCH(convert<bf16>, blocks_for(count, threads), threads, on_, copy_ + begin, (const float *)params + begin, (unsigned)count);
}

template <class T> void Transformer<T>::norm(Norm at, T *out, float2 *kept, const float *in, int rows) {
	LAUNCH(norm_forward<T>, blocks_for(rows, warps), threads, on_, out, kept, in, params + at.gain, params + at.bias, rows, sizes_.width);
}

template <class T>
void Transformer<T>::norm_grad(Norm at, float *d_in, const T *d_out, const float2 *kept, const float *in, int rows, bool add) {
	int d = sizes_.width, count = pieces(rows);
	LAUNCH(norm_backward<T>, blocks_for(rows, warps), threads, on_, d_in, d_out, in, kept, params + at.gain, rows, d, add);
	dim3 grid(blocks_for(d, sum_columns), count), block(sum_columns, sum_rows);
	LAUNCH(norm_sum_pieces<T>, grid, block, on_, (float *)scratch_.pieces, (float *)scratch_.more_pieces, d_out, in, kept, rows, d);
	LAUNCH(add_pieces, blocks_for(d, threads), threads, on_, gradients + at.gain, (const float *)scratch_.pieces, count, d);
	LAUNCH(add_pieces, blocks_for(d, threads), threads, on_, gradients + at.bias, (const float *)scratch_.more_pieces, count, d);
}

/* out = residual + in weight^T + bias; residual is null for none. */
template <class T>
template <class Out>
void Transformer<T>::linear(const Linear &l, Out *out, const T *in, const float *residual, int rows) {
	size_t n = (size_t)rows * l.out;
	LAUNCH(begin_rows<Out>, blocks_for(n, threads), threads, on_, out, params + l.bias, residual, (unsigned)n, l.out);
	products_.multiply(matrix(out, l.out), matrix(in, l.in), matrix(matrices() + l.weight, l.in).t(), rows, l.out, l.in, true);
}

/* d_in = d_out weight, and the gradients of weight and bias. */
template <class T> void Transformer<T>::linear_grad(const Linear &l, T *d_in, const T *d_out, const T *in, int rows) {
	int count = pieces(rows);
	products_.multiply(matrix(d_in, l.in), matrix(d_out, l.out), matrix(matrices() + l.weight, l.in), rows, l.in, l.out, false);
	products_.multiply(matrix(gradients + l.weight, l.in), matrix(d_out, l.out).t(), matrix(in, l.in), l.out, l.in, rows, false);
	dim3 grid(blocks_for(l.out, sum_columns), count), block(sum_columns, sum_rows);
	LAUNCH(sum_pieces<T>, grid, block, on_, (float *)scratch_.pieces, d_out, rows, l.out);
	LAUNCH(add_pieces, blocks_for(l.out, threads), threads, on_, gradients + l.bias, (const float *)scratch_.pieces, count, l.out);
}

/* mixed = softmax(q k^T / sqrt(size)) v, for every head of every sequence. */
template <class T> void Transformer<T>::attend(Activations<T> &a, int sequences) {
	const int steps = sizes_.context, size = sizes_.head(), count = sequences * sizes_.heads, rows = sequences * steps;
	const size_t n = (size_t)rows * sizes_.width;
	const long long one = (long long)steps * size, square = (long long)steps * steps;
	T *q = a.heads, *k = q + n, *v = k + n;
	LAUNCH(to_heads<T>, blocks_for(3 * n, threads), threads, on_, q, (const T *)scratch_.wide, (unsigned)n, 3, heads());
	products_.multiply_batch(matrix(a.weights, steps, square), matrix(q, size, one), matrix(k, size, one).t(), steps, steps, size, count);
	LAUNCH(causal_softmax<T>, blocks_for((size_t)count * steps, warps), threads, on_, (T *)a.weights, (size_t)count * steps, steps,
		1 / sqrtf((float)size));
	products_.multiply_batch(matrix(scratch_.mixed, size, one), matrix(a.weights, steps, square), matrix(v, size, one), steps, size, steps, count);
	LAUNCH(to_rows<T>, blocks_for(n, threads), threads, on_, (T *)a.mixed, (const T *)scratch_.mixed, (unsigned)n, 1, heads());
}

/* The gradient of queries, keys and values by rows, from that of mixed. */
template <class T> void Transformer<T>::attend_backward(Activations<T> &a, T *d_qkv, const T *d_out, int sequences) {
	const int steps = sizes_.context, size = sizes_.head(), count = sequences * sizes_.heads, rows = sequences * steps;
	const size_t n = (size_t)rows * sizes_.width;
	const long long one = (long long)steps * size, square = (long long)steps * steps;
	const T *q = a.heads, *k = q + n, *v = k + n;
	T *dq = scratch_.heads, *dk = dq + n, *dv = dk + n;
	LAUNCH(to_heads<T>, blocks_for(n, threads), threads, on_, (T *)scratch_.mixed, d_out, (unsigned)n, 1, heads());
	Matrix w = matrix(a.weights, steps, square), dw = matrix(scratch_.scores, steps, square), d = matrix(scratch_.mixed, size, one);
	products_.multiply_batch(matrix(dv, size, one), w.t(), d, steps, size, steps, count);
	products_.multiply_batch(dw, d, matrix(v, size, one).t(), steps, steps, size, count);
	LAUNCH(causal_softmax_backward<T>, blocks_for((size_t)count * steps, warps), threads, on_, (T *)scratch_.scores, (const T *)a.weights,
		(size_t)count * steps, steps, 1 / sqrtf((float)size));
	products_.multiply_batch(matrix(dq, size, one), dw, matrix(k, size, one), steps, size, steps, count);
	products_.multiply_batch(matrix(dk, size, one), dw.t(), matrix(q, size, one), steps, size, steps, count);
	LAUNCH(to_rows<T>, blocks_for(3 * n, threads), threads, on_, d_qkv, (const T *)scratch_.heads, (unsigned)n, 3, heads());
}

/* mid = in + proj(attention(qkv(ln1(in)))); out = mid + down(gelu(up(ln2(mid)))). */
template <class T> void Transformer<T>::forward_block(size_t layer, int sequences) {
	const Block &b = blocks_[layer];
	Activations<T> &a = kept_[layer];
	const int rows = sequences * sizes_.context;
	const size_t n = (size_t)rows * sizes_.width;
	norm(b.ln1, a.ln1, a.norm1, a.in, rows);
	linear(b.qkv, (T *)scratch_.wide, (const T *)a.ln1, nullptr, rows);
	attend(a, sequences);
	linear(b.proj, (float *)a.mid, (const T *)a.mixed, a.in, rows);
	norm(b.ln2, a.ln2, a.norm2, a.mid, rows);
	linear(b.up, (T *)a.up, (const T *)a.ln2, nullptr, rows);
	LAUNCH(gelu_forward<T>, blocks_for(4 * n, threads), threads, on_, (T *)a.gelu, (const T *)a.up, (unsigned)(4 * n));
	linear(b.down, stream_before(layer + 1), (const T *)a.gelu, a.mid, rows);
}

template <class T> void Transformer<T>::forward(const Batch &b, Progress *progress, uint64_t step) {
	const int rows = b.sequences * sizes_.context, d = sizes_.width;
	const size_t n = (size_t)rows * d;
	LAUNCH(embed, blocks_for(n, threads), threads, on_, stream_before(0), b.inputs, params + wte_, params + wpe_, (unsigned)n, d, sizes_.context);
	for (size_t layer = 0; layer < blocks_.size(); layer++)
		forward_block(layer, b.sequences);
	norm(final_, scratch_.final, scratch_.norm, scratch_.last, rows);
	products_.multiply(matrix(scratch_.logits, VOCABULARY), matrix((const T *)scratch_.final, d), matrix(matrices() + wte_, d).t(), rows, VOCABULARY, d, false);
	T *d_logits = is_float ? (T *)(void *)(float *)scratch_.logits : (T *)scratch_.d_logits;
	LAUNCH(softmax_loss<T>, blocks_for(rows, warps), threads, on_, (float *)scratch_.losses, d_logits, (const float *)scratch_.logits, b.targets, rows, VOCABULARY);
	LAUNCH(take_loss, 1, threads, on_, progress, (const float *)scratch_.losses, rows, step);
}

/* scratch_.stream, the gradient after a block, becomes that before it. */
template <class T> void Transformer<T>::backward_block(size_t layer, int sequences) {
	const Block &b = blocks_[layer];
	Activations<T> &a = kept_[layer];
	const int rows = sequences * sizes_.context;
	const size_t n = (size_t)rows * sizes_.width;
	T *narrow = scratch_.narrow, *wide = scratch_.wide;
	linear_grad(b.down, wide, stream_as_t(n), a.gelu, rows);
	LAUNCH(gelu_backward<T>, blocks_for(4 * n, threads), threads, on_, wide, (const T *)a.up, (unsigned)(4 * n));
	linear_grad(b.up, narrow, wide, a.ln2, rows);
	norm_grad(b.ln2, scratch_.stream, narrow, a.norm2, a.mid, rows, true);

	linear_grad(b.proj, narrow, stream_as_t(n), a.mixed, rows);
	attend_backward(a, wide, narrow, sequences);
	linear_grad(b.qkv, narrow, wide, a.ln1, rows);
	norm_grad(b.ln1, scratch_.stream, narrow, a.norm1, a.in, rows, true);
}

/* The forward pass read from its end. Every tensor's gradient is replaced, wte's by the head and then added to
 * by the embedding. */
template <class T> void Transformer<T>::backward(const Batch &b) {
	const int rows = b.sequences * sizes_.context, d = sizes_.width;
	const T *d_logits = is_float ? (const T *)(const void *)(float *)scratch_.logits : (const T *)scratch_.d_logits;
	products_.multiply(matrix(scratch_.narrow, d), matrix(d_logits, VOCABULARY), matrix(matrices() + wte_, d), rows, d, VOCABULARY, false);
	products_.multiply(matrix(gradients + wte_, d), matrix(d_logits, VOCABULARY).t(), matrix((const T *)scratch_.final, d), VOCABULARY, d, rows, false);
	norm_grad(final_, scratch_.stream, scratch_.narrow, scratch_.norm, scratch_.last, rows, false);
	for (size_t layer = blocks_.size(); layer-- > 0;)
		backward_block(layer, b.sequences);
	dim3 grid(VOCABULARY, blocks_for(d, 128));
	LAUNCH(embed_backward_bytes, grid, 128, on_, gradients + wte_, (const float *)scratch_.stream, b.order, b.starts, d);
	LAUNCH(embed_backward_positions, blocks_for((size_t)sizes_.context * d, threads), threads, on_, gradients + wpe_,
		(const float *)scratch_.stream, b.sequences, sizes_.context, d);
}

} // namespace

std::unique_ptr<Model> make_model(const Sizes &s, const layout &l, bool in_bf16, const Stream &on, const Products &products) {
	if (in_bf16)
		return std::make_unique<Transformer<bf16>>(s, l, on, products);
	return std::make_unique<Transformer<float>>(s, l, on, products);
}
