/*
 * A small, well-behaved trainer: gradient descent with momentum on |x - target|^2 / 2. The skeleton of
 * docs/reference/bridge.md in full.
 *
 * Configuration (JSON, all numbers, all optional): size, target, pause_ms (rest after each step), journal (1: a
 * line for each run in the file journal of the data directory).
 */
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "p2pdiloco_trainer.h"

#ifndef ENTRY
#define ENTRY p2pdiloco_trainer_entry
#endif

struct p2pdiloco_trainer {
	uint64_t size; /* D */
	float target;
	int pause_ms;
	float *x, *loaded, *velocity;
	uint64_t steps; /* done in all */
	FILE *journal;
	p2pdiloco_trainer_tensor tensors[2];
	uint64_t tensor_count;
	atomic_int cancelled;
	void *registered;
	char error[200];
};

static char create_error[200];

static int32_t fail(p2pdiloco_trainer *t, const char *text)
{
	snprintf(t->error, sizeof(t->error), "%s", text);
	return P2PDILOCO_TRAINER_FAILED;
}

/* Finds "name": NUMBER. Enough for a test; a real trainer reads JSON with a library. */
static double number(const char *config, const char *name, double otherwise)
{
	char key[64];
	snprintf(key, sizeof(key), "\"%s\":", name);
	const char *at = strstr(config, key);
	return at != NULL ? strtod(at + strlen(key), NULL) : otherwise;
}

static void destroy(p2pdiloco_trainer *t)
{
	if (t->journal != NULL)
		fclose(t->journal);
	free(t->x), free(t->loaded), free(t->velocity), free(t);
}

static int32_t create(const char *config, const char *data_dir, p2pdiloco_trainer **out)
{
	*out = NULL;
	double size = number(config, "size", 1000);
	if (!(size >= 2 && size <= 1e9)) {
		snprintf(create_error, sizeof(create_error), "size %g: 2 to 1e9 is allowed", size);
		return P2PDILOCO_TRAINER_FAILED;
	}
	p2pdiloco_trainer *t = calloc(1, sizeof(*t));
	if (t == NULL)
		return P2PDILOCO_TRAINER_FAILED;
	t->size = (uint64_t)size;
	t->target = (float)number(config, "target", 3);
	t->pause_ms = (int)number(config, "pause_ms", 0);
	t->x = calloc(t->size, sizeof(float)), t->loaded = calloc(t->size, sizeof(float));
	t->velocity = calloc(t->size, sizeof(float));
	t->tensors[0] = (p2pdiloco_trainer_tensor){
		.size = sizeof(t->tensors[0]), .name = "x", .dtype = P2PDILOCO_F32, .dims = 1, .shape = {t->size - 1}};
	t->tensors[1] = (p2pdiloco_trainer_tensor){.size = sizeof(t->tensors[1]), .name = "bias", .dtype = P2PDILOCO_F32, .dims = 0};
	t->tensor_count = 2;
	if (number(config, "journal", 0) > 0) {
		char path[4096];
		snprintf(path, sizeof(path), "%s/journal", data_dir);
		t->journal = fopen(path, "a");
	}
	*out = t;
	return P2PDILOCO_TRAINER_OK;
}

static const char *last_error(p2pdiloco_trainer *t) { return t != NULL ? t->error : create_error; }

static int32_t layout(p2pdiloco_trainer *t, const p2pdiloco_trainer_tensor **tensors, uint64_t *count)
{
	*tensors = t->tensors;
	*count = t->tensor_count;
	return P2PDILOCO_TRAINER_OK;
}

static int32_t init(p2pdiloco_trainer *t, uint64_t seed, float *dst)
{
	for (uint64_t i = 0; i < t->size; i++) {
		uint64_t h = (seed + i + 1) * 0x9e3779b97f4a7c15u;
		dst[i] = (float)(h >> 40) / (float)(1 << 24);
	}
	return P2PDILOCO_TRAINER_OK;
}

static int32_t load(p2pdiloco_trainer *t, uint64_t begin, uint64_t count, const float *src)
{
	memcpy(t->x + begin, src, count * sizeof(float));
	memcpy(t->loaded + begin, src, count * sizeof(float));
	return P2PDILOCO_TRAINER_OK;
}

static void rest(int ms)
{
	struct timespec pause = {ms / 1000, ms % 1000 * 1000000L};
	if (ms > 0)
		nanosleep(&pause, NULL);
}

/* One inner step. Returns the loss before it. */
static double step(p2pdiloco_trainer *t, double *norm)
{
	double sum = 0;
	for (uint64_t i = 0; i < t->size; i++) {
		float gradient = t->x[i] - t->target;
		sum += (double)gradient * gradient;
		t->velocity[i] = 0.5f * t->velocity[i] + gradient;
		t->x[i] -= 0.1f * t->velocity[i];
	}
	t->steps++;
	*norm = sqrt(sum);
	return sum / 2 / (double)t->size;
}

static int32_t run(p2pdiloco_trainer *t, const p2pdiloco_trainer_task *task, p2pdiloco_trainer_stats *stats)
{
	atomic_store(&t->cancelled, 0);
	if (t->journal != NULL)
		fprintf(t->journal, "slot %d after %d steps\n", (int)task->slot, (int)t->steps), fflush(t->journal);
	for (uint64_t i = 0; i < task->steps; i++) {
		double norm;
		if (atomic_load(&t->cancelled))
			return P2PDILOCO_TRAINER_CANCELLED;
		stats->loss += step(t, &norm) / (double)task->steps;
		stats->gradient_norm += norm / (double)task->steps;
		stats->steps++;
		*task->steps_done = stats->steps;
		rest(t->pause_ms);
	}
	stats->samples = stats->steps, stats->tokens = stats->steps * 10;
	stats->seconds = 1e-3 * (double)(stats->steps * (uint64_t)t->pause_ms);
	return P2PDILOCO_TRAINER_OK;
}

static void cancel(p2pdiloco_trainer *t) { atomic_store(&t->cancelled, 1); }

static int32_t export_params(p2pdiloco_trainer *t, uint64_t begin, uint64_t count, float *dst)
{
	memcpy(dst, t->x + begin, count * sizeof(float));
	return P2PDILOCO_TRAINER_OK;
}

static int32_t export_gradient(p2pdiloco_trainer *t, uint64_t begin, uint64_t count, float *dst)
{
	for (uint64_t i = begin; i < begin + count; i++)
		dst[i - begin] = t->loaded[i] - t->x[i];
	return P2PDILOCO_TRAINER_OK;
}

static int32_t evaluate(p2pdiloco_trainer *t, double *loss)
{
	double sum = 0;
	for (uint64_t i = 0; i < t->size; i++)
		sum += ((double)t->x[i] - t->target) * ((double)t->x[i] - t->target);
	*loss = sum / 2 / (double)t->size;
	return P2PDILOCO_TRAINER_OK;
}

static int32_t save(p2pdiloco_trainer *t, const char *path)
{
	FILE *f = fopen(path, "wb");
	if (f == NULL)
		return fail(t, "the file cannot be written");
	size_t done = fwrite(&t->size, sizeof(t->size), 1, f) + fwrite(&t->steps, sizeof(t->steps), 1, f) +
		      fwrite(t->velocity, sizeof(float), t->size, f);
	return (fclose(f) == 0) && done == t->size + 2 ? P2PDILOCO_TRAINER_OK : fail(t, "the file was not written whole");
}

static int32_t restore(p2pdiloco_trainer *t, const char *path)
{
	FILE *f = fopen(path, "rb");
	if (f == NULL)
		return fail(t, "the file cannot be read");
	uint64_t head[2] = {0, 0};
	float *velocity = malloc((t->size + 1) * sizeof(float));
	size_t done = fread(head, sizeof(head[0]), 2, f) + fread(velocity, sizeof(float), t->size + 1, f);
	fclose(f);
	if (done != t->size + 2 || head[0] != t->size) {
		free(velocity);
		return fail(t, "the file is not of this model");
	}
	free(t->velocity);
	t->velocity = velocity;
	t->steps = head[1];
	return P2PDILOCO_TRAINER_OK;
}

static int32_t register_memory(p2pdiloco_trainer *t, void *base, uint64_t bytes)
{
	volatile char *at = base; /* drivers page-lock only what may be written */
	if (base == NULL || bytes < 2 * t->size * sizeof(float))
		return fail(t, "the vectors do not fit");
	at[0] = at[bytes - 1] = 0;
	t->registered = base;
	return P2PDILOCO_TRAINER_OK;
}

static int32_t unregister_memory(p2pdiloco_trainer *t, void *base)
{
	return base == t->registered ? P2PDILOCO_TRAINER_OK : fail(t, "it is not the memory of register_memory");
}

static const p2pdiloco_trainer_api api = {
	.size = sizeof(api), .abi = P2PDILOCO_TRAINER_ABI, .name = "bowl 1.0",
	.create = create, .last_error = last_error, .layout = layout, .register_memory = register_memory,
	.unregister_memory = unregister_memory, .init = init, .load = load, .run = run, .cancel = cancel,
	.export_params = export_params, .export_gradient = export_gradient, .evaluate = evaluate, .save = save,
	.restore = restore, .destroy = destroy,
};

const p2pdiloco_trainer_api *ENTRY(uint32_t abi) { return abi == P2PDILOCO_TRAINER_ABI ? &api : NULL; }
