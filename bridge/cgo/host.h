/*
 * Calls of a trainer library (p2pdiloco_trainer.h) from Go, which cannot call a function pointer. While one is loaded,
 * exit() ends the process by abort(): Go never calls it, and what a library does is never the peer's exit status.
 */
#ifndef P2PDILOCO_HOST_H
#define P2PDILOCO_HOST_H

#include "p2pdiloco_trainer.h"

/* What is called. */
enum host_function {
	HOST_DLOPEN,
	HOST_ENTRY,
	HOST_CREATE,
	HOST_LAYOUT,
	HOST_REGISTER,
	HOST_INIT,
	HOST_LOAD,
	HOST_RUN,
	HOST_EXPORT_PARAMS,
	HOST_EXPORT_GRADIENT,
	HOST_EVALUATE,
	HOST_SAVE,
	HOST_RESTORE,
	HOST_UNREGISTER,
	HOST_DESTROY,
};

/* A library, its trainer, and what calls take and give beside a range and its data. It lies in C's memory. */
struct host {
	void *library;
	p2pdiloco_trainer_api api; /* a copy of the library's table; of a smaller one the size alone */
	p2pdiloco_trainer *trainer;
	const char *path, *config, *data_dir;
	const p2pdiloco_trainer_tensor *tensors;
	uint64_t count; /* of tensors */
	uint64_t seed;
	p2pdiloco_trainer_task task;
	p2pdiloco_trainer_stats stats;
	uint64_t steps; /* done in the newest run */
	double loss;
};

/* Calls a function. data is the range's elements, a path, or the memory to register. */
int32_t host_call(struct host *, enum host_function, uint64_t begin, uint64_t count, void *data);

/* Why the last call has failed. */
const char *host_error(struct host *);

void host_cancel(struct host *);

#endif
