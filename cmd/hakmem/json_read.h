/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * The hakmem command: reads JSON (RFC 8259) into a tree. Numbers that are no integers from 0 to
 * 2^64 - 1 are kept as text only. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum hak_value_kind {
    HAK_VALUE_NULL,
    HAK_VALUE_BOOL,
    HAK_VALUE_NUMBER,
    HAK_VALUE_STRING,
    HAK_VALUE_ARRAY,
    HAK_VALUE_OBJECT
};

struct hak_value {
    enum hak_value_kind kind;
    char *key;       /* in an object; else NULL */
    char *text;      /* of a string */
    uint64_t number; /* of an integer; of a boolean 0 or 1; else UINT64_MAX */
    struct hak_value *members;
    size_t count;
};

/* False: it is not JSON; `value` is to be freed all the same. The text is not kept. */
bool hak_value_parse(struct hak_value *value, const char *text);
void hak_value_free(struct hak_value *value);
/* A member of an object, at "a.b.c"; NULL: there is none. */
const struct hak_value *hak_value_at(const struct hak_value *value, const char *path);
/* The number at a path; UINT64_MAX: there is none. */
uint64_t hak_value_number(const struct hak_value *value, const char *path);
/* The string at a path; NULL: there is none. */
const char *hak_value_string(const struct hak_value *value, const char *path);
