/* What load.c has for the rest of the library. */
#ifndef P2PDILOCO_LOAD_H
#define P2PDILOCO_LOAD_H

#include <stddef.h>

/* Go calls it when its runtime and all packages are initialised. */
void p2pdiloco_loaded(void);

/* Writes to standard error, and drops what cannot be written. */
void p2pdiloco_complain(const char *text, size_t length);

/* The host's environment. */
char **p2pdiloco_environ(void);

/* Says whether this process is a child of the one that loaded the library. */
int p2pdiloco_forked(void);

#endif
