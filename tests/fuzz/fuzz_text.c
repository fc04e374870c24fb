/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Fuzzing: text. Sizes as options write them, against a second parser with 128-bit numbers; names
 * for hakmem_ctl; and text built in a buffer of any size, against snprintf. */
#include "fuzz.h"

#include "base/text.h"
#include "hakmem.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>

/* Digits, then nothing or one of k m g t, i and b in this order. */
static bool parse(const char *s, uint64_t *value)
{
    unsigned __int128 v = 0;
    const char *at = s;
    for (; isdigit((unsigned char)*at); at++) {
        v = v * 10 + (unsigned)(*at - '0');
        if (v > UINT64_MAX)
            return false;
    }
    if (at == s)
        return false;
    const char *letters = "kmgt";
    const char *letter = *at != '\0' ? strchr(letters, tolower((unsigned char)*at)) : NULL;
    if (letter != NULL) {
        v <<= 10 * (letter - letters + 1);
        at++;
        at += *at == 'i' || *at == 'I';
        at += *at == 'b' || *at == 'B';
    }
    if (*at != '\0' || v > UINT64_MAX)
        return false;
    *value = (uint64_t)v;
    return true;
}

static void check_size(const char *s)
{
    uint64_t value = 4711, expected = 4711;
    bool good = parse(s, &expected);
    fuzz_check(hak_text_parse_size(s, strlen(s), &value) == good && value == expected,
               "\"%s\": %" PRIu64 ", expected %" PRIu64, s, value, expected);
}

static void check_control(const char *name)
{
    uint64_t value = 0;
    bool known = false;
    const char *candidate;
    for (unsigned i = 0; (candidate = hakmem_ctl_name(i)) != NULL; i++)
        known |= strcmp(candidate, name) == 0;
    int error = hakmem_ctl(name, &value, NULL);
    if (known)
        fuzz_check(error == 0, "%s: %d", name, error);
    else if (strncmp(name, "class.", 6) == 0)
        fuzz_check(error == 0 || error == ENOENT || error == EINVAL, "%s: %d", name, error);
    else
        fuzz_check(error == ENOENT, "%s: %d", name, error);
}

static void check_buffer(size_t room, uint64_t number, const char *s)
{
    char *buffer = malloc(room);
    char expected[512];
    struct hak_text text;
    fuzz_check(buffer != NULL, "the test has no memory");
    hak_text_begin(&text, buffer, room);
    hak_text_string(&text, s);
    hak_text_decimal(&text, number);
    hak_text_hex(&text, number);
    int whole =
        snprintf(expected, sizeof expected, "%.400s%" PRIu64 "0x%" PRIx64, s, number, number);
    if (strlen(s) <= 400) {
        fuzz_check(text.length == (size_t)whole, "length %zu of %d", text.length, whole);
        expected[room - 1 < sizeof expected ? room - 1 : sizeof expected - 1] = '\0';
        fuzz_check(strcmp(buffer, expected) == 0, "\"%s\" instead of \"%s\"", buffer, expected);
    }
    fuzz_check(text.at == buffer + strlen(buffer), "the end is elsewhere");
    free(buffer);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input in = {data, data + size};
    unsigned what = fuzz_byte(&in);
    size_t room = 1 + fuzz_byte(&in);
    uint64_t number = what % 3 == 2 ? fuzz_number(&in, 8) : 0;
    char *s = fuzz_string(in.at, fuzz_left(&in));
    if (what % 3 == 0)
        check_size(s);
    else if (what % 3 == 1)
        check_control(s);
    else
        check_buffer(room, number, s);
    free(s);
    return 0;
}
