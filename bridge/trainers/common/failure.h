/* Why something could not be done: one line that says what to do about it, for last_error. */
#ifndef P2PDILOCO_COMMON_FAILURE_H
#define P2PDILOCO_COMMON_FAILURE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "vectors and files are little-endian here: this trainer has not been written for another order"
#endif

struct failure {
	char text[1024]; /* always ended by a zero, UTF-8, without line breaks */
};

/* Writes the text, cut where it is too long, and returns P2PDILOCO_TRAINER_FAILED: return fail(why, "..."). */
int fail(struct failure *why, const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 2, 3)))
#endif
    ;

/* The number of bytes of the UTF-8 character that text begins with, 0 where it is none, such as at the end. */
int utf8_length(const char *text);

#ifdef __cplusplus
}
#endif

#endif
