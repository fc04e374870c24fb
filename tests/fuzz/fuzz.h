/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Fuzzing: what the targets share. A target is one file with LLVMFuzzerTestOneInput; a fuzzer links
 * it with its own main, everybody else with replay.c. A target says what is wrong through
 * fuzz_check, which ends the process with SIGABRT: fuzzers keep such an input.
 *
 * Used by tests/fuzz only. Keeps nothing from one input to the next. */
#ifndef HAK_FUZZ_H
#define HAK_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Ends the process with a message unless the condition holds. */
#define fuzz_check(condition, ...)                                                                 \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            (void)fprintf(stderr, "fuzz: FAILED at %s:%d: ", __FILE__, __LINE__);                  \
            (void)fprintf(stderr, __VA_ARGS__);                                                    \
            (void)fputc('\n', stderr);                                                             \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

/* The input, read from front to back. After its end everything reads as zero. */
struct fuzz_input {
    const uint8_t *at, *end;
};

static inline size_t fuzz_left(const struct fuzz_input *in)
{
    return (size_t)(in->end - in->at);
}

static inline uint8_t fuzz_byte(struct fuzz_input *in)
{
    return in->at < in->end ? *in->at++ : 0;
}

static inline uint64_t fuzz_number(struct fuzz_input *in, unsigned bytes)
{
    uint64_t value = 0;
    for (unsigned i = 0; i < bytes; i++)
        value |= (uint64_t)fuzz_byte(in) << 8 * i;
    return value;
}

/* A string of its own memory, not a byte longer than needed, so that a sanitizer sees every read
 * beyond it. `length` bytes without the first NUL among them and what follows. The caller frees it.
 */
static inline char *fuzz_string(const uint8_t *bytes, size_t length)
{
    const uint8_t *nul = length > 0 ? memchr(bytes, 0, length) : NULL;
    size_t n = nul != NULL ? (size_t)(nul - bytes) : length;
    char *s = malloc(n + 1);
    fuzz_check(s != NULL, "the test has no memory");
    if (n > 0)
        memcpy(s, bytes, n);
    s[n] = '\0';
    return s;
}

#endif
