//go:build cgo

/*
 * The functions of p2pdiloco.h. Of the threads of a process fork copies one, so that in a child Go's runtime has no threads left, and whoever enters
 * it hangs. Here nobody does.
 */
#include <stdlib.h>
#include <string.h>

#pragma GCC visibility push(default) /* of what the library has, these functions alone are for the host */
#include "p2pdiloco.h"
#pragma GCC visibility pop

#include "_cgo_export.h"
#include "load.h"

static int32_t refuse(char **error) {
	if (error)
		*error = strdup("this process is a child, by fork, of the one that loaded libp2pdiloco: use the library in the parent, or start the child by exec");
	return P2PDILOCO_FORKED;
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
	char *mine = p2pdilocoGoVersion();
	if (__atomic_compare_exchange_n(&version, &known, mine, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
		return mine;
	free(mine); /* another thread was faster */
	return known;
}

int32_t p2pdiloco_join(const char *config, const float *params, uint64_t elements, p2pdiloco_node *node, char **error) {
	if (p2pdiloco_forked())
		return refuse(error);
	return p2pdilocoGoJoin((char *)config, (float *)params, elements, node, error);
}

int32_t p2pdiloco_anchor(p2pdiloco_node node, float *params, uint64_t elements, int32_t timeout_ms, uint64_t *slot, char **error) {
	if (p2pdiloco_forked())
		return refuse(error);
	return p2pdilocoGoAnchor(node, params, elements, timeout_ms, slot, error);
}

int32_t p2pdiloco_sync(p2pdiloco_node node, float *params, uint64_t elements, uint64_t weight, char **error) {
	if (p2pdiloco_forked())
		return refuse(error);
	return p2pdilocoGoSync(node, params, elements, weight, error);
}

int32_t p2pdiloco_begin(p2pdiloco_node node, const float *params, uint64_t elements, uint64_t weight, char **error) {
	if (p2pdiloco_forked())
		return refuse(error);
	return p2pdilocoGoBegin(node, (float *)params, elements, weight, error);
}

int32_t p2pdiloco_poll(p2pdiloco_node node, int32_t timeout_ms, char **error) {
	if (p2pdiloco_forked())
		return refuse(error);
	return p2pdilocoGoPoll(node, timeout_ms, error);
}

int32_t p2pdiloco_finish(p2pdiloco_node node, float *params, uint64_t elements, int32_t timeout_ms, uint64_t *slot, char **error) {
	if (p2pdiloco_forked())
		return refuse(error);
	return p2pdilocoGoFinish(node, params, elements, timeout_ms, slot, error);
}

int32_t p2pdiloco_progress(p2pdiloco_node node, uint64_t steps_done) {
	if (p2pdiloco_forked())
		return P2PDILOCO_FORKED;
	return p2pdilocoGoProgress(node, steps_done);
}

char *p2pdiloco_status(p2pdiloco_node node) {
	if (p2pdiloco_forked())
		return NULL;
	return p2pdilocoGoStatus(node);
}

int32_t p2pdiloco_event(p2pdiloco_node node, int32_t timeout_ms, char **event) {
	if (p2pdiloco_forked()) {
		if (event)
			*event = NULL;
		return P2PDILOCO_FORKED;
	}
	return p2pdilocoGoEvent(node, timeout_ms, event);
}

int32_t p2pdiloco_leave(p2pdiloco_node node, int32_t timeout_ms, char **error) {
	if (p2pdiloco_forked())
		return refuse(error);
	return p2pdilocoGoLeave(node, timeout_ms, error);
}

int32_t p2pdiloco_close(p2pdiloco_node node, char **error) {
	if (p2pdiloco_forked())
		return refuse(error);
	return p2pdilocoGoClose(node, error);
}

void p2pdiloco_free(char *text) {
	free(text);
}
