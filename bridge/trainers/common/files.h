/* The files of a corpus. */
#ifndef P2PDILOCO_COMMON_FILES_H
#define P2PDILOCO_COMMON_FILES_H

#include <stddef.h>
#include <stdint.h>

#include "config.h"

#ifdef __cplusplus
extern "C" {
#endif

struct file {
	char *path;       /* absolute, without symbolic links */
	const char *name; /* below its root, with slashes: the end of path */
	uint64_t hash;    /* of name: decides the order and what is held out */
};

struct files {
	struct file *list; /* in the order of their hashes: when max_bytes cuts it, what is read is still a fair sample */
	size_t count, room;
};

/* Lists what lies at or below c's paths. What files_free is for is in f on failure, too. */
int files_find(struct files *f, const struct config *c, struct failure *why);
void files_free(struct files *f);

#ifdef __cplusplus
}
#endif

#endif
