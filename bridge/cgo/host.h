/*
 * Calls of a trainer library (p2pdiloco_trainer.h) from Go, which cannot call a function pointer. Each function here
 * makes one call. While one is open, a library that calls exit() ends the process by abort(): it is a crash, never the
 * peer's exit status.
 */
#ifndef P2PDILOCO_HOST_H
#define P2PDILOCO_HOST_H

#include "p2pdiloco_trainer.h"

typedef const p2pdiloco_trainer_api *(*host_entry_function)(uint32_t abi);

/* Opens the library, whose constructors run, and finds its entry; NULL: error says why. doing is where the caller
 * writes which call is made. */
void *host_open(const char *path, const char *doing, char *error, size_t size);
void *host_entry(void *library);

const p2pdiloco_trainer_api *host_enter(void *entry);
int32_t host_create(const p2pdiloco_trainer_api *, const char *config, const char *data_dir, p2pdiloco_trainer **out);
const char *host_last_error(const p2pdiloco_trainer_api *, p2pdiloco_trainer *);
int32_t host_layout(const p2pdiloco_trainer_api *, p2pdiloco_trainer *, const p2pdiloco_trainer_tensor **, uint64_t *count);
int32_t host_register(const p2pdiloco_trainer_api *, p2pdiloco_trainer *, void *base, uint64_t bytes);
int32_t host_unregister(const p2pdiloco_trainer_api *, p2pdiloco_trainer *, void *base);
int32_t host_init(const p2pdiloco_trainer_api *, p2pdiloco_trainer *, uint64_t seed, float *dst);
int32_t host_load(const p2pdiloco_trainer_api *, p2pdiloco_trainer *, uint64_t begin, uint64_t count, const float *src);
int32_t host_run(const p2pdiloco_trainer_api *, p2pdiloco_trainer *, const p2pdiloco_trainer_task *,
		 p2pdiloco_trainer_stats *);
void host_cancel(const p2pdiloco_trainer_api *, p2pdiloco_trainer *);
int32_t host_export(const p2pdiloco_trainer_api *, p2pdiloco_trainer *, int gradient, uint64_t begin, uint64_t count,
		    float *dst);
int32_t host_evaluate(const p2pdiloco_trainer_api *, p2pdiloco_trainer *, double *loss);
int32_t host_file(const p2pdiloco_trainer_api *, p2pdiloco_trainer *, int restore, const char *path);
void host_destroy(const p2pdiloco_trainer_api *, p2pdiloco_trainer *);

#endif
