#include "corpus.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "files.h"

/* Bytes that grow. */
struct bytes {
	uint8_t *data;
	size_t size, room;
};

static bool reserve(struct bytes *b, size_t more) {
	if (b->room - b->size >= more) return true;
	size_t room = 2 * b->room > b->size + more ? 2 * b->room : b->size + more;
	uint8_t *data = (uint8_t *)realloc(b->data, room);
	if (!data) return false;
	b->data = data, b->room = room;
	return true;
}

static bool append(struct bytes *b, const uint8_t *data, size_t size) {
	if (size == 0) return true;
	if (!reserve(b, size)) return false;
	memcpy(b->data + b->size, data, size);
	b->size += size;
	return true;
}

/* Appends the first limit bytes of a file; nothing if they are no text, which a zero byte tells. */
static int append_text(struct bytes *b, const char *path, size_t limit, struct failure *why) {
	size_t before = b->size, n = 1;
	FILE *f = fopen(path, "rb");
	int code = f ? 0 : fail(why, "read corpus: %s: %s (make it readable or leave it out of \"data\")", path, strerror(errno));
	while (!code && n > 0 && b->size - before < limit) {
		size_t left = limit - (b->size - before), piece = left < 1 << 16 ? left : 1 << 16;
		if (!reserve(b, piece)) {
			code = fail(why, "out of memory for the text: give a smaller max_bytes");
			break;
		}
		n = fread(b->data + b->size, 1, piece, f);
		b->size += n;
		if (ferror(f)) code = fail(why, "read corpus: %s: it cannot be read to its end", path);
	}
	if (f) fclose(f);
	if (b->size > before && memchr(b->data + before, 0, b->size - before)) b->size = before;
	return code;
}

/* Where the text of each file ends, in all. */
struct texts {
	struct bytes all;
	size_t *ends;
};

/* Reads files until max_bytes are held. */
static int read_all(struct texts *t, const struct files *files, size_t max_bytes, struct failure *why) {
	t->ends = (size_t *)calloc(files->count, sizeof *t->ends);
	if (!t->ends) return fail(why, "out of memory");
	for (size_t i = 0; i < files->count; i++) {
		if (append_text(&t->all, files->list[i].path, max_bytes - t->all.size, why)) return 1;
		t->ends[i] = t->all.size;
	}
	return 0;
}

/* Divides the text: every hold_out-th hash is held out or, with tails, the end of every file. */
static bool divide(struct corpus *corpus, const struct texts *t, const struct files *files, uint64_t hold_out, bool tails) {
	struct bytes train = {0}, held_out = {0};
	bool ok = true;
	size_t begin = 0;
	for (size_t i = 0; i < files->count && ok; begin = t->ends[i++]) {
		size_t size = t->ends[i] - begin, held = files->list[i].hash % hold_out == 0 ? size : 0;
		if (tails) held = size / hold_out;
		ok = append(&train, t->all.data + begin, size - held) && append(&held_out, t->all.data + begin + size - held, held);
	}
	corpus->train = train.data, corpus->train_bytes = train.size;
	corpus->held_out = held_out.data, corpus->held_out_bytes = held_out.size;
	return ok;
}

/* Whether the held-out part is between a quarter and four times what one file of hold_out should give, and no
 * more than half of all. */
static bool balanced(const struct corpus *corpus, uint64_t hold_out) {
	uint64_t held = corpus->held_out_bytes, all = held + corpus->train_bytes;
	return held * 4 * hold_out >= all && held * hold_out <= 4 * all && held * 2 <= all;
}

/* Whether both parts are large enough for windows of n bytes. */
static int check(const struct corpus *corpus, size_t n, struct failure *why) {
	if (corpus->train_bytes == 0) {
		return fail(why, "not enough data: no text in the files found: name text files or folders that hold some with \"data\"");
	}
	if (corpus->train_bytes < 2 * n) {
		return fail(why, "not enough data: %zu bytes to train on, and two sequences need %zu: give more text (\"data\") or a shorter context",
		    corpus->train_bytes, 2 * n);
	}
	if (corpus->held_out_bytes < n) {
		return fail(why, "not enough data: %zu bytes held out, and one sequence needs %zu: give more text (\"data\") or a shorter context",
		    corpus->held_out_bytes, n);
	}
	return 0;
}

static int build(struct corpus *corpus, const struct config *c, const struct files *files, struct failure *why) {
	struct texts t = {0};
	uint64_t hold_out = (uint64_t)c->hold_out;
	int code = read_all(&t, files, (size_t)c->max_bytes, why);
	if (!code) {
		bool ok = divide(corpus, &t, files, hold_out, false);
		if (ok && !balanced(corpus, hold_out)) {
			corpus_close(corpus);
			ok = divide(corpus, &t, files, hold_out, true);
		}
		if (!ok) code = fail(why, "out of memory for the text: give a smaller max_bytes");
	}
	free(t.all.data);
	free(t.ends);
	return code;
}

int corpus_open(struct corpus *corpus, const struct config *c, struct failure *why) {
	struct files files;
	memset(corpus, 0, sizeof *corpus);
	int code = files_find(&files, c, why) || build(corpus, c, &files, why);
	files_free(&files);
	if (!code) code = check(corpus, (size_t)c->context + 1, why);
	if (code) corpus_close(corpus);
	return code;
}

void corpus_close(struct corpus *corpus) {
	free(corpus->train);
	free(corpus->held_out);
	memset(corpus, 0, sizeof *corpus);
}

void corpus_held_out(const struct corpus *corpus, uint8_t *inputs, uint8_t *targets, size_t sequences, size_t length) {
	size_t room = corpus->held_out_bytes - length - 1;
	for (size_t i = 0; i < sequences; i++) {
		const uint8_t *window = corpus->held_out + (uint64_t)i * room / (sequences > 1 ? sequences - 1 : 1);
		memcpy(inputs + i * length, window, length);
		memcpy(targets + i * length, window + 1, length);
	}
}
