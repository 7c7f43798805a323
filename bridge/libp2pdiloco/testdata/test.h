/* What the test programs share. They say "ok NAME" on standard output, and nothing else may say anything there. */
#ifndef TEST_H
#define TEST_H

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "p2pdiloco.h"

static int failures;

#define CHECK(what) \
	do { \
		if (!(what)) { \
			fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #what); \
			failures++; \
		} \
	} while (0)

/* Calls a function that takes an error last, checks the code, and that there is a text exactly where the code
 * needs one. */
#define EXPECT(wanted, call) \
	do { \
		char *error = (char *)"untouched"; \
		int32_t got = (call); \
		if (got != (wanted)) { \
			fprintf(stderr, "%s:%d: %s is %d, not " #wanted ": %s\n", __FILE__, __LINE__, #call, got, error ? error : ""); \
			failures++; \
		} \
		int said = got != P2PDILOCO_OK && got != P2PDILOCO_AGAIN && got != P2PDILOCO_ENDED; \
		CHECK(said ? error && strlen(error) > 10 && !strchr(error, '\n') : !error); \
		p2pdiloco_free(error); \
	} while (0)

static inline void passed(const char *name) {
	if (failures)
		exit(1);
	printf("ok %s\n", name);
}

/* A run of one peer, with no way out of this machine. more is more of the configuration, like ", \"rounds\": 5". */
static inline p2pdiloco_node join_alone(const char *run, unsigned elements, const char *more) {
	char config[1024];
	p2pdiloco_node node = 0;

	snprintf(config, sizeof config,
		"{\"run\": \"%s\", \"preset\": \"lan\", \"listen\": [\"/ip4/127.0.0.1/tcp/0\", \"/ip4/127.0.0.1/udp/0/quic-v1\"], \"outer\": \"sgd\", \"outer_lr\": \"1\","
		" \"aggregator\": \"mean\", \"layout\": [{\"name\": \"w\", \"shape\": [%u]}]%s}",
		run, elements, more);
	EXPECT(P2PDILOCO_OK, p2pdiloco_join(config, NULL, 0, &node, &error));
	CHECK(node != 0);
	return node;
}

#endif
