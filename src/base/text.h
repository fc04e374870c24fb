/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * base: text built in a fixed buffer. For messages and reports below the C library's stdio, which
 * may allocate. What does not fit is cut off; the buffer always ends in NUL. Any layer may call it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hak_text {
    char *at;      /* where the next character goes */
    char *last;    /* the last character of the buffer: stays NUL */
    size_t length; /* of all that was written, what did not fit included */
};

void hak_text_begin(struct hak_text *text, char *buffer, size_t size_bytes);
void hak_text_string(struct hak_text *text, const char *s);
/* So many bytes of s, with '?' for control characters: what comes from outside, a path, stays in
 * its line and sends a terminal nothing. */
void hak_text_printable(struct hak_text *text, const char *s, size_t length);
void hak_text_decimal(struct hak_text *text, uint64_t value);
void hak_text_hex(struct hak_text *text, uint64_t value); /* with 0x */

/* Parses decimal digits with an optional suffix k, m, g or t (times 1024 each, either case,
 * optional "iB" or "B"). Returns 0 and leaves *value alone when the text is anything else or does
 * not fit. */
int hak_text_parse_size(const char *s, size_t length, uint64_t *value);

/* As strstr, memchr and memcmp, without which a program that starts needs two windows of the C
 * library's pages less: each function that has variants for several processors is chosen when the
 * library is loaded, by code that lies beside it. */
const char *hak_text_find(const char *text, const char *what);
const char *hak_text_find_char(const char *text, char what, size_t length);
bool hak_bytes_are_equal(const void *a, const void *b, size_t bytes);
/* The word of so many characters is `name`. */
bool hak_text_is(const char *word, size_t length, const char *name);
/* How many decimal digits the text begins with. */
size_t hak_text_digits(const char *text);
