/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * base: text in a fixed buffer, see text.h. Never allocates, never calls stdio. */
#include "base/text.h"

void hak_text_begin(struct hak_text *text, char *buffer, size_t size_bytes)
{
    text->at = buffer;
    text->last = buffer + size_bytes - 1;
    text->length = 0;
    *text->at = '\0';
}

void hak_text_string(struct hak_text *text, const char *s)
{
    for (; *s != '\0'; s++, text->length++)
        if (text->at < text->last)
            *text->at++ = *s;
    *text->at = '\0';
}

static void text_number(struct hak_text *text, uint64_t value, unsigned radix)
{
    char digits[24];
    char *d = digits + sizeof digits - 1;
    *d = '\0';
    do {
        *--d = "0123456789abcdef"[value % radix];
        value /= radix;
    } while (value != 0);
    hak_text_string(text, d);
}

void hak_text_printable(struct hak_text *text, const char *s, size_t length)
{
    char one[2] = {0};
    for (size_t i = 0; i < length && s[i] != '\0'; i++) {
        one[0] = s[i];
        if ((unsigned char)s[i] < 0x20 || s[i] == 0x7f)
            one[0] = '?';
        hak_text_string(text, one);
    }
}

void hak_text_decimal(struct hak_text *text, uint64_t value)
{
    text_number(text, value, 10);
}

void hak_text_hex(struct hak_text *text, uint64_t value)
{
    hak_text_string(text, "0x");
    text_number(text, value, 16);
}

/* The shift that a size suffix stands for; -1 if it is none. */
static int text_suffix_shift(const char *s, size_t length)
{
    if (length == 0)
        return 0;
    static const char letters[] = "kmgt";
    int shift = -1;
    for (int i = 0; letters[i] != '\0'; i++)
        if ((s[0] | 0x20) == letters[i])
            shift = 10 * (i + 1);
    if (shift < 0)
        return -1;
    s++;
    length--;
    if (length > 0 && (s[0] | 0x20) == 'i') {
        s++;
        length--;
    }
    if (length > 0 && (s[0] | 0x20) == 'b')
        length--;
    return length == 0 ? shift : -1;
}

int hak_text_parse_size(const char *s, size_t length, uint64_t *value)
{
    uint64_t v = 0;
    size_t i = 0;
    for (; i < length && s[i] >= '0' && s[i] <= '9'; i++)
        if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, s[i] - '0', &v))
            return 0;
    int shift = text_suffix_shift(s + i, length - i);
    if (i == 0 || shift < 0 || (shift > 0 && v >> (64 - shift) != 0))
        return 0;
    *value = v << shift;
    return 1;
}

const char *hak_text_find(const char *text, const char *what)
{
    for (; *text != '\0'; text++) {
        size_t i = 0;
        while (what[i] != '\0' && text[i] == what[i])
            i++;
        if (what[i] == '\0')
            return text;
    }
    return *what == '\0' ? text : NULL;
}

const char *hak_text_find_char(const char *text, char what, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if (text[i] == what)
            return text + i;
    return NULL;
}

bool hak_bytes_are_equal(const void *a, const void *b, size_t bytes)
{
    const unsigned char *x = a;
    const unsigned char *y = b;
    size_t i = 0;
    while (i < bytes && x[i] == y[i])
        i++;
    return i == bytes;
}

bool hak_text_is(const char *word, size_t length, const char *name)
{
    size_t i = 0;
    while (i < length && name[i] != '\0' && word[i] == name[i])
        i++;
    return i == length && name[i] == '\0';
}

size_t hak_text_digits(const char *text)
{
    size_t digits = 0;
    while (text[digits] >= '0' && text[digits] <= '9')
        digits++;
    return digits;
}
