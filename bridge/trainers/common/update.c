#include "update.h"

#include <math.h>

static double rate_at(const struct config *c, uint64_t t) {
	if ((double)t < (double)c->warm_up) return c->learning_rate * (double)t / (double)c->warm_up;
	return c->learning_rate;
}

struct update update_at(const struct config *c, uint64_t t, double norm) {
	double rate = rate_at(c, t);
	struct update u = {
		.scale = c->clip > 0 && norm > c->clip ? (float)(c->clip / norm) : 1,
		.beta1 = (float)c->beta1,
		.beta2 = (float)c->beta2,
		.keep = c->weight_decay > 0 ? (float)(1 - rate * c->weight_decay) : 1,
		.size = (float)(rate / (1 - pow(c->beta1, (double)t))),
		.root = (float)(1 / sqrt(1 - pow(c->beta2, (double)t))),
		.epsilon = (float)c->epsilon,
	};
	return u;
}
