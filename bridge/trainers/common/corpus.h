/*
 * Text held in memory, in two parts without overlap: one to train on, and one held out. The same files under
 * the same root give the same bytes as the built-in trainer's corpus: a hash of each file's path below its root
 * decides the order and what is held out. Where that hash holds out far too little or too much, as with a
 * handful of files, the end of every file is held out instead.
 *
 * Hidden files, folders named testdata or vendor, symbolic links, and files with zero bytes in them are passed
 * over.
 */
#ifndef P2PDILOCO_COMMON_CORPUS_H
#define P2PDILOCO_COMMON_CORPUS_H

#include <stddef.h>
#include <stdint.h>

#include "config.h"

#ifdef __cplusplus
extern "C" {
#endif

struct corpus {
	uint8_t *train, *held_out;
	size_t train_bytes, held_out_bytes;
};

/* Reads the data that c names, and refuses what is too little for c's context. */
int corpus_open(struct corpus *corpus, const struct config *c, struct failure *why);
void corpus_close(struct corpus *corpus);

/* Cuts sequences of the given length at even distances from the held-out part, and writes them one after the
 * other to inputs, the byte that follows each to targets: sequences * length bytes each. All peers with the
 * same data measure the same. */
void corpus_held_out(const struct corpus *corpus, uint8_t *inputs, uint8_t *targets, size_t sequences, size_t length);

#ifdef __cplusplus
}
#endif

#endif
