/*
 * The trainer's host: the program starts itself again as this process, which loads one trainer library, attaches to
 * the node (docs/attach.md) as the only rank of a trainer, and calls the library for what the node asks.
 *
 *     host.c     start, end, and the thread that watches
 *     library.c  loads the library, checks what it exports, makes the trainer
 *     calls.c    one function for each request of the node
 */
#ifndef P2PDILOCO_HOST_H
#define P2PDILOCO_HOST_H

#include <stdint.h>

#include "p2pdiloco_attach.h"
#include "p2pdiloco_trainer.h"

/* The file that the process is started with as descriptor 3: what the host is told, and what it says about the
 * library beyond the attach protocol. It lies in memory that outlives a crash. note.go has the same struct. */
struct note {
	char doing[64];     /* the library's function that runs, or ran last */
	char problem[2048]; /* why it failed; empty: it did not */
	char name[256];
	uint32_t types[4]; /* numbers of tensors, by type */
	uint32_t can;      /* CAN_EXPORT_GRADIENT and others */
	uint32_t unused;
	uint64_t seed; /* for init */
	char texts[];  /* library, configuration, data directory, path of the node's socket; each ends with NUL */
};

enum { NOTE_FD = 3 };

/* Optional abilities of the library. */
enum {
	CAN_EXPORT_GRADIENT = 1,
	CAN_EVALUATE = 2,
	CAN_SAVE = 4,
};

struct host {
	struct note *note;
	p2pdiloco_trainer_api api; /* a copy; fields that the library's table lacks are zero */
	p2pdiloco_trainer *trainer;
	struct p2pa attached;
	int failed; /* only destroy may follow */
};

extern struct host host;

/* host.c */
void orphaned(void);
void enter(const char *format, ...) __attribute__((format(printf, 1, 2)));
void fail(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));
const char *reason(p2pdiloco_trainer *trainer);
void must(int32_t code);
void watch_begins(void);
int watch_ends(void); /* whether the node wanted the call to end */
int watch_lost(void); /* whether the node was lost meanwhile */

/* library.c */
void library_load(const char *path);
void library_create(const char *config, const char *data_dir);
struct p2pa_tensor *library_layout(size_t *count);

/* calls.c */
void attach(const char *path);
void serve(void);

#endif
