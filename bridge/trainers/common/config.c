#include "config.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "layout.h"

enum kind { INTEGER, REAL };

/* One key of the configuration whose value is a number, with its default and its limits. */
static const struct field {
	const char *name;
	enum kind kind;
	size_t at; /* in struct config */
	double standard, least, most;
} fields[] = {
	{"layers", INTEGER, offsetof(struct config, layers), 1, 1, 64},
	{"width", INTEGER, offsetof(struct config, width), 96, 1, 4096},
	{"heads", INTEGER, offsetof(struct config, heads), 4, 1, 4096},
	{"context", INTEGER, offsetof(struct config, context), 32, 1, 4096},
	{"batch", INTEGER, offsetof(struct config, batch), 32, 1, 4096},
	{"learning_rate", REAL, offsetof(struct config, learning_rate), 8e-3, 1e-30, 1},
	{"beta1", REAL, offsetof(struct config, beta1), 0.9, 0, 0.9999999999999999},
	{"beta2", REAL, offsetof(struct config, beta2), 0.99, 0, 0.9999999999999999},
	{"epsilon", REAL, offsetof(struct config, epsilon), 1e-8, 1e-30, 1},
	{"weight_decay", REAL, offsetof(struct config, weight_decay), 0.1, -1e30, 1e30},
	{"clip", REAL, offsetof(struct config, clip), 1, -1e30, 1e30},
	{"warm_up", INTEGER, offsetof(struct config, warm_up), 20, -1, 1 << 30},
	{"held_out", INTEGER, offsetof(struct config, held_out), 128, 1, 1 << 20},
	{"threads", INTEGER, offsetof(struct config, threads), 1, 1, 256},
	{"max_bytes", INTEGER, offsetof(struct config, max_bytes), 64 << 20, 1, 1 << 30},
	{"hold_out", INTEGER, offsetof(struct config, hold_out), 16, 2, 32767},
};

enum { FIELDS = sizeof fields / sizeof fields[0] };

static void set(struct config *c, const struct field *f, double v) {
	if (f->kind == INTEGER) *(int64_t *)((char *)c + f->at) = (int64_t)v;
	else *(double *)((char *)c + f->at) = v;
}

static int parse_number(struct json *j, struct config *c, const struct field *f) {
	struct json before = *j;
	int64_t whole = 0;
	double v = 0;
	if (f->kind == INTEGER ? json_integer(j, &whole) : json_real(j, &v)) return 1;
	if (f->kind == INTEGER) v = (double)whole; /* exact within every field's limits */
	if (v < f->least || v > f->most) {
		char what[120];
		snprintf(what, sizeof what, "%s %.10g: %.10g to %.10g is allowed", f->name, v, f->least, f->most);
		json_peek(&before);
		return json_fail(&before, what);
	}
	set(c, f, v);
	return 0;
}

static int parse_path(struct json *j, struct config *c) {
	char path[4096];
	if (c->path_count == MAX_PATHS) return json_fail(j, "too many paths");
	if (json_string(j, path, sizeof path)) return 1;
	char *copy = strdup(path);
	if (!copy) return fail(j->why, "out of memory");
	c->paths[c->path_count++] = copy;
	return 0;
}

/* A path, or a list of them. */
static int parse_paths(struct json *j, struct config *c) {
	bool more;
	if (!(c->paths = (char **)calloc(MAX_PATHS, sizeof *c->paths))) return fail(j->why, "out of memory");
	if (json_peek(j) != '[') return parse_path(j, c);
	if (json_enter(j, '[', &more)) return 1;
	if (!more) return json_fail(j, "data names no file or folder");
	while (more) {
		if (parse_path(j, c) || json_more(j, ']', &more)) return 1;
	}
	return 0;
}

static int unknown(struct json *j, const char *key) {
	char what[800];
	int n = snprintf(what, sizeof what, "unknown key \"%s\": known are data", key);
	for (int i = 0; i < FIELDS; i++) n += snprintf(what + n, sizeof what - (size_t)n, ", %s", fields[i].name);
	return json_fail(j, what);
}

/* Reads the value of a key, which stands at start. */
static int parse_value(struct json *j, struct json *start, struct config *c, const char *key, bool seen[FIELDS + 1], config_other other,
    void *mine) {
	int i = 0;
	while (i < FIELDS && strcmp(key, fields[i].name) != 0) i++;
	bool data = strcmp(key, "data") == 0;
	if (i == FIELDS && !data) {
		int code = other ? other(j, key, mine) : -1;
		return code < 0 ? unknown(start, key) : code;
	}
	if (seen[i]) return json_fail(start, "this key stands here twice");
	seen[i] = true;
	return data ? parse_paths(j, c) : parse_number(j, c, &fields[i]);
}

static int parse(struct json *j, struct config *c, config_other other, void *mine) {
	bool more, seen[FIELDS + 1] = {false};
	char key[64];
	if (json_enter(j, '{', &more)) return 1;
	while (more) {
		json_peek(j);
		struct json start = *j;
		if (json_key(j, key, sizeof key) || parse_value(j, &start, c, key, seen, other, mine) || json_more(j, '}', &more)) return 1;
	}
	return json_end(j);
}

/* What is wrong with values that are allowed one by one. */
static int check(const struct config *c, struct failure *why) {
	if (c->width % c->heads) {
		return fail(why, "width %d is not a multiple of %d heads", (int)c->width, (int)c->heads);
	}
	if (!(c->weight_decay * c->learning_rate < 1)) {
		return fail(why, "weight_decay %g: at most 1/learning_rate is allowed, 0 for none", c->weight_decay);
	}
	uint64_t elements = layout_elements(c), buffers = buffer_elements(c);
	if (elements > MAX_MODEL_ELEMENTS) {
		return fail(why, "the model has %llu parameters: at most %llu are allowed, take fewer layers or a smaller width",
		    (unsigned long long)elements, (unsigned long long)MAX_MODEL_ELEMENTS);
	}
	if (buffers > MAX_BUFFER_ELEMENTS) {
		return fail(why, "a step needs %llu values of working memory: at most %llu are allowed, take a smaller batch or context",
		    (unsigned long long)buffers, (unsigned long long)MAX_BUFFER_ELEMENTS);
	}
	return 0;
}

int config_parse(struct config *c, const char *text, config_other other, void *mine, struct failure *why) {
	struct json j;
	struct failure reason;
	memset(c, 0, sizeof *c);
	for (int i = 0; i < FIELDS; i++) set(c, &fields[i], fields[i].standard);
	json_open(&j, text, &reason);
	if (parse(&j, c, other, mine) || check(c, &reason)) return fail(why, "--trainer-config: %s", reason.text);
	return 0;
}

void config_free(struct config *c) {
	for (size_t i = 0; i < c->path_count; i++) free(c->paths[i]);
	free(c->paths);
	c->paths = NULL;
	c->path_count = 0;
}
