/*
 * The trainer ABI: how p2pdiloco drives a trainer that is a shared library.
 *
 *     p2pdiloco join --run my-run --trainer ./libmytrainer.so --trainer-config my.json
 *
 * A trainer owns a live model and does inner steps on it. It exports one function, p2pdiloco_trainer_entry,
 * which returns a table of functions. examples/c/trainer.c is one to begin from; `p2pdiloco trainer-check` tests
 * a library against this file.
 *
 * Where it runs. In the peer's process, which is built with cgo. All functions are called from one thread, one at
 * a time, so that contexts that belong to a thread (as in CUDA) work; only cancel is called from another thread.
 * The trainer may start threads. It must leave signals as they are, and must not end the process: a crash, a hang
 * and exit() end the peer by a signal, and what starts it again brings back the same member. It prints to standard
 * error: standard output is the peer's (with glibc, stdout of C is standard error).
 *
 * Order. entry, create, layout, register_memory; then any number of init, load, run, export_params,
 * export_gradient, evaluate, save and restore, in the order that the peer needs; then unregister_memory and
 * destroy. A function that fails leaves the trainer usable for last_error and destroy, and for nothing else,
 * unless it returned P2PDILOCO_TRAINER_CANCELLED, or is save or restore: those fail without having changed
 * anything.
 *
 * Memory. The side that allocates memory frees it. What the trainer returns (names, layout, error texts)
 * belongs to the trainer and must not change until destroy; the text of last_error, until the next call. What
 * the trainer is passed belongs to the caller. The trainer may read it, or write it where the comment says so,
 * until the function returns. Vectors are little-endian IEEE 754 float32, whatever the live tensors' types are;
 * the model is one vector of D elements: the tensors of the layout, in its order, each row-major, without gaps.
 *
 * Versions. Every struct begins with its size in bytes, as compiled by the side that made it. Fields are only
 * added at the end, and a reader treats fields beyond the size as zero. P2PDILOCO_TRAINER_ABI changes only when
 * an old library could not be called any more.
 */
#ifndef P2PDILOCO_TRAINER_H
#define P2PDILOCO_TRAINER_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define P2PDILOCO_TRAINER_ABI 1u

#if defined(_WIN32)
#define P2PDILOCO_TRAINER_EXPORT __declspec(dllexport)
#else
#define P2PDILOCO_TRAINER_EXPORT __attribute__((visibility("default")))
#endif

/* What functions return. Any other value counts as P2PDILOCO_TRAINER_FAILED. */
enum {
	P2PDILOCO_TRAINER_OK = 0,
	P2PDILOCO_TRAINER_FAILED = 1,    /* last_error says why */
	P2PDILOCO_TRAINER_CANCELLED = 2, /* run or evaluate ended early because of cancel; the trainer can be used further */
};

/* Type of a live tensor. The peer only shows it: vectors are float32. */
enum {
	P2PDILOCO_F32 = 1,
	P2PDILOCO_BF16 = 2,
	P2PDILOCO_F16 = 3,
};

#define P2PDILOCO_TRAINER_MAX_DIMS 8u

/* One tensor of the model. */
typedef struct p2pdiloco_trainer_tensor {
	uint64_t size;    /* sizeof(p2pdiloco_trainer_tensor): also the distance between two in an array */
	const char *name; /* UTF-8, up to 256 bytes, unlike all others */
	uint32_t dtype;
	uint32_t dims; /* 0 for a scalar */
	uint64_t shape[P2PDILOCO_TRAINER_MAX_DIMS];
} p2pdiloco_trainer_tensor;

/* One round of inner steps. */
typedef struct p2pdiloco_trainer_task {
	uint64_t size;
	uint64_t slot;  /* that the round contributes to, from 1 */
	uint64_t steps; /* to do (H; in mode streaming fewer, in several runs for one slot), at least 1 */
	uint64_t seed;  /* of the run: the order of the data follows from it */
	/* The peers that train when this slot begins: the peer IDs of all members as text, sorted by their binary
	 * form. This peer is members[rank]. */
	uint32_t rank;
	uint32_t member_count;
	const char *const *members;
	/* run stores the number of steps done here, after each step. It shows the others that this peer is at work,
	 * and a trainer that stores nothing new for the peer's --trainer-timeout counts as hung. Never NULL. */
	volatile uint64_t *steps_done;
	/* The part of the data that this round trains on. Parts are numbered from 0 without end, and each is enough
	 * for part_steps steps. No other peer has this part (docs/how-to/data.md). done of its steps were trained before;
	 * the task's steps follow them. */
	uint64_t part, part_steps, done;
	/* Where the run is when these steps begin, in inner steps of its time (H a round, however many a peer does), and
	 * where it ends. A learning rate that goes by them is the same for late joiners, and after a crash. A peer of an
	 * older release ends its task before them: read them where size reaches beyond them. */
	uint64_t step, total_steps;
} p2pdiloco_trainer_task;

/* What a round of inner steps did. run fills it; size is set by the caller. */
typedef struct p2pdiloco_trainer_stats {
	uint64_t size;
	uint64_t steps;       /* done */
	uint64_t samples;     /* processed */
	uint64_t tokens;      /* processed: the contribution's weight */
	double loss;          /* mean training loss over the steps, nats per token */
	double seconds;       /* in the steps */
	double gradient_norm; /* mean over the steps of the gradient's norm before clipping; 0 for unknown */
} p2pdiloco_trainer_stats;

typedef struct p2pdiloco_trainer p2pdiloco_trainer; /* defined by the library */

typedef struct p2pdiloco_trainer_api {
	uint64_t size;    /* sizeof(p2pdiloco_trainer_api) */
	uint32_t abi;     /* P2PDILOCO_TRAINER_ABI */
	uint32_t flags;   /* 0 */
	const char *name; /* of the trainer and its version, for people */

	/* Makes a trainer. config is the text of --trainer-config, or "{}"; the library defines what it
	 * means. data_dir is a folder for the trainer's files, which is still there when the peer is restarted. On
	 * failure *out is NULL, or a trainer whose last_error says why; the peer then destroys it. */
	int32_t (*create)(const char *config, const char *data_dir, p2pdiloco_trainer **out);

	/* Why the last call on this trainer failed: one line of UTF-8, never NULL. The argument NULL means the last
	 * create. */
	const char *(*last_error)(p2pdiloco_trainer *);

	/* The model's tensors. It must not change. */
	int32_t (*layout)(p2pdiloco_trainer *, const p2pdiloco_trainer_tensor **tensors, uint64_t *count);

	/* Announces the memory in which the vectors of a peer's calls lie, the same until unregister_memory. A library
	 * can page-lock it here (cudaHostRegister), so that copies run
	 * beside other work. Both functions may be NULL. */
	int32_t (*register_memory)(p2pdiloco_trainer *, void *base, uint64_t bytes);
	int32_t (*unregister_memory)(p2pdiloco_trainer *, void *base);

	/* Writes the initial parameters, D elements, which must depend on config and the run's seed alone. The peer
	 * calls it if it founds the run. The live parameters may change. */
	int32_t (*init)(p2pdiloco_trainer *, uint64_t seed, float *dst);

	/* Replaces elements [begin, begin + count) of the live parameters with src[0..count). The next
	 * pseudo-gradient starts from them. begin 0 and count D load the whole model. The inner optimizer's state
	 * stays. In mode streaming the peer loads parts between runs, and the rest of the live parameters must not
	 * change. */
	int32_t (*load)(p2pdiloco_trainer *, uint64_t begin, uint64_t count, const float *src);

	/* Does task->steps inner steps from the live parameters. */
	int32_t (*run)(p2pdiloco_trainer *, const p2pdiloco_trainer_task *, p2pdiloco_trainer_stats *);

	/* Makes a run or evaluate that is under way end soon. It is no error if none is. Only this function is
	 * called from another thread, and while another function runs. The peer repeats it, because a cancel before
	 * run has begun is lost. */
	void (*cancel)(p2pdiloco_trainer *);

	/* Writes elements [begin, begin + count) of the live parameters to dst[0..count). The peer asks for ranges
	 * in rising order, and works on one while the next is copied. */
	int32_t (*export_params)(p2pdiloco_trainer *, uint64_t begin, uint64_t count, float *dst);

	/* The same for the pseudo-gradient: the loaded parameters minus the live ones, subtracted in float32. If it
	 * is NULL, the peer subtracts. */
	int32_t (*export_gradient)(p2pdiloco_trainer *, uint64_t begin, uint64_t count, float *dst);

	/* The mean held-out loss of the live parameters, nats per token, on data that is the same for all peers.
	 * May be NULL. */
	int32_t (*evaluate)(p2pdiloco_trainer *, double *loss);

	/* Writes the inner optimizer's state and the data position to a file, and reads them back; the model is not
	 * part of it. The peer saves before the first run from an anchor, and in mode sync after the last; it restores
	 * once, before the first load, when it was restarted with its data directory. If restore refuses the file, the
	 * peer says so and goes on without it.
	 * Both functions may be NULL. */
	int32_t (*save)(p2pdiloco_trainer *, const char *path);
	int32_t (*restore)(p2pdiloco_trainer *, const char *path);

	/* Frees everything. */
	void (*destroy)(p2pdiloco_trainer *);
} p2pdiloco_trainer_api;

/* The only function that the library exports. abi is the ABI of the peer; the abi field of the table is that of
 * the library. NULL means that the library does not have the peer's ABI. */
P2PDILOCO_TRAINER_EXPORT const p2pdiloco_trainer_api *p2pdiloco_trainer_entry(uint32_t abi);

#ifdef __cplusplus
}
#endif

#endif
