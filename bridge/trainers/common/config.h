/*
 * The text of --trainer-config: sizes of the model, its training, and its data. What a key is, its default and
 * its limits are the built-in trainer's (bridge/builtin), so that peers with either can share a run; README.md
 * lists them.
 */
#ifndef P2PDILOCO_COMMON_CONFIG_H
#define P2PDILOCO_COMMON_CONFIG_H

#include <stddef.h>
#include <stdint.h>

#include "failure.h"
#include "json.h"

#ifdef __cplusplus
extern "C" {
#endif

#define VOCABULARY 256 /* the model reads and predicts bytes */

/* Caps on the model. They keep a mistyped number from taking the machine's memory. */
#define MAX_MODEL_ELEMENTS ((uint64_t)1 << 28)  /* parameters: 1 GiB each for values, gradients, the two moments and the anchor */
#define MAX_BUFFER_ELEMENTS ((uint64_t)1 << 30) /* activations: 4 GiB */
#define MAX_PATHS 256

struct config {
	int64_t layers, width, heads, context, batch;
	double learning_rate, beta1, beta2, epsilon;
	double weight_decay, clip; /* 0 or less: none */
	int64_t warm_up;           /* 0 or less: none */
	int64_t held_out, threads;

	char **paths; /* of the text; none: the Go standard library's source */
	size_t path_count;
	int64_t max_bytes, hold_out;
};

/* Reads the value of a key that config does not know, for trainers with keys of their own. It returns 0,
 * FAILED, or -1 where it does not know the key either. */
typedef int (*config_other)(struct json *j, const char *key, void *mine);

/* Fills c from a JSON object, checks it, and fills in defaults. other may be NULL. What config_free is for is
 * in c on failure, too. */
int config_parse(struct config *c, const char *text, config_other other, void *mine, struct failure *why);

void config_free(struct config *c);

#ifdef __cplusplus
}
#endif

#endif
