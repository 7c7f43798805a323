/* One function for each request, which calls the library. See host.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "host.h"

#define MAX_ERROR 2000u

/* Adds the library's reason to the reply of a call that failed. */
static int32_t with_reason(struct host *h, p2pdiloco_trainer *trainer, int32_t code, struct buffer *out)
{
	if (code != P2PDILOCO_TRAINER_OK && code != P2PDILOCO_TRAINER_CANCELLED && !out->refused) {
		const char *reason = h->api.last_error(trainer);
		code = P2PDILOCO_TRAINER_FAILED;
		if (reason != NULL)
			buffer_add(out, reason, strnlen(reason, MAX_ERROR));
	}
	return code;
}

static int32_t create(struct host *h, const char *payload, struct buffer *out)
{
	p2pdiloco_trainer *made = NULL;
	int32_t code = h->api.create(payload, payload + strlen(payload) + 1, &made);
	if (code == P2PDILOCO_TRAINER_OK && made != NULL) {
		h->trainer = made;
		return 0;
	}
	if (code == P2PDILOCO_TRAINER_OK)
		return buffer_refuse(out, "create says that it made a trainer, and gives none");
	with_reason(h, made, P2PDILOCO_TRAINER_FAILED, out);
	if (made != NULL)
		h->api.destroy(made);
	return P2PDILOCO_TRAINER_FAILED;
}

/* Maps the memory that the vectors lie in. */
static int32_t share(struct host *h, const uint64_t *arg, struct buffer *out)
{
	char *base = mmap(NULL, arg[0], PROT_READ | PROT_WRITE, MAP_SHARED, VECTORS_FD, 0);
	if (base == MAP_FAILED)
		return buffer_refuse(out, "no room for vectors of %llu elements: %s", (unsigned long long)arg[3], strerror(errno));
	h->steps_done = (volatile uint64_t *)base;
	h->shared_bytes = arg[0];
	h->start = (float *)(base + arg[1]);
	h->local = (float *)(base + arg[2]);
	return h->api.register_memory != NULL ? h->api.register_memory(h->trainer, base, arg[0]) : 0;
}

static int32_t run(struct host *h, const struct request *r, const char *payload, struct buffer *out)
{
	p2pdiloco_trainer_task task = {
		.size = sizeof(task),
		.slot = r->arg[0],
		.steps = r->arg[1],
		.seed = r->arg[2],
		.rank = (uint32_t)r->arg[3],
		.steps_done = h->steps_done,
		.part = r->arg[4],
		.part_steps = r->arg[5],
		.done = r->arg[6],
	};
	const char *end = payload + r->bytes;
	for (const char *at = payload; at < end; at += strlen(at) + 1)
		task.member_count++;
	const char **members = calloc(task.member_count + 1u, sizeof(*members));
	if (members == NULL)
		abort();
	uint32_t i = 0;
	for (const char *at = payload; at < end; at += strlen(at) + 1)
		members[i++] = at;
	task.members = members;
	p2pdiloco_trainer_stats stats = {.size = sizeof(stats)};
	*task.steps_done = 0;
	int32_t code = h->api.run(h->trainer, &task, &stats);
	free(members);
	if (code == P2PDILOCO_TRAINER_OK)
		buffer_add(out, &stats, sizeof(stats));
	return code;
}

/* Exports in ranges, and reports after each how far it is, so that the peer works on one range while the next
 * is copied. */
static int32_t export_vector(struct host *h, const struct request *r)
{
	uint64_t begin = r->arg[0], end = r->arg[0] + r->arg[1], step = r->arg[2];
	for (uint64_t count; begin < end; begin += count) {
		count = end - begin < step ? end - begin : step;
		int32_t (*part)(p2pdiloco_trainer *, uint64_t, uint64_t, float *) =
			r->arg[3] ? h->api.export_gradient : h->api.export_params;
		int32_t code = part(h->trainer, begin, count, h->local + begin);
		if (code != P2PDILOCO_TRAINER_OK)
			return code;
		host_progress(r->number, begin + count);
	}
	return 0;
}

static int32_t evaluate(struct host *h, struct buffer *out)
{
	double loss = 0;
	int32_t code = h->api.evaluate(h->trainer, &loss);
	if (code == P2PDILOCO_TRAINER_OK)
		buffer_add(out, &loss, sizeof(loss));
	return code;
}

/* A trainer that has failed is only destroyed. */
static int32_t close_trainer(struct host *h, int failed)
{
	if (h->steps_done != NULL) {
		if (h->api.unregister_memory != NULL && !failed)
			h->api.unregister_memory(h->trainer, (void *)h->steps_done);
		munmap((void *)h->steps_done, h->shared_bytes);
	}
	if (h->trainer != NULL)
		h->api.destroy(h->trainer);
	h->trainer = NULL; /* it can no longer be freed */
	return 0; /* the library stays loaded, so that reports of leaks have the names of its functions */
}

static int32_t call(struct host *h, const struct request *r, const char *payload, struct buffer *out)
{
	switch (r->op) {
	case OP_SHARE:
		return share(h, r->arg, out);
	case OP_INIT:
		return h->api.init(h->trainer, r->arg[0], h->local);
	case OP_LOAD:
		return h->api.load(h->trainer, r->arg[0], r->arg[1], h->start + r->arg[0]);
	case OP_RUN:
		return run(h, r, payload, out);
	case OP_EXPORT:
		return export_vector(h, r);
	case OP_EVALUATE:
		return evaluate(h, out);
	case OP_SAVE:
		return h->api.save(h->trainer, payload);
	case OP_RESTORE:
		return h->api.restore(h->trainer, payload);
	default:
		abort(); /* the peer is of the same build, and has no other requests */
	}
}

int32_t host_call(struct host *h, const struct request *r, char *payload, struct buffer *out)
{
	switch (r->op) {
	case OP_OPEN:
		return library_open(h, payload, out);
	case OP_ENTRY:
		return library_entry(h, out);
	case OP_CREATE:
		return create(h, payload, out);
	case OP_CLOSE:
		return close_trainer(h, r->arg[0] != 0);
	case OP_LAYOUT:
		return with_reason(h, h->trainer, library_layout(h, out), out);
	default:
		return with_reason(h, h->trainer, call(h, r, payload, out), out);
	}
}
