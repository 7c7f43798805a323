/* Tests of a trainer library through its ABI alone. It serves other trainers of the same model, too. */
#ifndef P2PDILOCO_CPU_TEST_H
#define P2PDILOCO_CPU_TEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "p2pdiloco_trainer.h"

extern const p2pdiloco_trainer_api *api;
extern const char *folder;  /* for files of the tests; text/ in it is the corpus */
extern bool slow;           /* each instruction takes long (valgrind): do less */
extern const char *current; /* test */
extern int failures;

/* Counts a failure, and goes on. */
#define CHECK(condition, ...) \
	do { \
		if (!(condition)) { \
			failures++; \
			printf("%s:%d: %s: %s is false. ", __FILE__, __LINE__, current, #condition); \
			printf(__VA_ARGS__); \
			printf("\n"); \
		} \
	} while (0)

/* A small model whose sizes are all different, so that a mixed-up dimension shows. */
#define SMALL "\"layers\":2,\"width\":12,\"heads\":3,\"context\":10,\"batch\":4,\"held_out\":7"

/* Makes a trainer with the test's text and these members of the configuration; it ends the program where that
 * fails. */
p2pdiloco_trainer *make_trainer(const char *members);

/* Ends the program with last_error unless code is OK. */
void must(p2pdiloco_trainer *t, int32_t code);

uint64_t elements(p2pdiloco_trainer *t);

/* The live parameters, for free. */
float *export_all(p2pdiloco_trainer *t);

void load_all(p2pdiloco_trainer *t, const float *values);

/* Runs a round as one of two members. */
int32_t run_round(p2pdiloco_trainer *t, uint64_t slot, uint64_t steps, p2pdiloco_trainer_stats *stats);
p2pdiloco_trainer_stats must_run(p2pdiloco_trainer *t, uint64_t slot, uint64_t steps);

/* test_training.c */
void test_gradients(void);
void test_training(void);
void test_threads(void);
void test_cancel(void);
void test_save(void);
void test_divergence(void);

#endif
