#include "team.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

struct member {
	struct team *team;
	size_t number; /* from 1 */
	pthread_t thread;
};

struct team {
	size_t count; /* with the caller */
	struct member *members;

	pthread_mutex_t mutex; /* guards what follows */
	pthread_cond_t begun, done;
	uint64_t operations; /* begun so far */
	size_t left;         /* members that have not finished the newest one */
	bool stop;
	work do_part;
	const void *operation;
	size_t n, parts;
};

static void *run_member(void *argument) {
	struct member *self = argument;
	struct team *t = self->team;
	uint64_t seen = 0;
	pthread_mutex_lock(&t->mutex);
	for (;;) {
		while (t->operations == seen && !t->stop) pthread_cond_wait(&t->begun, &t->mutex);
		if (t->stop) break;
		seen = t->operations;
		size_t i = self->number, begin = i * t->n / t->parts, end = (i + 1) * t->n / t->parts;
		bool idle = i >= t->parts;
		pthread_mutex_unlock(&t->mutex);
		if (!idle) t->do_part(t->operation, begin, end); /* they stay as they are until left is 0 */
		pthread_mutex_lock(&t->mutex);
		if (--t->left == 0) pthread_cond_signal(&t->done);
	}
	pthread_mutex_unlock(&t->mutex);
	return NULL;
}

int team_start(struct team **team, int count, struct failure *why) {
	struct team *t = calloc(1, sizeof *t);
	*team = t;
	if (!t || !(t->members = calloc((size_t)count, sizeof *t->members))) {
		free(t);
		*team = NULL;
		return fail(why, "out of memory");
	}
	pthread_mutex_init(&t->mutex, NULL);
	pthread_cond_init(&t->begun, NULL);
	pthread_cond_init(&t->done, NULL);
	for (t->count = 1; t->count < (size_t)count; t->count++) {
		struct member *m = &t->members[t->count];
		m->team = t, m->number = t->count;
		if (pthread_create(&m->thread, NULL, run_member, m)) return fail(why, "no more threads can be started: give a smaller \"threads\"");
	}
	return 0;
}

void team_stop(struct team *t) {
	if (!t) return;
	pthread_mutex_lock(&t->mutex);
	t->stop = true;
	pthread_cond_broadcast(&t->begun);
	pthread_mutex_unlock(&t->mutex);
	for (size_t i = 1; i < t->count; i++) pthread_join(t->members[i].thread, NULL);
	pthread_cond_destroy(&t->begun);
	pthread_cond_destroy(&t->done);
	pthread_mutex_destroy(&t->mutex);
	free(t->members);
	free(t);
}

void split(struct team *t, size_t n, work do_part, const void *operation) {
	size_t parts = t && t->count < n ? t->count : t ? n : 1;
	if (parts <= 1) {
		do_part(operation, 0, n);
		return;
	}
	pthread_mutex_lock(&t->mutex);
	t->do_part = do_part, t->operation = operation, t->n = n, t->parts = parts;
	t->operations++;
	t->left = t->count - 1;
	pthread_cond_broadcast(&t->begun);
	pthread_mutex_unlock(&t->mutex);

	do_part(operation, 0, n / parts);

	pthread_mutex_lock(&t->mutex);
	while (t->left > 0) pthread_cond_wait(&t->done, &t->mutex);
	pthread_mutex_unlock(&t->mutex);
}
