#include "adamw.h"

#include <math.h>
#include <stdbool.h>

#include "update.h"

static double norm(const float *v, size_t n) {
	double squares = 0;
	for (size_t i = 0; i < n; i++) squares += (double)v[i] * v[i];
	return sqrt(squares);
}

/* Updates one tensor. */
static void update(const struct update *u, float keep, size_t n, float *restrict values, const float *restrict grads,
    float *restrict first, float *restrict second) {
	for (size_t i = 0; i < n; i++) {
		float g = u->scale * grads[i];
		float m = first[i] = u->beta1 * first[i] + (1 - u->beta1) * g;
		float v = second[i] = u->beta2 * second[i] + (1 - u->beta2) * g * g;
		values[i] = keep * values[i] - u->size * m / (sqrtf(v) * u->root + u->epsilon);
	}
}

double adamw_step(struct state *s, const struct config *c, const struct layout *l, float *values, const float *grads) {
	double size = norm(grads, l->elements);
	struct update u = update_at(c, ++s->steps, size);
	for (size_t i = 0; i < l->count; i++) {
		const struct tensor *t = &l->tensors[i];
		bool matrix = t->dims > 1; /* gains and biases do not decay */
		update(&u, matrix ? u.keep : 1, t->count, values + t->begin, grads + t->begin, s->first + t->begin, s->second + t->begin);
	}
	return size;
}
