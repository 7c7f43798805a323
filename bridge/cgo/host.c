/* See host.h. */
#include "host.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static atomic_int open_calls;
static const char *_Atomic open_call; /* the newest one's name */

/* Runs at exit(), which Go never calls. */
static void at_exit(void)
{
	const char *doing = open_call;
	if (atomic_load(&open_calls) == 0)
		return;
	fprintf(stderr, "p2pdiloco: the trainer library has called exit() in %.120s: a library must not end its process\n",
		doing != NULL ? doing : "a call");
	abort();
}

/* What is made between the two is a call of the library. */
static void begins(void) { atomic_fetch_add(&open_calls, 1); }

static int32_t ends(int32_t code)
{
	fflush(stdout); /* the last line before a crash matters most */
	atomic_fetch_sub(&open_calls, 1);
	return code;
}

void *host_open(const char *path, const char *doing, char *error, size_t size)
{
	static atomic_int opened;
	open_call = doing;
	if (atomic_fetch_add(&opened, 1) == 0) {
		atexit(at_exit);
#ifdef __GLIBC__
		stdout = stderr; /* the peer's standard output has documents, which a library's lines would spoil */
#endif
	}
	begins();
	void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	ends(0);
	if (library != NULL)
		return library;
	/* the text begins with the path, which the caller's message has already */
	const char *text = dlerror();
	size_t n = strlen(path);
	if (text != NULL && strncmp(text, path, n) == 0 && strncmp(text + n, ": ", 2) == 0)
		text += n + 2;
	snprintf(error, size, "%s", text != NULL ? text : "no reason given");
	return NULL;
}

void *host_entry(void *library) { return dlsym(library, "p2pdiloco_trainer_entry"); }

const p2pdiloco_trainer_api *host_enter(void *symbol)
{
	host_entry_function entry;
	memcpy(&entry, &symbol, sizeof(entry));
	begins();
	const p2pdiloco_trainer_api *api = entry(P2PDILOCO_TRAINER_ABI);
	ends(0);
	return api;
}

int32_t host_create(const p2pdiloco_trainer_api *api, const char *config, const char *data_dir, p2pdiloco_trainer **out)
{
	begins();
	int32_t code = ends(api->create(config, data_dir, out));
	atexit(at_exit); /* again: it runs before what the library has registered meanwhile */
	return code;
}

const char *host_last_error(const p2pdiloco_trainer_api *api, p2pdiloco_trainer *t)
{
	begins();
	const char *text = api->last_error(t);
	ends(0);
	return text;
}

int32_t host_layout(const p2pdiloco_trainer_api *api, p2pdiloco_trainer *t, const p2pdiloco_trainer_tensor **tensors,
		    uint64_t *count)
{
	begins();
	return ends(api->layout(t, tensors, count));
}

int32_t host_register(const p2pdiloco_trainer_api *api, p2pdiloco_trainer *t, void *base, uint64_t bytes)
{
	begins();
	return ends(api->register_memory(t, base, bytes));
}

int32_t host_unregister(const p2pdiloco_trainer_api *api, p2pdiloco_trainer *t, void *base)
{
	begins();
	return ends(api->unregister_memory(t, base));
}

int32_t host_init(const p2pdiloco_trainer_api *api, p2pdiloco_trainer *t, uint64_t seed, float *dst)
{
	begins();
	return ends(api->init(t, seed, dst));
}

int32_t host_load(const p2pdiloco_trainer_api *api, p2pdiloco_trainer *t, uint64_t begin, uint64_t count, const float *src)
{
	begins();
	return ends(api->load(t, begin, count, src));
}

int32_t host_run(const p2pdiloco_trainer_api *api, p2pdiloco_trainer *t, const p2pdiloco_trainer_task *task,
		 p2pdiloco_trainer_stats *stats)
{
	begins();
	return ends(api->run(t, task, stats));
}

void host_cancel(const p2pdiloco_trainer_api *api, p2pdiloco_trainer *t) { api->cancel(t); }

int32_t host_export(const p2pdiloco_trainer_api *api, p2pdiloco_trainer *t, int gradient, uint64_t begin, uint64_t count,
		    float *dst)
{
	begins();
	return ends((gradient ? api->export_gradient : api->export_params)(t, begin, count, dst));
}

int32_t host_evaluate(const p2pdiloco_trainer_api *api, p2pdiloco_trainer *t, double *loss)
{
	begins();
	return ends(api->evaluate(t, loss));
}

int32_t host_file(const p2pdiloco_trainer_api *api, p2pdiloco_trainer *t, int restore, const char *path)
{
	begins();
	return ends((restore ? api->restore : api->save)(t, path));
}

void host_destroy(const p2pdiloco_trainer_api *api, p2pdiloco_trainer *t)
{
	begins();
	api->destroy(t);
	ends(0);
}
