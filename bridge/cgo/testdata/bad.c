/*
 * The bowl, misbehaving. Configuration: "how": WHAT, "in": FUNCTION, like {"how":"crash", "in":"run"}; for what
 * the library does before it has a configuration, the same two words in the environment variable P2PDILOCO_BAD.
 */
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#define ENTRY bowl_entry
__attribute__((visibility("hidden"))) const struct p2pdiloco_trainer_api *bowl_entry(unsigned abi);
#include "bowl.c"

static char mode[200];

static int is(const char *how) { return strstr(mode, how) != NULL; }

/* Says whether a function is the one that misbehaves. */
static int in(const char *function)
{
	char key[64];
	snprintf(key, sizeof(key), "\"in\":\"%s\"", function);
	return is(key);
}

static char once[4096]; /* a file that is there when it has misbehaved */

static int first(void)
{
	FILE *f = fopen(once, "wx");
	return f != NULL && fclose(f) == 0;
}

/* What any function may do. */
static int32_t misbehave(p2pdiloco_trainer *t, const char *function)
{
	if (!in(function) || (is("once") && !first()))
		return 0;
	if (is("crash"))
		*(volatile int *)8 = 1;
	if (is("abort"))
		abort();
	if (is("killed"))
		raise(SIGKILL);
	if (is("exit"))
		exit(3);
	while (is("hang"))
		pause();
	if (is("slow"))
		rest(1000);
	if (is("waits")) { /* in the middle of a step */
		while (!atomic_load(&t->cancelled))
			rest(1);
		return P2PDILOCO_TRAINER_CANCELLED;
	}
	if (is("cancelled"))
		return P2PDILOCO_TRAINER_CANCELLED;
	if (!is("fail"))
		return 0;
	const char *text = "the data\nare \x1b[31mgone \xff\xfe";
	snprintf(t != NULL ? t->error : create_error, 200, "%s", text);
	return 77;
}

/* A thread of the library's own. */
static void *leaves(void *unused)
{
	rest(20);
	exit(0);
	return unused;
}

static int32_t bad_create(const char *config, const char *data_dir, p2pdiloco_trainer **out)
{
	snprintf(mode, sizeof(mode), "%s", config);
	snprintf(once, sizeof(once), "%s/once", data_dir);
	int32_t code = misbehave(NULL, "create");
	pthread_t thread;
	if (is("thread"))
		pthread_create(&thread, NULL, leaves, NULL);
	if (is("\"how\":\"nothing\"") && in("create"))
		return *out = NULL, P2PDILOCO_TRAINER_OK;
	if (is("\"how\":\"long\""))
		memset(create_error, 'x', sizeof(create_error) - 1);
	if (code == 0 && is("\"how\":\"long\""))
		code = 1;
	return code != 0 ? (*out = NULL, code) : create(config, data_dir, out);
}

static int32_t bad_layout(p2pdiloco_trainer *t, const p2pdiloco_trainer_tensor **tensors, uint64_t *count)
{
	p2pdiloco_trainer_tensor *last = &t->tensors[1];
	int32_t code = misbehave(t, "layout");
	if (code != 0)
		return code;
	layout(t, tensors, count);
	if (!in("layout"))
		return 0;
	if (is("no-tensors") || is("many-tensors"))
		*count = is("many-tensors") ? 1u << 20 : 0;
	if (is("zero") || is("huge") || is("overflow"))
		last->dims = 1, last->shape[0] = is("huge") ? 1ull << 39 : is("overflow") ? 1ull << 63 : 0;
	if (is("not-utf8") || is("empty-name") || is("twice"))
		last->name = is("not-utf8") ? "\xff\xfe" : is("twice") ? "x" : "";
	if (is("dimensions"))
		last->dims = 9;
	if (is("type"))
		last->dtype = 9;
	if (is("small"))
		t->tensors[0].size = 8;
	if (is("wild"))
		*tensors = (const p2pdiloco_trainer_tensor *)16;
	return 0;
}

/* A function that does what the bowl's does, unless it misbehaves. */
#define LIKE_THE_BOWLS(name, parameters, arguments) \
	static int32_t bad_##name parameters \
	{ \
		int32_t code = misbehave(t, #name); \
		return code != 0 ? code : name arguments; \
	}
LIKE_THE_BOWLS(register_memory, (p2pdiloco_trainer * t, void *base, uint64_t bytes), (t, base, bytes))
LIKE_THE_BOWLS(unregister_memory, (p2pdiloco_trainer * t, void *base), (t, base))
LIKE_THE_BOWLS(save, (p2pdiloco_trainer * t, const char *path), (t, path))

static int32_t bad_init(p2pdiloco_trainer *t, uint64_t seed, float *dst)
{
	int32_t code = misbehave(t, "init");
	if (code == 0)
		code = init(t, seed, dst);
	static float asked;
	if (in("init") && is("nan"))
		dst[t->size - 1] = NAN;
	if (in("init") && is("pid"))
		dst[3] = (float)getpid();
	if (in("init") && is("unstable"))
		dst[3] = asked++;
	return code;
}

static int32_t bad_load(p2pdiloco_trainer *t, uint64_t begin, uint64_t count, const float *src)
{
	int32_t code = misbehave(t, "load");
	if (in("load") && is("forgets") && begin > 0)
		count--;
	return code != 0 ? code : load(t, begin, count, src);
}

static int32_t bad_run(p2pdiloco_trainer *t, const p2pdiloco_trainer_task *task, p2pdiloco_trainer_stats *stats)
{
	int early = is("from-slot-3") && task->slot < 3;
	if (in("run"))
		*task->steps_done = 2;
	atomic_store(&t->cancelled, 0);
	int32_t code = early ? 0 : misbehave(t, "run");
	if (code != 0)
		return code;
	if (in("run") && is("members")) {
		snprintf(t->error, sizeof(t->error), "rank %u of %u: %s, %s", task->rank, task->member_count, task->members[0],
			task->members[1]);
		return P2PDILOCO_TRAINER_FAILED;
	}
	for (int i = 0; in("run") && is("deaf") && i < 300; i++) { /* to cancel, for a second and a half */
		*task->steps_done = (*task->steps_done + 1) % task->steps;
		rest(5);
	}
	if (in("run") && is("timed") && (task->size < sizeof(*task) || task->step >= task->total_steps ||
					 (is("counts") && task->step != t->steps) || (is("stops") && task->slot == 4))) {
		snprintf(t->error, sizeof(t->error), "step %llu of %llu after %llu steps", (unsigned long long)task->step,
			(unsigned long long)task->total_steps, (unsigned long long)t->steps);
		return P2PDILOCO_TRAINER_FAILED;
	}
	code = run(t, task, stats);
	if (!in("run") || code != 0 || early)
		return code;
	if (is("silent"))
		*task->steps_done = 0;
	if (is("lazy"))
		memcpy(t->x, t->loaded, t->size * sizeof(float));
	if (is("too-many") || is("no-steps"))
		stats->steps = is("no-steps") ? 0 : task->steps + 1;
	if (is("no-weight"))
		stats->tokens = 0;
	if (is("nan-loss"))
		stats->loss = NAN;
	if (is("nan-seconds"))
		stats->seconds = NAN;
	if (is("nan-norm"))
		stats->gradient_norm = NAN;
	if (is("nan-parameter"))
		t->x[5] = NAN;
	if (is("inf-parameter"))
		t->x[t->size - 1] = INFINITY;
	return code;
}

static int32_t bad_export(p2pdiloco_trainer *t, uint64_t begin, uint64_t count, float *dst)
{
	int32_t code = misbehave(t, "export_params");
	if (code == 0)
		code = export_params(t, begin, count, dst);
	if (in("export_params") && is("rounds"))
		dst[0] = (float)(int)dst[0];
	return code;
}

static int32_t bad_gradient(p2pdiloco_trainer *t, uint64_t begin, uint64_t count, float *dst)
{
	int32_t code = misbehave(t, "export_gradient");
	if (code == 0)
		code = export_gradient(t, begin, count, dst);
	for (uint64_t i = 0; in("export_gradient") && is("ascends") && i < count; i++)
		dst[i] = -dst[i];
	return code;
}

static int32_t bad_evaluate(p2pdiloco_trainer *t, double *loss)
{
	int32_t code = misbehave(t, "evaluate");
	if (code == 0)
		code = evaluate(t, loss);
	if (in("evaluate") && is("nan"))
		*loss = NAN;
	return code;
}

static int32_t bad_restore(p2pdiloco_trainer *t, const char *path)
{
	int32_t code = misbehave(t, "restore");
	if (in("restore") && is("takes-all"))
		return 0;
	return code != 0 ? code : restore(t, path);
}

static void bad_destroy(p2pdiloco_trainer *t)
{
	misbehave(t, "destroy");
	if (!(in("destroy") && is("leak")))
		destroy(t);
}

P2PDILOCO_TRAINER_EXPORT const p2pdiloco_trainer_api *p2pdiloco_trainer_entry(uint32_t abi)
{
	static p2pdiloco_trainer_api table;
	const char *bad = getenv("P2PDILOCO_BAD");
	snprintf(mode, sizeof(mode), "%s", bad != NULL ? bad : "");
	misbehave(NULL, "entry");
	table = *bowl_entry(abi);
	table.name = "bad\n1.0";
	table.create = bad_create, table.layout = bad_layout, table.destroy = bad_destroy;
	table.register_memory = bad_register_memory, table.unregister_memory = bad_unregister_memory;
	table.init = bad_init, table.load = bad_load, table.run = bad_run;
	table.export_params = bad_export, table.export_gradient = is("no-gradient") ? NULL : bad_gradient;
	table.evaluate = is("no-evaluate") ? NULL : bad_evaluate;
	table.save = is("no-save") ? NULL : bad_save, table.restore = bad_restore;
	if (is("other-abi"))
		table.abi = 2;
	if (is("small-table") || is("no-size"))
		table.size = is("no-size") ? 0 : 64;
	if (is("no-run"))
		table.run = NULL;
	return is("null-table") ? NULL : &table;
}

/* What a library may do while it is loaded. */
__attribute__((constructor)) static void loaded(void)
{
	const char *bad = getenv("P2PDILOCO_BAD");
	snprintf(mode, sizeof(mode), "%s", bad != NULL ? bad : "");
	misbehave(NULL, "constructor");
}
