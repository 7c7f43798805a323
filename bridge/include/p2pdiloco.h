/*
 * The embedding ABI: how a program in C, C++, Python or any language that can call C takes part in a run with its own training loop.
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
 * Handles are numbers, never used twice, and a wrong one is an error and no crash. Functions may be called from any thread; those on one
 * node's vectors (anchor, sync, begin, finish) one at a time: P2PDILOCO_BUSY otherwise. They block no other node.
 *
 * Errors. A function that can fail takes char **error, which may be NULL. Where it returns an error, *error is one line of UTF-8
 * that says what happened and what to do, for p2pdiloco_free; else it is NULL. OK, AGAIN and ENDED are no errors.
 *
 * Memory. Vectors are the caller's, D float32 elements in the layout's order, and not kept after a function has returned, with one
 * exception: join's params. Texts that are returned are freed with p2pdiloco_free.
 *
 * The host process. The library installs no handler of SIGINT, SIGTERM or SIGHUP, never exits, and writes to standard error only what
 * log_level asks for. It is for the process that loaded it: in a child made by fork every function returns P2PDILOCO_FORKED (status: NULL).
 * Unloading it does nothing.
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
	P2PDILOCO_ERROR = 1,   /* anything that has no number of its own */
	P2PDILOCO_AGAIN = 2,   /* not yet: the time was over. Nothing is lost, ask again */
	P2PDILOCO_ENDED = 3,   /* the run's last slot is applied, and params hold the last anchor */
	P2PDILOCO_CLOSED = 4,  /* no such node, or it was closed */
	P2PDILOCO_BUSY = 5,    /* another call on this node's vectors is under way, or begin without finish */
	P2PDILOCO_INVALID = 6, /* an argument, or the configuration */
	P2PDILOCO_NOT_FINITE = 7, /* the pseudo-gradient holds a NaN, an infinity or a value of 2^100 or more: nothing was offered */
	P2PDILOCO_FORKED = 8,  /* this process is a child of the one that loaded the library */
	P2PDILOCO_MISSED = 9,  /* the run ended without this peer, and nobody who holds its model answers */
};

typedef int64_t p2pdiloco_node; /* 0 is none */

/* What the library speaks: P2PDILOCO_ABI. */
uint32_t p2pdiloco_abi(void);

/* The version of the library, its protocol and its arithmetic: a text that is not freed. */
const char *p2pdiloco_version(void);

/*
 * Starts a node, and returns at once: finding the run goes on in the background, and anchor waits for it. config is a JSON object:
 * the names are those of the flags of `p2pdiloco join` with _ for -, like {"run": "x", "bootstrap": ["/ip4/…"], "inner_steps": 500},
 * and "layout": [{"name": "wte", "shape": [256, 96]}, …], which may be missing where the run's is to be adopted. What it does not give is
 * taken from the environment (P2PDILOCO_INNER_STEPS=…), then from the file that "config" names, like that program does.
 *
 * params are the initial parameters should this peer found the run, elements of them; NULL and 0 for zeros. They must stay as they
 * are until anchor has returned OK, or close has.
 */
int32_t p2pdiloco_join(const char *config, const float *params, uint64_t elements, p2pdiloco_node *node, char **error);

/* Waits until this peer is a member and holds the state, and copies the anchor into params: where inner steps begin. slot, which may be
 * NULL, is the number of outer steps in it. timeout_ms < 0 waits for as long as it takes. */
int32_t p2pdiloco_anchor(p2pdiloco_node node, float *params, uint64_t elements, int32_t timeout_ms, uint64_t *slot, char **error);

/* One round: contributes the pseudo-gradient anchor - params with this weight (tokens or samples), waits until the slot is agreed and applied, and
 * overwrites params by the new anchor. The same as begin and finish with -1. */
int32_t p2pdiloco_sync(p2pdiloco_node node, float *params, uint64_t elements, uint64_t weight, char **error);

/* The same in parts. begin takes the pseudo-gradient, for which params are read and free again on return, and offers it. poll says whether
 * the slot is applied: OK, AGAIN or an error. finish waits, and writes the new anchor to params. What is trained between begin and finish
 * starts from parameters that finish overwrites: use the time for what does not change them.
 *
 * Not so in mode streaming, in which a slot is of one fragment of the model. Train task.delay steps (status) between begin and finish, and give
 * finish the live parameters: it takes that fragment in, and leaves the others. weight is that of the steps since the last begin. */
int32_t p2pdiloco_begin(p2pdiloco_node node, const float *params, uint64_t elements, uint64_t weight, char **error);
int32_t p2pdiloco_poll(p2pdiloco_node node, int32_t timeout_ms, char **error);
int32_t p2pdiloco_finish(p2pdiloco_node node, float *params, uint64_t elements, int32_t timeout_ms, uint64_t *slot, char **error);

/* Says how many inner steps of this round are done: others see by it that this peer is at work, and how fast it is where it does not do
 * all of task.inner_steps. It costs nothing. */
int32_t p2pdiloco_progress(p2pdiloco_node node, uint64_t steps_done);

/* What the node knows, as JSON: what `p2pdiloco status --json` prints, and "task": {slot, inner_steps, delay, seed, rank, members, part, part_steps,
 * part_done} once there is one (docs/data.md). inner_steps is how many there are to the next begin; delay, in mode streaming, how many from
 * begin to finish, else 0. NULL where node is none. */
char *p2pdiloco_status(p2pdiloco_node node);

/* The next event of the node, as JSON (docs/operations.md lists them): OK, AGAIN, or CLOSED after the last one of a closed node. The
 * newest 1024 are kept for who asks late, also of the 16 nodes closed last; "events_lost" in the next one counts those that were dropped. */
int32_t p2pdiloco_event(p2pdiloco_node node, int32_t timeout_ms, char **event);

/* Announces that this peer leaves, waits for the others' agreement for so long at most, and closes the node. The handle is then none, also where
 * the time was over, which is an ERROR. */
int32_t p2pdiloco_leave(p2pdiloco_node node, int32_t timeout_ms, char **error);

/* Closes the node at once: to the others it looks like a crash. Ends calls that wait, and is no error for a handle that is none. */
int32_t p2pdiloco_close(p2pdiloco_node node, char **error);

/* Frees a text that the library returned. NULL is nothing. */
void p2pdiloco_free(char *text);

#ifdef __cplusplus
}
#endif

#endif
