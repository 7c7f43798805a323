#include "files.h"

#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "sha256.h"

/* Beyond these the folder named is surely not the one meant. */
enum { MAX_FILES = 1 << 20, MAX_DEPTH = 128 };

/* One search below a root. */
struct search {
	struct files *files;
	const char *root;
	bool go_source; /* take *.go alone, and nothing below cmd/ */
	struct failure *why;
};

static int failed(const struct search *s, const char *path, const char *reason) {
	return fail(s->why, "data %s: %s (make it readable, or name other text with \"data\")", path, reason);
}

static uint64_t hash_name(const char *name) {
	static const char purpose[] = "p2pdiloco/corpus/1";
	struct sha256 h;
	uint8_t sum[32];
	sha256_begin(&h);
	sha256_add(&h, purpose, sizeof purpose - 1);
	sha256_add(&h, name, strlen(name));
	sha256_end(&h, sum);
	return big_endian(sum);
}

static bool accepted(const struct search *s, const char *name) {
	size_t n = strlen(name);
	return !s->go_source || (n >= 3 && strcmp(name + n - 3, ".go") == 0 && strncmp(name, "cmd/", 4) != 0);
}

/* Adds the file path, which it takes; begin is where its name begins. */
static int add_file(struct search *s, char *path, size_t begin) {
	struct files *f = s->files;
	if (!accepted(s, path + begin)) {
		free(path);
		return 0;
	}
	if (f->count == f->room) {
		size_t room = f->room ? 2 * f->room : 256;
		struct file *list = f->count < MAX_FILES ? (struct file *)realloc(f->list, room * sizeof *list) : NULL;
		if (!list) {
			free(path);
			return failed(s, s->root, f->count < MAX_FILES ? "out of memory" : "too many files below this folder");
		}
		f->list = list, f->room = room;
	}
	f->list[f->count++] = (struct file){path, path + begin, hash_name(path + begin)};
	return 0;
}

static bool skipped(const char *entry, bool folder) {
	return entry[0] == '.' || (folder && (strcmp(entry, "testdata") == 0 || strcmp(entry, "vendor") == 0));
}

static int walk(struct search *s, const char *folder, size_t name, int depth);

/* An entry of a folder, whose path it takes. */
static int visit(struct search *s, char *path, const char *entry, size_t name, int depth) {
	struct stat about;
	if (lstat(path, &about)) {
		int code = failed(s, path, strerror(errno));
		free(path);
		return code;
	}
	if (S_ISREG(about.st_mode) && !skipped(entry, false)) return add_file(s, path, name);
	int code = S_ISDIR(about.st_mode) && !skipped(entry, true) ? walk(s, path, name, depth + 1) : 0;
	free(path);
	return code;
}

/* Visits all below a folder. name is where in paths the part below the root begins. */
static int walk(struct search *s, const char *folder, size_t name, int depth) {
	DIR *d = depth < MAX_DEPTH ? opendir(folder) : NULL;
	if (!d) return failed(s, folder, depth < MAX_DEPTH ? strerror(errno) : "folders too deep");
	int code = 0;
	struct dirent *e;
	while (!code && (errno = 0, e = readdir(d))) {
		size_t room = strlen(folder) + strlen(e->d_name) + 2;
		char *path = (char *)malloc(room);
		if (!path) code = failed(s, folder, "out of memory");
		else snprintf(path, room, "%s/%s", strcmp(folder, "/") == 0 ? "" : folder, e->d_name);
		if (path) code = visit(s, path, e->d_name, name, depth);
	}
	if (!code && errno) code = failed(s, folder, strerror(errno));
	closedir(d);
	return code;
}

/* Finds the files at or below one path of the configuration. */
static int find_below(struct search *s) {
	struct stat about;
	char *root = realpath(s->root, NULL);
	if (!root || stat(root, &about)) {
		int code = failed(s, s->root, strerror(errno));
		free(root);
		return code;
	}
	if (S_ISREG(about.st_mode)) return add_file(s, root, (size_t)(strrchr(root, '/') - root) + 1);
	int code = S_ISDIR(about.st_mode) ? walk(s, root, strcmp(root, "/") == 0 ? 1 : strlen(root) + 1, 0)
	                                  : failed(s, s->root, "neither a file nor a folder");
	free(root);
	return code;
}

static int by_path(const void *a, const void *b) {
	const struct file *f = (const struct file *)a, *g = (const struct file *)b;
	int order = strcmp(f->path, g->path);
	return order ? order : strcmp(f->name, g->name);
}

static int by_hash(const void *a, const void *b) {
	const struct file *f = (const struct file *)a, *g = (const struct file *)b;
	if (f->hash != g->hash) return f->hash < g->hash ? -1 : 1;
	int order = strcmp(f->name, g->name);
	return order ? order : strcmp(f->path, g->path);
}

/* Orders files by hash, and keeps a file that two roots reached under the name that sorts first. */
static void sort(struct files *f) {
	size_t kept = 0;
	if (f->count == 0) return;
	qsort(f->list, f->count, sizeof *f->list, by_path);
	for (size_t i = 1; i < f->count; i++) {
		if (strcmp(f->list[i].path, f->list[kept].path) == 0) free(f->list[i].path);
		else f->list[++kept] = f->list[i];
	}
	f->count = kept + 1;
	qsort(f->list, f->count, sizeof *f->list, by_hash);
}

/* The source of the Go standard library: GOROOT names it, or the go command does. */
static int standard_library(char *out, size_t room, struct failure *why) {
	char root[4000] = "";
	const char *set = getenv("GOROOT");
	FILE *go = set && *set ? NULL : popen("go env GOROOT 2>/dev/null", "r");
	if (go) {
		if (!fgets(root, sizeof root, go)) root[0] = 0;
		pclose(go);
		root[strcspn(root, "\r\n")] = 0;
	} else if (set) {
		snprintf(root, sizeof root, "%s", set);
	}
	if (!*root) return fail(why, "no Go installation found for the default text: name files or folders of text with \"data\"");
	snprintf(out, room, "%s/src", root);
	return 0;
}

int files_find(struct files *f, const struct config *c, struct failure *why) {
	char source[4096];
	memset(f, 0, sizeof *f);
	struct search s = {.files = f, .root = source, .go_source = c->path_count == 0, .why = why};
	if (s.go_source && (standard_library(source, sizeof source, why) || find_below(&s))) return 1;
	for (size_t i = 0; i < c->path_count; i++) {
		s.root = c->paths[i];
		if (find_below(&s)) return 1;
	}
	if (f->count == 0) return fail(why, "no files of text found: name files or folders that hold some with \"data\"");
	sort(f);
	return 0;
}

void files_free(struct files *f) {
	for (size_t i = 0; i < f->count; i++) free(f->list[i].path);
	free(f->list);
	memset(f, 0, sizeof *f);
}
