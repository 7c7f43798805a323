/*
 * The embedding ABI: how a program in C, C++, Python or any language that can call C takes part in a run with
 * its own training loop.
 *
 *     go build -buildmode=c-shared -o libp2pdiloco.so github.com/p2pdiloco/p2pdiloco/bridge/libp2pdiloco
 *
 *     p2pdiloco_node node;
 *     p2pdiloco_join("{\"run\":\"my-run\",\"layout\":[{\"name\":\"w\",\"shape\":[1000]}]}", params, 1000, &node, &error);
 *     p2pdiloco_anchor(node, params, 1000, -1, &slot, &error);
 *     do {
 *             train(params);                                        // H inner steps
 *     } while ((code = p2pdiloco_sync(node, params, 1000, tokens, &error)) == P2PDILOCO_OK);
 *     // P2PDILOCO_ENDED: params is the run's last model
 *     p2pdiloco_leave(node, 60000, &error);
 *
 * Handles are numbers that are never used twice; a wrong one is an error, not a crash. Functions may be called
 * from any thread. Of those that work on one node's vectors (anchor, sync, begin, finish) one may run at a
 * time; another one returns P2PDILOCO_BUSY. No call blocks another node.
 *
 * Errors. A function that can fail takes char **error, which may be NULL. If it returns an error, *error is one
 * line of UTF-8 that says what happened and what to do, and the caller frees it with p2pdiloco_free. Otherwise
 * *error is NULL. OK, AGAIN and ENDED are no errors.
 *
 * Memory. Vectors belong to the caller: D float32 elements in the layout's order. The library does not keep
 * them after a function has returned, with one exception: the params of join. The caller frees returned texts
 * with p2pdiloco_free.
 *
 * The host process. The library installs no handler of SIGINT, SIGTERM or SIGHUP, never exits, and writes to
 * standard error only what log_level asks for. It works only in the process that loaded it: in a child made by
 * fork every function returns P2PDILOCO_FORKED (status returns NULL). Unloading it has no effect.
 */
#ifndef P2PDILOCO_H
#define P2PDILOCO_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define P2PDILOCO_ABI 1u

enum {
	P2PDILOCO_OK = 0,
	P2PDILOCO_ERROR = 1,   /* any error without a number of its own */
	P2PDILOCO_AGAIN = 2,   /* the timeout is over. Nothing is lost; call again */
	P2PDILOCO_ENDED = 3,   /* the run's last slot is applied, and params hold the last anchor */
	P2PDILOCO_CLOSED = 4,  /* no such node, or it was closed */
	P2PDILOCO_BUSY = 5,    /* another call on this node's vectors is under way, or begin without finish */
	P2PDILOCO_INVALID = 6, /* an argument or the configuration is wrong */
	P2PDILOCO_NOT_FINITE = 7, /* the pseudo-gradient holds a NaN, an infinity or a value of 2^100 or more: nothing was offered */
	P2PDILOCO_FORKED = 8,  /* this process is a child of the one that loaded the library */
	P2PDILOCO_MISSED = 9,  /* the run ended without this peer, and no peer with its model answers */
	P2PDILOCO_BRANCH_ENDED = 10, /* the last slot is applied, on a branch that is not the run; the node looks for the others while it is open */
};

typedef int64_t p2pdiloco_node; /* 0 means no node */

/* The ABI that the library has: P2PDILOCO_ABI. */
uint32_t p2pdiloco_abi(void);

/* The version of the library, its protocol and its arithmetic: a text that must not be freed. */
const char *p2pdiloco_version(void);

/*
 * Starts a node and returns at once. The search for the run goes on in the background, and anchor waits for it.
 * config is a JSON object: the names are those of the flags of `p2pdiloco join` with _ for -, like {"run": "x",
 * "bootstrap": ["/ip4/…"], "inner_steps": 500}, and "layout": [{"name": "wte", "shape": [256, 96]}, …], which
 * may be missing if the node is to adopt the run's layout. Settings that are not given come from the
 * environment (P2PDILOCO_INNER_STEPS=…), and then from the file that "config" names, as in that program.
 *
 * params are the initial parameters, in case this peer founds the run; NULL and 0 mean zeros. They must not
 * change until anchor has returned OK, or close has returned.
 */
int32_t p2pdiloco_join(const char *config, const float *params, uint64_t elements, p2pdiloco_node *node, char **error);

/* Waits until this peer is a member and holds the state, and copies the anchor, from which inner steps begin,
 * into params. slot, which may be NULL, is the number of outer steps in it. timeout_ms < 0 waits without limit. */
int32_t p2pdiloco_anchor(p2pdiloco_node node, float *params, uint64_t elements, int32_t timeout_ms, uint64_t *slot, char **error);

/* One round: contributes the pseudo-gradient anchor - params with this weight (tokens or samples), waits until
 * the slot is agreed and applied, and overwrites params with the new anchor. It is the same as begin, and then
 * finish with timeout -1. */
int32_t p2pdiloco_sync(p2pdiloco_node node, float *params, uint64_t elements, uint64_t weight, char **error);

/* A round in parts. begin reads params, computes the pseudo-gradient and offers it; params are free again when
 * it returns. poll says whether the slot is applied: OK, AGAIN or an error. finish waits, and writes the new
 * anchor to params. Inner steps between begin and finish would be lost, because finish overwrites params: use
 * the time for other work.
 *
 * Mode streaming is different: a slot is one fragment of the model. Train task.delay steps (see status) between
 * begin and finish, and give finish the live parameters: it changes that fragment and leaves the others. weight
 * counts the steps since the last begin. */
int32_t p2pdiloco_begin(p2pdiloco_node node, const float *params, uint64_t elements, uint64_t weight, char **error);
int32_t p2pdiloco_poll(p2pdiloco_node node, int32_t timeout_ms, char **error);
int32_t p2pdiloco_finish(p2pdiloco_node node, float *params, uint64_t elements, int32_t timeout_ms, uint64_t *slot, char **error);

/* Reports how many inner steps of this round are done, so that the others see that this peer is at work, and
 * how fast it is if it does not do all of task.inner_steps. It is cheap. */
int32_t p2pdiloco_progress(p2pdiloco_node node, uint64_t steps_done);

/* The node's status as JSON: the document of `p2pdiloco status --json`, and once there is a task, "task":
 * {slot, inner_steps, delay, seed, rank, members, part, part_steps, part_done} (docs/data.md). inner_steps is
 * the number of steps until the next begin; delay is the number from begin to finish in mode streaming, and 0
 * in other modes. NULL for an unknown node. */
char *p2pdiloco_status(p2pdiloco_node node);

/* The next event of the node, as JSON (docs/operations/events.md lists them): OK, AGAIN, or CLOSED after the
 * last one of a closed node. The library keeps the newest 1024 events of a node, also of the 16 nodes that were closed
 * last. "events_lost" in the next event counts those that were dropped. */
int32_t p2pdiloco_event(p2pdiloco_node node, int32_t timeout_ms, char **event);

/* Announces that this peer leaves, waits until the others have agreed or the timeout is over, and closes the
 * node. The handle is invalid afterwards, also if the timeout was over, which is an ERROR. */
int32_t p2pdiloco_leave(p2pdiloco_node node, int32_t timeout_ms, char **error);

/* Closes the node at once; to the others it looks like a crash. It ends calls that wait. An unknown handle is
 * no error. */
int32_t p2pdiloco_close(p2pdiloco_node node, char **error);

/* Frees a text that the library returned. NULL is allowed. */
void p2pdiloco_free(char *text);

#ifdef __cplusplus
}
#endif

#endif
