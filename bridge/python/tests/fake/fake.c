/*
 * A library with the functions of p2pdiloco.h and no network: each node is alone in its run, and the outer step
 * is theta -= 0.5 g. Tests steer it by settings that the real one does not know:
 *
 *     rounds, inner_steps    as the real one's
 *     fake_again             so many calls of anchor or poll per round answer AGAIN, after their time
 *     fake_refuse            join answers INVALID
 *     fake_other             anchor answers INVALID: the run's inner_steps are others
 *     fake_missed            anchor answers MISSED
 *     fake_branch            anchor answers BRANCH_ENDED
 *     fake_leave             leave takes so many milliseconds, unless the node is closed
 *     fake_ahead             after so many calls of progress the others are two slots ahead
 *     fake_late              the run ends, by others, before the contribution of this slot
 *     fake_delay             mode streaming, with so many steps from begin to finish, and one element a fragment
 *
 * It aborts where a child made by fork calls it, and counts the texts that were not freed.
 */
#include "p2pdiloco.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define NODES 1024
#define EVENTS 64

struct node {
	int open, left;
	char *config;
	float *anchor;
	const float *initial;
	uint64_t elements, slot, rounds, inner_steps, again, ahead, progress, weight, offered;
	int begun, ended, streams, delay, landed;
	float *gradient;
	char *events[EVENTS];
	int first, last;
};

static struct node nodes[NODES];
static int made;
static int texts;
static pid_t owner;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void in_parent(void)
{
	if (owner == 0)
		owner = getpid();
	if (owner != getpid())
		abort();
}

static char *text(const char *s)
{
	__atomic_add_fetch(&texts, 1, __ATOMIC_SEQ_CST);
	return strdup(s);
}

int fake_texts(void) { return texts; }

int fake_open(void)
{
	int n = 0;
	for (int i = 0; i < made; i++)
		n += nodes[i].open;
	return n;
}

static int32_t fail(char **error, int32_t code, const char *why)
{
	if (error)
		*error = text(why);
	return code;
}

static void rest(int32_t milliseconds)
{
	struct timespec t = {milliseconds / 1000, milliseconds % 1000 * 1000000L};
	nanosleep(&t, NULL);
}

/* The number behind "name": in the configuration, or what it is otherwise. */
static uint64_t number(const char *config, const char *name, uint64_t otherwise)
{
	char key[64];
	snprintf(key, sizeof key, "\"%s\": ", name);
	const char *at = strstr(config, key);
	return at ? strtoull(at + strlen(key), NULL, 10) : otherwise;
}

static struct node *find(p2pdiloco_node handle)
{
	in_parent();
	if (handle < 1 || handle > made || !nodes[handle - 1].open)
		return NULL;
	return &nodes[handle - 1];
}

static void event(struct node *n, const char *name)
{
	char line[128];
	snprintf(line, sizeof line, "{\"event\":\"%s\",\"slot\":%llu}", name, (unsigned long long)n->slot);
	if (n->last < EVENTS)
		n->events[n->last++] = strdup(line);
}

#ifndef FAKE_ABI
#define FAKE_ABI P2PDILOCO_ABI
#endif

uint32_t p2pdiloco_abi(void) { return FAKE_ABI; }

const char *p2pdiloco_version(void) { return "fake 0"; }

int32_t p2pdiloco_join(const char *config, const float *params, uint64_t elements, p2pdiloco_node *node, char **error)
{
	in_parent();
	*error = NULL;
	if (number(config, "fake_refuse", 0))
		return fail(error, P2PDILOCO_INVALID, "run: give its name");
	pthread_mutex_lock(&lock);
	struct node *n = made < NODES ? &nodes[made++] : NULL;
	pthread_mutex_unlock(&lock);
	if (!n)
		return fail(error, P2PDILOCO_ERROR, "too many nodes for the fake");
	*node = n - nodes + 1;
	n->open = 1;
	n->config = strdup(config);
	n->initial = params;
	n->elements = elements;
	n->rounds = number(config, "rounds", 3);
	n->inner_steps = number(config, "inner_steps", 2);
	n->again = number(config, "fake_again", 0);
	n->ahead = number(config, "fake_ahead", 0);
	n->delay = (int)number(config, "fake_delay", 0);
	n->streams = strstr(config, "fake_delay") != NULL;
	event(n, "run.searching");
	return P2PDILOCO_OK;
}

/* Waits as the settings ask: AGAIN until it is time. */
static int32_t patience(struct node *n, int32_t timeout_ms, char **error)
{
	if (n->again == 0) {
		n->again = number(n->config, "fake_again", 0);
		return P2PDILOCO_OK;
	}
	n->again--;
	rest(timeout_ms < 0 ? 0 : timeout_ms);
	return fail(error, P2PDILOCO_AGAIN, "not yet");
}

static int32_t hand_out(struct node *n, float *params, uint64_t *slot)
{
	memcpy(params, n->anchor, n->elements * sizeof *params);
	if (slot)
		*slot = n->slot;
	return n->slot >= n->rounds || n->ended ? P2PDILOCO_ENDED : P2PDILOCO_OK;
}

int32_t p2pdiloco_anchor(p2pdiloco_node node, float *params, uint64_t elements, int32_t timeout_ms, uint64_t *slot, char **error)
{
	struct node *n = find(node);
	*error = NULL;
	if (!n)
		return fail(error, P2PDILOCO_CLOSED, "no such node");
	if (number(n->config, "fake_missed", 0))
		return fail(error, P2PDILOCO_MISSED, "the run ended without this peer");
	if (number(n->config, "fake_branch", 0))
		return fail(error, P2PDILOCO_BRANCH_ENDED, "the branch is not the run");
	if (number(n->config, "fake_other", 0))
		return fail(error, P2PDILOCO_INVALID, "inner_steps is 2 here, but 3 in the run");
	if (n->elements && n->elements != elements)
		return fail(error, P2PDILOCO_INVALID, "the vector has another length than the layout");
	int32_t code = patience(n, timeout_ms, error);
	if (code != P2PDILOCO_OK)
		return code;
	n->landed = 0;
	if (!n->anchor) { /* read as late as the interface allows */
		n->elements = elements;
		n->anchor = calloc(elements, sizeof(float));
		n->gradient = calloc(elements, sizeof(float));
		if (n->initial)
			memcpy(n->anchor, n->initial, elements * sizeof(float));
		n->initial = NULL;
		event(n, "run.founded");
	}
	if (n->ahead && n->progress >= n->ahead) {
		n->slot += 2;
		n->progress = 0;
		n->ahead = 0;
	}
	return hand_out(n, params, slot);
}

int32_t p2pdiloco_begin(p2pdiloco_node node, const float *params, uint64_t elements, uint64_t weight, char **error)
{
	struct node *n = find(node);
	*error = NULL;
	if (!n)
		return fail(error, P2PDILOCO_CLOSED, "no such node");
	if (n->begun)
		return fail(error, P2PDILOCO_BUSY, "begin without finish");
	if (elements != n->elements)
		return fail(error, P2PDILOCO_INVALID, "the vector has another length than the layout");
	for (uint64_t i = 0; i < elements; i++) {
		n->gradient[i] = n->anchor[i] - params[i];
		if (!isfinite(n->gradient[i]))
			return fail(error, P2PDILOCO_NOT_FINITE, "element 0 is nan: the inner steps diverged");
	}
	n->weight = weight;
	n->offered += weight;
	n->begun = 1;
	if (number(n->config, "fake_late", 0) == n->slot + 1) {
		n->slot = n->rounds;
		n->ended = 1;
		n->begun = 0;
		return P2PDILOCO_ENDED;
	}
	return P2PDILOCO_OK;
}

int32_t p2pdiloco_poll(p2pdiloco_node node, int32_t timeout_ms, char **error)
{
	struct node *n = find(node);
	*error = NULL;
	if (!n)
		return fail(error, P2PDILOCO_CLOSED, "no such node");
	if (!n->begun)
		return fail(error, P2PDILOCO_INVALID, "no round was begun");
	if (n->begun == 1) {
		int32_t code = patience(n, timeout_ms, error);
		if (code != P2PDILOCO_OK)
			return code;
		n->begun = 2;
	}
	return P2PDILOCO_OK;
}

int32_t p2pdiloco_finish(p2pdiloco_node node, float *params, uint64_t elements, int32_t timeout_ms, uint64_t *slot, char **error)
{
	int32_t code = p2pdiloco_poll(node, timeout_ms, error);
	if (code != P2PDILOCO_OK)
		return code;
	struct node *n = find(node);
	if (elements != n->elements)
		return fail(error, P2PDILOCO_INVALID, "the vector has another length than the layout");
	uint64_t fragment = n->slot % elements;
	for (uint64_t i = 0; i < elements; i++)
		if (!n->streams || i == fragment)
			n->anchor[i] -= 0.5f * n->gradient[i];
	n->slot++;
	n->begun = 0;
	n->landed = n->streams;
	event(n, "slot.applied");
	if (!n->streams || n->slot >= n->rounds)
		return hand_out(n, params, slot);
	params[fragment] = n->anchor[fragment];
	*slot = n->slot;
	return P2PDILOCO_OK;
}

int32_t p2pdiloco_sync(p2pdiloco_node node, float *params, uint64_t elements, uint64_t weight, char **error)
{
	int32_t code = p2pdiloco_begin(node, params, elements, weight, error);
	return code == P2PDILOCO_OK ? p2pdiloco_finish(node, params, elements, -1, NULL, error) : code;
}

int32_t p2pdiloco_progress(p2pdiloco_node node, uint64_t steps_done)
{
	struct node *n = find(node);
	(void)steps_done;
	if (!n)
		return P2PDILOCO_CLOSED;
	n->progress++;
	return P2PDILOCO_OK;
}

char *p2pdiloco_status(p2pdiloco_node node)
{
	struct node *n = find(node);
	if (!n)
		return NULL;
	unsigned long long slot = n->slot + (n->ahead && n->progress >= n->ahead ? 2 : 0);
	unsigned long long next = slot + 1 + (n->streams && n->begun), done = n->landed ? n->delay : 0;
	size_t room = strlen(n->config) + 1024;
	char *s = malloc(room);
	snprintf(s, room,
		"{\"phase\":\"%s\",\"run_id\":\"fake\",\"slot\":%llu,\"last_slot\":%llu,\"members\":[{}],\"contributors\":1,\"bytes_sent\":1234,"
		"\"spec\":{\"discount\":\"1000\",\"mode\":\"%s\",\"fragments\":\"%llu\"},"
		"\"task\":{\"slot\":%llu,\"inner_steps\":%llu,\"delay\":%d,\"seed\":1,\"rank\":0,\"members\":1,\"part\":%llu,\"part_steps\":%llu,"
		"\"part_done\":%llu},\"fake\":{\"weight\":%llu,\"offered\":%llu,\"progress\":%llu,\"config\":%s}}",
		n->slot >= n->rounds ? "ended" : "running", slot, (unsigned long long)n->rounds, n->streams ? "streaming" : "sync",
		(unsigned long long)n->elements, next, (unsigned long long)n->inner_steps - done, n->delay, next - 1, (unsigned long long)n->inner_steps, done,
		(unsigned long long)n->weight, (unsigned long long)n->offered,
		(unsigned long long)n->progress, n->config);
	__atomic_add_fetch(&texts, 1, __ATOMIC_SEQ_CST);
	return s;
}

int32_t p2pdiloco_event(p2pdiloco_node node, int32_t timeout_ms, char **event)
{
	in_parent();
	*event = NULL;
	if (node < 1 || node > made)
		return P2PDILOCO_CLOSED;
	struct node *n = &nodes[node - 1];
	if (n->first < n->last) {
		*event = n->events[n->first++];
		__atomic_add_fetch(&texts, 1, __ATOMIC_SEQ_CST);
		return P2PDILOCO_OK;
	}
	if (!n->open)
		return P2PDILOCO_CLOSED;
	rest(timeout_ms < 0 ? 0 : timeout_ms);
	return P2PDILOCO_AGAIN;
}

int32_t p2pdiloco_leave(p2pdiloco_node node, int32_t timeout_ms, char **error)
{
	struct node *n = find(node);
	*error = NULL;
	if (!n)
		return fail(error, P2PDILOCO_CLOSED, "no such node");
	uint64_t wait = number(n->config, "fake_leave", 0);
	for (uint64_t t = 0; t < wait && __atomic_load_n(&n->open, __ATOMIC_SEQ_CST); t++) {
		if (t >= (uint64_t)timeout_ms) {
			n->open = 0;
			return fail(error, P2PDILOCO_ERROR, "the others did not agree in time: left anyway");
		}
		rest(1);
	}
	n->left = n->open;
	event(n, n->left ? "fake.left" : "fake.interrupted");
	n->open = 0;
	return P2PDILOCO_OK;
}

int32_t p2pdiloco_close(p2pdiloco_node node, char **error)
{
	struct node *n = find(node);
	*error = NULL;
	if (n) {
		event(n, "fake.closed");
		__atomic_store_n(&n->open, 0, __ATOMIC_SEQ_CST);
	}
	return P2PDILOCO_OK;
}

void p2pdiloco_free(char *text)
{
	in_parent();
	if (text)
		__atomic_sub_fetch(&texts, 1, __ATOMIC_SEQ_CST);
	free(text);
}
