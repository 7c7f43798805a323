#include "state.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sha256.h"

struct header {
	char magic[8];
	uint8_t layout[32];
	uint64_t steps, elements;
};

static const char magic[8] = {'p', '2', 'p', 'd', 't', 'r', 'n', '1'};

/* Tells layouts apart by their tensors' names and sizes. */
static void hash_layout(const struct layout *l, uint8_t sum[32]) {
	struct sha256 h;
	sha256_begin(&h);
	for (size_t i = 0; i < l->count; i++) {
		const struct tensor *t = &l->tensors[i];
		sha256_add(&h, t->name, strlen(t->name) + 1);
		sha256_add(&h, t->shape, sizeof t->shape);
	}
	sha256_end(&h, sum);
}

static struct header header_of(const struct layout *l, uint64_t steps) {
	struct header head = {.steps = steps, .elements = l->elements};
	memcpy(head.magic, magic, sizeof magic);
	hash_layout(l, head.layout);
	return head;
}

static bool put(FILE *f, struct sha256 *h, const void *data, size_t size) {
	sha256_add(h, data, size);
	return fwrite(data, 1, size, f) == size;
}

static bool write_all(FILE *f, const struct layout *l, const struct state *s) {
	struct header head = header_of(l, s->steps);
	struct sha256 h;
	uint8_t sum[32];
	size_t bytes = l->elements * sizeof(float);
	sha256_begin(&h);
	if (!put(f, &h, &head, sizeof head) || !put(f, &h, s->first, bytes) || !put(f, &h, s->second, bytes)) return false;
	sha256_end(&h, sum);
	return fwrite(sum, 1, sizeof sum, f) == sizeof sum && fflush(f) == 0 && fsync(fileno(f)) == 0;
}

int state_save(const char *path, const struct layout *l, const struct state *s, struct failure *why) {
	size_t room = strlen(path) + 5;
	char *part = (char *)malloc(room);
	if (!part) return fail(why, "out of memory");
	snprintf(part, room, "%s.new", path);
	FILE *f = fopen(part, "wb");
	bool ok = f && write_all(f, l, s);
	int reason = errno;
	if (f && fclose(f) && ok) ok = false, reason = errno;
	if (ok && rename(part, path)) ok = false, reason = errno;
	if (!ok) remove(part);
	free(part);
	return ok ? 0 : fail(why, "save %s: %s", path, strerror(reason));
}

/* Reads the whole file but its end, and says whether its end is the hash of that. */
static bool sound(FILE *f, const struct header *head) {
	struct sha256 h;
	uint8_t piece[1 << 14], sum[32], said[32];
	sha256_begin(&h);
	sha256_add(&h, head, sizeof *head);
	for (uint64_t left = 2 * head->elements * sizeof(float); left > 0;) {
		size_t n = left < sizeof piece ? (size_t)left : sizeof piece;
		if (fread(piece, 1, n, f) != n) return false;
		sha256_add(&h, piece, n);
		left -= n;
	}
	sha256_end(&h, sum);
	return fread(said, 1, sizeof said, f) == sizeof said && memcmp(sum, said, sizeof sum) == 0 && fgetc(f) == EOF;
}

static int read_all(FILE *f, const char *path, const struct layout *l, struct state *s, struct failure *why) {
	struct header head, mine;
	if (fread(&head, sizeof head, 1, f) != 1) return fail(why, "restore %s: it is cut short", path);
	mine = header_of(l, head.steps);
	if (memcmp(head.magic, mine.magic, sizeof magic) != 0) return fail(why, "restore %s: it holds no optimizer state of this trainer", path);
	if (memcmp(&head, &mine, sizeof head) != 0) return fail(why, "restore %s: it is of a model with other sizes", path);
	if (!sound(f, &head)) return fail(why, "restore %s: it is damaged or cut short", path);
	if (fseek(f, sizeof head, SEEK_SET) || fread(s->first, sizeof(float), l->elements, f) != l->elements ||
	    fread(s->second, sizeof(float), l->elements, f) != l->elements) {
		return fail(why, "restore %s: it cannot be read", path);
	}
	s->steps = head.steps;
	return 0;
}

int state_restore(const char *path, const struct layout *l, struct state *s, struct failure *why) {
	FILE *f = fopen(path, "rb");
	if (!f) return fail(why, "restore %s: %s", path, strerror(errno));
	int code = read_all(f, path, l, s, why);
	fclose(f);
	return code;
}
