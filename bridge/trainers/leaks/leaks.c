/*
 * Drives a trainer library through its whole life, to be run under valgrind or a sanitizer: what it
 * allocates must be freed. It also checks that training goes on from a saved state to the bit.
 *
 *     cc -I../../include -o leaks leaks.c -ldl -lpthread
 *     valgrind --leak-check=full ./leaks LIBRARY CONFIG WRONG-CONFIG FILE
 *
 * CONFIG and WRONG-CONFIG are texts for create, of which it must refuse the second; FILE is for save.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "p2pdiloco_trainer.h"

static const p2pdiloco_trainer_api *api;
static p2pdiloco_trainer *trainer;
static atomic_int stop;

/* Ends the program unless a call returned what it should. */
static void expect(const char *call, int32_t code, int32_t wanted)
{
	const char *why = code == P2PDILOCO_TRAINER_FAILED ? api->last_error(trainer) : "";
	if (code == P2PDILOCO_TRAINER_FAILED && (*why == 0 || strchr(why, '\n') != NULL))
		fprintf(stderr, "%s: last_error is no line: \"%s\"\n", call, why), exit(1);
	if (code != wanted)
		fprintf(stderr, "%s returned %d, not %d: %s\n", call, (int)code, (int)wanted, why), exit(1);
}

static void *cancel_often(void *unused)
{
	for (; !atomic_load(&stop); usleep(1000))
		api->cancel(trainer);
	return unused;
}

static void run(uint64_t steps, int32_t wanted)
{
	uint64_t done = 0;
	p2pdiloco_trainer_task task = {.size = sizeof task, .slot = 1, .steps = steps, .seed = 7, .member_count = 1,
		.steps_done = &done, .part = 3, .part_steps = 9};
	p2pdiloco_trainer_stats stats = {.size = sizeof stats};
	expect("run", api->run(trainer, &task, &stats), wanted);
	if (done != stats.steps || (wanted == P2PDILOCO_TRAINER_OK && done != steps))
		fprintf(stderr, "run reports %d of %d steps, then %d\n", (int)done, (int)steps, (int)stats.steps), exit(1);
}

int main(int argc, char **argv)
{
	void *library = argc == 5 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
	const p2pdiloco_trainer_api *(*entry)(uint32_t) = NULL;
	if (library != NULL)
		*(void **)&entry = dlsym(library, "p2pdiloco_trainer_entry");
	if (entry == NULL || (api = entry(P2PDILOCO_TRAINER_ABI)) == NULL)
		fprintf(stderr, "usage: leaks LIBRARY CONFIG WRONG-CONFIG FILE (%s)\n", dlerror()), exit(2);
	expect("create", api->create(argv[3], ".", &trainer), P2PDILOCO_TRAINER_FAILED);
	if (trainer != NULL)
		api->destroy(trainer);
	expect("create", api->create(argv[2], ".", &trainer), P2PDILOCO_TRAINER_OK);

	const p2pdiloco_trainer_tensor *tensors;
	uint64_t count, d = 0;
	expect("layout", api->layout(trainer, &tensors, &count), P2PDILOCO_TRAINER_OK);
	for (uint64_t i = 0, n = 1; i < count; d += n, n = 1, i++)
		for (uint32_t k = 0; k < tensors[i].dims; k++)
			n *= tensors[i].shape[k];
	size_t page = (size_t)sysconf(_SC_PAGESIZE), bytes = (3 * d * sizeof(float) + page - 1) / page * page;
	float *start = aligned_alloc(page, bytes), *first = start + d, *second = first + d;
	double loss;
	expect("register_memory", api->register_memory(trainer, start, bytes), P2PDILOCO_TRAINER_OK);
	expect("init", api->init(trainer, 5, start), P2PDILOCO_TRAINER_OK);
	expect("load", api->load(trainer, 0, d, start), P2PDILOCO_TRAINER_OK);
	run(2, P2PDILOCO_TRAINER_OK);
	expect("export_gradient", api->export_gradient(trainer, d / 3, d / 2, first), P2PDILOCO_TRAINER_OK);
	expect("evaluate", api->evaluate(trainer, &loss), P2PDILOCO_TRAINER_OK);
	expect("save", api->save(trainer, argv[4]), P2PDILOCO_TRAINER_OK);
	for (float *after = first; after <= second; after += d) {
		expect("restore", api->restore(trainer, argv[4]), P2PDILOCO_TRAINER_OK);
		expect("load", api->load(trainer, 0, d, start), P2PDILOCO_TRAINER_OK);
		run(3, P2PDILOCO_TRAINER_OK);
		expect("export_params", api->export_params(trainer, 0, d, after), P2PDILOCO_TRAINER_OK);
	}
	if (memcmp(first, second, d * sizeof(float)) != 0)
		fprintf(stderr, "training goes on otherwise after restore\n"), exit(1);
	expect("restore", api->restore(trainer, "/nowhere/at all"), P2PDILOCO_TRAINER_FAILED);
	pthread_t thread;
	pthread_create(&thread, NULL, cancel_often, NULL);
	run(1 << 30, P2PDILOCO_TRAINER_CANCELLED);
	atomic_store(&stop, 1);
	pthread_join(thread, NULL);
	expect("unregister_memory", api->unregister_memory(trainer, start), P2PDILOCO_TRAINER_OK);
	api->destroy(trainer);
	trainer = NULL; /* what only this pointed to is lost now */
	free(start);
	return dlclose(library);
}
