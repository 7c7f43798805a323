#include "json.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void json_open(struct json *j, const char *text, struct failure *why) {
	*j = (struct json){.text = text, .at = text, .why = why};
}

int json_fail(struct json *j, const char *what) {
	size_t line = 1, column = 1;
	for (const char *c = j->text; c < j->at; c++) {
		column++;
		if (*c == '\n') line++, column = 1;
	}
	return fail(j->why, "line %zu, column %zu: %s", line, column, what);
}

char json_peek(struct json *j) {
	while (*j->at == ' ' || *j->at == '\t' || *j->at == '\n' || *j->at == '\r') j->at++;
	return *j->at;
}

static int expect(struct json *j, char c) {
	if (json_peek(j) != c) {
		char what[40];
		snprintf(what, sizeof what, *j->at ? "a %c was expected" : "the text ends where a %c was expected", c);
		return json_fail(j, what);
	}
	j->at++;
	return 0;
}

int json_enter(struct json *j, char open, bool *more) {
	char close = open == '{' ? '}' : ']';
	if (expect(j, open)) return 1;
	*more = json_peek(j) != close;
	return *more ? 0 : expect(j, close);
}

int json_more(struct json *j, char close, bool *more) {
	*more = json_peek(j) == ',';
	return expect(j, *more ? ',' : close);
}

int json_end(struct json *j) { return json_peek(j) ? json_fail(j, "nothing more was expected") : 0; }

int json_key(struct json *j, char *out, size_t room) { return json_string(j, out, room) || expect(j, ':'); }

/* The four digits after \u. */
static int hex4(struct json *j, uint32_t *v) {
	*v = 0;
	for (int i = 0; i < 4; i++, j->at++) {
		char c = *j->at;
		int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
		if (digit < 0) return json_fail(j, "four hexadecimal digits were expected");
		*v = *v << 4 | (uint32_t)digit;
	}
	return 0;
}

/* What follows \u, with the second half of a surrogate pair. */
static int code_point(struct json *j, uint32_t *v) {
	uint32_t low;
	if (hex4(j, v)) return 1;
	if (*v == 0) return json_fail(j, "a string cannot hold a zero");
	if (*v < 0xd800 || *v > 0xdfff) return 0;
	if (*v > 0xdbff || j->at[0] != '\\' || j->at[1] != 'u') return json_fail(j, "half a surrogate pair");
	j->at += 2;
	if (hex4(j, &low)) return 1;
	if (low < 0xdc00 || low > 0xdfff) return json_fail(j, "half a surrogate pair");
	*v = 0x10000 + ((*v - 0xd800) << 10) + (low - 0xdc00);
	return 0;
}

static size_t encode_utf8(uint32_t v, char *out) {
	static const unsigned char lead[] = {0, 0, 0xc0, 0xe0, 0xf0};
	size_t length = v < 0x80 ? 1 : v < 0x800 ? 2 : v < 0x10000 ? 3 : 4;
	for (size_t i = length; --i > 0; v >>= 6) out[i] = (char)(0x80 | (v & 0x3f));
	out[0] = (char)(lead[length == 1 ? 0 : length] | v);
	return length;
}

/* One character of a string, as UTF-8 of length bytes. */
static int character(struct json *j, char out[4], size_t *length) {
	static const char escapes[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
	if (*j->at != '\\') {
		*length = (size_t)utf8_length(j->at);
		if (*j->at == 0) return json_fail(j, "the text ends within a string");
		if (*length == 0) return json_fail(j, "this is no UTF-8");
		if ((unsigned char)*j->at < ' ') return json_fail(j, "a control character in a string: write it as \\u00..");
		memcpy(out, j->at, *length);
		j->at += *length;
		return 0;
	}
	j->at++;
	if (*j->at == 'u') {
		uint32_t v;
		j->at++;
		if (code_point(j, &v)) return 1;
		*length = encode_utf8(v, out);
		return 0;
	}
	const char *escape = *j->at ? strchr(escapes, *j->at) : NULL;
	if (!escape) return json_fail(j, "an unknown escape");
	out[0] = values[escape - escapes];
	*length = 1;
	j->at++;
	return 0;
}

int json_string(struct json *j, char *out, size_t room) {
	size_t used = 0;
	if (json_peek(j) != '"') return json_fail(j, "a string in double quotes was expected");
	j->at++;
	while (*j->at != '"') {
		char c[4];
		size_t length = 0;
		if (character(j, c, &length)) return 1;
		if (length >= room - used) return json_fail(j, "this string is too long");
		memcpy(out + used, c, length);
		used += length;
	}
	j->at++;
	out[used] = 0;
	return 0;
}

static size_t digits(const char *s) { return strspn(s, "0123456789"); }

/* The length of the number at s by JSON's grammar, 0 where there is none. whole forbids fraction and exponent. */
static size_t number_length(const char *s, bool whole) {
	size_t n = s[0] == '-', more;
	if (s[n] == '0') more = 1;
	else more = digits(s + n);
	if (more == 0) return 0;
	n += more;
	if (!whole && s[n] == '.') {
		if ((more = digits(s + n + 1)) == 0) return 0;
		n += 1 + more;
	}
	if (!whole && (s[n] == 'e' || s[n] == 'E')) {
		size_t sign = s[n + 1] == '+' || s[n + 1] == '-';
		if ((more = digits(s + n + 1 + sign)) == 0) return 0;
		n += 1 + sign + more;
	}
	return n;
}

/* Copies a number out, since strtod would read on where JSON's grammar ends. */
static int number(struct json *j, bool whole, char out[64]) {
	json_peek(j);
	size_t n = number_length(j->at, whole);
	if (n == 0 || strchr("+-.0123456789eExX", j->at[n] ? j->at[n] : ' ')) {
		return json_fail(j, whole ? "a whole number was expected" : "a number was expected");
	}
	if (n >= 64) return json_fail(j, "this number is too long");
	memcpy(out, j->at, n);
	out[n] = 0;
	return 0;
}

int json_real(struct json *j, double *v) {
	char text[64];
	if (number(j, false, text)) return 1;
	*v = strtod(text, NULL);
	if (!isfinite(*v)) return json_fail(j, "this number is too large");
	j->at += strlen(text);
	return 0;
}

int json_integer(struct json *j, int64_t *v) {
	char text[64];
	if (number(j, true, text)) return 1;
	errno = 0;
	long long n = strtoll(text, NULL, 10);
	if (errno) return json_fail(j, "this number is too large");
	*v = n;
	j->at += strlen(text);
	return 0;
}
