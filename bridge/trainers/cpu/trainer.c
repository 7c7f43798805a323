/* The trainer ABI (bridge/include/p2pdiloco_trainer.h) around the model. Start reading here. */
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "adamw.h"
#include "corpus.h"
#include "model.h"
#include "p2pdiloco_trainer.h"
#include "sampler.h"

struct p2pdiloco_trainer {
	struct failure why; /* of the last call */
	atomic_bool cancelled;

	struct config config;
	struct corpus corpus;
	struct layout layout;
	struct team *team;
	struct model model;
	struct state state; /* the inner optimizer's: it outlives the rounds */
	float *anchor;      /* D: what was loaded, where the pseudo-gradient begins */

	uint8_t *inputs, *targets;                   /* of a training batch */
	uint8_t *held_out_inputs, *held_out_targets; /* of all held-out sequences */
};

typedef struct p2pdiloco_trainer trainer;

static struct failure create_failure; /* of the last create, which has no trainer to keep it */

static const char *last_error(trainer *t) { return t ? t->why.text : create_failure.text; }

static void destroy(trainer *t) {
	if (!t) return;
	if (t->model.config) model_free(&t->model);
	team_stop(t->team);
	free(t->state.first);
	free(t->state.second);
	free(t->anchor);
	free(t->inputs);
	free(t->targets);
	free(t->held_out_inputs);
	free(t->held_out_targets);
	layout_free(&t->layout);
	corpus_close(&t->corpus);
	config_free(&t->config);
	free(t);
}

/* Makes the vectors that the model does not have itself. */
static int make_vectors(trainer *t) {
	size_t elements = t->layout.elements, bytes = (size_t)(t->config.batch * t->config.context);
	size_t held_out = (size_t)(t->config.held_out * t->config.context);
	t->state.first = calloc(elements, sizeof(float));
	t->state.second = calloc(elements, sizeof(float));
	t->anchor = calloc(elements, sizeof(float));
	t->inputs = calloc(bytes, 1);
	t->targets = calloc(bytes, 1);
	t->held_out_inputs = calloc(held_out, 1);
	t->held_out_targets = calloc(held_out, 1);
	if (t->state.first && t->state.second && t->anchor && t->inputs && t->targets && t->held_out_inputs && t->held_out_targets) return 0;
	return fail(&t->why, "out of memory: take a smaller model");
}

/* Until the first load the live parameters are those that a run of seed 0 begins with. */
static int set_up(trainer *t, const char *config) {
	struct config *c = &t->config;
	if (config_parse(c, config, NULL, NULL, &t->why) || layout_make(&t->layout, c, P2PDILOCO_F32, &t->why) ||
	    corpus_open(&t->corpus, c, &t->why) || team_start(&t->team, (int)c->threads, &t->why) ||
	    model_make(&t->model, c, &t->layout, t->team, &t->why) || make_vectors(t)) {
		return P2PDILOCO_TRAINER_FAILED;
	}
	corpus_held_out(&t->corpus, t->held_out_inputs, t->held_out_targets, (size_t)c->held_out, (size_t)c->context);
	initialize(&t->layout, c, 0, t->model.values);
	memcpy(t->anchor, t->model.values, t->layout.elements * sizeof *t->anchor);
	return P2PDILOCO_TRAINER_OK;
}

static int32_t create(const char *config, const char *data_dir, trainer **out) {
	(void)data_dir; /* all there is to keep is what save is asked for */
	trainer *t = *out = calloc(1, sizeof *t);
	if (!t) return fail(&create_failure, "out of memory");
	if (set_up(t, config ? config : "{}") == P2PDILOCO_TRAINER_OK) return P2PDILOCO_TRAINER_OK;
	create_failure = t->why;
	destroy(t);
	*out = NULL;
	return P2PDILOCO_TRAINER_FAILED;
}

static int32_t layout(trainer *t, const p2pdiloco_trainer_tensor **tensors, uint64_t *count) {
	*tensors = t->layout.table;
	*count = t->layout.count;
	return P2PDILOCO_TRAINER_OK;
}

static int32_t init(trainer *t, uint64_t seed, float *dst) {
	initialize(&t->layout, &t->config, seed, dst);
	return P2PDILOCO_TRAINER_OK;
}

/* Refuses a range that is not within the model. */
static int check_range(trainer *t, uint64_t begin, uint64_t count) {
	uint64_t d = t->layout.elements;
	if (begin <= d && count <= d - begin) return 0;
	return fail(&t->why, "elements [%llu, +%llu) of a model of %llu: give all peers the same model sizes", (unsigned long long)begin,
	    (unsigned long long)count, (unsigned long long)d);
}

static int32_t load(trainer *t, uint64_t begin, uint64_t count, const float *src) {
	if (check_range(t, begin, count)) return P2PDILOCO_TRAINER_FAILED;
	memcpy(t->model.values + begin, src, count * sizeof *src);
	memcpy(t->anchor + begin, src, count * sizeof *src);
	return P2PDILOCO_TRAINER_OK;
}

static int32_t export_params(trainer *t, uint64_t begin, uint64_t count, float *dst) {
	if (check_range(t, begin, count)) return P2PDILOCO_TRAINER_FAILED;
	memcpy(dst, t->model.values + begin, count * sizeof *dst);
	return P2PDILOCO_TRAINER_OK;
}

static int32_t export_gradient(trainer *t, uint64_t begin, uint64_t count, float *dst) {
	if (check_range(t, begin, count)) return P2PDILOCO_TRAINER_FAILED;
	const float *anchor = t->anchor + begin, *live = t->model.values + begin;
	for (uint64_t i = 0; i < count; i++) dst[i] = anchor[i] - live[i];
	return P2PDILOCO_TRAINER_OK;
}

static double now(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* One inner step: adds its loss and its gradient's norm to stats. */
static int step(trainer *t, struct sampler *data, p2pdiloco_trainer_stats *stats) {
	size_t batch = (size_t)t->config.batch;
	sampler_draw(data, t->inputs, t->targets);
	double loss = model_forward(&t->model, t->inputs, t->targets, batch);
	if (!isfinite(loss)) {
		return fail(&t->why, "training diverged: the loss at inner step %llu is %g: take a lower learning_rate",
		    (unsigned long long)t->state.steps + 1, loss);
	}
	model_backward(&t->model, t->inputs, t->targets, batch);
	stats->gradient_norm += adamw_step(&t->state, &t->config, &t->layout, t->model.values, t->model.grads);
	stats->loss += loss;
	stats->steps++;
	return P2PDILOCO_TRAINER_OK;
}

/* Turns sums into means, and fills in what the caller's struct has room for. */
static void report(const trainer *t, p2pdiloco_trainer_stats *stats, p2pdiloco_trainer_stats *out) {
	uint64_t size = out->size;
	if (stats->steps > 0) {
		stats->loss /= (double)stats->steps;
		stats->gradient_norm /= (double)stats->steps;
	}
	stats->samples = stats->steps * (uint64_t)t->config.batch;
	stats->tokens = stats->samples * (uint64_t)t->config.context;
	stats->size = size;
	memcpy(out, stats, size < sizeof *stats ? size : sizeof *stats);
}

static int32_t run(trainer *t, const p2pdiloco_trainer_task *task, p2pdiloco_trainer_stats *out) {
	p2pdiloco_trainer_stats stats = {0};
	struct sampler data;
	double began = now();
	atomic_store(&t->cancelled, false); /* one that came when nothing ran is for nothing */
	if (sampler_open(&data, &t->corpus, task, (uint64_t)t->config.batch, (uint64_t)t->config.context, &t->why)) return P2PDILOCO_TRAINER_FAILED;
	int code = P2PDILOCO_TRAINER_OK;
	while (code == P2PDILOCO_TRAINER_OK && stats.steps < task->steps) {
		if (atomic_load(&t->cancelled)) {
			fail(&t->why, "cancelled after %llu of %llu steps", (unsigned long long)stats.steps, (unsigned long long)task->steps);
			code = P2PDILOCO_TRAINER_CANCELLED;
		} else if ((code = step(t, &data, &stats)) == P2PDILOCO_TRAINER_OK) {
			*task->steps_done = stats.steps;
		}
	}
	stats.seconds = now() - began;
	report(t, &stats, out);
	return code;
}

static void cancel(trainer *t) { atomic_store(&t->cancelled, true); }

static int32_t evaluate(trainer *t, double *loss) {
	size_t all = (size_t)t->config.held_out, context = (size_t)t->config.context, batch = (size_t)t->config.batch;
	double sum = 0;
	atomic_store(&t->cancelled, false);
	for (size_t at = 0, n; at < all; at += n) {
		if (atomic_load(&t->cancelled)) {
			fail(&t->why, "cancelled");
			return P2PDILOCO_TRAINER_CANCELLED;
		}
		n = batch < all - at ? batch : all - at;
		sum += model_forward(&t->model, t->held_out_inputs + at * context, t->held_out_targets + at * context, n) * (double)n;
	}
	*loss = sum / (double)all;
	if (isfinite(*loss)) return P2PDILOCO_TRAINER_OK;
	return fail(&t->why, "training diverged: the held-out loss is not finite: take a lower learning_rate");
}

static int32_t save(trainer *t, const char *path) { return state_save(path, &t->layout, &t->state, &t->why); }

static int32_t restore(trainer *t, const char *path) { return state_restore(path, &t->layout, &t->state, &t->why); }

P2PDILOCO_TRAINER_EXPORT const p2pdiloco_trainer_api *p2pdiloco_trainer_entry(uint32_t abi) {
	static const p2pdiloco_trainer_api api = {
		.size = sizeof api,
		.abi = P2PDILOCO_TRAINER_ABI,
		.name = "byte-level GPT on the CPU, 1.0",
		.create = create,
		.last_error = last_error,
		.layout = layout,
		.init = init,
		.load = load,
		.run = run,
		.cancel = cancel,
		.export_params = export_params,
		.export_gradient = export_gradient,
		.evaluate = evaluate,
		.save = save,
		.restore = restore,
		.destroy = destroy,
	};
	return abi >= P2PDILOCO_TRAINER_ABI ? &api : NULL;
}
