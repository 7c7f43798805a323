/* A whole trainer in a shared library, to begin from. What it must do is in p2pdiloco_trainer.h; here is
 *
 *     make libmine.so
 *     p2pdiloco trainer-check ./libmine.so
 *     p2pdiloco join --run my-run --trainer ./libmine.so --rounds 20 --inner-steps 20
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "p2pdiloco_trainer.h"

/* The model: y = w.x + b, which is to learn w = (1, 2, 3, 4), b = 5. */
enum { INPUTS = 4, D = INPUTS + 1, BATCH = 16 };

struct p2pdiloco_trainer { /* yours: model, inner optimizer, data */
	float live[D];
	atomic_int cancelled;
};

static const p2pdiloco_trainer_tensor tensors[] = {
	{.size = sizeof(p2pdiloco_trainer_tensor), .name = "w", .dtype = P2PDILOCO_F32, .dims = 1, .shape = {INPUTS}},
	{.size = sizeof(p2pdiloco_trainer_tensor), .name = "b", .dtype = P2PDILOCO_F32},
};

static int32_t create(const char *config, const char *data_dir, p2pdiloco_trainer **out)
{
	(void)config, (void)data_dir; /* here they are read, and the model is built */
	*out = calloc(1, sizeof(**out));
	return *out != NULL ? P2PDILOCO_TRAINER_OK : P2PDILOCO_TRAINER_FAILED;
}

static const char *last_error(p2pdiloco_trainer *t) { return t == NULL ? "out of memory" : ""; }

static int32_t layout(p2pdiloco_trainer *t, const p2pdiloco_trainer_tensor **list, uint64_t *count)
{
	(void)t, *list = tensors, *count = 2;
	return P2PDILOCO_TRAINER_OK;
}

static uint64_t mix(uint64_t x) { return (x ^ x >> 29) * 0x9e3779b97f4a7c15; }

static float uniform(uint64_t *random) { return (float)(mix(*random += 0xd1342543de82ef95) >> 40) / (1 << 24); }

/* The same on every machine. Host memory: the live model is on the device, perhaps. */
static int32_t init(p2pdiloco_trainer *t, uint64_t seed, float *dst)
{
	(void)t;
	for (int i = 0; i < D; i++)
		dst[i] = uniform(&seed);
	return P2PDILOCO_TRAINER_OK;
}

/* Host to device. */
static int32_t load(p2pdiloco_trainer *t, uint64_t begin, uint64_t count, const float *src)
{
	memcpy(t->live + begin, src, count * sizeof(float));
	return P2PDILOCO_TRAINER_OK;
}

/* One inner step: batch, forward, backward, optimizer. Returns the loss. */
static double step(p2pdiloco_trainer *t, uint64_t *random)
{
	float gradient[D] = {0};
	double loss = 0;
	for (int i = 0; i < BATCH; i++) {
		float x[D], error = 0;
		for (int j = 0; j < D; j++) {
			x[j] = j < INPUTS ? uniform(random) : 1;
			error += (t->live[j] - (float)(j + 1)) * x[j];
		}
		for (int j = 0; j < D; j++)
			gradient[j] += error * x[j] / BATCH;
		loss += error * error / 2 / BATCH;
	}
	for (int j = 0; j < D; j++)
		t->live[j] -= 0.1f * gradient[j];
	return loss;
}

static int32_t run(p2pdiloco_trainer *t, const p2pdiloco_trainer_task *task, p2pdiloco_trainer_stats *stats)
{
	uint64_t random = mix(mix(task->seed + task->slot) + task->rank); /* data that no other member draws in this round */
	t->cancelled = 0;
	for (uint64_t i = 0; i < task->steps; i++) {
		if (t->cancelled)
			return P2PDILOCO_TRAINER_CANCELLED;
		stats->loss += step(t, &random) / (double)task->steps;
		*task->steps_done = stats->steps = i + 1;
	}
	stats->samples = stats->tokens = stats->steps * BATCH;
	return P2PDILOCO_TRAINER_OK;
}

/* Another thread calls it. */
static void cancel(p2pdiloco_trainer *t) { t->cancelled = 1; }

/* Device to host. */
static int32_t export_params(p2pdiloco_trainer *t, uint64_t begin, uint64_t count, float *dst)
{
	memcpy(dst, t->live + begin, count * sizeof(float));
	return P2PDILOCO_TRAINER_OK;
}

static void destroy(p2pdiloco_trainer *t) { free(t); }

static const p2pdiloco_trainer_api api = {
	.size = sizeof(api), .abi = P2PDILOCO_TRAINER_ABI, .name = "mine 1.0",
	.create = create, .last_error = last_error, .layout = layout, .init = init, .load = load, .run = run, .cancel = cancel,
	.export_params = export_params, .destroy = destroy,
};

const p2pdiloco_trainer_api *p2pdiloco_trainer_entry(uint32_t abi) { return abi == P2PDILOCO_TRAINER_ABI ? &api : NULL; }
