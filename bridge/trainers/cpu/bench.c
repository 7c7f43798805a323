/*
 * How fast a trainer library is: bench LIBRARY [CONFIG [STEPS]]. It trains three rounds of so many steps and
 * prints the best.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "p2pdiloco_trainer.h"

static const p2pdiloco_trainer_api *api;

static void must(p2pdiloco_trainer *t, int32_t code) {
	if (code == P2PDILOCO_TRAINER_OK) return;
	fprintf(stderr, "%s\n", api->last_error(t));
	exit(1);
}

int main(int argc, char **argv) {
	if (argc < 2) {
		fprintf(stderr, "usage: bench LIBRARY [CONFIG [STEPS]]\n");
		return 2;
	}
	void *library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
	const p2pdiloco_trainer_api *(*entry)(uint32_t) = NULL;
	if (library) *(void **)&entry = dlsym(library, "p2pdiloco_trainer_entry"); /* as POSIX writes it */
	if (!entry || !(api = entry(P2PDILOCO_TRAINER_ABI))) {
		fprintf(stderr, "%s: %s\n", argv[1], library ? "it serves another ABI" : dlerror());
		return 1;
	}
	p2pdiloco_trainer *t = NULL;
	must(t, api->create(argc > 2 ? argv[2] : "{}", ".", &t));

	const char *self = "12D3KooWA1bysjrTACSWqf6q172inxvwKHUxAnBtVgaVDKMxpZtx";
	volatile uint64_t done = 0;
	double best = 0, tokens = 0;
	for (uint64_t slot = 1; slot <= 3; slot++) {
		p2pdiloco_trainer_stats stats = {.size = sizeof stats};
		p2pdiloco_trainer_task task = {
			.size = sizeof task, .slot = slot, .steps = argc > 3 ? strtoull(argv[3], NULL, 10) : 50, .seed = 1,
			.member_count = 1, .members = &self, .steps_done = &done, .part = slot, .part_steps = 50,
		};
		must(t, api->run(t, &task, &stats));
		double rate = (double)stats.steps / stats.seconds;
		if (rate > best) best = rate, tokens = (double)stats.tokens / stats.seconds;
		printf("slot %d: loss %.4f, gradient norm %.4f, %.2f steps/s\n", (int)slot, stats.loss, stats.gradient_norm, rate);
	}
	printf("%s: %.2f steps/s, %.0f tokens/s\n", api->name, best, tokens);
	api->destroy(t);
	dlclose(library);
	return 0;
}
