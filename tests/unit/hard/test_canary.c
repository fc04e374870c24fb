/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Unit tests of hard: canaries at every length of what lies behind a block, zeros, both forms of
 * malloc and free, and numbers that cannot be foreseen. */
#include "../unit.h"

#include "hard/hard_internal.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BLOCK_BYTES = 256 };
static _Alignas(16) char block[BLOCK_BYTES];

static void set_secret(void)
{
    hak_hard.secret[0] = 0x0123456789abcdef;
    hak_hard.secret[1] = 0xfedcba9876543211;
}

static void a_canary_holds_until_any_byte_behind_the_block_changes(void **state)
{
    (void)state;
    set_secret();
    for (size_t bytes = 0; bytes < BLOCK_BYTES; bytes++) {
        memset(block, 0, sizeof block);
        memset(block, 0x77, bytes);
        hard_canary_put(block, bytes, BLOCK_BYTES);
        assert_true(hard_canary_holds(block, bytes, BLOCK_BYTES));
        for (size_t at = bytes; at < BLOCK_BYTES; at++) {
            block[at] ^= 0x10;
            CHECK(!hard_canary_holds(block, bytes, BLOCK_BYTES), "%zu of %zu", at, bytes);
            block[at] ^= 0x10;
        }
        if (bytes > 0) {
            block[bytes - 1] ^= 0x10; /* the program's own */
            assert_true(hard_canary_holds(block, bytes, BLOCK_BYTES));
        }
    }
}

static void no_canary_begins_with_a_zero(void **state)
{
    (void)state;
    set_secret();
    for (uintptr_t p = 0; p < 100000; p += 16)
        assert_int_not_equal(hard_canary((void *)p) & 0xff, 0);
}

static void every_byte_that_is_not_zero_is_found(void **state)
{
    (void)state;
    for (size_t bytes = 16; bytes <= BLOCK_BYTES; bytes += 16) {
        memset(block, 0xff, sizeof block);
        hard_zero(block, bytes);
        assert_true(hard_is_zero(block, bytes));
        assert_true(bytes == BLOCK_BYTES || block[bytes] == (char)0xff);
        for (size_t at = 0; at < bytes; at++) {
            block[at] = 1;
            assert_false(hard_is_zero(block, bytes));
            block[at] = 0;
        }
    }
}

/* The forms of the functions of paths.h: for any machine, and if this one can, with AVX2. */
static const struct form {
    bool (*is_zero)(const char *, size_t);
    void (*zero_written)(char *, size_t);
    void *(*malloc)(size_t);
    void (*free)(void *, hak_free_foreign *);
} forms[] = {
    {hak_hard_is_zero_plain, hak_hard_zero_written_plain, hak_hard_malloc_plain,
     hak_hard_free_plain},
#if defined(__x86_64__)
    {hak_hard_is_zero_avx2, hak_hard_zero_written_avx2, hak_hard_malloc_avx2, hak_hard_free_avx2},
#endif
};

static unsigned forms_here(void)
{
#if defined(__x86_64__)
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2") ? 2 : 1;
#else
    return 1;
#endif
}

static void both_forms_find_every_byte_that_is_not_zero(void **state)
{
    (void)state;
    static _Alignas(16) char long_block[1040];
    for (unsigned f = 0; f < forms_here(); f++)
        for (size_t bytes = 16; bytes <= sizeof long_block; bytes += 16)
            for (size_t at = 0; at < sizeof long_block; at++) {
                long_block[at] = 1;
                CHECK(forms[f].is_zero(long_block, bytes) == (at >= bytes),
                      "form %u, byte %zu of %zu", f, at, bytes);
                long_block[at] = 0;
            }
}

static void both_forms_clear_every_byte_and_none_beyond(void **state)
{
    (void)state;
    static _Alignas(16) char long_block[1056];
    char *end = long_block + sizeof long_block;
    for (unsigned f = 0; f < forms_here(); f++)
        for (size_t bytes = 16; bytes <= sizeof long_block - 16; bytes += 16)
            for (char *at = long_block; at < end; at++) {
                *at = 1;
                forms[f].zero_written(long_block, bytes);
                CHECK(*at == (at >= long_block + bytes), "form %u, byte %td of %zu", f,
                      at - long_block, bytes);
                *at = 0;
            }
}

static void any_number_of_bytes_is_cleared(void **state)
{
    (void)state;
    static _Alignas(16) char long_block[1100];
    for (size_t bytes = 8; bytes < sizeof long_block; bytes++) {
        memset(long_block, 0xff, sizeof long_block);
        hard_zero(long_block, bytes);
        for (size_t at = 0; at < sizeof long_block; at++)
            CHECK((long_block[at] == 0) == (at < bytes), "byte %zu of %zu", at, bytes);
    }
}

static void not_foreign(void *p)
{
    fail_msg("%p is a block of ours", p);
}

static void blocks_of_one_form_are_freed_by_the_other_and_come_back_zero(void **state)
{
    (void)state;
    for (size_t bytes = 1; bytes < 3000; bytes++)
        for (unsigned f = 0; f < 4; f++) {
            if (f % 2 >= forms_here() || f / 2 >= forms_here())
                continue;
            unsigned char *p = forms[f % 2].malloc(bytes);
            assert_non_null(p);
            for (size_t i = 0; i < bytes; i++)
                CHECK(p[i] == 0, "byte %zu of %zu", i, bytes);
            memset(p, 0xA5, bytes);
            forms[f / 2].free(p, not_foreign);
            for (size_t i = 0; i < bytes + 1; i++)
                CHECK(p[i] == 0, "byte %zu of %zu after the free", i, bytes);
        }
}

/* What free looks at in its own way: every byte of the canary, and the last ones of the block. */
static void a_free_finds_what_was_written_across_the_end_of_a_block(void **state)
{
    (void)state;
    set_secret();
    for (size_t bytes = 0; bytes <= BLOCK_BYTES - HARD_CANARY_BYTES; bytes++)
        for (size_t at = bytes; at <= BLOCK_BYTES; at++) {
            memset(block, 0, sizeof block);
            memset(block, 0x77, bytes);
            hard_canary_put(block, bytes, BLOCK_BYTES);
            if (at < BLOCK_BYTES)
                block[at] ^= 0x10;
            bool seen = at < bytes + HARD_CANARY_BYTES ||
                        (at >= BLOCK_BYTES - sizeof(uint64_t) && at < BLOCK_BYTES);
            CHECK(hard_canary_is_whole(block, bytes, BLOCK_BYTES) != seen, "%zu of %zu", at, bytes);
        }
}

/* A process that ends as it should: byte `at` was written behind a block of `bytes` bytes, which
 * was found when it was freed, or at the latest when it was used again. */
static bool form_dies(const struct form *form, size_t bytes, size_t at)
{
    int status;
    pid_t child = fork();
    if (child == 0) {
        if (freopen("/dev/null", "w", stderr) == NULL)
            _exit(1);
        char *p = form->malloc(bytes);
        p[at] = (char)~p[at];
        form->free(p, not_foreign);
        for (int i = 0; i < 3000; i++)
            form->free(form->malloc(bytes), not_foreign);
        _exit(0);
    }
    return waitpid(child, &status, 0) == child && WIFSIGNALED(status) &&
           WTERMSIG(status) == SIGABRT;
}

/* The class that a thread uses for a size does not change any more. */
static void settle_class_of(size_t bytes)
{
    static void *blocks[3000];
    for (size_t i = 0; i < sizeof blocks / sizeof blocks[0]; i++)
        blocks[i] = forms[0].malloc(bytes);
    for (size_t i = 0; i < sizeof blocks / sizeof blocks[0]; i++)
        forms[0].free(blocks[i], not_foreign);
}

static void both_forms_find_what_was_written_behind_a_block(void **state)
{
    (void)state;
    static const size_t sizes[] = {1, 9, 16, 17, 40, 65, 70, 100, 129, 200, 300, 513, 600, 700};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        settle_class_of(sizes[i]);
        char *p = forms[0].malloc(sizes[i]);
        size_t block_bytes = hak_class((hak_map_lookup(p) & HAK_KIND_MASK) / 2)->size_bytes;
        forms[0].free(p, not_foreign);
        for (unsigned f = 0; f < forms_here(); f++)
            for (size_t at = sizes[i]; at < block_bytes; at += 1 + (block_bytes - sizes[i]) / 12)
                CHECK(form_dies(&forms[f], sizes[i], at), "form %u, byte %zu of %zu", f, at,
                      sizes[i]);
    }
}

/* Two threads that free a block in the same moment may both find it live: it then comes to heap
 * twice, and is live, with all that stands in it, when it is handed out for the second time. */
static void a_live_block_that_comes_to_heap_is_called_a_double_free(void **state)
{
    (void)state;
    char line[200] = "";
    int status, pipe_ends[2];
    assert_int_equal(pipe(pipe_ends), 0);
    pid_t child = fork();
    if (child == 0) {
        dup2(pipe_ends[1], STDERR_FILENO);
        char *p = forms[0].malloc(100);
        memset(p, 0x55, 100);
        hak_heap_try_free(p);
        for (int i = 0; i < 3000; i++)
            (void)forms[0].malloc(100);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    close(pipe_ends[1]);
    assert_true(read(pipe_ends[0], line, sizeof line - 1) >= 0);
    close(pipe_ends[0]);
    CHECK(strncmp(line, "hakmem: double free of ", 23) == 0, "said: %s", line);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

static void random_numbers_are_below_their_limit_and_all_come(void **state)
{
    (void)state;
    for (uint32_t n = 1; n <= 64; n++) {
        uint64_t seen = 0;
        for (int i = 0; i < 4000; i++) {
            uint32_t number = hak_os_random_below(n);
            assert_true(number < n);
            seen |= 1ull << number;
        }
        assert_true(seen == UINT64_MAX >> (64 - n));
    }
}

static void random_numbers_differ_after_a_fork(void **state)
{
    (void)state;
    uint32_t before[8], after[8];
    for (int i = 0; i < 8; i++)
        before[i] = hak_os_random_below(UINT32_MAX);
    hak_os_random_forget();
    for (int i = 0; i < 8; i++)
        after[i] = hak_os_random_below(UINT32_MAX);
    assert_memory_not_equal(before, after, sizeof before);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_canary_holds_until_any_byte_behind_the_block_changes),
    cmocka_unit_test(no_canary_begins_with_a_zero),
    cmocka_unit_test(every_byte_that_is_not_zero_is_found),
    cmocka_unit_test(both_forms_find_every_byte_that_is_not_zero),
    cmocka_unit_test(both_forms_clear_every_byte_and_none_beyond),
    cmocka_unit_test(any_number_of_bytes_is_cleared),
    cmocka_unit_test(blocks_of_one_form_are_freed_by_the_other_and_come_back_zero),
    cmocka_unit_test(a_free_finds_what_was_written_across_the_end_of_a_block),
    cmocka_unit_test(both_forms_find_what_was_written_behind_a_block),
    cmocka_unit_test(a_live_block_that_comes_to_heap_is_called_a_double_free),
    cmocka_unit_test(random_numbers_are_below_their_limit_and_all_come),
    cmocka_unit_test(random_numbers_differ_after_a_fork),
};
UNIT_MAIN(tests)
