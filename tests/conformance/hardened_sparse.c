/* Conformance: the hardened library clears what is freed, and looks for writes after that, but does
 * not read the pages of a large block that the program has never used: each would be a page fault.
 * SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "conformance/support/cmocka_all.h"

#include <stdlib.h>
#include <sys/resource.h>

#define REPLACEMENTS 640u
#define BLOCKS 64u /* more than wait for their second use */
#define BLOCK_BYTES ((size_t)1 << 20)
#define FAULTS_MOST 8 /* a replacement; a block has 256 to 512 pages */

static long faults_now(void)
{
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return used.ru_minflt;
}

static volatile char *block_new(size_t bytes)
{
    volatile char *p = malloc(bytes);
    assert_non_null(p);
    return p;
}

static void pages_that_were_never_used_are_not_read(void **state)
{
    (void)state;
    static volatile char *blocks[BLOCKS];
    long before = faults_now();
    for (size_t i = 0; i < REPLACEMENTS; i++) {
        size_t at = i * 37 % BLOCKS;
        free((void *)blocks[at]);
        blocks[at] = block_new(BLOCK_BYTES + i * 7919 % BLOCK_BYTES);
        blocks[at][0] = 1;
    }
    long faults = faults_now() - before;
    for (size_t i = 0; i < BLOCKS; i++)
        free((void *)blocks[i]);
    assert_in_range(faults, 0, FAULTS_MOST * (long)REPLACEMENTS);
}

static void what_was_written_here_and_there_is_cleared(void **state)
{
    (void)state;
    for (size_t i = 0; i < BLOCKS; i++) {
        volatile char *p = block_new(BLOCK_BYTES);
        size_t written = 0;
        for (size_t at = 0; at < BLOCK_BYTES; at++)
            written += p[at] != 0;
        assert_int_equal(written, 0);
        free((void *)p);
        p = block_new(BLOCK_BYTES);
        for (size_t at = i; at < BLOCK_BYTES; at += (size_t)100000)
            p[at] = 1;
        free((void *)p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pages_that_were_never_used_are_not_read),
        cmocka_unit_test(what_was_written_here_and_there_is_cleared),
    };
    return RUN_TESTS(tests);
}
