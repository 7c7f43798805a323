//go:build cgo && !windows

/*
 * The functions of p2pdiloco.h. They protect a host from Go's runtime, and the runtime from the host.
 *
 * fork copies only one thread of a process. In a child Go has no threads left, and a call into Go would hang.
 * These functions return an error there.
 *
 * A thread that enters Go runs on a goroutine's stack, on which a signal handler of the host must not run
 * (load.c says why). So a call enters Go with signals blocked, only to let a thread of Go begin the work. Then
 * it waits here for the end, on its own stack and with its own signal mask.
 */
#include <stdlib.h>
#include <string.h>

#pragma GCC visibility push(default) /* the library exports these functions only */
#include "p2pdiloco.h"
#pragma GCC visibility pop

#include "_cgo_export.h"
#include "load.h"

/* Begins a call, or returns an error in a child. */
static int enter(struct p2pdiloco_call *call, char **error) {
	if (p2pdiloco_forked()) {
		if (error)
			*error = strdup("this process is a child, by fork, of the one that loaded libp2pdiloco: use the library in the parent, or start the child by exec");
		return 0;
	}
	memset(call, 0, sizeof *call);
	pthread_mutex_init(&call->mutex, NULL);
	pthread_cond_init(&call->changed, NULL);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &call->cancel); /* the call is on this thread's stack */
	p2pdiloco_block(&call->mask);
	return 1;
}

/* Waits for the call's end. */
static int32_t leave(struct p2pdiloco_call *call, char **error) {
	pthread_sigmask(SIG_SETMASK, &call->mask, NULL);
	pthread_mutex_lock(&call->mutex);
	while (!call->done)
		pthread_cond_wait(&call->changed, &call->mutex);
	pthread_mutex_unlock(&call->mutex);
	pthread_cond_destroy(&call->changed);
	pthread_mutex_destroy(&call->mutex);
	pthread_setcancelstate(call->cancel, NULL);
	if (error)
		*error = call->error;
	else
		free(call->error);
	return call->code;
}

void p2pdiloco_done(struct p2pdiloco_call *call) {
	pthread_mutex_lock(&call->mutex);
	call->done = 1;
	pthread_cond_signal(&call->changed);
	pthread_mutex_unlock(&call->mutex);
}

uint32_t p2pdiloco_abi(void) {
	return P2PDILOCO_ABI;
}

const char *p2pdiloco_version(void) {
	static const char *version;

	const char *known = __atomic_load_n(&version, __ATOMIC_ACQUIRE);
	if (known)
		return known;
	if (p2pdiloco_forked())
		return "p2pdiloco (in a child of the process that loaded it)";
	sigset_t mask;
	p2pdiloco_block(&mask);
	char *mine = p2pdilocoGoVersion();
	pthread_sigmask(SIG_SETMASK, &mask, NULL);
	if (__atomic_compare_exchange_n(&version, &known, mine, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
		return mine;
	free(mine); /* another thread was faster */
	return known;
}

int32_t p2pdiloco_join(const char *config, const float *params, uint64_t elements, p2pdiloco_node *node, char **error) {
	struct p2pdiloco_call call;

	if (!enter(&call, error))
		return P2PDILOCO_FORKED;
	p2pdilocoGoJoin(&call, (char *)config, (float *)params, elements, node == NULL);
	int32_t code = leave(&call, error);
	if (node)
		*node = call.node;
	return code;
}

int32_t p2pdiloco_anchor(p2pdiloco_node node, float *params, uint64_t elements, int32_t timeout_ms, uint64_t *slot, char **error) {
	struct p2pdiloco_call call;

	if (!enter(&call, error))
		return P2PDILOCO_FORKED;
	p2pdilocoGoAnchor(&call, node, params, elements, timeout_ms);
	int32_t code = leave(&call, error);
	if (slot && call.has_slot)
		*slot = call.slot;
	return code;
}

int32_t p2pdiloco_sync(p2pdiloco_node node, float *params, uint64_t elements, uint64_t weight, char **error) {
	struct p2pdiloco_call call;

	if (!enter(&call, error))
		return P2PDILOCO_FORKED;
	p2pdilocoGoSync(&call, node, params, elements, weight);
	return leave(&call, error);
}

int32_t p2pdiloco_begin(p2pdiloco_node node, const float *params, uint64_t elements, uint64_t weight, char **error) {
	struct p2pdiloco_call call;

	if (!enter(&call, error))
		return P2PDILOCO_FORKED;
	p2pdilocoGoBegin(&call, node, (float *)params, elements, weight);
	return leave(&call, error);
}

int32_t p2pdiloco_poll(p2pdiloco_node node, int32_t timeout_ms, char **error) {
	struct p2pdiloco_call call;

	if (!enter(&call, error))
		return P2PDILOCO_FORKED;
	p2pdilocoGoPoll(&call, node, timeout_ms);
	return leave(&call, error);
}

int32_t p2pdiloco_finish(p2pdiloco_node node, float *params, uint64_t elements, int32_t timeout_ms, uint64_t *slot, char **error) {
	struct p2pdiloco_call call;

	if (!enter(&call, error))
		return P2PDILOCO_FORKED;
	p2pdilocoGoFinish(&call, node, params, elements, timeout_ms);
	int32_t code = leave(&call, error);
	if (slot && call.has_slot)
		*slot = call.slot;
	return code;
}

/* It waits for nobody, so that it need not wait here either. */
int32_t p2pdiloco_progress(p2pdiloco_node node, uint64_t steps_done) {
	sigset_t mask;

	if (p2pdiloco_forked())
		return P2PDILOCO_FORKED;
	p2pdiloco_block(&mask);
	int32_t code = p2pdilocoGoProgress(node, steps_done);
	pthread_sigmask(SIG_SETMASK, &mask, NULL);
	return code;
}

char *p2pdiloco_status(p2pdiloco_node node) {
	struct p2pdiloco_call call;

	if (!enter(&call, NULL))
		return NULL;
	p2pdilocoGoStatus(&call, node);
	leave(&call, NULL);
	return call.text;
}

int32_t p2pdiloco_event(p2pdiloco_node node, int32_t timeout_ms, char **event) {
	struct p2pdiloco_call call;

	if (!event)
		return P2PDILOCO_INVALID;
	*event = NULL;
	if (!enter(&call, NULL))
		return P2PDILOCO_FORKED;
	p2pdilocoGoEvent(&call, node, timeout_ms);
	int32_t code = leave(&call, NULL);
	*event = call.text;
	return code;
}

int32_t p2pdiloco_leave(p2pdiloco_node node, int32_t timeout_ms, char **error) {
	struct p2pdiloco_call call;

	if (!enter(&call, error))
		return P2PDILOCO_FORKED;
	p2pdilocoGoLeave(&call, node, timeout_ms);
	return leave(&call, error);
}

int32_t p2pdiloco_close(p2pdiloco_node node, char **error) {
	struct p2pdiloco_call call;

	if (!enter(&call, error))
		return P2PDILOCO_FORKED;
	p2pdilocoGoClose(&call, node);
	return leave(&call, error);
}

void p2pdiloco_free(char *text) {
	free(text);
}
