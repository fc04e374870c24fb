/* Conformance: what the hardened library promises beyond the default one: each misuse ends the
 * process at the call, with the line that docs/hardened.md promises. See misuse.c for how the cases
 * are run and judged; none of them works on after the misuse, so that nothing is caught late.
 * SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "conformance/hardened_parts.h"
#include "conformance/misuse_cases.h"

#include <stdlib.h>
#include <string.h>

#include "conformance/support/child.h"
#include "conformance/support/sizes.h"
#include "support/api.h"

/* ---- double frees ---- */

static void double_free(size_t size)
{
    char *p = block(size);
    my_free(p);
    my_free(p);
}

static void double_free_with_another_between(size_t size)
{
    char *q = my_malloc(size);
    char *p = block(size);
    my_free(p);
    my_free(q);
    my_free(p);
}

static void double_free_by_another_thread(size_t size)
{
    char *p = block(size);
    my_free(p);
    free_in_thread(p);
}

static void double_free_of_what_another_thread_freed(size_t size)
{
    char *p = block(size);
    free_in_thread(p);
    my_free(p);
}

static void double_free_by_two_threads(size_t size)
{
    char *p = block(size);
    free_in_thread(p);
    free_in_thread(p);
}

static void realloc_after_free(size_t size)
{
    char *p = block(size);
    my_free(p);
    p = my_realloc(p, size + size / 2);
}

static void free_after_realloc_moved(size_t size)
{
    char *p = block(size);
    if (my_realloc(p, size * 40) != p)
        my_free(p);
}

/* ---- pointers that are no blocks ---- */

static void free_inside_by_16(size_t size)
{
    my_free(misuse_announce((char *)my_malloc(size) + 16));
}

static void free_inside_by_1(size_t size)
{
    my_free(misuse_announce((char *)my_malloc(size) + 1));
}

/* ---- writes where nothing may be written ---- */

static void overflow_by_one(size_t size)
{
    char *p = block(size);
    p[size] = (char)~p[size];
    my_free(p);
}

static void overflow_by_a_zero(size_t size)
{
    char *p = block(size);
    p[size] = 0;
    my_free(p);
}

static void overflow_found_by_realloc(size_t size)
{
    char *p = block(size);
    p[size] = (char)~p[size];
    p = my_realloc(p, size + 1);
}

static void overflow_found_by_another_thread(size_t size)
{
    char *p = block(size);
    p[size] = (char)~p[size];
    free_in_thread(p);
}

/* size: such that the class leaves more than 12 bytes. */
static void overflow_beyond_the_canary(size_t size)
{
    char *p = block(size);
    p[size + 12] = 1;
    my_free(p);
}

/* In the middle of what the class leaves of a small block. size: such that a thread that has
 * allocated little and one that has allocated much use the same class. */
static void overflow_beyond_the_canary_of_a_small_block(size_t size)
{
    char *p = block(size);
    p[size + 12] = 1;
    my_free(p);
    use_again(size);
}

static void overflow_of_usable_size(size_t size)
{
    char *p = block(size);
    size_t usable = my_malloc_usable_size(p);
    p[usable] = (char)~p[usable];
    my_free(p);
}

static void overflow_into_the_guard(size_t size)
{
    char *p = block(size);
    *(volatile char *)(p + size) = 1;
}

static void read_of_the_guard(size_t size)
{
    char *p = block(size);
    (void)*(volatile char *)(p + size);
}

static void underflow_into_the_guard(size_t size)
{
    char *p = block(size);
    *(volatile char *)(p - 1) = 1;
}

static void underflow_before_a_large_block(size_t size)
{
    char *p = block(size);
    *(volatile char *)(p - 1) = 1;
    my_free(p);
}

/* The byte before a block is the last of its neighbour. */
static void underflow_into_the_neighbour(size_t size)
{
    static char *blocks[2000];
    size_t distance = (size + 8 + 15) / 16 * 16;
    for (size_t i = 0; i < COUNT_OF(blocks); i++)
        blocks[i] = my_malloc(size);
    for (size_t i = 0; i < COUNT_OF(blocks); i++) {
        for (size_t j = 0; j < COUNT_OF(blocks); j++) {
            if (blocks[j] != blocks[i] + distance)
                continue;
            misuse_announce(blocks[i]);
            *(volatile char *)(blocks[j] - 1) ^= 0x55;
            my_free(blocks[i]);
            return;
        }
    }
}

/* ---- freed memory ---- */

static void write_after_free(size_t size)
{
    char *p = block(size);
    my_free(p);
    p[size / 2] = 1;
    use_again(size);
}

static void write_after_free_of_the_last_byte(size_t size)
{
    char *p = block(size);
    my_free(p);
    p[size - 1] = 1;
    use_again(size);
}

static void write_after_free_found_by_calloc(size_t size)
{
    char *p = block(size);
    my_free(p);
    p[0] = 1;
    for (int i = 0; i < 3000; i++)
        my_free(my_calloc(1, size));
}

/* Nothing is allocated any more: the block is in quarantine, or in the bin behind it. */
static void write_after_free_and_exit(size_t size)
{
    char *p = block(size);
    my_free(p);
    p[size / 2] = 1;
    exit(CHILD_NOT_CAUGHT);
}

/* More than the quarantine holds, and not enough to fill the bin. */
static void write_after_free_left_in_a_bin_and_exit(size_t size)
{
    enum { MANY = 265 };
    static char *blocks[MANY];
    for (int i = 0; i < MANY; i++)
        blocks[i] = my_malloc(size);
    char *p = misuse_announce(blocks[0]);
    for (int i = 0; i < MANY; i++)
        my_free(blocks[i]);
    p[size / 2] = 1;
    exit(CHILD_NOT_CAUGHT);
}

static void freed_memory_reads_as_zero(size_t size)
{
    char *p = block(size);
    my_free(p);
    expect_zeros(p, size);
}

static void allocated_memory_reads_as_zero(size_t size)
{
    misuse_announce(NULL);
    for (int i = 0; i < 2000; i++) {
        char *p = my_malloc(size + (size_t)i % 7);
        expect_zeros(p, size + (size_t)i % 7);
        memset(p, 0xff, size + (size_t)i % 7);
        my_free(p);
    }
}

static void nothing_is_left_after_shrinking(size_t size)
{
    char *p = block(size);
    p = my_realloc(p, size * 2 / 3);
    memset(p, 0, my_malloc_usable_size(p));
    misuse_announce(p);
    my_free(p);
    expect_zeros(p, size);
}

/* ---- blocks of no bytes ---- */

static void read_of_no_bytes(size_t unused)
{
    (void)unused;
    (void)*(volatile char *)misuse_announce(my_malloc(0));
}

static void write_of_no_bytes(size_t unused)
{
    (void)unused;
    *(volatile char *)misuse_announce(my_calloc(1, 0)) = 1;
}

static void double_free_of_no_bytes(size_t others)
{
    void *p = misuse_announce(my_malloc(0));
    my_free(p);
    for (size_t i = 0; i < others; i++)
        my_free(my_malloc(0));
    my_free(p);
}

static void realloc_of_no_bytes_after_free(size_t size)
{
    void *p = misuse_announce(my_malloc(0));
    my_free(p);
    p = my_realloc(p, size);
}

static void free_beside_no_bytes(size_t offset)
{
    my_free(misuse_announce((char *)my_malloc(0) + offset));
}

/* More than there are places for: the rest are blocks of a class. Each has an address of its own
 * while it lives, and becomes one that can be written to when it grows. */
static void blocks_of_no_bytes_are_many(size_t many)
{
    misuse_announce(NULL);
    char **blocks = my_malloc(many * sizeof *blocks);
    for (int round = 0; round < 2; round++) {
        for (size_t i = 0; i < many; i++) {
            blocks[i] = my_malloc(0);
            if (blocks[i] == NULL || my_malloc_usable_size(blocks[i]) != 0)
                _Exit(1);
        }
        for (size_t i = 0; i < many; i += 1000) {
            blocks[i] = my_realloc(blocks[i], 100);
            memset(blocks[i], 1, 100);
        }
        for (size_t i = 0; i < many; i++)
            my_free(blocks[i]); /* twice the same one would not get past this */
    }
    my_free(blocks);
}

/* ---- what can be known of addresses ---- */

static void a_freed_block_waits(size_t size)
{
    char *p = block(size);
    my_free(p);
    int frees = size <= 248 ? 255 : size <= 1912 ? 31 : size <= 16120 ? 7 : 3;
    for (int i = 0; i < frees; i++) {
        char *q = my_malloc(size);
        if (q == p)
            _Exit(1);
        my_free(q);
    }
}

static void a_freed_block_waits_beside_one_of_no_bytes(size_t size)
{
    char *p = block(size);
    my_free(p);
    my_free(my_memalign((size_t)1 << 17, 0));
    if (my_malloc(size) == p)
        _Exit(1);
}

static void blocks_come_in_no_order(size_t size)
{
    enum { MANY = 256 };
    misuse_announce(NULL);
    static char *blocks[MANY];
    int ascending = 0;
    for (int i = 0; i < MANY; i++) {
        blocks[i] = my_malloc(size);
        ascending += i > 0 && blocks[i] > blocks[i - 1];
    }
    if (ascending < MANY / 8 || ascending > MANY * 7 / 8)
        _Exit(1);
}

/* ---- usable size ---- */

static void usable_size_is_what_was_asked_for(size_t size)
{
    char *p = block(size);
    if (my_malloc_usable_size(p) != size)
        _Exit(1);
    p = my_realloc(p, size + size / 3);
    if (my_malloc_usable_size(p) != size + size / 3)
        _Exit(1);
    memset(p, 1, size + size / 3);
    my_free(p);
}

#define CLASS "size class *, * bytes)"
#define SAYS(function, size, says) {#function "/" #size, function, size, false, says}
#define ANSWERS(function, size) {#function "/" #size, function, size, true, NULL}
#define SMALL(function, says)                                                                      \
    SAYS(function, 24, says CLASS), SAYS(function, 120, says CLASS),                               \
        SAYS(function, 1000, says CLASS), SAYS(function, 20000, says CLASS),                       \
        SAYS(function, 60000, says CLASS)
#define LARGE(function, says)                                                                      \
    SAYS(function, 200000, says "large block)"), SAYS(function, 3000000, says "large block)")
#define EVERY(function, says) SMALL(function, says), LARGE(function, says)
/* Of large blocks of a multiple of 16 bytes the very next byte is the guard's. */
#define ODD(function, says)                                                                        \
    SMALL(function, says), SAYS(function, 200001, says "large block)"),                            \
        SAYS(function, 3000007, says "large block)")
#define FAULTS(function) SAYS(function, 204800, ""), SAYS(function, 3145728, "")

#define NOTHING "block of 0 bytes)"
#define DOUBLE_FREE "hakmem: double free of @ ("
#define INTERIOR "hakmem: invalid free of @ (points into a block, not at its beginning; "
#define OVERFLOW(bytes) "hakmem: overflow of @ (written behind the " bytes " that were asked for; "
#define WRITTEN(offset) "hakmem: write after free of @ (at offset " offset "; "
#define FREED_WITH(n, m)                                                                           \
    "hakmem: mismatched free of @ (freed with " n " bytes, " m " were asked for; "
#define FROM(what, by) "hakmem: mismatched free of @ (from " what ", freed by " by "; "

const struct misuse_case misuse_cases[] = {
    EVERY(double_free, DOUBLE_FREE),
    EVERY(double_free_with_another_between, DOUBLE_FREE),
    EVERY(double_free_by_another_thread, DOUBLE_FREE),
    EVERY(double_free_of_what_another_thread_freed, DOUBLE_FREE),
    EVERY(double_free_by_two_threads, DOUBLE_FREE),
    EVERY(realloc_after_free, DOUBLE_FREE),
    SMALL(free_after_realloc_moved, DOUBLE_FREE),
    SMALL(free_inside_by_16, INTERIOR),
    SMALL(free_inside_by_1, INTERIOR),
    ODD(overflow_by_one, OVERFLOW("* bytes")),
    SAYS(overflow_by_one, 1, OVERFLOW("1 bytes") CLASS),
    SAYS(overflow_by_one, 15, OVERFLOW("15 bytes") CLASS),
    SAYS(overflow_by_one, 16, OVERFLOW("16 bytes") CLASS),
    SAYS(overflow_by_one, 31, OVERFLOW("31 bytes") CLASS),
    SAYS(overflow_by_one, 4096, OVERFLOW("4096 bytes") CLASS),
    SAYS(overflow_by_one, 65535, OVERFLOW("65535 bytes") CLASS),
    SAYS(overflow_by_one, 70001, OVERFLOW("70001 bytes") "large block)"),
    SAYS(overflow_by_one, 100001, OVERFLOW("100001 bytes") "large block)"),
    ODD(overflow_by_a_zero, OVERFLOW("* bytes")),
    ODD(overflow_found_by_realloc, OVERFLOW("* bytes")),
    ODD(overflow_found_by_another_thread, OVERFLOW("* bytes")),
    SAYS(overflow_beyond_the_canary, 1060, OVERFLOW("1060 bytes") CLASS),
    SAYS(overflow_beyond_the_canary, 33000, OVERFLOW("33000 bytes") CLASS),
    SAYS(overflow_beyond_the_canary_of_a_small_block, 230, OVERFLOW("230 bytes") CLASS),
    SAYS(overflow_beyond_the_canary_of_a_small_block, 470, OVERFLOW("470 bytes") CLASS),
    ODD(overflow_of_usable_size, OVERFLOW("* bytes")),
    FAULTS(overflow_into_the_guard),
    FAULTS(read_of_the_guard),
    FAULTS(underflow_into_the_guard),
    SAYS(underflow_before_a_large_block, 100001,
         "hakmem: underflow of @ (written before the 100001 bytes that were asked for; large "
         "block)"),
    SAYS(overflow_without_guards, 70000, OVERFLOW("70000 bytes") "large block)"),
    SAYS(overflow_without_guards, 300000, OVERFLOW("300000 bytes") "large block)"),
    SAYS(overflow_without_guards_found_by_realloc, 70000, OVERFLOW("70000 bytes") "large block)"),
    SAYS(
        underflow_without_guards, 77824,
        "hakmem: underflow of @ (written before the 77824 bytes that were asked for; large block)"),
    SAYS(underflow_into_the_neighbour, 40, OVERFLOW("40 bytes") CLASS),
    SAYS(underflow_into_the_neighbour, 47, OVERFLOW("47 bytes") CLASS),
    SAYS(write_after_free, 24, WRITTEN("12") CLASS),
    SAYS(write_after_free, 120, WRITTEN("60") CLASS),
    SAYS(write_after_free, 1000, WRITTEN("500") CLASS),
    SAYS(write_after_free, 20000, WRITTEN("10000") CLASS),
    SAYS(write_after_free, 60000, WRITTEN("30000") CLASS),
    SMALL(write_after_free_of_the_last_byte, WRITTEN("*")),
    SMALL(write_after_free_found_by_calloc, WRITTEN("0")),
    FAULTS(write_after_free_to_a_large_block),
    FAULTS(read_after_free_of_a_large_block),
    SAYS(write_after_free_to_a_warm_block, 200000, WRITTEN("100000") "large block)"),
    SAYS(write_after_free_to_a_warm_block, 2000000, WRITTEN("1000000") "large block)"),
    SAYS(write_after_free_to_a_warm_block_found_at_the_end, 200000,
         WRITTEN("199999") "large block)"),
    SAYS(write_before_a_warm_block_after_its_free, 100001,
         "hakmem: underflow of @ (written before the 100001 bytes that were asked for; large "
         "block)"),
    SAYS(underflow_before_a_block_of_a_longer_range, 200000,
         "hakmem: underflow of @ (written before the 200000 bytes that were asked for; large "
         "block)"),
    SAYS(write_after_free_to_what_an_ended_thread_freed, 200000, WRITTEN("100000") "large block)"),
    SAYS(write_to_a_large_block_after_realloc_moved_it, 300000, ""),
    SAYS(write_to_a_large_block_after_realloc_moved_it, 1000000, ""),
    SAYS(double_free_of_a_warm_block, 200000, DOUBLE_FREE "large block)"),
    SAYS(write_after_free_and_exit, 24, WRITTEN("12") CLASS),
    SAYS(write_after_free_and_exit, 1000, WRITTEN("500") CLASS),
    SAYS(write_after_free_and_exit, 60000, WRITTEN("30000") CLASS),
    SAYS(write_after_free_left_in_a_bin_and_exit, 24, WRITTEN("12") CLASS),
    SAYS(write_after_free_left_in_a_bin_and_exit, 120, WRITTEN("60") CLASS),
    SAYS(read_of_no_bytes, 0, ""),
    SAYS(write_of_no_bytes, 0, ""),
    SAYS(double_free_of_no_bytes, 0, DOUBLE_FREE NOTHING),
    SAYS(double_free_of_no_bytes, 60000, DOUBLE_FREE NOTHING),
    SAYS(realloc_of_no_bytes_after_free, 100, DOUBLE_FREE NOTHING),
    SAYS(free_beside_no_bytes, 1, "hakmem: invalid free of @ (not from this allocator)"),
    SAYS(free_beside_no_bytes, 16, "hakmem: invalid free of @ (not from this allocator)"),
    ANSWERS(blocks_of_no_bytes_are_many, 1000),
    ANSWERS(blocks_of_no_bytes_are_many, 200000),
    ANSWERS(freed_memory_reads_as_zero, 24),
    ANSWERS(freed_memory_reads_as_zero, 1000),
    ANSWERS(freed_memory_reads_as_zero, 60000),
    ANSWERS(allocated_memory_reads_as_zero, 24),
    ANSWERS(allocated_memory_reads_as_zero, 1000),
    ANSWERS(allocated_memory_reads_as_zero, 60000),
    ANSWERS(allocated_memory_reads_as_zero, 100000),
    ANSWERS(memory_that_realloc_moved_a_block_from_reads_as_zero, 300000),
    ANSWERS(memory_that_realloc_moved_a_block_from_reads_as_zero, 1000000),
    ANSWERS(warm_memory_of_changing_sizes_reads_as_zero, 100000),
    ANSWERS(warm_memory_of_changing_sizes_reads_as_zero, 300000),
    ANSWERS(kept_ranges_serve_similar_sizes, 300000),
    ANSWERS(kept_ranges_serve_similar_sizes, 900000),
    ANSWERS(random_sizes_take_little_of_the_system, 262144),
    ANSWERS(resized_ranges_read_as_zero, 100000),
    ANSWERS(resized_ranges_read_as_zero, 400000),
    ANSWERS(what_realloc_adds_reads_as_zero, 100),
    ANSWERS(what_realloc_adds_reads_as_zero, 50000),
    ANSWERS(what_realloc_adds_reads_as_zero, 100000),
    ANSWERS(what_realloc_adds_reads_as_zero, 1900000),
    ANSWERS(what_realloc_adds_reads_as_zero, 3000000),
    ANSWERS(nothing_is_left_after_shrinking, 60),
    ANSWERS(nothing_is_left_after_shrinking, 1000),
    ANSWERS(nothing_is_left_after_shrinking, 60000),
    ANSWERS(a_freed_block_waits, 24),
    ANSWERS(a_freed_block_waits, 240),
    ANSWERS(a_freed_block_waits, 248),
    ANSWERS(a_freed_block_waits, 1912),
    ANSWERS(a_freed_block_waits, 16120),
    ANSWERS(a_freed_block_waits, 20000),
    ANSWERS(a_freed_block_waits, 200000),
    ANSWERS(a_freed_block_waits_beside_one_of_no_bytes, 20000000),
    ANSWERS(blocks_come_in_no_order, 24),
    ANSWERS(blocks_come_in_no_order, 500),
    ANSWERS(blocks_come_in_no_order, 60000),
    ANSWERS(usable_size_is_what_was_asked_for, 1),
    ANSWERS(usable_size_is_what_was_asked_for, 100),
    ANSWERS(usable_size_is_what_was_asked_for, 60000),
    ANSWERS(usable_size_is_what_was_asked_for, 100001),
    ANSWERS(usable_size_is_what_was_asked_for, 3000001),
    SAYS(free_sized_with_one_more, 64, FREED_WITH("65", "64") CLASS),
    SAYS(free_sized_with_one_more, 200000, FREED_WITH("200001", "200000") "large block)"),
    SAYS(free_sized_with_one_less, 64, FREED_WITH("63", "64") CLASS),
    SAYS(free_sized_with_its_class, 40, FREED_WITH("48", "40") CLASS),
    SAYS(free_aligned_sized_with_another_size, 640, FREED_WITH("704", "640") CLASS),
    SAYS(free_aligned_sized_with_another_alignment, 640,
         "hakmem: mismatched free of @ (freed with alignment 32, 64 was asked for; " CLASS),
    SAYS(sized_delete_with_one_more, 64, FREED_WITH("65", "64") CLASS),
    SAYS(sized_delete_with_one_more, 3000000, FREED_WITH("3000001", "3000000") "large block)"),
    SAYS(sized_array_delete_with_one_less, 1000, FREED_WITH("999", "1000") CLASS),
    SAYS(aligned_delete_with_another_alignment, 100,
         "hakmem: mismatched free of @ (freed with alignment 128, 64 was asked for; " CLASS),
    EVERY(free_of_new, FROM("new", "free")),
    EVERY(free_of_new_array, FROM("new[[][]]", "free")),
    EVERY(free_of_aligned_new, FROM("aligned new", "free")),
    EVERY(realloc_of_new, FROM("new", "free")),
    EVERY(delete_of_malloc, FROM("malloc", "delete")),
    EVERY(sized_delete_of_malloc, FROM("malloc", "delete")),
    EVERY(array_delete_of_malloc, FROM("malloc", "delete[[][]]")),
    EVERY(delete_of_new_array, FROM("new[[][]]", "delete")),
    EVERY(array_delete_of_new, FROM("new", "delete[[][]]")),
    EVERY(delete_of_aligned_new, FROM("aligned new", "delete")),
    EVERY(aligned_delete_of_new, FROM("new", "aligned delete")),
    EVERY(aligned_delete_of_aligned_new_array, FROM("aligned new[[][]]", "aligned delete")),
    ANSWERS(objects_are_exchanged_with_hidden_operators, 24),
    ANSWERS(objects_are_exchanged_with_hidden_operators, 1000),
    ANSWERS(objects_are_exchanged_with_hidden_operators, 200000),
    EVERY(delete_of_new_array_beside_hidden_operators, FROM("new[[][]]", "delete")),
    SAYS(sized_delete_with_one_more_beside_hidden_operators, 64, FREED_WITH("65", "64") CLASS),
    EVERY(double_free_of_new_beside_hidden_operators, DOUBLE_FREE),
    {NULL, NULL, 0, false, NULL},
};
