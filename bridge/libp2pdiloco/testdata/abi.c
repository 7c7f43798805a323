/* Every function of the header: arguments, codes, texts, and what may go on beside what. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <time.h>
#include <unistd.h>

#include "test.h"

#define D 6

static void bad_arguments(void) {
	static const char *const wrong[] = {"", "[]", "{", "{}", "{\"run\": \"x\", \"no_such_setting\": 1}", "{\"run\": \"x\", \"rounds\": \"many\"}",
		"{\"run\": \"x\", \"layout\": [{\"name\": \"w\", \"shape\": [0]}]}", "{\"run\": \"\xff\xfe\"}"};
	float params[D] = {0};
	p2pdiloco_node node = 77;

	EXPECT(P2PDILOCO_INVALID, p2pdiloco_join(NULL, NULL, 0, &node, &error));
	EXPECT(P2PDILOCO_INVALID, p2pdiloco_join("{\"run\": \"x\"}", NULL, 0, NULL, &error));
	EXPECT(P2PDILOCO_INVALID, p2pdiloco_join("{\"run\": \"x\"}", NULL, 5, &node, &error));
	CHECK(node == 0);
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
		EXPECT(P2PDILOCO_INVALID, p2pdiloco_join(wrong[i], NULL, 0, &node, &error));
	EXPECT(P2PDILOCO_INVALID, p2pdiloco_join("{\"run\": \"x\", \"layout\": [{\"name\": \"w\", \"shape\": [5]}]}", params, D, &node, &error));
	CHECK(p2pdiloco_join("{", NULL, 0, &node, NULL) == P2PDILOCO_INVALID); /* error may be NULL */
	CHECK(p2pdiloco_event(1, 0, NULL) == P2PDILOCO_INVALID);
	p2pdiloco_free(NULL);
	passed("bad arguments");
}

static void wrong_handles(void) {
	const p2pdiloco_node handles[] = {0, -1, 123456789, INT64_MIN, INT64_MAX};
	float params[D] = {0};

	for (size_t i = 0; i < sizeof handles / sizeof *handles; i++) {
		p2pdiloco_node node = handles[i];
		char *event = (char *)"untouched";
		uint64_t slot = 5;
		EXPECT(P2PDILOCO_CLOSED, p2pdiloco_anchor(node, params, D, -1, &slot, &error));
		EXPECT(P2PDILOCO_CLOSED, p2pdiloco_sync(node, params, D, 1, &error));
		EXPECT(P2PDILOCO_CLOSED, p2pdiloco_begin(node, params, D, 1, &error));
		EXPECT(P2PDILOCO_CLOSED, p2pdiloco_poll(node, -1, &error));
		EXPECT(P2PDILOCO_CLOSED, p2pdiloco_finish(node, params, D, -1, NULL, &error));
		EXPECT(P2PDILOCO_CLOSED, p2pdiloco_leave(node, -1, &error));
		EXPECT(P2PDILOCO_OK, p2pdiloco_close(node, &error));
		CHECK(p2pdiloco_progress(node, 1) == P2PDILOCO_CLOSED);
		CHECK(p2pdiloco_status(node) == NULL);
		CHECK(p2pdiloco_event(node, -1, &event) == P2PDILOCO_CLOSED && event == NULL);
		CHECK(slot == 5);
	}
	passed("wrong handles");
}

/* A whole run of one peer, whose anchor moves to where the peer moves it. */
static void a_run(void) {
	float params[D], first[D] = {1, 2, 3, 4, 5, 6};
	uint64_t slot = 99;
	p2pdiloco_node node;
	char *text;

	EXPECT(P2PDILOCO_OK, p2pdiloco_join("{\"run\": \"whole\", \"preset\": \"lan\", \"listen\": [\"/ip4/127.0.0.1/tcp/0\"], \"rounds\": 3,"
		" \"outer\": \"sgd\", \"outer_lr\": 1, \"aggregator\": \"mean\", \"layout\": [{\"name\": \"a\", \"shape\": [2, 2]}, {\"name\": \"b\", \"shape\": [2]}]}",
		first, D, &node, &error));
	EXPECT(P2PDILOCO_INVALID, p2pdiloco_begin(node, params, D, 1, &error)); /* no anchor yet */
	EXPECT(P2PDILOCO_AGAIN, p2pdiloco_anchor(node, params, D, 0, &slot, &error));
	EXPECT(P2PDILOCO_OK, p2pdiloco_anchor(node, params, D, 60000, &slot, &error));
	CHECK(slot == 0 && memcmp(params, first, sizeof params) == 0);
	EXPECT(P2PDILOCO_INVALID, p2pdiloco_anchor(node, params, D - 1, -1, &slot, &error));
	EXPECT(P2PDILOCO_INVALID, p2pdiloco_anchor(node, NULL, 0, -1, &slot, &error));

	text = p2pdiloco_status(node);
	CHECK(text && strstr(text, "\"task\":{\"slot\":1,") && strstr(text, "\"rank\":0"));
	p2pdiloco_free(text);
	CHECK(p2pdiloco_progress(node, 17) == P2PDILOCO_OK);

	params[3] = NAN;
	EXPECT(P2PDILOCO_NOT_FINITE, p2pdiloco_sync(node, params, D, 1, &error));
	params[3] = 14;
	EXPECT(P2PDILOCO_OK, p2pdiloco_sync(node, params, D, 1, &error));
	CHECK(params[3] == 14 && params[5] == 6);

	EXPECT(P2PDILOCO_INVALID, p2pdiloco_poll(node, 0, &error)); /* nothing was begun */
	EXPECT(P2PDILOCO_INVALID, p2pdiloco_finish(node, params, D, 0, &slot, &error));
	params[0] = -1;
	EXPECT(P2PDILOCO_OK, p2pdiloco_begin(node, params, D, 1, &error));
	memset(params, 0, sizeof params); /* free again */
	EXPECT(P2PDILOCO_BUSY, p2pdiloco_begin(node, params, D, 1, &error));
	EXPECT(P2PDILOCO_BUSY, p2pdiloco_sync(node, params, D, 1, &error));
	EXPECT(P2PDILOCO_BUSY, p2pdiloco_anchor(node, params, D, 0, &slot, &error));
	EXPECT(P2PDILOCO_OK, p2pdiloco_poll(node, 60000, &error));
	EXPECT(P2PDILOCO_OK, p2pdiloco_finish(node, params, D, 0, &slot, &error));
	CHECK(slot == 2 && params[0] == -1 && params[3] == 14);

	params[1] = 8;
	EXPECT(P2PDILOCO_ENDED, p2pdiloco_sync(node, params, D, 1, &error));
	CHECK(params[0] == -1 && params[1] == 8);
	EXPECT(P2PDILOCO_ENDED, p2pdiloco_anchor(node, params, D, -1, &slot, &error));
	CHECK(slot == 3);
	EXPECT(P2PDILOCO_OK, p2pdiloco_leave(node, 60000, &error));
	EXPECT(P2PDILOCO_CLOSED, p2pdiloco_leave(node, 60000, &error));

	int applied = 0, code; /* what happened can be asked for after the end */
	while ((code = p2pdiloco_event(node, -1, &text)) == P2PDILOCO_OK) {
		applied += strstr(text, "\"event\":\"slot.applied\"") != NULL;
		p2pdiloco_free(text);
	}
	CHECK(code == P2PDILOCO_CLOSED && applied == 3);
	passed("a run");
}

static void *wait_in_anchor(void *node) {
	float params[D];
	int32_t code;

	while ((code = p2pdiloco_anchor(*(p2pdiloco_node *)node, params, D, -1, NULL, NULL)) == P2PDILOCO_BUSY)
		; /* the main thread looks whether this one is in already */
	CHECK(code == P2PDILOCO_CLOSED);
	return NULL;
}

static void *wait_for_events(void *node) {
	char *event;
	while (p2pdiloco_event(*(p2pdiloco_node *)node, -1, &event) == P2PDILOCO_OK)
		p2pdiloco_free(event);
	return NULL;
}

/* A node that waits for others for ever: calls are BUSY beside a call that waits, and close ends that. */
static void close_while_others_wait(void) {
	const struct timespec pause = {0, 10000000};
	float params[D] = {0};
	pthread_t waiting, listening;
	int32_t code;
	p2pdiloco_node node = join_alone("lonely", D, ", \"bootstrap\": [\"/ip4/127.0.0.1/tcp/1/p2p/12D3KooWACygP9oMSofzDEwcvkYovGaDAbvHwQWs2qTDGUgomGbJ\"]");

	pthread_create(&waiting, NULL, wait_in_anchor, &node);
	pthread_create(&listening, NULL, wait_for_events, &node);
	while ((code = p2pdiloco_anchor(node, params, D, 1, NULL, NULL)) == P2PDILOCO_AGAIN)
		nanosleep(&pause, NULL); /* until the other thread is in */
	CHECK(code == P2PDILOCO_BUSY);
	EXPECT(P2PDILOCO_BUSY, p2pdiloco_sync(node, params, D, 1, &error));
	EXPECT(P2PDILOCO_OK, p2pdiloco_close(node, &error));
	pthread_join(waiting, NULL);
	pthread_join(listening, NULL);
	EXPECT(P2PDILOCO_OK, p2pdiloco_close(node, &error));
	passed("close while others wait");
}

static int open_files(void) {
	int n = 0;
	for (int fd = 0; fd < 1024; fd++)
		n += fcntl(fd, F_GETFD) != -1;
	return n;
}

static void listening(p2pdiloco_node node) {
	char *event;

	CHECK(p2pdiloco_event(node, 60000, &event) == P2PDILOCO_OK && strstr(event, "\"event\":\"peer.started\""));
	p2pdiloco_free(event);
}

static void many_nodes(void) {
	const struct timespec moment = {0, 50000000};
	int before = 0;

	for (int i = 0; i < 40; i++) {
		p2pdiloco_node node = join_alone("again", D, ""), other = join_alone("again", D, "");
		CHECK(node != other);
		if (i % 4) { /* else they are closed before they have begun */
			listening(node);
			listening(other);
		}
		EXPECT(P2PDILOCO_OK, i % 2 ? p2pdiloco_close(node, &error) : p2pdiloco_leave(node, -1, &error));
		EXPECT(P2PDILOCO_OK, p2pdiloco_close(other, &error));
		if (i == 20)
			before = open_files();
	}
	for (int i = 0; i < 100 && open_files() > before + 2; i++) /* the kernel, and goroutines that end, take a moment */
		nanosleep(&moment, NULL);
	if (open_files() > before + 2) {
		fprintf(stderr, "%d files are open, %d nodes ago there were %d\n", open_files(), 40, before);
		failures++;
	}
	passed("many nodes");
}

int main(void) {
	setvbuf(stdout, NULL, _IOLBF, 0);
	CHECK(p2pdiloco_abi() == P2PDILOCO_ABI);
	CHECK(strstr(p2pdiloco_version(), "protocol") && p2pdiloco_version() == p2pdiloco_version());
	bad_arguments();
	wrong_handles();
	a_run();
	close_while_others_wait();
	many_nodes();
	return failures != 0;
}
