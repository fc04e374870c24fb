/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * The hakmem command: JSON, see json.h. */
#include "json.h"

#include <inttypes.h>

/* The bytes that follow the first of a character of UTF-8; 0: it is none, or ASCII. */
static unsigned json_more(const unsigned char *c)
{
    unsigned more = 0;
    if (*c >= 0xc2 && *c < 0xe0)
        more = 1;
    else if (*c >= 0xe0 && *c < 0xf0)
        more = 2;
    else if (*c >= 0xf0 && *c < 0xf5)
        more = 3;
    for (unsigned i = 1; i <= more; i++)
        if ((c[i] & 0xc0) != 0x80)
            return 0;
    /* Longer than it had to be, half of a surrogate, beyond the last character. */
    bool wrong = (*c == 0xe0 && c[1] < 0xa0) || (*c == 0xed && c[1] >= 0xa0) ||
                 (*c == 0xf0 && c[1] < 0x90) || (*c == 0xf4 && c[1] >= 0x90);
    return wrong ? 0 : more;
}

static void json_quoted(FILE *out, const char *text)
{
    (void)fputc('"', out);
    for (const unsigned char *c = (const unsigned char *)text; *c != '\0'; c++) {
        unsigned more = json_more(c);
        if (*c == '"' || *c == '\\')
            (void)fprintf(out, "\\%c", *c);
        else if (*c < 0x20 || *c == 0x7f)
            (void)fprintf(out, "\\u%04x", *c);
        else if (*c < 0x80)
            (void)fputc(*c, out);
        else if (more == 0)
            (void)fputc('?', out);
        else
            (void)fwrite(c, 1, more + 1, out);
        c += more;
    }
    (void)fputc('"', out);
}

static void json_begin(struct hak_json *j, const char *key)
{
    if (j->depth > 0) {
        bool first = !j->has_member[j->depth];
        bool in_line = j->in_line[j->depth];
        if (!first)
            (void)fputs(in_line ? ", " : ",", j->out);
        if (!in_line)
            (void)fprintf(j->out, "\n%*s", (int)j->depth, "");
        j->has_member[j->depth] = true;
    }
    if (key != NULL) {
        json_quoted(j->out, key);
        (void)fputs(": ", j->out);
    }
}

static void json_open(struct hak_json *j, const char *key, char bracket, bool in_line)
{
    json_begin(j, key);
    (void)fputc(bracket, j->out);
    if (j->depth + 1 < HAK_JSON_MOST_DEPTH)
        j->depth++;
    j->has_member[j->depth] = false;
    j->in_line[j->depth] = in_line;
}

void hak_json_open(struct hak_json *j, const char *key, char bracket)
{
    json_open(j, key, bracket, false);
}

void hak_json_open_line(struct hak_json *j, const char *key, char bracket)
{
    json_open(j, key, bracket, true);
}

void hak_json_close(struct hak_json *j, char bracket)
{
    j->depth--;
    (void)fputc(bracket == '{' ? '}' : ']', j->out);
    if (j->depth == 0)
        (void)fputc('\n', j->out);
}

void hak_json_number(struct hak_json *j, const char *key, uint64_t value)
{
    json_begin(j, key);
    (void)fprintf(j->out, "%" PRIu64, value);
}

void hak_json_number_or_null(struct hak_json *j, const char *key, uint64_t value)
{
    if (value == UINT64_MAX)
        hak_json_string(j, key, NULL);
    else
        hak_json_number(j, key, value);
}

void hak_json_bool(struct hak_json *j, const char *key, bool value)
{
    json_begin(j, key);
    (void)fputs(value ? "true" : "false", j->out);
}

void hak_json_string(struct hak_json *j, const char *key, const char *value)
{
    json_begin(j, key);
    if (value == NULL)
        (void)fputs("null", j->out);
    else
        json_quoted(j->out, value);
}
