/* Conformance, start and end: a short piece of work that goes through every function and every
 * range of sizes, and says whether all went well. For places where no test framework can run.
 *
 * Callable anywhere malloc is: before constructors, after destructors, in handlers. Uses no stdio
 * and little stack. SPDX-License-Identifier: Apache-2.0 OR MIT */
#ifndef HAK_TEST_BUSY_H
#define HAK_TEST_BUSY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "conformance/support/pattern.h"
#include "conformance/support/sizes.h"
#include "support/api.h"

static inline void busy_say(const char *text)
{
    ssize_t written = write(STDOUT_FILENO, text, strlen(text));
    (void)written;
}

/* For what nobody can report to a framework: says it and ends the process at once. */
static inline void busy_require(bool good, const char *what)
{
    if (good)
        return;
    ssize_t written = write(STDERR_FILENO, what, strlen(what));
    written = write(STDERR_FILENO, " failed\n", 8);
    (void)written;
    _exit(1);
}

static inline bool busy_one(size_t size, uint64_t seed)
{
    unsigned char *a = (unsigned char *)my_malloc(size);
    unsigned char *b = (unsigned char *)my_calloc(1, size);
    unsigned char *c = (unsigned char *)my_aligned_alloc(256, size);
    if (!a || !b || !c || !all_zero(b, size) || (uintptr_t)a % 16 || (uintptr_t)c % 256)
        return false;
    pattern_fill(a, size, seed);
    pattern_fill(b, size, seed + 1);
    pattern_fill(c, size, seed + 2);
    a = (unsigned char *)my_realloc(a, size + size / 2 + 1);
    bool good = a && pattern_holds(a, size, seed) && pattern_holds(b, size, seed + 1) &&
                pattern_holds(c, size, seed + 2);
    my_free(a);
    my_free(b);
    my_free(c);
    return good;
}

/* All sizes up to the limit, one after another. */
static inline bool busy_sizes(size_t limit)
{
    for (size_t i = 0; i < COUNT_OF(all_sizes); i++)
        if (all_sizes[i] <= limit && !busy_one(all_sizes[i], i))
            return false;
    return true;
}

/* Some hundreds of live blocks, replaced at random: refills and drains. */
static inline bool busy_churn(size_t steps, uint64_t seed)
{
    enum { LIVE = 200 };
    struct {
        void *p;
        size_t size;
    } live[LIVE] = {{NULL, 0}};
    uint64_t random = seed * 2 + 1;
    bool good = true;
    for (size_t step = 0; step < steps + LIVE && good; step++) {
        size_t i = step < steps ? random_next(&random) % LIVE : step - steps;
        good = pattern_holds(live[i].p, live[i].size, i);
        my_free(live[i].p);
        live[i].p = NULL;
        live[i].size = 0;
        if (step >= steps)
            continue;
        uint64_t r = random_next(&random);
        live[i].size = (r >> 8) % ((size_t)64 << (r % 8));
        live[i].p = my_malloc(live[i].size);
        good = good && live[i].p;
        if (good)
            pattern_fill(live[i].p, live[i].size, i);
    }
    return good;
}

#endif
