/*
 * Compares two trainers of the same model, tensor by tensor, through the trainer ABI alone. It needs nothing
 * but libc, so that it runs where there is a GPU and no Go (cuda/check.sh).
 *
 *     compare LIBRARY REFERENCE TOLERANCE CONFIG [ONLY]
 *
 * CONFIG is the inside of a JSON object that both are given, such as '"layers":2,"data":"/some/text"', ONLY
 * what LIBRARY alone is given beside it, such as '"dtype":"bf16"'. Compared are layout, initial bits (equal),
 * held-out loss, each tensor's gradient (by its norm) and the losses of some steps of training (all within
 * TOLERANCE), what export_gradient says (exact), and the saved file, which each must read from the other; and
 * that a NaN is noticed soon. It returns 1 where they differ.
 */
#include <dlfcn.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "p2pdiloco_trainer.h"

/* With these a step subtracts g/(|g|+1) for each gradient g: it can be got back from the parameters. */
#define PLAIN ",\"learning_rate\":1,\"beta1\":0,\"beta2\":0,\"epsilon\":1,\"weight_decay\":0,\"clip\":0,\"warm_up\":0"

enum { STEPS = 10 };

struct side {
	const char *path;
	const p2pdiloco_trainer_api *api;
	p2pdiloco_trainer *trainer;
	const p2pdiloco_trainer_tensor *tensors;
	uint64_t count, elements;
	float *values; /* room for all of them */
};

static double tolerance;
static int failures;

static void check(bool good, const char *what, double value, double limit) {
	printf("%-9s %-40s %.3g (limit %.3g)\n", good ? "ok" : "DIFFERENT", what, value, limit);
	failures += !good;
}

static void must(struct side *s, int32_t code, const char *call) {
	if (code == P2PDILOCO_TRAINER_OK) return;
	printf("%s: %s: error %d: %s\n", s->path, call, (int)code, s->api->last_error(s->trainer));
	exit(2);
}

static void open_library(struct side *s, const char *path) {
	s->path = path;
	void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	const p2pdiloco_trainer_api *(*entry)(uint32_t) = NULL;
	if (library) *(void **)&entry = dlsym(library, "p2pdiloco_trainer_entry");
	if (!entry || !(s->api = entry(P2PDILOCO_TRAINER_ABI))) {
		const char *why = dlerror();
		printf("%s: %s\n", path, why ? why : "it does not serve this ABI");
		exit(2);
	}
}

static uint64_t tensor_elements(const p2pdiloco_trainer_tensor *t) {
	uint64_t n = 1;
	for (uint32_t k = 0; k < t->dims; k++) n *= t->shape[k];
	return n;
}

static void make(struct side *s, const char *config, const char *more, const char *only) {
	char text[8192];
	snprintf(text, sizeof text, "{%s%s%s%s}", config, more, *only ? "," : "", only);
	s->trainer = NULL;
	must(s, s->api->create(text, "/tmp", &s->trainer), text);
	must(s, s->api->layout(s->trainer, &s->tensors, &s->count), "layout");
	s->elements = 0;
	for (uint64_t i = 0; i < s->count; i++) s->elements += tensor_elements(&s->tensors[i]);
	if (!(s->values = calloc(s->elements, sizeof *s->values))) exit(2);
	/* So copies to and from values may go another way than those of other vectors: both are tried. */
	if (s->api->register_memory) must(s, s->api->register_memory(s->trainer, s->values, s->elements * sizeof *s->values), "register_memory");
}

static void end(struct side *s) {
	if (s->api->unregister_memory) must(s, s->api->unregister_memory(s->trainer, s->values), "unregister_memory");
	s->api->destroy(s->trainer);
	free(s->values);
}

static p2pdiloco_trainer_stats run(struct side *s, uint64_t steps) {
	static const char *const members[] = {"12D3KooWA1bysjrTACSWqf6q172inxvwKHUxAnBtVgaVDKMxpZtx"};
	volatile uint64_t done = 0;
	p2pdiloco_trainer_task task = {.size = sizeof task, .slot = 1, .steps = steps, .seed = 7, .member_count = 1, .members = members, .steps_done = &done, .part = 1, .part_steps = steps};
	p2pdiloco_trainer_stats stats = {.size = sizeof stats};
	must(s, s->api->run(s->trainer, &task, &stats), "run");
	if (done != steps) check(false, "steps done", (double)done, (double)steps);
	return stats;
}

static void load(struct side *s, const float *from) {
	must(s, s->api->load(s->trainer, 0, s->elements, from), "load");
}

static double relative(double a, double b) { return fabs(a - b) / (fabs(b) > 1e-30 ? fabs(b) : 1e-30); }

static void compare_layout(const struct side *a, const struct side *b) {
	bool same = a->count == b->count && a->elements == b->elements;
	for (uint64_t i = 0; same && i < a->count; i++) {
		const p2pdiloco_trainer_tensor *x = &a->tensors[i], *y = &b->tensors[i];
		same = strcmp(x->name, y->name) == 0 && x->dims == y->dims && memcmp(x->shape, y->shape, x->dims * sizeof *x->shape) == 0;
	}
	check(same, "layout: elements", (double)a->elements, (double)b->elements);
	if (!same) exit(1);
}

static double evaluate(struct side *s) {
	double loss = 0;
	must(s, s->api->evaluate(s->trainer, &loss), "evaluate");
	return loss;
}

/* The gradient of the first batch at these parameters, into s->values. */
static void gradient(struct side *s, const float *at) {
	load(s, at);
	run(s, 1);
	must(s, s->api->export_params(s->trainer, 0, s->elements, s->values), "export_params");
	for (uint64_t i = 0; i < s->elements; i++) {
		double moved = (double)at[i] - (double)s->values[i];
		s->values[i] = (float)(moved / (1 - fabs(moved)));
	}
}

static void compare_gradients(const struct side *a, const struct side *b) {
	uint64_t begin = 0;
	for (uint64_t i = 0; i < a->count; i++) {
		uint64_t end = begin + tensor_elements(&a->tensors[i]);
		double off = 0, norm = 0;
		char what[320];
		for (; begin < end; begin++) {
			double d = (double)a->values[begin] - (double)b->values[begin];
			off += d * d, norm += (double)b->values[begin] * (double)b->values[begin];
		}
		off = sqrt(off / norm);
		snprintf(what, sizeof what, "gradient of %s", a->tensors[i].name);
		check(off <= tolerance, what, off, tolerance);
	}
}

/* What the pseudo-gradient says, against what it is. */
static void check_export(struct side *s, const float *anchor) {
	if (!s->api->export_gradient) return;
	float *gradient = malloc(s->elements * sizeof *gradient);
	if (!gradient) exit(2);
	uint64_t wrong = 0, half = s->elements / 2;
	must(s, s->api->export_params(s->trainer, 0, s->elements, s->values), "export_params");
	must(s, s->api->export_gradient(s->trainer, 0, half, gradient), "export_gradient");
	must(s, s->api->export_gradient(s->trainer, half, s->elements - half, gradient + half), "export_gradient");
	for (uint64_t i = 0; i < s->elements; i++) wrong += gradient[i] != anchor[i] - s->values[i];
	check(wrong == 0, "pseudo-gradient: wrong elements", (double)wrong, 0);
	free(gradient);
}

/* What was exported to values is loaded from there, and comes back in two ranges. */
static void check_load(struct side *s) {
	float *back = malloc(s->elements * sizeof *back);
	if (!back) exit(2);
	uint64_t part = s->elements / 3;
	load(s, s->values);
	must(s, s->api->export_params(s->trainer, 0, part, back), "export_params");
	must(s, s->api->export_params(s->trainer, part, s->elements - part, back + part), "export_params");
	check(memcmp(back, s->values, s->elements * sizeof *back) == 0, "what was loaded comes back", 0, 0);
	free(back);
}

/* A round from parameters that are no numbers fails, and soon. Nothing but destroy may follow. */
static void check_divergence(struct side *s) {
	static const char *const members[] = {"12D3KooWA1bysjrTACSWqf6q172inxvwKHUxAnBtVgaVDKMxpZtx"};
	volatile uint64_t done = 0;
	p2pdiloco_trainer_task task = {.size = sizeof task, .slot = 2, .steps = 100, .seed = 7, .member_count = 1, .members = members, .steps_done = &done, .part = 2, .part_steps = 100};
	p2pdiloco_trainer_stats stats = {.size = sizeof stats};
	s->values[s->elements - 1] = NAN;
	load(s, s->values);
	bool failed = s->api->run(s->trainer, &task, &stats) == P2PDILOCO_TRAINER_FAILED && strstr(s->api->last_error(s->trainer), "diverged");
	check(failed && done <= 8, "steps until a NaN is noticed", (double)done, 8);
}

static void exchange_states(struct side *a, struct side *b) {
	char path[] = "/tmp/compare-state-XXXXXX";
	if (!a->api->save || !b->api->save) return;
	int file = mkstemp(path);
	if (file < 0) exit(2);
	close(file);
	must(a, a->api->save(a->trainer, path), "save");
	must(b, b->api->restore(b->trainer, path), "restore");
	must(b, b->api->save(b->trainer, path), "save");
	must(a, a->api->restore(a->trainer, path), "restore");
	unlink(path);
	check(true, "each restores what the other saved", 0, 0);
}

static void compare_training(struct side *a, struct side *b, const float *start) {
	load(a, start);
	load(b, start);
	double before_a = evaluate(a), before_b = evaluate(b);
	check(relative(before_a, before_b) <= tolerance, "held-out loss before training", relative(before_a, before_b), tolerance);
	p2pdiloco_trainer_stats x = run(a, STEPS), y = run(b, STEPS);
	check(relative(x.loss, y.loss) <= tolerance, "mean loss of 10 steps", relative(x.loss, y.loss), tolerance);
	check(relative(x.gradient_norm, y.gradient_norm) <= 10 * tolerance, "mean norm of their gradients", relative(x.gradient_norm, y.gradient_norm), 10 * tolerance);
	check(x.tokens == y.tokens, "tokens", (double)x.tokens, (double)y.tokens);
	double after_a = evaluate(a), after_b = evaluate(b);
	check(relative(after_a, after_b) <= 10 * tolerance, "held-out loss after training", relative(after_a, after_b), 10 * tolerance);
	check(after_a < before_a, "held-out loss falls to", after_a, before_a);
	check_export(a, start);
	check_export(b, start);
	check_load(a);
	check_load(b);
	exchange_states(a, b);
	check_divergence(a);
	check_divergence(b);
}

int main(int argc, char **argv) {
	struct side a = {0}, b = {0};
	if (argc < 5 || !((tolerance = atof(argv[3])) > 0)) {
		printf("usage: compare LIBRARY REFERENCE TOLERANCE CONFIG [ONLY]\n");
		return 2;
	}
	const char *config = argv[4], *only = argc > 5 ? argv[5] : "";
	open_library(&a, argv[1]);
	open_library(&b, argv[2]);
	printf("%s\nagainst %s\n", a.api->name, b.api->name);
	make(&a, config, PLAIN, only);
	make(&b, config, PLAIN, "");
	compare_layout(&a, &b);
	float *start = malloc(a.elements * sizeof *start);
	if (!start) return 2;
	must(&a, a.api->init(a.trainer, 3, start), "init");
	must(&b, b.api->init(b.trainer, 3, b.values), "init");
	check(memcmp(start, b.values, a.elements * sizeof *start) == 0, "initial bits", 0, 0);
	gradient(&a, start);
	gradient(&b, start);
	compare_gradients(&a, &b);
	end(&a);
	end(&b);
	make(&a, config, "", only);
	make(&b, config, "", "");
	compare_training(&a, &b, start);
	end(&a);
	end(&b);
	free(start);
	printf("%s\n", failures ? "they differ" : "they agree");
	return failures > 0;
}
