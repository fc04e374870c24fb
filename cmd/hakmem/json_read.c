/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * The hakmem command: reads JSON, see json_read.h. */
#include "json_read.h"

#include "util.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MOST_DEPTH 64

struct reader {
    const char *at;
    unsigned depth;
};

static void reader_skip(struct reader *r)
{
    r->at += strspn(r->at, " \t\r\n");
}

static bool reader_take(struct reader *r, char c)
{
    reader_skip(r);
    if (*r->at != c)
        return false;
    r->at++;
    return true;
}

static int reader_hex4(const char *s)
{
    int value = 0;
    for (int i = 0; i < 4; i++) {
        static const char digits[] = "0123456789abcdef0123456789ABCDEF";
        const char *digit = s[i] == '\0' ? NULL : strchr(digits, s[i]);
        if (digit == NULL)
            return -1;
        value = value * 16 + (int)(digit - digits) % 16;
    }
    return value;
}

/* A character of up to 16 bits as UTF-8; halves of surrogates become '?'. */
static char *reader_put(char *out, int c)
{
    if (c < 0x80) {
        *out++ = (char)c;
    } else if (c < 0x800) {
        *out++ = (char)(0xc0 | c >> 6);
        *out++ = (char)(0x80 | (c & 0x3f));
    } else if (c >= 0xd800 && c < 0xe000) {
        *out++ = '?';
    } else {
        *out++ = (char)(0xe0 | c >> 12);
        *out++ = (char)(0x80 | (c >> 6 & 0x3f));
        *out++ = (char)(0x80 | (c & 0x3f));
    }
    return out;
}

/* A new string, or NULL. */
static char *reader_string(struct reader *r)
{
    static const char escapes[] = "\"\\/bfnrt", meant[] = "\"\\/\b\f\n\r\t";
    if (!reader_take(r, '"'))
        return NULL;
    size_t capacity = 64;
    char *text = hak_grow(NULL, capacity, 1);
    char *out = text;
    while (*r->at != '"') {
        if ((size_t)(out - text) + 8 > capacity) {
            size_t have = (size_t)(out - text);
            capacity *= 2;
            text = hak_grow(text, capacity, 1);
            out = text + have;
        }
        if ((unsigned char)*r->at < 0x20)
            break;
        if (*r->at != '\\') {
            *out++ = *r->at++;
            continue;
        }
        const char *escape = r->at[1] == '\0' ? NULL : strchr(escapes, r->at[1]);
        int c = escape != NULL    ? meant[escape - escapes]
                : r->at[1] == 'u' ? reader_hex4(r->at + 2)
                                  : -1;
        if (c < 0)
            break;
        out = reader_put(out, c == 0 ? '?' : c);
        r->at += escape != NULL ? 2 : 6;
    }
    *out = '\0';
    if (*r->at == '"') {
        r->at++;
        return text;
    }
    free(text);
    return NULL;
}

static bool reader_value(struct reader *r, struct hak_value *value);

static bool reader_members(struct reader *r, struct hak_value *value, char end)
{
    if (reader_take(r, end))
        return true;
    do {
        if (value->count % 16 == 0)
            value->members = hak_grow(value->members, value->count + 16, sizeof *value->members);
        struct hak_value *member = &value->members[value->count++];
        *member = (struct hak_value){.number = UINT64_MAX};
        if (end == '}' && ((member->key = reader_string(r)) == NULL || !reader_take(r, ':')))
            return false;
        if (!reader_value(r, member))
            return false;
    } while (reader_take(r, ','));
    return reader_take(r, end);
}

static bool reader_word(struct reader *r, const char *word)
{
    if (!hak_starts_with(r->at, word))
        return false;
    r->at += strlen(word);
    return true;
}

static bool reader_number(struct reader *r, struct hak_value *value)
{
    size_t digits = strspn(r->at, "0123456789");
    size_t length = strspn(r->at, "0123456789+-.eE");
    if (length == 0 || (digits == 0 && *r->at != '-'))
        return false;
    errno = 0;
    uint64_t number = strtoull(r->at, NULL, 10);
    value->kind = HAK_VALUE_NUMBER;
    value->number = digits == length && errno == 0 ? number : UINT64_MAX;
    r->at += length;
    return true;
}

static bool reader_value(struct reader *r, struct hak_value *value)
{
    reader_skip(r);
    bool is_object = *r->at == '{';
    if (is_object || *r->at == '[') {
        value->kind = is_object ? HAK_VALUE_OBJECT : HAK_VALUE_ARRAY;
        r->at++;
        if (++r->depth > MOST_DEPTH)
            return false;
        bool whole = reader_members(r, value, is_object ? '}' : ']');
        r->depth--;
        return whole;
    }
    if (*r->at == '"') {
        value->kind = HAK_VALUE_STRING;
        value->text = reader_string(r);
        return value->text != NULL;
    }
    if (reader_word(r, "null"))
        return true;
    bool is_true = reader_word(r, "true");
    if (is_true || reader_word(r, "false")) {
        value->kind = HAK_VALUE_BOOL;
        value->number = is_true;
        return true;
    }
    return reader_number(r, value);
}

bool hak_value_parse(struct hak_value *value, const char *text)
{
    struct reader r = {.at = text};
    *value = (struct hak_value){.number = UINT64_MAX};
    if (!reader_value(&r, value))
        return false;
    reader_skip(&r);
    return *r.at == '\0';
}

void hak_value_free(struct hak_value *value)
{
    for (size_t i = 0; i < value->count; i++)
        hak_value_free(&value->members[i]);
    free(value->members);
    free(value->key);
    free(value->text);
    *value = (struct hak_value){0};
}

const struct hak_value *hak_value_at(const struct hak_value *value, const char *path)
{
    while (value != NULL && *path != '\0') {
        size_t length = strcspn(path, ".");
        const struct hak_value *found = NULL;
        for (size_t i = 0; i < value->count && found == NULL; i++)
            if (value->members[i].key != NULL && strlen(value->members[i].key) == length &&
                memcmp(value->members[i].key, path, length) == 0)
                found = &value->members[i];
        value = found;
        path += length + (path[length] == '.');
    }
    return value;
}

uint64_t hak_value_number(const struct hak_value *value, const char *path)
{
    const struct hak_value *found = hak_value_at(value, path);
    return found == NULL ? UINT64_MAX : found->number;
}

const char *hak_value_string(const struct hak_value *value, const char *path)
{
    const struct hak_value *found = hak_value_at(value, path);
    return found == NULL ? NULL : found->text;
}
