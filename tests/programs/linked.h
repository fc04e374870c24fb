/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Tests of programs that are linked with libhakmem.a: the checks that C and C++ have in common,
 * namely that malloc is hakmem's and not the C library's, also where the C library itself
 * allocates. With LINKED_PLAIN there is no hakmem: what such a program prints on stdout and its
 * status have to be the same, so what only hakmem knows goes to stderr.
 * Who includes it: linked.c and linked.cc. It never looks behind the public header.
 */
#ifndef HAKMEM_TEST_LINKED_H
#define HAKMEM_TEST_LINKED_H

#include <malloc.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef LINKED_PLAIN
#include <hakmem.h>
#endif

static inline void linked_check(bool holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "linked program: FAILED: %s\n", what);
    exit(1);
}

#ifdef LINKED_PLAIN

static inline bool linked_block_is_ours(void *block, size_t asked)
{
    return malloc_usable_size(block) >= asked;
}

static inline void linked_free(void *block)
{
    free(block);
}

static inline void linked_check_version(void) {}

#else

/* Every class of hakmem is a multiple of 16; usable sizes of the C library's malloc end in 8. */
static inline bool linked_block_is_ours(void *block, size_t asked)
{
    size_t usable = malloc_usable_size(block);
    return usable >= asked && usable % 16 == 0 && usable == hakmem_malloc_usable_size(block);
}

static inline void linked_free(void *block)
{
    hakmem_free(block);
}

static inline void linked_check_version(void)
{
    char expected[32];
    snprintf(expected, sizeof expected, "%d.%d.%d", HAKMEM_VERSION_MAJOR, HAKMEM_VERSION_MINOR,
             HAKMEM_VERSION_PATCH);
    fprintf(stderr, "hakmem %s\n", hakmem_version());
    linked_check(strcmp(hakmem_version(), expected) == 0, "version and header do not agree");
}

#endif

static inline void linked_check_sizes(void)
{
    static const size_t asked[] = {1, 100, 1000, 5000, 100000};
    for (size_t i = 0; i < sizeof asked / sizeof asked[0]; i++) {
        void *block = malloc(asked[i]);
        linked_check(block != NULL, "malloc returned NULL");
        fprintf(stderr, "malloc_usable_size(malloc(%zu)) = %zu\n", asked[i],
                malloc_usable_size(block));
        linked_check(linked_block_is_ours(block, asked[i]),
                     "that is no usable size of hakmem: another malloc is in use");
        memset(block, 1, asked[i]);
        linked_free(block);
        printf("%zu bytes written\n", asked[i]);
    }
}

/* What the C library allocates for its caller has to come from hakmem, which then can free it. */
static inline void linked_check_library_calls(void)
{
    char *copy = strdup("a string that the C library copies for us, 60 bytes in length.");
    linked_check(copy != NULL && linked_block_is_ours(copy, 63), "strdup uses another malloc");
    puts(copy);
    free(copy);
    char *text = NULL;
    size_t length = 0;
    FILE *stream = open_memstream(&text, &length);
    linked_check(stream != NULL, "open_memstream failed");
    for (int i = 0; i < 5000; i++)
        fprintf(stream, "%d ", i);
    fclose(stream);
    linked_check(length == 23890 && strlen(text) == length, "open_memstream lost something");
    printf("open_memstream: %zu bytes, the last are %s\n", length, text + length - 10);
    free(text);
    linked_check(mallinfo2().uordblks + mallinfo2().hblkhd > 0, "mallinfo2 counts nothing");
}

#endif
