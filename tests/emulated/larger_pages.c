/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Memory that goes back page by page, and what is promised of pages, whatever the system's are:
 * with pages of 16 or 64 KiB a piece of 4 KiB must not be given back, as its neighbours would go
 * with it. Prints the size of a page; exits with 1 and a line on stderr at the first thing that is
 * wrong. */
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BLOCKS 60000u
#define KEEP_EVERY 9u /* one in so many stays */
#define SIZES 6u
#define LARGE_BYTES ((size_t)20 << 20)

static unsigned char *block[BLOCKS];

static size_t size_of(unsigned i)
{
    static const size_t sizes[SIZES] = {48, 200, 700, 1500, 5000, 20000};
    return sizes[i / 64 % SIZES];
}

static void check(int holds, const char *what, size_t value)
{
    if (holds)
        return;
    (void)fprintf(stderr, "larger_pages: %s (%zu)\n", what, value);
    exit(1);
}

static void check_filled(const unsigned char *p, size_t bytes, unsigned char value,
                         const char *what)
{
    for (size_t i = 0; i < bytes; i++)
        check(p[i] == value, what, i);
}

static void fill(unsigned i)
{
    block[i] = malloc(size_of(i));
    check(block[i] != NULL, "no memory", size_of(i));
    memset(block[i], (int)(i % 251 + 1), size_of(i));
}

static void what_stays_is_intact_when_pages_around_it_go(void)
{
    for (unsigned i = 0; i < BLOCKS; i++)
        fill(i);
    for (unsigned round = 0; round < 3; round++) {
        for (unsigned i = 0; i < BLOCKS; i++)
            if (i % KEEP_EVERY != round)
                free(block[i]);
        malloc_trim(0);
        for (unsigned i = 0; i < BLOCKS; i++)
            if (i % KEEP_EVERY == round)
                check_filled(block[i], size_of(i), (unsigned char)(i % 251 + 1),
                             "a block changed while others were freed");
            else
                fill(i);
    }
    for (unsigned i = 0; i < BLOCKS; i++)
        free(block[i]);
}

static void memory_from_calloc_is_zero(void)
{
    for (size_t bytes = 100; bytes <= LARGE_BYTES; bytes = bytes * 3 + 4000) {
        unsigned char *p = malloc(bytes);
        check(p != NULL, "no memory", bytes);
        memset(p, 0xff, bytes);
        free(p);
        p = calloc(1, bytes);
        check(p != NULL, "no memory", bytes);
        check_filled(p, bytes, 0, "calloc gave what is not zero");
        free(p);
    }
}

static void realloc_keeps_what_there_is(void)
{
    size_t bytes = 1000;
    unsigned char *p = malloc(bytes);
    check(p != NULL, "no memory", bytes);
    memset(p, 7, bytes);
    while (bytes < LARGE_BYTES) {
        size_t more = bytes * 3 / 2;
        p = realloc(p, more);
        check(p != NULL, "no memory", more);
        check_filled(p, bytes, 7, "realloc changed a byte");
        memset(p + bytes, 7, more - bytes);
        bytes = more;
    }
    p = realloc(p, bytes / 100);
    check(p != NULL, "no memory", bytes / 100);
    check_filled(p, bytes / 100, 7, "realloc to less changed a byte");
    free(p);
}

static void pages_are_the_systems(size_t page)
{
    char *a = valloc(100), *b = pvalloc(100);
    check((uintptr_t)a % page == 0, "valloc is not aligned to a page", (uintptr_t)a % page);
    check((uintptr_t)b % page == 0, "pvalloc is not aligned to a page", (uintptr_t)b % page);
    check(malloc_usable_size(b) >= page, "pvalloc gave less than a page", malloc_usable_size(b));
    free(a);
    free(b);
}

int main(void)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    pages_are_the_systems(page);
    what_stays_is_intact_when_pages_around_it_go();
    memory_from_calloc_is_zero();
    realloc_keeps_what_there_is();
    return printf("%zu\n", page) < 0;
}
