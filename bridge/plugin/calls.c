/* One function for each request of the node, which calls the library. See host.h. */
#include "host.h"

#include <math.h>

static void fill(struct p2pa *a)
{
	enter("init");
	must(host.api.init(host.trainer, host.note->seed, a->local));
}

static void load(struct p2pa *a, uint64_t begin, uint64_t end)
{
	enter("load");
	must(host.api.load(host.trainer, begin, end - begin, a->start + begin));
}

static void export_range(struct p2pa *a, uint64_t begin, uint64_t end, int gradient)
{
	float *to = a->local + begin;
	if (gradient && host.api.export_gradient != NULL) {
		enter("export_gradient");
		must(host.api.export_gradient(host.trainer, begin, end - begin, to));
		return;
	}
	enter("export_params");
	must(host.api.export_params(host.trainer, begin, end - begin, to));
	for (uint64_t i = begin; gradient && i < end; i++)
		a->local[i] = a->start[i] - a->local[i];
}

/* Where a number is wrong that has no sign worth showing. */
static const char *number(double x, char text[32])
{
	snprintf(text, 32, "%g", x);
	return isnan(x) ? "NaN" : text;
}

static int evaluate(struct p2pa *a, double *loss)
{
	char text[32];
	(void)a;
	enter("evaluate");
	watch_begins();
	int32_t code = host.api.evaluate(host.trainer, loss);
	if (watch_ends() && code == P2PDILOCO_TRAINER_CANCELLED)
		return 1;
	must(code);
	if (isfinite(*loss))
		return 0;
	snprintf(host.note->problem, sizeof(host.note->problem), "the held-out loss is %s: training diverged, take a lower "
		"learning rate", number(*loss, text));
	return 1;
}

/* A save or restore that fails leaves the trainer usable. */
static int harmless(int32_t code)
{
	if (code == P2PDILOCO_TRAINER_OK)
		return 0;
	snprintf(host.note->problem, sizeof(host.note->problem), "%s", reason(host.trainer));
	return 1;
}

static int save(struct p2pa *a, const char *path)
{
	(void)a;
	enter("save");
	return harmless(host.api.save(host.trainer, path));
}

static int restore(struct p2pa *a, const char *folder, uint64_t world)
{
	char path[4200];
	(void)a, (void)world;
	enter("restore");
	snprintf(path, sizeof(path), "%s/rank-0", folder);
	return harmless(host.api.restore(host.trainer, path));
}

static void unmap(struct p2pa *a)
{
	if (host.failed || host.api.unregister_memory == NULL)
		return;
	enter("unregister_memory");
	host.api.unregister_memory(host.trainer, a->map_start);
}

/* Attaches, and announces the memory: start, and behind it local. */
void attach(const char *path)
{
	struct p2pa *a = &host.attached;
	struct p2pa_config config = {
		.path = path,
		.fill = fill,
		.load = load,
		.export_range = export_range,
		.unmap = unmap,
		.evaluate = host.api.evaluate != NULL ? evaluate : NULL,
		.save = host.note->can & CAN_SAVE ? save : NULL,
		.restore = host.note->can & CAN_SAVE ? restore : NULL,
	};
	enter("layout");
	config.tensors = library_layout(&config.count);
	if (p2pa_attach(a, &config) != P2PA_OK)
		fail("%s", a->error);
	if (host.api.register_memory == NULL)
		return;
	/* page-locking wants memory that may be written */
	mprotect(a->map_start, a->size, PROT_READ | PROT_WRITE);
	enter("register_memory");
	must(host.api.register_memory(host.trainer, a->map_start, 2 * a->size));
}

/* Points into the lines of the member IDs, and ends each. */
static const char **split(char *lines, uint32_t count)
{
	const char **members = calloc(count + 1u, sizeof(*members));
	if (members == NULL)
		abort();
	for (uint32_t i = 0; i < count; i++) {
		char *end = lines + strcspn(lines, "\n");
		members[i] = lines;
		lines = *end == '\0' ? end : end + 1;
		*end = '\0';
	}
	return members;
}

/* Refuses statistics that cannot be. */
static void check_stats(const p2pdiloco_trainer_stats *s, uint64_t asked)
{
	char text[32];
	if (s->steps == 0 || s->steps > asked)
		fail("it says that it did %llu steps of %llu: stats->steps must be those done", (unsigned long long)s->steps,
			(unsigned long long)asked);
	if (s->tokens == 0)
		fail("it says that it processed no tokens: stats->tokens is the contribution's weight, and must be above 0 "
			"(samples will do)");
	if (!isfinite(s->loss))
		fail("the training loss is %s: training diverged, take a lower learning rate", number(s->loss, text));
	if (!(s->seconds >= 0 && s->seconds < 4e9))
		fail("it says that it took %s seconds: stats->seconds must be the time spent in the steps",
			number(s->seconds, text));
}

static struct p2pa_offer run(struct p2pa *a)
{
	const struct p2pa_train *t = &a->train;
	struct p2pa_offer offer = {0};
	p2pdiloco_trainer_stats stats = {.size = sizeof(stats)};
	p2pdiloco_trainer_task task = {
		.size = sizeof(task), .slot = t->slot, .steps = t->steps, .seed = t->seed, .rank = (uint32_t)t->member,
		.member_count = (uint32_t)t->members, .members = split(a->member_ids, (uint32_t)t->members),
		.steps_done = (volatile uint64_t *)(void *)a->map_local, .part = t->part, .part_steps = t->part_steps,
		.done = t->part_done, .step = t->step, .total_steps = t->total_steps,
	};
	enter("run for slot %llu", (unsigned long long)t->slot);
	watch_begins();
	int32_t code = host.api.run(host.trainer, &task, &stats);
	int cancelled = watch_ends();
	free((void *)task.members);
	fflush(stdout);
	if (cancelled && code == P2PDILOCO_TRAINER_CANCELLED) {
		offer.steps = *task.steps_done < t->steps ? *task.steps_done : t->steps;
		a->train.export_kind = 0;
		return offer;
	}
	must(code);
	check_stats(&stats, t->steps);
	offer.steps = stats.steps, offer.tokens = stats.tokens, offer.samples = stats.samples;
	offer.loss = stats.loss, offer.seconds = stats.seconds;
	/* a step that loss scaling skipped has no finite norm: it counts as unknown */
	offer.grad_norm = stats.gradient_norm >= 0 && isfinite(stats.gradient_norm) ? stats.gradient_norm : 0;
	return offer;
}

/* Does what the node asks for, until it sends this process away, or is gone. */
void serve(void)
{
	struct p2pa *a = &host.attached;
	struct p2pa_offer offer;
	int status = p2pa_border(a, NULL);
	while (status == P2PA_OK) {
		offer = run(a);
		status = watch_lost() ? P2PA_ERROR : p2pa_border(a, &offer);
	}
	if (a->code == 0)
		orphaned(); /* a node that sends its trainer away says why */
	p2pa_close(a);
}
