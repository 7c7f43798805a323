/*
 * A program in C that takes part in a run with its own training loop: linear regression on made-up data, y = 1x0 + 2x1 + ... + 8x7 + 3.
 *
 *     linear RUN [MULTIADDR]
 *
 * Start it twice, on one machine or on two of one network. MULTIADDR is where another one can be found, as that one prints it; without it peers are
 * looked for on the local network. Both end with the same parameters, bit for bit. See README.md.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "p2pdiloco.h"

#define INPUTS 8
#define PARAMS (INPUTS + 1) /* the weights, then the bias */
#define STEPS 50            /* inner steps of a round */
#define RATE 0.01f          /* their learning rate */

/* A random number from -1 to 1, of this peer's own data. */
static float noise(uint64_t *state) {
	*state = *state * 6364136223846793005u + 1442695040888963407u;
	return (float)(*state >> 40) / (float)(1 << 23) - 1;
}

/* Inner steps of SGD, in place. Returns the mean loss. */
static float train(p2pdiloco_node node, float *params, uint64_t *data) {
	float loss = 0;

	for (int step = 1; step <= STEPS; step++) {
		float x[INPUTS], miss = params[INPUTS] - 3;
		for (int i = 0; i < INPUTS; i++) {
			x[i] = noise(data);
			miss += (params[i] - (float)(i + 1)) * x[i];
		}
		for (int i = 0; i < INPUTS; i++)
			params[i] -= RATE * miss * x[i];
		params[INPUTS] -= RATE * miss;
		loss += miss * miss / STEPS;
		p2pdiloco_progress(node, (uint64_t)step);
	}
	return loss;
}

/* Ends the program if a call failed. AGAIN and ENDED are no failures. */
static void check(int32_t code, char *error) {
	if (code == P2PDILOCO_OK || code == P2PDILOCO_AGAIN || code == P2PDILOCO_ENDED)
		return;
	fprintf(stderr, "linear: %s\n", error ? error : "failed");
	exit(1);
}

/* Prints the text that follows a key in a JSON document, to its closing quote. A program that does more with it wants a JSON parser. */
static void print_field(const char *what, const char *json, const char *key) {
	const char *at = json ? strstr(json, key) : NULL;

	if (at) {
		at += strlen(key);
		printf("%s %.*s\n", what, (int)strcspn(at, "\""), at);
	}
}

/* Waits until the node listens, and says where. */
static void print_address(p2pdiloco_node node) {
	char *event;

	while (p2pdiloco_event(node, 10000, &event) == P2PDILOCO_OK) {
		int started = strstr(event, "\"event\":\"peer.started\"") != NULL;
		if (started)
			print_field("others can start from", event, "\"addrs\":[\"");
		p2pdiloco_free(event);
		if (started)
			return;
	}
}

int main(int argc, char **argv) {
	char config[1024], *error = NULL, *status;
	float params[PARAMS] = {0}; /* zeros are what the model begins with, should this peer found the run */
	uint64_t slot, data = (uint64_t)time(NULL) ^ (uint64_t)(uintptr_t)&slot;
	p2pdiloco_node node;
	int32_t code;

	if (argc < 2 || argc > 3) {
		fprintf(stderr, "usage: linear RUN [MULTIADDR]\n");
		return 2;
	}
	int length = snprintf(config, sizeof config,
		"{\"run\": \"%s\", \"layout\": [{\"name\": \"weight\", \"shape\": [%d]}, {\"name\": \"bias\", \"shape\": [1]}],"
		" \"rounds\": 20, \"inner_steps\": %d, \"start_peers\": 2, \"outer_lr\": \"0.7\", \"momentum\": \"0.6\", \"preset\": \"lan\","
		" \"bootstrap\": [%s%s%s]}",
		argv[1], INPUTS, STEPS, argc > 2 ? "\"" : "", argc > 2 ? argv[2] : "", argc > 2 ? "\"" : "");
	if (length < 0 || (size_t)length >= sizeof config) {
		fprintf(stderr, "linear: the arguments are too long\n");
		return 2;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	printf("%s\n", p2pdiloco_version());
	code = p2pdiloco_join(config, NULL, 0, &node, &error);
	check(code, error);
	print_address(node);

	code = p2pdiloco_anchor(node, params, PARAMS, -1, &slot, &error); /* the model as the run has it now */
	for (uint64_t round = slot + 1; code == P2PDILOCO_OK; round++) {
		float loss = train(node, params, &data);
		printf("round %" PRIu64 ": loss %.4f\n", round, (double)loss);
		code = p2pdiloco_sync(node, params, PARAMS, STEPS, &error); /* params are now what all peers agreed on */
	}
	check(code, error);

	printf("the run has ended; weight");
	for (int i = 0; i < INPUTS; i++)
		printf(" %.3f", (double)params[i]);
	printf(", bias %.3f\n", (double)params[INPUTS]);
	status = p2pdiloco_status(node);
	print_field("state root", status, "\"state_root\":\"");
	p2pdiloco_free(status);
	code = p2pdiloco_leave(node, 60000, &error);
	check(code, error);
	return 0;
}
