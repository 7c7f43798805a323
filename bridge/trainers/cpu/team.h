/* Threads that share the work of one operation. */
#ifndef P2PDILOCO_CPU_TEAM_H
#define P2PDILOCO_CPU_TEAM_H

#include <stddef.h>

#include "failure.h"

/* What one thread does of an operation: elements [begin, end). */
typedef void (*work)(const void *operation, size_t begin, size_t end);

struct team;

/* Starts count - 1 threads: the caller is the first one. */
int team_start(struct team **team, int count, struct failure *why);
void team_stop(struct team *team);

/*
 * Calls do_part on contiguous parts that cover [0, n), one part a thread, and returns when all are done. NULL
 * is a team of one.
 *
 * Work is cut in pieces that do not depend on the number of threads, and each piece is one thread's: neither do
 * the results.
 */
void split(struct team *team, size_t n, work do_part, const void *operation);

#endif
