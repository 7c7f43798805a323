#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "test.h"

/* Settings with which a step subtracts g/(|g|+1) for each gradient g, and nothing of earlier steps matters. */
#define PLAIN "\"learning_rate\":1,\"beta1\":0,\"beta2\":0,\"epsilon\":1,\"weight_decay\":0,\"clip\":0,\"warm_up\":0"

/* The training loss of the first batch of slot 1 with these parameters. */
static double loss_at(p2pdiloco_trainer *t, const float *values) {
	load_all(t, values);
	return must_run(t, 1, 1).loss;
}

/* The central finite difference of the loss along element i. */
static double slope(p2pdiloco_trainer *t, float *values, uint64_t i) {
	const float eps = 4e-3f, middle = values[i], up = middle + eps, down = middle - eps;
	values[i] = up;
	double above = loss_at(t, values);
	values[i] = down;
	double below = loss_at(t, values);
	values[i] = middle;
	return (above - below) / ((double)up - (double)down);
}

/* The gradient of the same loss by the backward pass, got back from the step. */
static double *backward(p2pdiloco_trainer *t, const float *values, uint64_t d) {
	load_all(t, values);
	must_run(t, 1, 1);
	float *after = export_all(t);
	double *gradient = malloc(d * sizeof *gradient);
	for (uint64_t i = 0; i < d; i++) {
		double moved = (double)values[i] - (double)after[i];
		gradient[i] = moved / (1 - fabs(moved));
	}
	free(after);
	return gradient;
}

/* Compares elements of every tensor's gradient with finite differences. What is left after a correct backward
 * pass is float32 rounding; a missing or doubled term is far above. */
void test_gradients(void) {
	p2pdiloco_trainer *t = make_trainer(SMALL "," PLAIN);
	const p2pdiloco_trainer_tensor *tensors;
	uint64_t count, begin = 0, d = elements(t);
	must(t, api->layout(t, &tensors, &count));
	float *values = malloc(d * sizeof *values);
	must(t, api->init(t, 3, values));
	for (uint64_t i = 0; i < d; i++) values[i] += 0.3f * (float)sin((double)(i * i % 1009)); /* large enough for every nonlinearity to bend */
	double *gradient = backward(t, values, d);
	for (uint64_t k = 0; k < count; k++) {
		uint64_t n = tensors[k].shape[0] * (tensors[k].dims > 1 ? tensors[k].shape[1] : 1), tries = slow ? 3 : 150;
		double wrong = 0, norm = 0;
		for (uint64_t i = 0; i < n; i += 1 + n / tries) {
			double want = slope(t, values, begin + i), off = want - gradient[begin + i];
			wrong += off * off, norm += want * want;
		}
		begin += n;
		double off = sqrt(wrong / norm);
		CHECK(norm > 0 && off < 0.01, "%s is off by %.4f of its norm %.5f", tensors[k].name, off, sqrt(norm));
	}
	free(gradient);
	free(values);
	api->destroy(t);
}

void test_training(void) {
	p2pdiloco_trainer *t = make_trainer(SMALL);
	uint64_t steps = slow ? 10 : 300, d = elements(t);
	double before = 0, after = 0, again = 0;
	float *anchor = malloc(d * sizeof *anchor), *gradient = malloc(d * sizeof *gradient);
	must(t, api->init(t, 7, anchor));
	load_all(t, anchor);
	must(t, api->evaluate(t, &before));
	p2pdiloco_trainer_stats s = must_run(t, 1, steps);
	must(t, api->evaluate(t, &after));
	must(t, api->evaluate(t, &again));
	CHECK(s.size == sizeof s && s.steps == steps && s.samples == 4 * steps && s.tokens == 40 * steps, "%d steps", (int)s.steps);
	CHECK(s.seconds > 0 && s.gradient_norm > 0 && s.loss > 0 && s.loss < 7, "loss %g, gradient %g", s.loss, s.gradient_norm);
	CHECK(fabs(before - log(256)) < 1 && after < before - (slow ? 0.1 : 2.5) && after == again, "loss %g -> %g, again %g", before, after, again);

	float *live = export_all(t);
	if (api->export_gradient) {
		must(t, api->export_gradient(t, 0, d, gradient));
		for (uint64_t i = 0; i < d; i++) CHECK(gradient[i] == anchor[i] - live[i], "element %d", (int)i);
	}
	p2pdiloco_trainer_stats small = {.size = offsetof(p2pdiloco_trainer_stats, samples), .tokens = 77}; /* an older peer's */
	volatile uint64_t done;
	const char *self = "12D3KooWA1bysjrTACSWqf6q172inxvwKHUxAnBtVgaVDKMxpZtx";
	p2pdiloco_trainer_task task = {sizeof task, 2, 1, 7, 0, 1, &self, &done, 1, 1, 0, 1, 2};
	must(t, api->run(t, &task, &small));
	CHECK(small.steps == 1 && small.tokens == 77 && small.samples == 0, "more was written than the struct has");
	task.rank = 1;
	CHECK(api->run(t, &task, &small) == P2PDILOCO_TRAINER_FAILED && strstr(api->last_error(t), "member 1 of 1"), "%s", api->last_error(t));
	free(anchor);
	free(gradient);
	free(live);
	api->destroy(t);
}

/* A round's bits do not depend on the number of threads, nor on an evaluation before. */
void test_threads(void) {
	p2pdiloco_trainer *one = make_trainer(SMALL), *many = make_trainer(SMALL ",\"threads\":3");
	double loss = 0;
	must(many, api->evaluate(many, &loss));
	must_run(one, 1, 3);
	must_run(many, 1, 3);
	float *a = export_all(one), *b = export_all(many);
	CHECK(memcmp(a, b, elements(one) * sizeof *a) == 0, "three threads give other bits");
	free(a);
	free(b);
	api->destroy(one);
	api->destroy(many);
}

/* A thread that cancels until it is told to stop. */
struct canceller {
	p2pdiloco_trainer *trainer;
	atomic_bool stop;
};

static void *keep_cancelling(void *argument) {
	struct canceller *c = argument;
	while (!atomic_load(&c->stop)) {
		api->cancel(c->trainer);
		nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
	}
	return NULL;
}

void test_cancel(void) {
	struct canceller c = {.trainer = make_trainer(SMALL)};
	p2pdiloco_trainer_stats stats = {0};
	pthread_t thread;
	api->cancel(c.trainer); /* nothing is under way: the next round is not ended by it */
	CHECK(must_run(c.trainer, 1, 2).steps == 2, "it was cancelled");
	pthread_create(&thread, NULL, keep_cancelling, &c);
	int32_t code = run_round(c.trainer, 1, 1000000000, &stats);
	atomic_store(&c.stop, true);
	pthread_join(thread, NULL);
	CHECK(code == P2PDILOCO_TRAINER_CANCELLED && stats.steps < 1000000000 && stats.samples == 4 * stats.steps, "code %d", (int)code);
	CHECK(must_run(c.trainer, 2, 2).steps == 2, "it does not go on");
	api->destroy(c.trainer);
}

/* Copies a file, with a byte changed at one place and cut short at another; -1 is nowhere. */
static void copy(const char *from, const char *to, long changed, long cut) {
	FILE *in = fopen(from, "rb"), *out = fopen(to, "wb");
	long at = 0;
	for (int c; (c = fgetc(in)) != EOF && at != cut; at++) fputc(at == changed ? c ^ 1 : c, out);
	fclose(in);
	fclose(out);
}

/* A file that is damaged anywhere is refused. */
static void refuse_damaged(p2pdiloco_trainer *t, const char *path) {
	char broken[4096];
	snprintf(broken, sizeof broken, "%s/broken", folder);
	FILE *f = fopen(path, "rb");
	fseek(f, 0, SEEK_END);
	long size = ftell(f);
	fclose(f);
	for (long at = 0; at < size; at += at < 80 ? 1 : slow ? 30011 : 2003) {
		copy(path, broken, at, -1);
		CHECK(api->restore(t, broken) == P2PDILOCO_TRAINER_FAILED && strstr(api->last_error(t), broken), "changed at %d: %s", (int)at, api->last_error(t));
		copy(path, broken, -1, at);
		CHECK(api->restore(t, broken) == P2PDILOCO_TRAINER_FAILED && strstr(api->last_error(t), broken), "cut at %d: %s", (int)at, api->last_error(t));
	}
}

/* A restored trainer goes on with the same bits. A damaged file, or one of another model, is refused without harm. */
void test_save(void) {
	char path[4096];
	snprintf(path, sizeof path, "%s/state", folder);
	p2pdiloco_trainer *t = make_trainer(SMALL), *next = make_trainer(SMALL);
	p2pdiloco_trainer *other = make_trainer("\"layers\":1,\"width\":12,\"heads\":3,\"held_out\":2");
	must_run(t, 1, 3);
	float *anchor = export_all(t);
	must(t, api->save(t, path));
	must_run(t, 2, 3);
	float *want = export_all(t);

	refuse_damaged(next, path);
	CHECK(api->restore(next, folder) == P2PDILOCO_TRAINER_FAILED, "a folder was restored");
	CHECK(api->restore(other, path) == P2PDILOCO_TRAINER_FAILED && strstr(api->last_error(other), "other sizes"), "%s", api->last_error(other));
	must(next, api->restore(next, path));
	load_all(next, anchor);
	must_run(next, 2, 3);
	float *got = export_all(next);
	CHECK(memcmp(got, want, elements(t) * sizeof *got) == 0, "training goes on differently after a restore");
	free(anchor);
	free(want);
	free(got);
	api->destroy(t);
	api->destroy(next);
	api->destroy(other);
}

void test_divergence(void) {
	p2pdiloco_trainer *t = make_trainer(SMALL);
	p2pdiloco_trainer_stats stats = {0};
	float *values = export_all(t);
	double loss;
	values[elements(t) - 1] = NAN;
	load_all(t, values);
	CHECK(api->evaluate(t, &loss) == P2PDILOCO_TRAINER_FAILED && strstr(api->last_error(t), "diverged"), "%s", api->last_error(t));
	CHECK(run_round(t, 1, 2, &stats) == P2PDILOCO_TRAINER_FAILED && strstr(api->last_error(t), "inner step 1"), "%s", api->last_error(t));
	free(values);
	api->destroy(t);
}
