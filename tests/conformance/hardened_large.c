/* Conformance: large blocks under the hardened library: ranges between guards, and what is made of
 * them when they are used again.
 * SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "conformance/hardened_parts.h"

#include <stdint.h>
#include <sys/resource.h>

void write_after_free_to_a_large_block(size_t size)
{
    char *p = block(size);
    my_free(p);
    *(volatile char *)(p + size / 2) = 1;
}

void read_after_free_of_a_large_block(size_t size)
{
    char *p = block(size);
    my_free(p);
    (void)*(volatile char *)(p + size / 2);
}

/* Until blocks are made of what was in quarantine before. What is hardly used does not get warm. */
static void make_warm(size_t size)
{
    for (int i = 0; i < 40; i++) {
        char *p = my_malloc(size);
        memset(p, 1, size);
        my_free(p);
    }
}

static char *freed_warm_block(size_t size)
{
    make_warm(size);
    char *p = block(size);
    my_free(p);
    return p;
}

void write_after_free_to_a_warm_block(size_t size)
{
    char *p = freed_warm_block(size);
    p[size / 2] = 1;
    use_again(size);
}

void write_after_free_to_a_warm_block_found_at_the_end(size_t size)
{
    char *p = freed_warm_block(size);
    p[size - 1] = 1;
    my_malloc_trim(0);
}

void write_before_a_warm_block_after_its_free(size_t size)
{
    char *p = freed_warm_block(size);
    p[-1] = 1;
    use_again(size);
}

/* What a block leaves behind that is moved waits as one that was freed. */
void write_to_a_large_block_after_realloc_moved_it(size_t size)
{
    char *p = block(size);
    if (my_realloc(p, 10 * size) != p)
        *(volatile char *)(p + size / 2) = 1;
}

void memory_that_realloc_moved_a_block_from_reads_as_zero(size_t size)
{
    misuse_announce(NULL);
    for (size_t i = 0; i < 300; i++) {
        char *p = my_malloc(size);
        expect_zeros(p, size);
        memset(p, 0xff, size);
        p = my_realloc(p, 10 * size);
        expect_zeros(p + size, 9 * size);
        my_free(p);
    }
}

void double_free_of_a_warm_block(size_t size)
{
    my_free(freed_warm_block(size));
}

/* The guard behind what is used again stays, or goes forth and back. */
void warm_memory_of_changing_sizes_reads_as_zero(size_t size)
{
    misuse_announce(NULL);
    for (size_t i = 0; i < 300; i++) {
        size_t bytes = size + i * 5309 % 30000;
        char *p = my_malloc(bytes);
        expect_zeros(p, bytes);
        memset(p, 0xff, bytes);
        my_free(p);
    }
}

/* Blocks of many sizes are made of what is kept, in which all pages are in memory: most of them
 * take none from the system. */
void kept_ranges_serve_similar_sizes(size_t size)
{
    struct rusage before, after;
    long pages = 0;
    misuse_announce(NULL);
    for (size_t i = 0; i < 300; i++) {
        size_t bytes = size + i * 53093 % size;
        if (i == 100)
            getrusage(RUSAGE_SELF, &before);
        if (i >= 100)
            pages += (long)(bytes / 4096);
        char *p = my_malloc(bytes);
        memset(p, 0xff, bytes);
        my_free(p);
    }
    getrusage(RUSAGE_SELF, &after);
    if (after.ru_minflt - before.ru_minflt > pages / 4)
        _Exit(1);
}

/* A hundred blocks of random sizes that replace each other: what is kept serves nearly all, and
 * only pages that are written to are in memory. */
void random_sizes_take_little_of_the_system(size_t most)
{
    enum { MANY = 100, STEPS = 4000 };
    static char *blocks[MANY];
    struct rusage before, after;
    uint64_t random = 42;
    misuse_announce(NULL);
    for (int i = 0; i < 2 * STEPS; i++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        size_t size = most / 16 + (random >> 33) % (most - most / 16);
        char **place = &blocks[(random >> 20) % MANY];
        if (i == STEPS)
            getrusage(RUSAGE_SELF, &before);
        my_free(*place);
        *place = my_malloc(size);
        (*place)[0] = (*place)[size - 1] = 1;
    }
    getrusage(RUSAGE_SELF, &after);
    if (after.ru_minflt - before.ru_minflt > STEPS / 2)
        _Exit(1);
}

/* Of the range of a longer block: the zeros before it are looked at. */
void underflow_before_a_block_of_a_longer_range(size_t size)
{
    make_warm(size + 40000);
    char *p = block(size);
    p[-9000] = 1;
    my_free(p);
}

/* What a thread kept serves others when it has ended, and is still looked at. */
void write_after_free_to_what_an_ended_thread_freed(size_t size)
{
    make_warm(size);
    char *p = block(size);
    free_in_thread(p);
    *(volatile char *)(p + size / 2) = 1;
    use_again(size);
}

/* Pages that were behind a block and are part of the next. */
void resized_ranges_read_as_zero(size_t size)
{
    misuse_announce(NULL);
    for (size_t i = 0; i < 200; i++) {
        size_t bytes = size + i * 5309 % size;
        char *p = my_malloc(bytes);
        expect_zeros(p, bytes);
        memset(p, 0xff, bytes);
        p = my_realloc(p, i % 2 != 0 ? bytes / 2 + size / 2 : bytes + size / 3);
        memset(p, 0xff, my_malloc_usable_size(p));
        my_free(p);
    }
}

/* Where the canary was as well. */
void what_realloc_adds_reads_as_zero(size_t size)
{
    misuse_announce(NULL);
    for (size_t i = 1; i < 40; i++) {
        char *p = my_malloc(size + i);
        memset(p, 0xff, size + i);
        p = my_realloc(p, size + i + i * 1000);
        expect_zeros(p + size + i, i * 1000);
        my_free(p);
    }
}

/* Beyond 8,192 large blocks there are no guards. */
static char *block_without_guards(size_t size)
{
    for (int i = 0; i < 8192; i++)
        (void)my_malloc(size);
    return block(size);
}

void overflow_without_guards(size_t size)
{
    char *p = block_without_guards(size);
    p[size] = 1;
    my_free(p);
}

void overflow_without_guards_found_by_realloc(size_t size)
{
    char *p = block_without_guards(size);
    p[size + 100] = 1;
    p = my_realloc(p, size * 2);
}

void underflow_without_guards(size_t size)
{
    char *p = block_without_guards(size);
    p[-1] = 1;
    my_free(p);
}
