#include "layout.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "random.h"

uint64_t layout_elements(const struct config *c) {
	uint64_t d = (uint64_t)c->width;
	return (VOCABULARY + (uint64_t)c->context) * d + (uint64_t)c->layers * (12 * d * d + 13 * d) + 2 * d;
}

uint64_t buffer_elements(const struct config *c) {
	uint64_t rows = (uint64_t)c->batch * (uint64_t)c->context, d = (uint64_t)c->width, squares = rows * (uint64_t)c->context;
	return (uint64_t)c->layers * (22 * rows * d + squares * (uint64_t)c->heads) + 12 * rows * d + squares + rows * VOCABULARY;
}

/* Appends a tensor; columns is 0 for a vector. */
static void add(struct layout *l, const char *block, const char *name, uint64_t rows, uint64_t columns) {
	struct tensor *t = &l->tensors[l->count++];
	snprintf(t->name, sizeof t->name, "%s%s", block, name);
	t->begin = l->elements;
	t->count = (size_t)(rows * (columns ? columns : 1));
	t->dims = columns ? 2 : 1;
	t->shape[0] = rows;
	t->shape[1] = columns;
	l->elements += t->count;
}

/* The only place that knows the order, which the enumeration in layout.h follows. */
static void walk(struct layout *l, const struct config *c) {
	uint64_t d = (uint64_t)c->width;
	add(l, "", "wte", VOCABULARY, d);
	add(l, "", "wpe", (uint64_t)c->context, d);
	for (int64_t i = 0; i < c->layers; i++) {
		char block[16];
		snprintf(block, sizeof block, "h.%d.", (int)i);
		add(l, block, "ln1.weight", d, 0);
		add(l, block, "ln1.bias", d, 0);
		add(l, block, "attn.qkv.weight", 3 * d, d);
		add(l, block, "attn.qkv.bias", 3 * d, 0);
		add(l, block, "attn.proj.weight", d, d);
		add(l, block, "attn.proj.bias", d, 0);
		add(l, block, "ln2.weight", d, 0);
		add(l, block, "ln2.bias", d, 0);
		add(l, block, "mlp.up.weight", 4 * d, d);
		add(l, block, "mlp.up.bias", 4 * d, 0);
		add(l, block, "mlp.down.weight", d, 4 * d);
		add(l, block, "mlp.down.bias", d, 0);
	}
	add(l, "", "lnf.weight", d, 0);
	add(l, "", "lnf.bias", d, 0);
}

static void describe(p2pdiloco_trainer_tensor *out, const struct tensor *t, uint32_t dtype) {
	out->size = sizeof *out;
	out->name = t->name;
	out->dtype = dtype;
	out->dims = t->dims;
	for (uint32_t i = 0; i < t->dims; i++) out->shape[i] = t->shape[i];
}

int layout_make(struct layout *l, const struct config *c, uint32_t dtype, struct failure *why) {
	size_t count = FINAL(c->layers) + 2;
	memset(l, 0, sizeof *l);
	l->tensors = (struct tensor *)calloc(count, sizeof *l->tensors);
	l->table = (p2pdiloco_trainer_tensor *)calloc(count, sizeof *l->table);
	if (!l->tensors || !l->table) {
		layout_free(l);
		return fail(why, "out of memory");
	}
	walk(l, c);
	for (size_t i = 0; i < l->count; i++) describe(&l->table[i], &l->tensors[i], dtype);
	return 0;
}

void layout_free(struct layout *l) {
	free(l->tensors);
	free(l->table);
	memset(l, 0, sizeof *l);
}

/* Draws from a sum of twelve uniform 16-bit integers, whose deviation is 65536 to ten digits. It is as good as
 * normal here, and being integer arithmetic it gives the same bits on every machine, which logarithms do not. */
static void fill_normal(struct pcg *random, const struct tensor *t, float *flat, float deviation) {
	for (size_t i = 0; i < t->count; i++) {
		int sum = -12 * 65535 / 2;
		for (int k = 0; k < 3; k++) {
			uint64_t v = pcg_next(random);
			sum += (int)(v & 0xffff) + (int)(v >> 16 & 0xffff) + (int)(v >> 32 & 0xffff) + (int)(v >> 48);
		}
		flat[t->begin + i] = (float)sum / 65536 * deviation;
	}
}

static void fill_ones(const struct tensor *t, float *flat) {
	for (size_t i = 0; i < t->count; i++) flat[t->begin + i] = 1;
}

void initialize(const struct layout *l, const struct config *c, uint64_t seed, float *dst) {
	struct pcg random = {.high = seed, .low = 0x70327064696c6f63};
	float inner = (float)(1 / sqrt((double)c->width)), residual = (float)(0.02 / sqrt((double)(2 * c->layers)));
	memset(dst, 0, l->elements * sizeof *dst);
	fill_normal(&random, &l->tensors[WTE], dst, inner);
	fill_normal(&random, &l->tensors[WPE], dst, inner);
	for (int64_t i = 0; i < c->layers; i++) {
		const struct tensor *block = &l->tensors[BLOCK(i)];
		fill_ones(&block[LN1_WEIGHT], dst);
		fill_normal(&random, &block[QKV_WEIGHT], dst, inner);
		fill_normal(&random, &block[PROJ_WEIGHT], dst, residual);
		fill_ones(&block[LN2_WEIGHT], dst);
		fill_normal(&random, &block[UP_WEIGHT], dst, inner);
		fill_normal(&random, &block[DOWN_WEIGHT], dst, residual);
	}
	fill_ones(&l->tensors[FINAL(c->layers)], dst);
}
