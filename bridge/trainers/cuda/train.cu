/*
 * A byte-level GPT trained on a GPU, behind the trainer ABI (bridge/include/p2pdiloco_trainer.h).
 * Read it from top to bottom: errors, configuration, tensors, data, kernels, the trainer, the
 * model, the optimizer (optimizer.cuh), copies, a round of steps, saved state, the ABI. Model,
 * tensors, initial values, batches and optimizers are those of the built-in trainer
 * (bridge/builtin), which is the reference.
 *
 * All vectors and sums are float32. "dtype tf32" and "dtype bf16" round the factors of products,
 * so that tensor cores can multiply them. There are no atomics: sums are taken in a fixed order,
 * so the same tasks give the same bits on the same GPU and libraries.
 */
#include <cublas_v2.h>
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <functional>
#include <new>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "p2pdiloco_trainer.h"
typedef p2pdiloco_trainer Trainer;

/* ---- Errors: what fails throws one line that says what to do. ---- */
struct Cancelled {}; /* a call ended because of cancel */
[[noreturn]] __attribute__((format(printf, 1, 2))) static void fail(const char *format, ...) {
	char text[2048];
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(text, sizeof text, format, arguments);
	va_end(arguments);
	throw std::runtime_error(text);
}

static const char *advice(cudaError_t e) {
	switch (e) {
	case cudaErrorNoDevice: return "no GPU is to be seen: look at nvidia-smi and CUDA_VISIBLE_DEVICES";
	case cudaErrorInsufficientDriver: return "there is no NVIDIA driver, or it is older than this CUDA: update it";
	case cudaErrorInvalidDevice: return "there is no GPU of this number: set \"device\" in --trainer-config";
	case cudaErrorNoKernelImageForDevice: return "this was built for other GPUs: build it for this one (CUDA_ARCHS)";
	case cudaErrorMemoryAllocation: return "take a smaller batch or context, or end other programs on this GPU";
	case cudaErrorIllegalAddress: return "a fault of this trainer or of the GPU: run compute-sanitizer, and report it";
	default: return "nvidia-smi and the kernel's log (dmesg, Xid) may say more";
	}
}

static void check(cudaError_t e, const char *call, const char *file, int line) {
	if (e == cudaSuccess) return;
	cudaGetLastError(); /* it would be taken for the next call's */
	fail("%s:%d: %.*s: %s (%s): %s", file, line, (int)strcspn(call, "("), call, cudaGetErrorName(e),
		cudaGetErrorString(e), advice(e));
}

static void check(cublasStatus_t s, const char *call, const char *file, int line) {
	if (s != CUBLAS_STATUS_SUCCESS)
		fail("%s:%d: %.*s: %s: %s", file, line, (int)strcspn(call, "("), call, cublasGetStatusString(s),
			advice(s == CUBLAS_STATUS_ALLOC_FAILED ? cudaErrorMemoryAllocation : cudaErrorIllegalAddress));
}

/* CUDA(cudaFoo(...)) checks the call, and LAUNCH(trainer, kernel, blocks, arguments...) the launch.
 * What goes wrong in the kernel shows at the next wait. The emulation has another LAUNCH. */
#define HERE strrchr("/" __FILE__, '/') + 1, __LINE__
#define CUDA(call) check((call), #call, HERE)
#ifndef LAUNCH
#define LAUNCH(t, kernel, blocks, ...) \
	(kernel<<<blocks, threads, 0, (t)->compute>>>(__VA_ARGS__), check(cudaGetLastError(), #kernel, HERE))
#endif

/* ---- Configuration: the text of --trainer-config, one key and its value a line. ---- */
enum Key {
	LAYERS, WIDTH, HEADS, CONTEXT, BATCH, LEARNING_RATE, BETA1, BETA2, EPSILON, WEIGHT_DECAY, CLIP, WARM_UP,
	HELD_OUT, HOLD_OUT, MAX_BYTES, DEVICE, KEYS
};

static const struct {
	const char *name;
	bool whole;
	double standard, least, most;
} keys[KEYS] = {
	{"layers", true, 1, 1, 64}, {"width", true, 96, 1, 4096}, {"heads", true, 4, 1, 4096},
	{"context", true, 32, 1, 4096}, /* bytes that the model sees at once */
	{"batch", true, 32, 1, 4096},   /* sequences in one step */
	{"learning_rate", false, 8e-3, 1e-30, 1}, {"beta1", false, 0.9, 0, 1 - 1e-15}, {"beta2", false, 0.99, 0, 1 - 1e-15},
	{"epsilon", false, 1e-8, 1e-30, 1}, {"weight_decay", false, 0.1, 0, 0.99},
	{"clip", false, 1, 0, 1e30},         /* the largest norm of a step's gradient; 0 for none */
	{"warm_up", true, 20, 0, 1 << 30},   /* own steps over which the rate rises */
	{"held_out", true, 128, 1, 1 << 20}, /* sequences that the held-out loss is measured on */
	{"hold_out", true, 16, 2, 32767},    /* one byte of so many is held out, at the text's end */
	{"max_bytes", true, 64 << 20, 1, 1 << 30}, {"device", true, 0, 0, 1023},
};

struct Config {
	double number[KEYS];
	std::string data, dtype = "f32", optimizer = "adamw";
	int operator[](Key k) const { return (int)number[k]; }
};

static Config read_config(const char *text) {
	Config c;
	std::string line, known;
	std::set<std::string> seen;
	std::istringstream lines(text);
	for (int k = 0; k < KEYS; k++) c.number[k] = keys[k].standard, known += std::string(", ") + keys[k].name;
	for (int at = 1; std::getline(lines, line); at++) {
		auto refuse = [&](std::string what) { fail("--trainer-config, line %d: %s", at, what.c_str()); };
		std::istringstream words(line);
		std::string key, value;
		if (!(words >> key) || key[0] == '#') continue;
		std::getline(words >> std::ws, value);
		value.erase(value.find_last_not_of(" \t\r") + 1);
		if (!seen.insert(key).second) refuse(key + " is there twice: leave one line out");
		int k = 0;
		while (k < KEYS && key != keys[k].name) k++;
		if (key == "data") c.data = value;
		else if (key == "dtype" && (value == "f32" || value == "tf32" || value == "bf16")) c.dtype = value;
		else if (key == "dtype") refuse("dtype \"" + value + "\": f32, tf32 or bf16 is allowed");
		else if (key == "optimizer" && (value == "adamw" || value == "muon")) c.optimizer = value;
		else if (key == "optimizer") refuse("optimizer \"" + value + "\": adamw or muon is allowed");
		else if (k == KEYS)
			refuse("unknown key \"" + key + "\": a line is KEY VALUE; keys are data, dtype, optimizer" + known);
		if (k == KEYS) continue;
		char *end, range[80];
		const double v = c.number[k] = strtod(value.c_str(), &end);
		snprintf(range, sizeof range, "number from %.10g to %.10g is allowed", keys[k].least, keys[k].most);
		if (value.empty() || *end || !(v >= keys[k].least && v <= keys[k].most) || (keys[k].whole && v != floor(v)))
			refuse(key + " \"" + value + "\": a " + (keys[k].whole ? "whole " : "") + range);
	}
	return c;
}

/* What is wrong with values that are allowed one by one. */
static void check_config(const Config &c) {
	const double rows = (double)c[BATCH] * c[CONTEXT], d = c[WIDTH];
	if (c.data.empty()) fail("--trainer-config has no line \"data PATH\": name the text file to train on");
	if (c[WIDTH] % c[HEADS]) fail("--trainer-config: width %d is not a multiple of %d heads", c[WIDTH], c[HEADS]);
	if (c[LAYERS] * 12 * d * d > 1u << 31 || rows * std::max(4 * d + 256, (double)c[HEADS] * c[CONTEXT]) > 1u << 31)
		fail("--trainer-config: the model or its step is too large: take a smaller width, batch or context");
}

/* ---- Tensors: parts of one vector. Matrices are (outputs x inputs), row by row. ---- */
constexpr int vocabulary = 256;

enum { WTE, WPE, FIRST_BLOCK };
enum { LN1, LN1_BIAS, QKV, QKV_BIAS, PROJ, PROJ_BIAS, LN2, LN2_BIAS, UP, UP_BIAS, DOWN, DOWN_BIAS, BLOCK_TENSORS };
static int block(int layer) { return FIRST_BLOCK + BLOCK_TENSORS * layer; }

struct Tensor {
	std::string name;
	size_t begin, count; /* in the vector */
	int rows, columns;   /* columns is 0 for a vector */
	float mean, deviation; /* of the initial values */
};

static std::vector<Tensor> make_layout(const Config &c) {
	std::vector<Tensor> out;
	const int d = c[WIDTH];
	const float inner = (float)(1 / sqrt((double)d)), residual = (float)(0.02 / sqrt(2.0 * c[LAYERS]));
	auto add = [&](std::string name, int rows, int columns, float mean, float deviation) {
		const size_t begin = out.empty() ? 0 : out.back().begin + out.back().count;
		out.push_back({name, begin, (size_t)rows * std::max(columns, 1), rows, columns, mean, deviation});
	};
	auto pair = [&](std::string name, int rows, int columns, float mean, float deviation) {
		add(name + ".weight", rows, columns, mean, deviation);
		add(name + ".bias", rows, 0, 0, 0);
	};
	add("wte", vocabulary, d, 0, inner);
	add("wpe", c[CONTEXT], d, 0, inner);
	for (int i = 0; i < c[LAYERS]; i++) {
		const std::string h = "h." + std::to_string(i);
		pair(h + ".ln1", d, 0, 1, 0);
		pair(h + ".attn.qkv", 3 * d, d, 0, inner);
		pair(h + ".attn.proj", d, d, 0, residual);
		pair(h + ".ln2", d, 0, 1, 0);
		pair(h + ".mlp.up", 4 * d, d, 0, inner);
		pair(h + ".mlp.down", d, 4 * d, 0, residual);
	}
	pair("lnf", d, 0, 1, 0);
	return out;
}

/* PCG-DXSM, as Go's math/rand/v2 has it. */
__extension__ typedef unsigned __int128 uint128;
static uint64_t pcg_next(uint128 *state) {
	*state = *state * ((uint128)2549297995355413924u << 64 | 4865540595714422341u) +
		((uint128)6364136223846793005u << 64 | 1442695040888963407u);
	uint64_t high = (uint64_t)(*state >> 64), low = (uint64_t)*state;
	high = (high ^ high >> 32) * 0xda942042e4dd58b5u;
	return (high ^ high >> 48) * (low | 1);
}

/* ---- Data: one text, whose end is held out, and the windows of it that a task trains on. ---- */
/* Reads the text, and says how many bytes of it are to train on. */
static std::string read_text(const Config &c, size_t *train) {
	std::ifstream f(c.data, std::ios::binary | std::ios::ate);
	std::string text(f ? std::min<int64_t>(f.tellg(), c[MAX_BYTES]) : 0, 0);
	if (!f || !f.seekg(0).read(&text[0], text.size()))
		fail("data %s: %s: name a text file that can be read", c.data.c_str(), strerror(errno));
	if (text.find('\0') != std::string::npos) fail("data %s: bytes of it are 0: name a text file", c.data.c_str());
	const size_t held_out = text.size() / c[HOLD_OUT], window = c[CONTEXT] + 1;
	*train = text.size() - held_out;
	if (*train < 2 * window || held_out < window)
		fail("data %s: %zu bytes to train on and %zu held out are too few for a context of %d: give more text",
			c.data.c_str(), *train, held_out, c[CONTEXT]);
	return text;
}

static uint64_t mix(uint64_t z) { /* the finalizer of SplitMix64 (Steele, Lea and Flood 2014) */
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

/* Where the sequence at a place of the run's endless sequence begins (docs/how-to/data.md). An epoch cuts
 * the text into windows, in the order of a Feistel network that is applied again until the result
 * is one of their numbers. */
static uint64_t find_window(uint64_t train, uint64_t seed, uint64_t place, uint64_t length) {
	const uint64_t windows = (train - length) / length, golden = 0x9e3779b97f4a7c15u;
	const uint64_t epoch = mix(mix(seed) + place / windows), offset = mix(epoch + golden) % length;
	int half = 1; /* of the bits */
	while ((windows - 1) >> 2 * half) half++;
	const uint64_t mask = ((uint64_t)1 << half) - 1;
	uint64_t x = place % windows;
	do {
		uint64_t left = x >> half, right = x & mask;
		for (int round = 2; round < 6; round++) {
			const uint64_t next = left ^ (mix(right + mix(epoch + round * golden)) & mask);
			left = right;
			right = next;
		}
		x = left << half | right;
	} while (x >= windows);
	return offset + x * length;
}

/* Writes the inputs and the targets of `count` sequences as number `at` of them. */
static void put_window(uint8_t *tokens, const char *text, size_t at, size_t count, size_t length) {
	memcpy(tokens + at * length, text, length);
	memcpy(tokens + (count + at) * length, text + 1, length);
}

/* ---- Kernels. No buffer has 2^32 elements, since 64-bit division is slow on a GPU. ---- */
constexpr unsigned lanes = 32, threads = 256, warps = threads / lanes; /* of a warp, and of a block */

/* Blocks for n threads or warps, and in them the element of a thread, or the row of its warp. */
static unsigned blocks(size_t n) { return (unsigned)((n + threads - 1) / threads); }
static unsigned warp_blocks(size_t n) { return (unsigned)((n + warps - 1) / warps); }
__device__ inline unsigned element() { return blockIdx.x * threads + threadIdx.x; }
__device__ inline unsigned warp_row() { return blockIdx.x * warps + threadIdx.x / lanes; }
__device__ inline unsigned lane() { return threadIdx.x % lanes; }

/* All lanes get the same bits. */
template <class V> __device__ inline V warp_sum(V v) {
	for (int bit = lanes / 2; bit > 0; bit /= 2) v += __shfl_xor_sync(0xffffffffu, v, bit);
	return v;
}
__device__ inline float warp_max(float v) {
	for (int bit = lanes / 2; bit > 0; bit /= 2) v = fmaxf(v, __shfl_xor_sync(0xffffffffu, v, bit));
	return v;
}

__global__ static void round_to_bf16(__nv_bfloat16 *out, const float *in, unsigned n) {
	unsigned i = element();
	if (i < n) out[i] = __float2bfloat16(in[i]);
}
/* out = a x + b y; out may be x or y. */
__global__ static void combine(float *out, float a, const float *x, float b, const float *y, unsigned n) {
	unsigned i = element();
	if (i < n) out[i] = a * x[i] + b * y[i];
}

/* out = byte embedding + position embedding, (rows, d). */
__global__ static void embed(float *out, const uint8_t *inputs, const float *wte, const float *wpe, unsigned n,
	unsigned d, unsigned context) {
	unsigned i = element(), row = i / d, column = i % d;
	if (i < n) out[i] = wte[inputs[row] * d + column] + wpe[row % context * d + column];
}

/* Adds to the gradient of each byte's embedding, (vocabulary, d), that of the positions where it
 * stands. */
__global__ static void embed_backward(float *grad, const float *stream, const uint8_t *inputs, int rows, unsigned d) {
	unsigned i = element(), byte = i / d, column = i % d;
	if (byte >= vocabulary) return;
	float sum = 0;
	for (unsigned row = 0; row < (unsigned)rows; row++)
		if (inputs[row] == byte) sum += stream[row * d + column];
	grad[i] += sum;
}

/* out = bias in every row, plus residual unless that is null: what a product then adds to. */
__global__ static void begin_rows(float *out, const float *bias, const float *residual, unsigned n, unsigned columns) {
	unsigned i = element();
	if (i < n) out[i] = bias[i % columns] + (residual ? residual[i] : 0);
}

/* GELU's tanh form written with a logistic function: x logistic(2 sqrt(2/pi) (x + c x^3)). */
constexpr float gelu_scale = 2 * 0.7978845608028654f, gelu_cube = 0.044715f;
__device__ inline float gelu_gate(float x) { return 1 / (1 + expf(-gelu_scale * (x + gelu_cube * x * x * x))); }

__global__ static void gelu_forward(float *out, const float *in, unsigned n) {
	unsigned i = element();
	if (i < n) out[i] = in[i] * gelu_gate(in[i]);
}

/* grad, the gradient of the output, becomes that of the input. */
__global__ static void gelu_backward(float *grad, const float *in, unsigned n) {
	unsigned i = element();
	if (i >= n) return;
	float x = in[i], g = gelu_gate(x);
	grad[i] *= g + x * g * (1 - g) * gelu_scale * (1 + 3 * gelu_cube * x * x);
}

/* A row's mean, and 1 over its deviation. */
__device__ static float2 norm_of(const float *in, unsigned d) {
	float sum = 0, squares = 0;
	for (unsigned i = lane(); i < d; i += lanes) sum += in[i];
	const float mean = warp_sum(sum) / (float)d;
	for (unsigned i = lane(); i < d; i += lanes) squares += (in[i] - mean) * (in[i] - mean);
	return make_float2(mean, rsqrtf(warp_sum(squares) / (float)d + 1e-5f)); /* GPT-2's epsilon */
}

/* Normalizes each row of in, (rows, d). One warp a row. */
__global__ static void norm_rows(float *out, const float *in, const float *gain, const float *bias, int rows, int d) {
	const int row = warp_row();
	if (row >= rows) return;
	in += (size_t)row * d, out += (size_t)row * d;
	const float2 of = norm_of(in, d);
	for (int i = lane(); i < d; i += lanes) out[i] = (in[i] - of.x) * of.y * gain[i] + bias[i];
}

/* Adds the gradient of the input to d_in, which is that of the residual stream around the norm.
 * d_gain gets what each row adds to the gain's gradient. One warp a row. */
__global__ static void norm_backward(float *d_in, float *d_gain, const float *d_out, const float *in, const float *gain,
	unsigned rows, unsigned d) {
	const unsigned row = warp_row();
	if (row >= rows) return;
	in += row * d, d_in += row * d, d_out += row * d, d_gain += row * d;
	const float2 of = norm_of(in, d);
	float sum = 0, dot = 0;
	for (unsigned i = lane(); i < d; i += lanes) {
		d_gain[i] = d_out[i] * (in[i] - of.x) * of.y;
		sum += d_out[i] * gain[i];
		dot += d_gain[i] * gain[i];
	}
	sum = warp_sum(sum) / (float)d, dot = warp_sum(dot) / (float)d;
	for (unsigned i = lane(); i < d; i += lanes)
		d_in[i] += (d_out[i] * gain[i] - sum - (in[i] - of.x) * of.y * dot) * of.y;
}

/* Turns scale times the first `seen` elements of a row into their softmax. It gives all lanes of
 * the warp the logarithm of the sum of their exponentials. */
__device__ static float softmax(float *row, unsigned seen, float scale) {
	float top = -INFINITY, sum = 0, nan = 0;
	for (unsigned i = lane(); i < seen; i += lanes) {
		top = fmaxf(top, row[i]);
		nan += row[i] - row[i]; /* fmaxf passes over NaNs */
	}
	top = warp_max(top) + warp_sum(nan);
	for (unsigned i = lane(); i < seen; i += lanes) sum += row[i] = expf((row[i] - top) * scale);
	sum = warp_sum(sum);
	for (unsigned i = lane(); i < seen; i += lanes) row[i] /= sum;
	return top * scale + logf(sum);
}

/* Turns the scores of each position, (..., context, context), into weights over the positions up to
 * it, and zeros after it. One warp a row. */
__global__ static void causal_softmax(float *scores, unsigned rows, unsigned context, float scale) {
	const unsigned row = warp_row(), seen = row % context + 1;
	if (row >= rows) return;
	softmax(scores + row * context, seen, scale);
	for (unsigned i = seen + lane(); i < context; i += lanes) scores[row * context + i] = 0;
}

/* Turns the gradient of the weights into that of the scores. One warp a row. */
__global__ static void causal_softmax_backward(float *grad, const float *weights, int rows, int context, float scale) {
	const int row = warp_row(), seen = row % context + 1;
	if (row >= rows) return;
	grad += (size_t)row * context, weights += (size_t)row * context;
	float dot = 0;
	for (int i = lane(); i < seen; i += lanes) dot += grad[i] * weights[i];
	dot = warp_sum(dot);
	for (int i = lane(); i < context; i += lanes) grad[i] = i < seen ? weights[i] * (grad[i] - dot) * scale : 0;
}

/* Cross-entropy of each row of logits, (rows, vocabulary), with its target, in nats. The logits
 * become the gradient of the mean loss. One warp a row. */
__global__ static void cross_entropy(float *losses, float *logits, const uint8_t *targets, unsigned rows) {
	const unsigned row = warp_row();
	if (row >= rows) return;
	logits += row * vocabulary;
	const float hit = logits[targets[row]];
	__syncwarp(); /* all lanes have read it, and it is overwritten now */
	const float total = softmax(logits, vocabulary, 1);
	if (lane() == 0) losses[row] = total - hit;
	for (unsigned i = lane(); i < vocabulary; i += lanes)
		logits[i] = (logits[i] - (i == targets[row] ? 1.0f : 0.0f)) / (float)rows;
}

/* For each block a sum: of values or of their squares or, where in is null, of other sums. */
__global__ static void sum_blocks(double *sums, const float *in, const double *of, size_t n, bool square) {
	__shared__ double partial[warps];
	double sum = 0;
	for (size_t i = element(); i < n; i += gridDim.x * threads) sum += in ? (square ? in[i] : 1.0) * in[i] : of[i];
	sum = warp_sum(sum);
	if (lane() == 0) partial[threadIdx.x / lanes] = sum;
	__syncthreads();
	if (threadIdx.x != 0) return;
	for (unsigned w = 1; w < warps; w++) sum += partial[w];
	sums[blockIdx.x] = sum;
}

/* ---- The trainer. ---- */
constexpr int in_flight = 3; /* steps that may be queued: the host needs time to draw and queue the next */
#ifndef PIECE
#define PIECE ((size_t)1 << 20) /* elements that are copied at once; the emulation has fewer */
#endif
/* What a block keeps from the forward to the backward pass. Rows are positions: sequences x
 * context. */
struct Kept {
	float *in, *mid;       /* (rows, d): the residual stream before the block, and between attention and MLP */
	float *ln1, *ln2;      /* (rows, d): the norms' outputs */
	float *qkv;            /* (rows, 3 d): queries, keys and values */
	float *weights;        /* (sequences, heads, context, context) */
	float *mixed;          /* (rows, d): the heads' outputs */
	float *up, *gelu;      /* (rows, 4 d) */
};

struct p2pdiloco_trainer {
	std::string error; /* of the last call */
	std::atomic<bool> cancelled{false};
	Config config;
	std::string text; /* its first train bytes are trained on, and the others held out */
	size_t train;
	std::vector<Tensor> layout;
	std::vector<p2pdiloco_trainer_tensor> table; /* the same for the peer */
	size_t elements; /* D */
	int layers, d, heads, context; /* d is the width */
	uint64_t steps = 0; /* of the optimizer, queued so far */

	cudaStream_t compute = nullptr, copies = nullptr;
	cublasHandle_t cublas = nullptr;
	std::vector<std::function<void()>> undo; /* frees what was made, the newest last */
	char *locked = nullptr; /* the peer's memory */
	uint64_t locked_bytes = 0;

	float *params, *anchor, *grads, *first, *second; /* D each */
	__nv_bfloat16 *copy = nullptr; /* of params, with dtype bf16 */
	__nv_bfloat16 *factor_a, *factor_b; /* of a product */
	uint8_t *tokens; /* a step's inputs, and behind them its targets */
	double *sums; /* of the rows' losses, of the gradient's squares, of a matrix's, and of those of each block */

	std::vector<Kept> kept;
	float *last, *ln_last; /* (rows, d): the residual stream after all blocks, and normalized */
	float *logits, *losses; /* (rows, vocabulary), (rows) */
	float *stream; /* (rows, d): the gradient of the residual stream */
	float *narrow, *wide, *terms; /* (rows, d), (rows, 4 d), (rows, d): other gradients */
	float *scores; /* the gradient of one sequence's weights */
	float *ones; /* (rows): their product with a matrix sums its rows */
	float *next, *a, *aa; /* (4 d, d), (d, d), (d, d): of Muon */

	uint8_t *drawn[in_flight]; /* tokens on their way to the GPU, by the step's number modulo in_flight */
	double *seen[in_flight]; /* the first two sums after the step */
	cudaEvent_t done[in_flight], made;
	float *stage; /* between the GPU and memory that is not page-locked */

	int rows(int sequences) const { return sequences * context; } /* positions */
	~p2pdiloco_trainer() {
		for (cudaStream_t s : {compute, copies})
			if (s) cudaStreamSynchronize(s);
		if (locked) cudaHostUnregister(locked);
		for (; !undo.empty(); undo.pop_back()) undo.back()();
	}
};

template <class V> static V *on_device(Trainer *t, size_t n, const char *what) {
	void *out = nullptr;
	size_t left = 0, all = 0;
	cudaError_t e = cudaMalloc(&out, n * sizeof(V));
	if (e == cudaErrorMemoryAllocation && cudaMemGetInfo(&left, &all) == cudaSuccess)
		fail("out of GPU memory: %.1f MiB asked for %s, and %.1f of the GPU's %.1f MiB are free: %s",
			(double)n * sizeof(V) / (1 << 20), what, (double)left / (1 << 20), (double)all / (1 << 20), advice(e));
	check(e, "cudaMalloc", HERE);
	t->undo.push_back([=] { cudaFree(out); });
	return (V *)out;
}

/* Page-locked memory: only from and to such memory do copies run beside the host's work. */
template <class V> static void on_host(Trainer *t, V **out, size_t n) {
	CUDA(cudaHostAlloc((void **)out, n * sizeof(V), cudaHostAllocDefault));
	t->undo.push_back([p = *out] { cudaFreeHost(p); });
}

static void open_device(Trainer *t) {
	const int device = t->config[DEVICE];
	cudaDeviceProp p;
	CUDA(cudaSetDevice(device));
	cudaSetDeviceFlags(cudaDeviceScheduleBlockingSync); /* waiting sleeps: the peer needs the core */
	cudaGetLastError(); /* some versions refuse that for a device in use */
	CUDA(cudaGetDeviceProperties(&p, device));
	for (cudaStream_t *s : {&t->compute, &t->copies}) {
		CUDA(cudaStreamCreateWithFlags(s, cudaStreamNonBlocking));
		t->undo.push_back([=] { cudaStreamDestroy(*s); });
	}
	for (cudaEvent_t *e : {&t->made, &t->done[0], &t->done[1], &t->done[2]}) {
		CUDA(cudaEventCreateWithFlags(e, cudaEventBlockingSync | cudaEventDisableTiming));
		t->undo.push_back([=] { cudaEventDestroy(*e); });
	}
	CUDA(cublasCreate(&t->cublas));
	t->undo.push_back([=] { cublasDestroy(t->cublas); });
	CUDA(cublasSetStream(t->cublas, t->compute));
	fprintf(stderr, "cuda trainer: %s (compute capability %d.%d), %s, %zu parameters\n", p.name, p.major, p.minor,
		t->config.dtype.c_str(), t->elements);
}

static void allocate(Trainer *t) {
	const Config &c = t->config;
	const size_t n = t->rows(c[BATCH]), d = n * c[WIDTH], square = n * c[HEADS] * c[CONTEXT];
	auto floats = [&](size_t n) { return on_device<float>(t, n, "the activations of a step"); };
	for (float **v : {&t->params, &t->anchor, &t->grads, &t->first, &t->second})
		*v = on_device<float>(t, t->elements, "the parameters, gradients and optimizer");
	if (c.dtype == "bf16") {
		const size_t most = std::max({n, (size_t)vocabulary, (size_t)c[WIDTH]});
		const size_t largest = most * std::max(4 * c[WIDTH], vocabulary);
		t->copy = on_device<__nv_bfloat16>(t, t->elements, "the parameters in bf16");
		for (auto f : {&t->factor_a, &t->factor_b}) *f = on_device<__nv_bfloat16>(t, largest, "products in bf16");
	}
	for (int i = 0; i < c[LAYERS]; i++)
		t->kept.push_back({floats(d), floats(d), floats(d), floats(d),
			floats(3 * d), floats(square), floats(d), floats(4 * d), floats(4 * d)});
	for (float **v : {&t->last, &t->ln_last, &t->stream, &t->narrow, &t->terms}) *v = floats(d);
	t->logits = floats(n * vocabulary), t->losses = floats(n), t->ones = floats(n);
	t->wide = floats(4 * d), t->scores = floats(square / c[BATCH]);
	t->tokens = on_device<uint8_t>(t, 2 * n, "a batch");
	t->sums = on_device<double>(t, 3 + threads, "the losses");
	if (c.optimizer == "muon") {
		const size_t square = (size_t)c[WIDTH] * c[WIDTH];
		t->next = floats(4 * square), t->a = floats(square), t->aa = floats(square);
	}
	on_host(t, &t->stage, PIECE);
	for (int i = 0; i < in_flight; i++) on_host(t, &t->drawn[i], 2 * n), on_host(t, &t->seen[i], 2);
	const std::vector<float> ones(n, 1);
	CUDA(cudaMemcpyAsync(t->ones, ones.data(), n * sizeof(float), cudaMemcpyHostToDevice, t->compute));
	for (float *v : {t->first, t->second}) CUDA(cudaMemsetAsync(v, 0, t->elements * sizeof(float), t->compute));
}

/* The initial parameters. A normal value is drawn as a sum of twelve uniform 16-bit integers: their
 * arithmetic gives the same bits on every machine. */
static void initialize(Trainer *t, uint64_t seed, float *dst) {
	uint128 random = (uint128)seed << 64 | 0x70327064696c6f63;
	for (auto &w : t->layout)
		for (size_t i = 0; i < w.count; i++) {
			int sum = -12 * 65535 / 2;
			for (int k = 0; k < 3 && w.deviation > 0; k++) {
				uint64_t v = pcg_next(&random);
				sum += (int)(v & 0xffff) + (int)(v >> 16 & 0xffff) + (int)(v >> 32 & 0xffff) + (int)(v >> 48);
			}
			*dst++ = w.deviation > 0 ? (float)sum / 65536 * w.deviation : w.mean;
		}
}

/* ---- The model. ---- */
/* A view: element (i, j) is data[i * stride + j], or (j, i) when transposed. In a batch the next
 * matrix lies `step` elements on. */
struct Matrix {
	const void *data;
	int stride;
	bool transposed;
	int step;
	cudaDataType type = CUDA_R_32F;
};

/* out (m x n) = a (m x k) b (k x n), or += when add is set, for count matrices each. cuBLAS counts
 * columns where we count rows, so it sees every matrix transposed: it is asked for out^T = b^T a^T.
 * */
static void multiply(Trainer *t, Matrix out, Matrix a, Matrix b, int m, int n, int k, int count = 1, bool add = false) {
	const float one = 1, sum = add ? 1 : 0;
	const auto op_a = a.transposed ? CUBLAS_OP_T : CUBLAS_OP_N, op_b = b.transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
	const bool rounded = t->config.dtype != "f32" && a.type == CUDA_R_32F;
	const auto compute = rounded ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
	CUDA(cublasGemmStridedBatchedEx(t->cublas, op_b, op_a, n, m, k, &one, b.data, b.type, b.stride, b.step, a.data,
		a.type, a.stride, a.step, &sum, (void *)out.data, CUDA_R_32F, out.stride, out.step, count, compute,
		CUBLAS_GEMM_DEFAULT));
}

/* A factor of a product, of n elements. With bf16 it is rounded into room; a copy of the parameters
 * is kept. */
static Matrix factor(Trainer *t, const float *m, size_t n, int stride, bool transposed, __nv_bfloat16 *room) {
	if (!t->copy) return {m, stride, transposed, 0};
	if (m >= t->params && m < t->params + t->elements)
		return {t->copy + (m - t->params), stride, transposed, 0, CUDA_R_16BF};
	LAUNCH(t, round_to_bf16, blocks(n), room, m, (unsigned)n);
	return {room, stride, transposed, 0, CUDA_R_16BF};
}

/* out (m x n) = a (m x k) b (k x n), or += when add is set; a_t and b_t say that a and b lie
 * transposed. */
static void product(Trainer *t, float *out, const float *a, bool a_t, const float *b, bool b_t, int m, int n, int k,
	bool add = false) {
	const Matrix left = factor(t, a, (size_t)m * k, a_t ? m : k, a_t, t->factor_a);
	const Matrix right = factor(t, b, (size_t)k * n, b_t ? k : n, b_t, t->factor_b);
	multiply(t, {out, n, false, 0}, left, right, m, n, k, 1, add);
}

/* out (columns) = the sum of a matrix's rows. */
static void sum_rows(Trainer *t, float *out, const float *in, int rows, int columns) {
	multiply(t, {out, columns, false, 0}, {t->ones, rows, false, 0}, {in, columns, false, 0}, 1, columns, rows);
}

static void norm(Trainer *t, int tensor, float *out, const float *in, int rows) {
	const float *gain = t->params + t->layout[tensor].begin, *bias = t->params + t->layout[tensor + 1].begin;
	LAUNCH(t, norm_rows, warp_blocks(rows), out, in, gain, bias, rows, t->d);
}

/* Adds to stream; d_out is the gradient of the norm's output. */
static void norm_grad(Trainer *t, int tensor, const float *d_out, const float *in, int rows) {
	const int d = t->d;
	const size_t gain = t->layout[tensor].begin, bias = t->layout[tensor + 1].begin;
	LAUNCH(t, norm_backward, warp_blocks(rows), t->stream, t->terms, d_out, in, t->params + gain, rows, d);
	sum_rows(t, t->grads + gain, t->terms, rows, d);
	sum_rows(t, t->grads + bias, d_out, rows, d);
}

/* out = residual + in weight^T + bias; residual is null for none. */
static void linear(Trainer *t, int tensor, float *out, const float *in, const float *residual, int rows) {
	const Tensor &w = t->layout[tensor], &bias = t->layout[tensor + 1];
	const size_t n = (size_t)rows * w.rows;
	LAUNCH(t, begin_rows, blocks(n), out, t->params + bias.begin, residual, (unsigned)n, w.rows);
	product(t, out, in, false, t->params + w.begin, true, rows, w.rows, w.columns, true);
}

/* d_in = d_out weight, and the gradients of weight and bias. */
static void linear_grad(Trainer *t, int tensor, float *d_in, const float *d_out, const float *in, int rows) {
	const Tensor &w = t->layout[tensor], &bias = t->layout[tensor + 1];
	product(t, d_in, d_out, false, t->params + w.begin, false, rows, w.columns, w.rows);
	product(t, t->grads + w.begin, d_out, true, in, false, w.rows, w.columns, rows);
	sum_rows(t, t->grads + bias.begin, d_out, rows, w.rows);
}

/* One of the three parts of a sequence's queries, keys and values: for each head a matrix,
 * (context, size). */
static Matrix head_parts(const Trainer *t, const float *qkv, int sequence, int part, bool transposed = false) {
	const int d = t->d;
	return {qkv + ((size_t)t->rows(sequence) * 3 + part) * d, 3 * d, transposed, d / t->heads};
}

/* mixed = softmax(q k^T / sqrt(size)) v, for every head of every sequence. */
static void attend(Trainer *t, Kept &a, int sequences) {
	const int context = t->context, d = t->d, heads = t->heads, size = d / heads, square = context * context;
	const unsigned rows = heads * context;
	for (int s = 0; s < sequences; s++) {
		float *weights = a.weights + (size_t)s * heads * square, *mixed = a.mixed + (size_t)s * context * d;
		const Matrix w = {weights, context, false, square}, k = head_parts(t, a.qkv, s, 1, true);
		multiply(t, w, head_parts(t, a.qkv, s, 0), k, context, context, size, heads);
		LAUNCH(t, causal_softmax, warp_blocks(rows), weights, rows, context, 1 / sqrtf((float)size));
		multiply(t, {mixed, d, false, size}, w, head_parts(t, a.qkv, s, 2), context, size, context, heads);
	}
}

/* d_qkv, from d_mixed. */
static void attend_backward(Trainer *t, Kept &a, float *d_qkv, const float *d_mixed, int sequences) {
	const int context = t->context, d = t->d, heads = t->heads, size = d / heads, square = context * context;
	const unsigned rows = heads * context;
	const float scale = 1 / sqrtf((float)size);
	for (int s = 0; s < sequences; s++) {
		const float *weights = a.weights + (size_t)s * heads * square;
		const Matrix dm = {d_mixed + (size_t)s * context * d, d, false, size}, wt = {weights, context, true, square};
		const Matrix ds = {t->scores, context, false, square}, ds_t = {t->scores, context, true, square};
		multiply(t, head_parts(t, d_qkv, s, 2), wt, dm, context, size, context, heads);
		multiply(t, ds, dm, head_parts(t, a.qkv, s, 2, true), context, context, size, heads);
		LAUNCH(t, causal_softmax_backward, warp_blocks(rows), t->scores, weights, rows, context, scale);
		multiply(t, head_parts(t, d_qkv, s, 0), ds, head_parts(t, a.qkv, s, 1), context, size, context, heads);
		multiply(t, head_parts(t, d_qkv, s, 1), ds_t, head_parts(t, a.qkv, s, 0), context, size, context, heads);
	}
}

/* The losses of the batch in tokens are summed up in sums[0], and logits become their gradient. */
static void forward(Trainer *t, int sequences) {
	const int rows = t->rows(sequences), d = t->d, layers = t->layers;
	const unsigned n = (unsigned)rows * d;
	const float *wte = t->params + t->layout[WTE].begin, *wpe = t->params + t->layout[WPE].begin;
	LAUNCH(t, embed, blocks(n), t->kept[0].in, t->tokens, wte, wpe, n, d, t->context);
	for (int i = 0; i < layers; i++) {
		Kept &a = t->kept[i];
		norm(t, block(i) + LN1, a.ln1, a.in, rows);
		linear(t, block(i) + QKV, a.qkv, a.ln1, nullptr, rows);
		attend(t, a, sequences);
		linear(t, block(i) + PROJ, a.mid, a.mixed, a.in, rows);
		norm(t, block(i) + LN2, a.ln2, a.mid, rows);
		linear(t, block(i) + UP, a.up, a.ln2, nullptr, rows);
		LAUNCH(t, gelu_forward, blocks(4 * n), a.gelu, a.up, 4 * n);
		linear(t, block(i) + DOWN, i + 1 < layers ? t->kept[i + 1].in : t->last, a.gelu, a.mid, rows);
	}
	norm(t, block(layers), t->ln_last, t->last, rows);
	product(t, t->logits, t->ln_last, false, wte, true, rows, vocabulary, d);
	LAUNCH(t, cross_entropy, warp_blocks(rows), t->losses, t->logits, t->tokens + rows, rows);
	LAUNCH(t, sum_blocks, 1, t->sums, t->losses, nullptr, rows, false);
}

/* The forward pass read from its end. Every gradient is replaced; wte's is the head's plus the
 * embedding's. */
static void backward(Trainer *t, int sequences) {
	const int rows = t->rows(sequences), d = t->d, layers = t->layers;
	const unsigned n = (unsigned)rows * d;
	const Tensor &wte = t->layout[WTE];
	product(t, t->narrow, t->logits, false, t->params + wte.begin, false, rows, d, vocabulary);
	product(t, t->grads + wte.begin, t->logits, true, t->ln_last, false, vocabulary, d, rows);
	CUDA(cudaMemsetAsync(t->stream, 0, n * sizeof(float), t->compute));
	norm_grad(t, block(layers), t->narrow, t->last, rows);
	for (int i = layers; i-- > 0;) { /* stream, the gradient after a block, becomes that before it */
		Kept &a = t->kept[i];
		linear_grad(t, block(i) + DOWN, t->wide, t->stream, a.gelu, rows);
		LAUNCH(t, gelu_backward, blocks(4 * n), t->wide, a.up, 4 * n);
		linear_grad(t, block(i) + UP, t->narrow, t->wide, a.ln2, rows);
		norm_grad(t, block(i) + LN2, t->narrow, a.mid, rows);
		linear_grad(t, block(i) + PROJ, t->narrow, t->stream, a.mixed, rows);
		attend_backward(t, a, t->wide, t->narrow, sequences);
		linear_grad(t, block(i) + QKV, t->narrow, t->wide, a.ln1, rows);
		norm_grad(t, block(i) + LN1, t->narrow, a.in, rows);
	}
	LAUNCH(t, embed_backward, blocks(wte.count), t->grads + wte.begin, t->stream, t->tokens, rows, d);
	sum_rows(t, t->grads + t->layout[WPE].begin, t->stream, sequences, t->context * d);
}

#include "optimizer.cuh" /* update: one step of AdamW, and Muon */

/* ---- Copies between the GPU and the peer, in pieces, on a stream of their own. ---- */
/* Copies count elements. For each piece, [at, at + n), work(at, n) queues what makes it, before it
 * is copied from the device, or what uses it after. Without page-locked memory a piece goes through
 * a buffer. */
template <class Work>
static void transfer(Trainer *t, float *device, float *host, size_t count, cudaMemcpyKind kind, Work work) {
	const bool down = kind == cudaMemcpyDeviceToHost;
	const bool direct = t->locked && (char *)host >= t->locked && (char *)(host + count) <= t->locked + t->locked_bytes;
	for (size_t at = 0; at < count; at += PIECE) {
		const size_t n = std::min(PIECE, count - at), bytes = n * sizeof(float);
		float *near = direct ? host + at : t->stage;
		if (down) work(at, n);
		CUDA(cudaEventRecord(t->made, t->compute)); /* what is under way may still read or write the piece */
		CUDA(cudaStreamWaitEvent(t->copies, t->made, 0));
		if (!down && !direct) memcpy(near, host + at, bytes);
		CUDA(cudaMemcpyAsync(down ? near : device + at, down ? device + at : near, bytes, kind, t->copies));
		if (!direct) CUDA(cudaStreamSynchronize(t->copies));
		if (down && !direct) memcpy(host + at, near, bytes);
		if (down) continue;
		CUDA(cudaEventRecord(t->made, t->copies));
		CUDA(cudaStreamWaitEvent(t->compute, t->made, 0));
		work(at, n);
	}
	CUDA(cudaStreamSynchronize(down ? t->copies : t->compute));
}

/* Replaces part of the parameters, and takes it as the anchor. */
static void load(Trainer *t, size_t begin, size_t count, const float *src) {
	transfer(t, t->anchor + begin, (float *)src, count, cudaMemcpyHostToDevice, [&](size_t at, size_t n) {
		float *to = t->params + begin + at;
		CUDA(cudaMemcpyAsync(to, t->anchor + begin + at, n * sizeof(float), cudaMemcpyDeviceToDevice, t->compute));
		if (t->copy) LAUNCH(t, round_to_bf16, blocks(n), t->copy + begin + at, to, (unsigned)n);
	});
}

static void export_params(Trainer *t, size_t begin, size_t count, float *dst) {
	transfer(t, t->params + begin, dst, count, cudaMemcpyDeviceToHost, [](size_t, size_t) {});
}

/* The pseudo-gradient, anchor - parameters. The gradients' memory is free between two rounds. */
static void export_gradient(Trainer *t, size_t begin, size_t count, float *dst) {
	transfer(t, t->grads + begin, dst, count, cudaMemcpyDeviceToHost, [&](size_t at, size_t n) {
		at += begin;
		LAUNCH(t, combine, blocks(n), t->grads + at, 1, t->anchor + at, -1, t->params + at, (unsigned)n);
	});
}

/* ---- A round: while the GPU does one step, the host draws and queues the next two. ---- */
/* Queues a step, from 0, of a task. */
static void queue_step(Trainer *t, const p2pdiloco_trainer_task &task, uint64_t step) {
	const uint64_t turn = step % in_flight;
	const int batch = t->config[BATCH], length = t->context, rows = t->rows(batch);
	const uint64_t place = (task.part * task.part_steps + (task.done + step) % task.part_steps) * batch;
	for (int i = 0; i < batch; i++)
		put_window(t->drawn[turn], &t->text[find_window(t->train, task.seed, place + i, length)], i, batch, length);
	CUDA(cudaMemcpyAsync(t->tokens, t->drawn[turn], 2 * (size_t)rows, cudaMemcpyHostToDevice, t->compute));
	forward(t, batch);
	backward(t, batch);
	update(t);
	CUDA(cudaMemcpyAsync(t->seen[turn], t->sums, 2 * sizeof(double), cudaMemcpyDeviceToHost, t->compute));
	CUDA(cudaEventRecord(t->done[turn], t->compute));
}

static void run(Trainer *t, const p2pdiloco_trainer_task *given, p2pdiloco_trainer_stats *out) {
	p2pdiloco_trainer_task task = {};
	memcpy(&task, given, std::min<uint64_t>(given->size, sizeof task)); /* the peer's may be an older, shorter one */
	if (task.part_steps == 0) /* the task assigns no parts */
		task.part = task.slot * task.member_count + task.rank, task.part_steps = task.steps;
	const auto began = std::chrono::steady_clock::now();
	const uint64_t batch = t->config[BATCH];
	uint64_t queued = 0, done = 0;
	double loss = 0, norm = 0;
	for (;;) {
		if (queued < task.steps && queued - done < in_flight && !t->cancelled) {
			queue_step(t, task, queued++);
		} else if (done < queued) {
			const double *sums = t->seen[done % in_flight];
			CUDA(cudaEventSynchronize(t->done[done % in_flight]));
			loss += sums[0] / t->rows(batch), norm += sqrt(sums[1]);
			if (!std::isfinite(loss + norm))
				fail("training diverged: the loss or gradient of step %zu is not finite: take a lower learning_rate",
					(size_t)(t->steps - queued + done + 1));
			*task.steps_done = ++done;
		} else {
			break;
		}
	}
	const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - began;
	const double n = (double)std::max<uint64_t>(1, done);
	const p2pdiloco_trainer_stats stats = {
		out->size, done, done * batch, done * t->rows(batch), loss / n, seconds.count(), norm / n};
	memcpy(out, &stats, std::min<uint64_t>(out->size, sizeof stats)); /* as above */
	if (done < task.steps) throw Cancelled();
}

/* The mean loss of sequences at even distances in the held-out text: the same on all peers. */
static void evaluate(Trainer *t, double *loss) {
	const size_t all = t->config[HELD_OUT], batch = t->config[BATCH], length = t->context;
	const size_t room = t->text.size() - t->train - length - 1;
	double sum = 0;
	for (size_t at = 0; at < all; at += batch) {
		if (t->cancelled) throw Cancelled();
		const size_t n = std::min(batch, all - at);
		for (size_t i = 0; i < n; i++)
			put_window(t->drawn[0], &t->text[t->train + (at + i) * room / std::max<size_t>(1, all - 1)], i, n, length);
		CUDA(cudaMemcpyAsync(t->tokens, t->drawn[0], 2 * n * length, cudaMemcpyHostToDevice, t->compute));
		forward(t, (int)n);
		CUDA(cudaMemcpyAsync(t->seen[0], t->sums, sizeof(double), cudaMemcpyDeviceToHost, t->compute));
		CUDA(cudaStreamSynchronize(t->compute));
		sum += *t->seen[0];
	}
	*loss = sum / (double)(all * length);
	if (!std::isfinite(sum)) fail("training diverged: the held-out loss is not finite: take a lower learning_rate");
}

/* ---- Saved state: moments, and the step; a peer's data follow from its tasks. ---- */
/* The file is a row of 64-bit words: these, the moments, two to a word, and a checksum. */
enum Word { MAGIC, ELEMENTS, MODEL_LAYERS, MODEL_WIDTH, STEPS, MOMENTS };
/* A state with no moments in it yet. */
static std::vector<uint64_t> make_state(const Trainer *t) {
	std::vector<uint64_t> out(MOMENTS + t->elements + 1);
	memcpy(out.data(), t->config.optimizer == "muon" ? "p2pdmuo1" : "p2pdcud1", sizeof out[MAGIC]);
	out[ELEMENTS] = t->elements, out[MODEL_LAYERS] = t->layers, out[MODEL_WIDTH] = t->d;
	return out;
}

/* FNV-1a over all words but the last: against damage, not against an attacker. */
static uint64_t checksum(const std::vector<uint64_t> &words) {
	uint64_t sum = 0xcbf29ce484222325u;
	for (size_t i = 0; i + 1 < words.size(); i++) sum = (sum ^ words[i]) * 0x100000001b3u;
	return sum;
}

/* Copies both moments from the device or to it. */
static void transfer_moments(Trainer *t, std::vector<uint64_t> *state, cudaMemcpyKind kind) {
	float *moments = (float *)&(*state)[MOMENTS];
	transfer(t, t->first, moments, t->elements, kind, [](size_t, size_t) {});
	transfer(t, t->second, moments + t->elements, t->elements, kind, [](size_t, size_t) {});
}

/* The peer keeps the file before it until this one is whole. */
static void save(Trainer *t, const char *path) {
	std::vector<uint64_t> state = make_state(t);
	transfer_moments(t, &state, cudaMemcpyDeviceToHost);
	state[STEPS] = t->steps;
	state.back() = checksum(state);
	std::ofstream f(path, std::ios::binary);
	if (!f.write((char *)state.data(), state.size() * sizeof state[0]).flush())
		fail("%s: %s: make room there, or name another folder", path, strerror(errno));
}

/* Reads the whole file before it changes anything. */
static void restore(Trainer *t, const char *path) {
	std::vector<uint64_t> wanted = make_state(t), state(wanted.size());
	std::ifstream f(path, std::ios::binary);
	if (!f) fail("%s: %s", path, strerror(errno));
	f.read((char *)state.data(), state.size() * sizeof state[0]);
	const size_t n = f.gcount() / sizeof state[0];
	if (n < MOMENTS || state[MAGIC] != wanted[MAGIC])
		fail("%s: it holds no state of this trainer with optimizer %s", path, t->config.optimizer.c_str());
	if (!std::equal(&wanted[ELEMENTS], &wanted[STEPS], &state[ELEMENTS]))
		fail("%s: it is of a model with other sizes", path);
	if (n < state.size() || f.peek() != EOF || state.back() != checksum(state))
		fail("%s: it is damaged or cut short", path);
	transfer_moments(t, &state, cudaMemcpyHostToDevice);
	t->steps = state[STEPS];
}

/* ---- The ABI. ---- */
/* Api<work>::call is a function of the ABI: it does work, and what that throws becomes an error. */
template <auto work> struct Api;
template <class... A, void (*work)(Trainer *, A...)> struct Api<work> {
	static int32_t call(Trainer *t, A... a) {
		t->cancelled = false; /* a cancel that came before is for nothing */
		try {
			work(t, a...);
			return P2PDILOCO_TRAINER_OK;
		} catch (const Cancelled &) {
			t->error = "cancelled";
			return P2PDILOCO_TRAINER_CANCELLED;
		} catch (const std::bad_alloc &) {
			t->error = "out of memory: take a smaller model";
		} catch (const std::exception &e) {
			t->error = e.what();
		}
		return P2PDILOCO_TRAINER_FAILED;
	}
};

static void open_trainer(Trainer *t, const char *config) {
	t->config = read_config(config && strcmp(config, "{}") != 0 ? config : "");
	check_config(t->config);
	t->layers = t->config[LAYERS], t->d = t->config[WIDTH];
	t->heads = t->config[HEADS], t->context = t->config[CONTEXT];
	t->text = read_text(t->config, &t->train);
	t->layout = make_layout(t->config);
	t->elements = t->layout.back().begin + t->layout.back().count;
	for (auto &w : t->layout)
		t->table.push_back({sizeof(p2pdiloco_trainer_tensor), w.name.c_str(), P2PDILOCO_F32, w.columns ? 2u : 1u,
			{(uint64_t)w.rows, (uint64_t)w.columns}});
	open_device(t);
	allocate(t);
	std::vector<float> start(t->elements); /* until the first load, parameters of seed 0 */
	initialize(t, 0, start.data());
	load(t, 0, t->elements, start.data());
}

/* A trainer that could not be opened says why, and is destroyed by the peer. */
static int32_t create(const char *config, const char *, Trainer **out) {
	*out = new (std::nothrow) Trainer;
	return *out ? Api<open_trainer>::call(*out, config) : P2PDILOCO_TRAINER_FAILED;
}

static void get_layout(Trainer *t, const p2pdiloco_trainer_tensor **tensors, uint64_t *count) {
	*tensors = t->table.data();
	*count = t->table.size();
}

static void register_memory(Trainer *t, void *base, uint64_t bytes) {
	if (cudaHostRegister(base, bytes, cudaHostRegisterDefault) == cudaSuccess)
		t->locked = (char *)base, t->locked_bytes = bytes;
	else
		fprintf(stderr, "cuda trainer: the peer's memory cannot be page-locked (%s): copies are slower\n",
			cudaGetErrorName(cudaGetLastError()));
}

static void unregister_memory(Trainer *t, void *base) {
	if (base != t->locked) return; /* it could not be locked */
	t->locked = nullptr;
	CUDA(cudaHostUnregister(base));
}

P2PDILOCO_TRAINER_EXPORT const p2pdiloco_trainer_api *p2pdiloco_trainer_entry(uint32_t abi) {
	static const p2pdiloco_trainer_api api = {sizeof api, P2PDILOCO_TRAINER_ABI, 0, "byte-level GPT on CUDA, 2.0",
		create, [](Trainer *t) { return t ? t->error.c_str() : "out of memory"; }, Api<get_layout>::call,
		Api<register_memory>::call, Api<unregister_memory>::call, Api<initialize>::call, Api<load>::call,
		Api<run>::call, [](Trainer *t) { t->cancelled = true; }, Api<export_params>::call, Api<export_gradient>::call,
		Api<evaluate>::call, Api<save>::call, Api<restore>::call, [](Trainer *t) { delete t; }};
	return abi >= P2PDILOCO_TRAINER_ABI ? &api : nullptr;
}
