/*
 * The trainer ABI (bridge/include/p2pdiloco_trainer.h) around what is on the GPU. Start reading here, then
 * gpu.cu (a round, copies), model.cu (a step) and the kernels in the .cuh files. Configuration, data and the
 * saved file are those of all reference trainers (bridge/trainers/common).
 */
#include <time.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <cstring>

#include "gpu.h"
#include "state.h"

struct p2pdiloco_trainer {
	failure why{}; /* of the last call */
	std::atomic<bool> cancelled{false};

	config settings{};
	Options options;
	corpus data{};
	layout tensors{};
	std::unique_ptr<Gpu> gpu;

	~p2pdiloco_trainer() {
		gpu.reset();
		layout_free(&tensors);
		corpus_close(&data);
		config_free(&settings);
	}
};

typedef p2pdiloco_trainer Trainer;

static failure create_failure; /* of the last create, which has no trainer to keep it */

static double now() {
	timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Appends to the trace what a call took: times are of the machine's monotonic clock, equal in all processes. */
static void trace(const Trainer *t, const char *call, double began, uint64_t count) {
	FILE *f = t->options.trace[0] ? fopen(t->options.trace, "a") : nullptr;
	if (!f)
		return;
	fprintf(f, "%d %s %.6f %.6f %llu %.6f\n", (int)getpid(), call, began, now(), (unsigned long long)count,
		strcmp(call, "run") == 0 ? t->gpu->gpu_seconds() : 0.0);
	fclose(f);
}

/* Does a call's work, and turns what it throws into an error. */
template <class Work> static int32_t guarded(Trainer *t, const char *call, uint64_t count, Work work) {
	double began = now();
	try {
		int32_t code = work();
		if (code == P2PDILOCO_TRAINER_OK)
			trace(t, call, began, count);
		return code;
	} catch (const std::bad_alloc &) {
		return fail(&t->why, "%s: out of memory: take a smaller model", call);
	} catch (const std::exception &e) {
		return fail(&t->why, "%s: %s", call, e.what());
	}
}

/* "device", "dtype" and "trace". */
static int read_option(json *j, const char *key, void *mine) {
	auto *o = (Options *)mine;
	char text[8];
	if (strcmp(key, "trace") == 0)
		return json_string(j, o->trace, sizeof o->trace);
	if (strcmp(key, "device") == 0) {
		if (json_integer(j, &o->device))
			return P2PDILOCO_TRAINER_FAILED;
		return o->device >= 0 && o->device < 1024 ? 0 : json_fail(j, "device is the number of a GPU, from 0");
	}
	if (strcmp(key, "dtype") != 0)
		return -1;
	if (json_string(j, text, sizeof text))
		return P2PDILOCO_TRAINER_FAILED;
	if (strcmp(text, "f32") == 0)
		o->dtype = Options::f32;
	else if (strcmp(text, "tf32") == 0)
		o->dtype = Options::tf32;
	else if (strcmp(text, "bf16") == 0)
		o->dtype = Options::bf16;
	else
		return json_fail(j, "dtype is \"f32\", \"tf32\" or \"bf16\"");
	return 0;
}

static int32_t set_up(Trainer *t, const char *text) {
	static const char *const dtypes[] = {"f32", "tf32", "bf16"};
	if (config_parse(&t->settings, text, read_option, &t->options, &t->why) ||
		layout_make(&t->tensors, &t->settings, P2PDILOCO_F32, &t->why) || corpus_open(&t->data, &t->settings, &t->why))
		return P2PDILOCO_TRAINER_FAILED;
	std::string device = use_device((int)t->options.device);
	t->gpu = std::make_unique<Gpu>(t->settings, t->tensors, t->data, t->options);
	fprintf(stderr, "cuda trainer: %s, %s, %zu parameters\n", device.c_str(), dtypes[t->options.dtype], t->tensors.elements);
	return P2PDILOCO_TRAINER_OK;
}

static int32_t api_create(const char *config, const char *, Trainer **out) {
	auto *t = *out = new (std::nothrow) Trainer;
	if (!t)
		return fail(&create_failure, "out of memory");
	int32_t code = guarded(t, "create", 0, [&] { return set_up(t, config ? config : "{}"); });
	if (code == P2PDILOCO_TRAINER_OK)
		return code;
	create_failure = t->why;
	delete t;
	*out = nullptr;
	return code;
}

static const char *api_last_error(Trainer *t) { return t ? t->why.text : create_failure.text; }

static int32_t api_layout(Trainer *t, const p2pdiloco_trainer_tensor **tensors, uint64_t *count) {
	*tensors = t->tensors.table;
	*count = t->tensors.count;
	return P2PDILOCO_TRAINER_OK;
}

static int32_t api_register(Trainer *t, void *base, uint64_t bytes) {
	return guarded(t, "register_memory", bytes, [&] {
		std::string why;
		if (!t->gpu->transfer.lock(base, bytes, &why))
			fprintf(stderr, "cuda trainer: the memory shared with the peer cannot be page-locked (%s): copies go through a buffer, which is slower\n", why.c_str());
		return P2PDILOCO_TRAINER_OK;
	});
}

static int32_t api_unregister(Trainer *t, void *base) {
	return guarded(t, "unregister_memory", 0, [&] {
		t->gpu->transfer.unlock(base);
		return P2PDILOCO_TRAINER_OK;
	});
}

static int32_t api_init(Trainer *t, uint64_t seed, float *dst) {
	initialize(&t->tensors, &t->settings, seed, dst);
	return P2PDILOCO_TRAINER_OK;
}

/* A call on elements [begin, begin + count), which must be within the model. */
template <class Work> static int32_t on_range(Trainer *t, const char *call, uint64_t begin, uint64_t count, Work work) {
	uint64_t d = t->tensors.elements;
	if (begin > d || count > d - begin)
		return fail(&t->why, "%s: elements [%llu, +%llu) of a model of %llu: give all peers the same model sizes", call, (unsigned long long)begin,
			(unsigned long long)count, (unsigned long long)d);
	return guarded(t, call, count, [&] {
		work();
		return P2PDILOCO_TRAINER_OK;
	});
}

static int32_t api_load(Trainer *t, uint64_t begin, uint64_t count, const float *src) {
	return on_range(t, "load", begin, count, [&] { t->gpu->load(begin, count, src); });
}

static int32_t api_export_params(Trainer *t, uint64_t begin, uint64_t count, float *dst) {
	return on_range(t, "export_params", begin, count, [&] { t->gpu->export_params(begin, count, dst); });
}

static int32_t api_export_gradient(Trainer *t, uint64_t begin, uint64_t count, float *dst) {
	return on_range(t, "export_gradient", begin, count, [&] { t->gpu->export_gradient(begin, count, dst); });
}

/* The caller's struct may be an older, shorter one. */
static void fill(p2pdiloco_trainer_stats *out, p2pdiloco_trainer_stats stats) {
	stats.size = out->size;
	memcpy(out, &stats, std::min<uint64_t>(out->size, sizeof stats));
}

static int32_t api_run(Trainer *t, const p2pdiloco_trainer_task *task, p2pdiloco_trainer_stats *out) {
	t->cancelled = false; /* one that came when nothing ran is for nothing */
	sampler data;
	if (sampler_open(&data, &t->data, task, (uint64_t)t->settings.batch, (uint64_t)t->settings.context, &t->why))
		return P2PDILOCO_TRAINER_FAILED;
	p2pdiloco_trainer_stats stats{};
	int32_t code = guarded(t, "run", task->steps, [&]() -> int32_t {
		if (t->gpu->run(&data, *task, t->cancelled, &stats))
			return P2PDILOCO_TRAINER_OK;
		fail(&t->why, "cancelled after %llu of %llu steps", (unsigned long long)stats.steps, (unsigned long long)task->steps);
		return P2PDILOCO_TRAINER_CANCELLED;
	});
	fill(out, stats);
	return code;
}

static void api_cancel(Trainer *t) { t->cancelled = true; }

static int32_t api_evaluate(Trainer *t, double *loss) {
	t->cancelled = false;
	return guarded(t, "evaluate", 0, [&]() -> int32_t {
		if (!t->gpu->evaluate(t->cancelled, loss)) {
			fail(&t->why, "cancelled");
			return P2PDILOCO_TRAINER_CANCELLED;
		}
		if (std::isfinite(*loss))
			return P2PDILOCO_TRAINER_OK;
		return fail(&t->why, "training diverged: the held-out loss is not finite: take a lower learning_rate");
	});
}

static int32_t api_save(Trainer *t, const char *path) {
	return guarded(t, "save", 0, [&] {
		std::vector<float> first(t->tensors.elements), second(t->tensors.elements);
		t->gpu->get_state(first.data(), second.data());
		state s = {t->gpu->steps(), first.data(), second.data()};
		return state_save(path, &t->tensors, &s, &t->why);
	});
}

static int32_t api_restore(Trainer *t, const char *path) {
	return guarded(t, "restore", 0, [&]() -> int32_t {
		std::vector<float> first(t->tensors.elements), second(t->tensors.elements);
		state s = {0, first.data(), second.data()};
		if (state_restore(path, &t->tensors, &s, &t->why))
			return P2PDILOCO_TRAINER_FAILED;
		t->gpu->set_state(s.first, s.second, s.steps);
		return P2PDILOCO_TRAINER_OK;
	});
}

static void api_destroy(Trainer *t) { delete t; }

#ifdef P2PDILOCO_EMULATED
#define NAME "byte-level GPT on CUDA, 1.0, EMULATED on the CPU: for tests alone"
#else
#define NAME "byte-level GPT on CUDA, 1.0"
#endif

P2PDILOCO_TRAINER_EXPORT const p2pdiloco_trainer_api *p2pdiloco_trainer_entry(uint32_t abi) {
	static const p2pdiloco_trainer_api api = {
		sizeof(p2pdiloco_trainer_api), P2PDILOCO_TRAINER_ABI, 0, NAME, api_create, api_last_error, api_layout, api_register, api_unregister,
		api_init, api_load, api_run, api_cancel, api_export_params, api_export_gradient, api_evaluate, api_save, api_restore, api_destroy};
	return abi >= P2PDILOCO_TRAINER_ABI ? &api : nullptr;
}
