/* What guard.c and load.c offer to the Go side and to each other. */
#ifndef P2PDILOCO_LOAD_H
#define P2PDILOCO_LOAD_H

#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>

/* A call that Go does on a thread of its own, while the host's thread waits for it in C. */
struct p2pdiloco_call {
	int32_t code;
	char *error; /* in C's memory, as text is */
	char *text;
	uint64_t slot; /* where has_slot */
	int has_slot;
	int64_t node;

	pthread_mutex_t mutex;
	pthread_cond_t changed;
	int done;
	sigset_t mask; /* of the host's thread */
	int cancel;
};

/* Go calls it when a call is done, and does not use the call again. */
void p2pdiloco_done(struct p2pdiloco_call *call);

/* Go calls it when its runtime and all packages are initialised. */
void p2pdiloco_loaded(void);

/* Writes to standard error, and drops what cannot be written. */
void p2pdiloco_complain(const char *text, size_t length);

/* The host's environment. */
char **p2pdiloco_environ(void);

/* Says whether this process is a child of the one that loaded the library. */
int p2pdiloco_forked(void);

/* Blocks the signals that come from outside for this thread, and stores the old mask in old. */
void p2pdiloco_block(sigset_t *old);

#endif
