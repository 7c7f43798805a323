/*
 * The trainer's host: the program starts itself again as this process, which loads one trainer library and calls it.
 *
 *     host.c     start, the two threads, the loop
 *     library.c  loads the library and checks what it exports
 *     calls.c    one function for each request
 *
 * wire.go and memory.go are the peer's side of the same pipes and memory; both sides are always of one build.
 */
#ifndef P2PDILOCO_HOST_H
#define P2PDILOCO_HOST_H

#include <stddef.h>
#include <stdint.h>

#include "p2pdiloco_trainer.h"

/* Descriptors that the process is started with. */
enum {
	REQUESTS_FD = 3,
	REPLIES_FD = 4,
	VECTORS_FD = 5,
};

enum op {
	OP_OPEN = 1, /* payload: path */
	OP_ENTRY,
	OP_CREATE, /* payload: configuration, NUL, data folder, NUL */
	OP_LAYOUT,
	OP_SHARE,    /* arg: bytes of the memory, offsets of the vectors start and local, D */
	OP_INIT,     /* arg: seed. Into local */
	OP_LOAD,     /* arg: begin, count. From start */
	OP_RUN,      /* arg: slot, steps, seed, rank, part, its steps, done. payload: members, each ended by NUL */
	OP_EXPORT,   /* arg: begin, count, elements a call, 1 for the pseudo-gradient. Into local */
	OP_EVALUATE,
	OP_SAVE,     /* payload: path */
	OP_RESTORE,  /* payload: path */
	OP_CLOSE,    /* arg: 1 if a call has failed */
	OP_CANCEL,   /* arg: number of the request to cancel. Has no reply */
};

/* What a reply says: what the library's function returned, or one of these. */
enum {
	CODE_REFUSED = 100,  /* payload: what is wrong with the library, in words */
	CODE_PROGRESS = 101, /* payload: elements exported so far. More replies to this request follow */
};

/* Optional abilities of the library, as bits of ENTRY's reply. */
enum {
	CAN_EXPORT_GRADIENT = 1,
	CAN_EVALUATE = 2,
	CAN_SAVE = 4,
};

struct request {
	uint32_t op;
	uint32_t number; /* rises by one a request; a reply repeats it */
	uint64_t arg[7];
	uint64_t bytes; /* of payload that follow */
};

#define REPLY_MAGIC 0x70325470u

struct reply {
	uint32_t magic;
	uint32_t number;
	int32_t code;
	uint32_t bytes; /* of payload that follow */
};

/* A growing buffer: the payload of a reply. */
struct buffer {
	char *data;
	size_t used, room;
	int refused; /* it says what is wrong with the library: the code is CODE_REFUSED */
};

/* host.c */
void buffer_add(struct buffer *b, const void *data, size_t bytes);
int32_t buffer_refuse(struct buffer *b, const char *format, ...) __attribute__((format(printf, 2, 3)));
void host_progress(uint32_t number, uint64_t exported);

/* What is loaded, and where the vectors lie. Only the main thread uses it, except for cancel, which the reading
 * thread calls while a run is under way. */
struct host {
	void *library;
	p2pdiloco_trainer_api api; /* a copy; fields that the library's table lacks are zero */
	p2pdiloco_trainer *trainer;
	volatile uint64_t *steps_done; /* the first word of the shared memory; NULL before OP_SHARE */
	uint64_t shared_bytes;
	float *start, *local;
};

/* library.c. They return the code of the library's function, or P2PDILOCO_TRAINER_FAILED if they refuse. */
int32_t library_open(struct host *h, const char *path, struct buffer *out);
int32_t library_entry(struct host *h, struct buffer *out);
int32_t library_layout(struct host *h, struct buffer *out);

/* calls.c. payload ends with a NUL that is not counted. */
int32_t host_call(struct host *h, const struct request *r, char *payload, struct buffer *out);

#endif
