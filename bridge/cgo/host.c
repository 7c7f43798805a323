/* See host.h. */
#include "host.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static atomic_int open_libraries;

/* Runs at exit(), which Go never calls. The first process of a container has no signals. */
static void at_exit(void)
{
	if (atomic_load(&open_libraries) == 0)
		return;
	fputs("p2pdiloco: the trainer library has called exit(): a library must not end its process\n", stderr);
	if (getpid() == 1)
		_exit(134);
	abort();
}

static int32_t open_library(struct host *h)
{
#ifdef __GLIBC__
	stdout = stderr; /* the peer's standard output has documents, which a library's lines would spoil */
#endif
	atomic_fetch_add(&open_libraries, 1); /* until its trainer is destroyed */
	atexit(at_exit);
#ifdef __linux__
	at_quick_exit(at_exit);
#endif
	h->library = dlopen(h->path, RTLD_NOW | RTLD_LOCAL);
	return h->library == NULL;
}

/* Takes the table of functions: 1, there is no entry; 2, no table for this ABI. */
static int32_t enter(struct host *h)
{
	const p2pdiloco_trainer_api *(*entry)(uint32_t abi);
	void *symbol = dlsym(h->library, "p2pdiloco_trainer_entry");
	if (symbol == NULL)
		return 1;
	memcpy(&entry, &symbol, sizeof(entry));
	const p2pdiloco_trainer_api *api = entry(P2PDILOCO_TRAINER_ABI);
	if (api == NULL)
		return 2;
	memcpy(&h->api, api, api->size < sizeof(h->api) ? offsetof(p2pdiloco_trainer_api, flags) : sizeof(h->api));
	return 0;
}

static int32_t create(struct host *h)
{
	int32_t code = h->api.create(h->config, h->data_dir, &h->trainer);
	atexit(at_exit); /* again: it runs before what the library has registered meanwhile */
	return code;
}

static int32_t call(struct host *h, enum host_function function, uint64_t begin, uint64_t count, void *data)
{
	const p2pdiloco_trainer_api *api = &h->api;
	switch (function) {
	case HOST_DLOPEN: return open_library(h);
	case HOST_ENTRY: return enter(h);
	case HOST_CREATE: return create(h);
	case HOST_LAYOUT: return api->layout(h->trainer, &h->tensors, &h->count);
	case HOST_REGISTER: return api->register_memory(h->trainer, data, count);
	case HOST_INIT: return api->init(h->trainer, h->seed, data);
	case HOST_LOAD: return api->load(h->trainer, begin, count, data);
	case HOST_RUN: return api->run(h->trainer, &h->task, &h->stats);
	case HOST_EXPORT_PARAMS: return api->export_params(h->trainer, begin, count, data);
	case HOST_EXPORT_GRADIENT: return api->export_gradient(h->trainer, begin, count, data);
	case HOST_EVALUATE: return api->evaluate(h->trainer, &h->loss);
	case HOST_SAVE: return api->save(h->trainer, data);
	case HOST_RESTORE: return api->restore(h->trainer, data);
	case HOST_UNREGISTER: return api->unregister_memory(h->trainer, data);
	case HOST_DESTROY: api->destroy(h->trainer), atomic_fetch_sub(&open_libraries, 1);
	}
	return 0;
}

int32_t host_call(struct host *h, enum host_function function, uint64_t begin, uint64_t count, void *data)
{
	int32_t code = call(h, function, begin, count, data);
	fflush(stdout); /* the last line before a crash matters most */
	return code;
}

const char *host_error(struct host *h)
{
	if (h->library != NULL && h->api.last_error == NULL)
		return "it exports no p2pdiloco_trainer_entry: it is no trainer";
	if (h->library != NULL)
		return h->api.last_error(h->trainer);
	/* the text of the loader begins with the path, which the caller's message has already */
	const char *text = dlerror();
	size_t n = strlen(h->path);
	return text != NULL && strncmp(text, h->path, n) == 0 && strncmp(text + n, ": ", 2) == 0 ? text + n + 2 : text;
}

void host_cancel(struct host *h) { h->api.cancel(h->trainer); }
