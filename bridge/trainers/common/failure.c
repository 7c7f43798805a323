#include "failure.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "p2pdiloco_trainer.h"

int utf8_length(const char *text) {
	const unsigned char *b = (const unsigned char *)text;
	if (b[0] < 0x80) return b[0] != 0;
	int length = b[0] >= 0xc2 && b[0] < 0xe0 ? 2 : (b[0] & 0xf0) == 0xe0 ? 3 : b[0] >= 0xf0 && b[0] < 0xf5 ? 4 : 0;
	for (int i = 1; i < length; i++) {
		if ((b[i] & 0xc0) != 0x80) return 0; /* a zero that ends the text is none either */
	}
	int overlong = (b[0] == 0xe0 && b[1] < 0xa0) || (b[0] == 0xf0 && b[1] < 0x90);
	int surrogate = b[0] == 0xed && b[1] >= 0xa0, beyond = b[0] == 0xf4 && b[1] >= 0x90;
	return overlong || surrogate || beyond ? 0 : length;
}

/* Names of files may hold any bytes: what is no text is shown as a question mark. */
static void clean(char *text) {
	while (*text) {
		int length = utf8_length(text);
		if (length == 0 || (unsigned char)*text < ' ' || *text == 0x7f) {
			*text = '?';
			length = 1;
		}
		text += length;
	}
}

int fail(struct failure *why, const char *format, ...) {
	char text[sizeof why->text]; /* an argument may be the old text */
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(text, sizeof text, format, arguments);
	va_end(arguments);
	clean(text);
	memcpy(why->text, text, sizeof text);
	return P2PDILOCO_TRAINER_FAILED;
}
