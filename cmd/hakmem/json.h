/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * The hakmem command: writes JSON to a stream, one member a line where that reads well. The caller
 * opens and closes in pairs; commas and escapes are done here. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define HAK_JSON_MOST_DEPTH 16

struct hak_json {
    FILE *out;
    unsigned depth;
    bool has_member[HAK_JSON_MOST_DEPTH]; /* what is open has one already */
    bool in_line[HAK_JSON_MOST_DEPTH];    /* its members stand in one line */
};

/* `key` is NULL in an array. */
void hak_json_open(struct hak_json *j, const char *key, char bracket); /* '{' or '[' */
void hak_json_open_line(struct hak_json *j, const char *key, char bracket);
void hak_json_close(struct hak_json *j, char bracket);
void hak_json_number(struct hak_json *j, const char *key, uint64_t value);
/* null for UINT64_MAX. */
void hak_json_number_or_null(struct hak_json *j, const char *key, uint64_t value);
void hak_json_bool(struct hak_json *j, const char *key, bool value);
/* null for NULL. Bytes that are no UTF-8 become '?'. */
void hak_json_string(struct hak_json *j, const char *key, const char *value);
