/* The optimizers of train.cu, which includes this: AdamW, and with "optimizer muon" Muon for the
 * matrices of the blocks. bridge/builtin has the reference in adamw.go and muon.go. */

/* An element of the gradient, clipped: squares is the sum over the whole of it, clip the largest
 * norm that it may have, or 0 for any. */
__device__ inline float clipped(float g, const double *squares, float clip) {
	const float norm = sqrtf((float)*squares);
	return clip > 0 && norm > clip ? g * (clip / norm) : g;
}

/* AdamW (Loshchilov and Hutter, arXiv 1711.05101) on one tensor. size is rate / (1 - beta1^t), root
 * 1 / sqrt(1 - beta2^t), keep 1 - rate x weight decay. copy is null, or what products read. */
__global__ static void adamw(float *params, __nv_bfloat16 *copy, float *first, float *second, const float *grad,
	unsigned n, const double *squares, float clip, float beta1, float beta2, float epsilon, float size, float root,
	float keep) {
	unsigned i = element();
	if (i >= n) return;
	const float g = clipped(grad[i], squares, clip);
	const float m = first[i] = beta1 * first[i] + (1 - beta1) * g;
	const float v = second[i] = beta2 * second[i] + (1 - beta2) * g * g;
	params[i] = params[i] * keep - size * m / (sqrtf(v) * root + epsilon);
	if (copy) copy[i] = __float2bfloat16(params[i]);
}

/* *out = the sum of the squares of n elements. */
static void sum_squares(Trainer *t, double *out, const float *in, size_t n) {
	const unsigned count = std::min(threads, blocks(n));
	double *pieces = t->sums + 3;
	LAUNCH(t, sum_blocks, count, pieces, in, nullptr, n, true);
	LAUNCH(t, sum_blocks, 1, out, nullptr, pieces, count, false);
}

/* ---- Muon (Jordan et al. 2024), as MuLoCo has it for DiLoCo's inner steps (arXiv 2505.23725). ----
 * Embeddings, gains and biases stay with AdamW. For a matrix with gradient g, clipped as AdamW's:
 *
 *     m = mu m + g
 *     u = NS5(g + mu m) 0.2 sqrt(max(rows, columns))
 *     w -= rate (u + decay w) */
constexpr float muon_momentum = 0.95f;

/* grad becomes g + mu m. */
__global__ static void add_momentum(float *grad, float *momentum, unsigned n, const double *squares, float clip) {
	unsigned i = element();
	if (i >= n) return;
	const float g = clipped(grad[i], squares, clip);
	momentum[i] = muon_momentum * momentum[i] + g;
	grad[i] = g + muon_momentum * momentum[i];
}

/* Divides x by its norm, of which squares is the square. */
__global__ static void normalize(float *x, unsigned n, const double *squares) {
	unsigned i = element();
	if (i < n) x[i] *= 1 / (sqrtf((float)*squares) + 1e-7f);
}

/* w -= rate (size u + decay w). copy is as in adamw. */
__global__ static void subtract_update(float *params, __nv_bfloat16 *copy, const float *u, unsigned n, float rate,
	float size, float decay) {
	unsigned i = element();
	if (i >= n) return;
	params[i] -= rate * (size * u[i] + decay * params[i]);
	if (copy) copy[i] = __float2bfloat16(params[i]);
}

/* Puts in the place of x (rows x columns) about the nearest matrix whose singular values are 1: five
 * steps of the Newton-Schulz iteration (NS5) with the quintic polynomial of Jordan et al.
 *
 *     x = x / |x|;  a = x x^T;  x = 3.4445 x + (-4.775 a + 2.0315 a a) x, five times
 *
 * A matrix that is taller than wide is taken as its transpose. */
static void orthogonalize(Trainer *t, float *x, int rows, int columns) {
	const bool tall = rows > columns;
	const int small = std::min(rows, columns), large = std::max(rows, columns);
	const unsigned n = (unsigned)rows * columns, square = (unsigned)small * small;
	double *squares = t->sums + 2;
	sum_squares(t, squares, x, n);
	LAUNCH(t, normalize, blocks(n), x, n, squares);
	for (int i = 0; i < 5; i++) {
		product(t, t->a, x, tall, x, !tall, small, small, large);
		product(t, t->aa, t->a, false, t->a, false, small, small, small);
		LAUNCH(t, combine, blocks(square), t->a, -4.775f, t->a, 2.0315f, t->aa, square);
		if (tall) product(t, t->next, x, false, t->a, false, rows, columns, small); /* a is symmetric */
		else product(t, t->next, t->a, false, x, false, rows, columns, small);
		LAUNCH(t, combine, blocks(n), x, 3.4445f, x, 1, t->next, n);
	}
}

static bool is_muons(const Trainer *t, const Tensor &w) {
	return t->config.optimizer == "muon" && w.columns > 0 && w.begin >= t->layout[FIRST_BLOCK].begin;
}

/* One step for a matrix. The momentum is where AdamW has its first moment, and u where the gradient
 * was, which nothing reads any more. */
static void step_muon(Trainer *t, const Tensor &w, __nv_bfloat16 *copy, float rate) {
	const double *c = t->config.number;
	const unsigned n = (unsigned)w.count;
	const float size = 0.2f * sqrtf((float)std::max(w.rows, w.columns));
	float *u = t->grads + w.begin;
	LAUNCH(t, add_momentum, blocks(n), u, t->first + w.begin, n, t->sums + 1, (float)c[CLIP]);
	orthogonalize(t, u, w.rows, w.columns);
	LAUNCH(t, subtract_update, blocks(n), t->params + w.begin, copy, u, n, rate, size, (float)c[WEIGHT_DECAY]);
}

/* One step of the optimizer. The rate rises linearly over the warm-up, in this peer's own steps. */
static void update(Trainer *t) {
	const double *c = t->config.number, step = (double)++t->steps;
	const double rate = c[LEARNING_RATE] * (step < c[WARM_UP] ? step / c[WARM_UP] : 1);
	const float size = (float)(rate / (1 - pow(c[BETA1], step))), root = (float)(1 / sqrt(1 - pow(c[BETA2], step)));
	double *squares = t->sums + 1;
	sum_squares(t, squares, t->grads, t->elements);
	for (auto &w : t->layout) {
		const float keep = w.columns ? (float)(1 - rate * c[WEIGHT_DECAY]) : 1; /* gains and biases do not decay */
		__nv_bfloat16 *copy = t->copy ? t->copy + w.begin : nullptr;
		if (is_muons(t, w)) step_muon(t, w, copy, (float)rate);
		else LAUNCH(t, adamw, blocks(w.count), t->params + w.begin, copy, t->first + w.begin, t->second + w.begin,
			t->grads + w.begin, (unsigned)w.count, squares, (float)c[CLIP], (float)c[BETA1], (float)c[BETA2],
			(float)c[EPSILON], size, root, keep);
	}
}
