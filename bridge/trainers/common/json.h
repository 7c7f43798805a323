/*
 * A reader of JSON that is strict, and no more than a configuration needs: it goes through the text once, the
 * caller asks for what it expects next, and everything else is an error that names the line and column. Nothing
 * is allocated.
 *
 *     bool more;
 *     if (json_enter(&j, '{', &more)) return 1;
 *     while (more) {
 *             if (json_key(&j, key, sizeof key) || ...read the value... || json_more(&j, '}', &more)) return 1;
 *     }
 *     return json_end(&j);
 *
 * All functions return 0, or P2PDILOCO_TRAINER_FAILED with the reason in why.
 */
#ifndef P2PDILOCO_COMMON_JSON_H
#define P2PDILOCO_COMMON_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "failure.h"

#ifdef __cplusplus
extern "C" {
#endif

struct json {
	const char *text; /* ended by a zero */
	const char *at;   /* what is read next */
	struct failure *why;
};

void json_open(struct json *j, const char *text, struct failure *why);

/* The next character that is no space, without reading it; 0 at the end. */
char json_peek(struct json *j);

/* Begins an object ('{') or a list ('['); more says whether it has an element. */
int json_enter(struct json *j, char open, bool *more);

/* What stands between elements: more says whether there is another one, or close came. */
int json_more(struct json *j, char close, bool *more);

/* A member's name and the colon, or a string, unescaped. room is the size of out, zero included. */
int json_key(struct json *j, char *out, size_t room);
int json_string(struct json *j, char *out, size_t room);

int json_real(struct json *j, double *v);

/* A whole number, written without point and exponent. */
int json_integer(struct json *j, int64_t *v);

/* Nothing may follow. */
int json_end(struct json *j);

/* An error at where j stands. */
int json_fail(struct json *j, const char *what);

#ifdef __cplusplus
}
#endif

#endif
