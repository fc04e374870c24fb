/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Test support where cmocka is not to be had (Debian has it for its own C library alone): what the
 * tests of this project use of its interface, by the documentation at https://api.cmocka.org. A
 * test ends at the first assertion that does not hold, which is printed; assertions are for the
 * thread that runs the test.
 *
 * Wants the headers before it that cmocka wants: setjmp.h, stdarg.h, stddef.h, stdint.h. */
#pragma once

#include <fnmatch.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

typedef int (*CMFixtureFunction)(void **state);

struct CMUnitTest {
    const char *name;
    void (*test_func)(void **state);
    CMFixtureFunction setup_func, teardown_func;
    void *initial_state;
};

#define cmocka_unit_test(test) cmocka_unit_test_setup(test, NULL)
#define cmocka_unit_test_setup(test, setup) cmocka_unit_test_setup_teardown(test, setup, NULL)
#define cmocka_unit_test_setup_teardown(test, setup, teardown) {#test, test, setup, teardown, NULL}
#define cmocka_run_group_tests(tests, setup, teardown)                                             \
    _cmocka_run_group_tests(#tests, tests, sizeof(tests) / sizeof *(tests), setup, teardown)

/* One of each, whatever files of a program include this. */
enum { CMOCKA_FAILED = 1, CMOCKA_SKIPPED };
__attribute__((weak)) jmp_buf cmocka_back;
__attribute__((weak)) const char *cmocka_pattern;

static inline void cmocka_set_test_filter(const char *pattern)
{
    cmocka_pattern = pattern;
}

/* 0: it passed. */
static inline int cmocka_run(const struct CMUnitTest *test)
{
    void *state = test->initial_state;
    int end = setjmp(cmocka_back);
    if (end != 0)
        return end;
    if (test->setup_func != NULL && test->setup_func(&state) != 0)
        return CMOCKA_FAILED;
    test->test_func(&state);
    return test->teardown_func != NULL && test->teardown_func(&state) != 0 ? CMOCKA_FAILED : 0;
}

/* How many failed. */
static inline int _cmocka_run_group_tests(const char *group, const struct CMUnitTest *tests,
                                          size_t count, CMFixtureFunction setup,
                                          CMFixtureFunction teardown)
{
    static const char *const ends[] = {"OK", "FAILED", "SKIPPED"};
    void *state = NULL;
    int failed = setup != NULL && setup(&state) != 0;
    for (size_t i = 0; i < count; i++) {
        if (cmocka_pattern != NULL && fnmatch(cmocka_pattern, tests[i].name, 0) != 0)
            continue;
        int end = cmocka_run(&tests[i]);
        failed += end == CMOCKA_FAILED;
        fprintf(stderr, "[ %s ] %s: %s\n", ends[end], group, tests[i].name);
    }
    return failed + (teardown != NULL && teardown(&state) != 0);
}

/* --- ends of a test --- */

#define print_message(...) ((void)fprintf(stdout, __VA_ARGS__))
#define fail_msg(...)                                                                              \
    (fprintf(stderr, "%s:%d: ", __FILE__, __LINE__), fprintf(stderr, __VA_ARGS__),                 \
     fputc('\n', stderr), longjmp(cmocka_back, CMOCKA_FAILED))
#define fail() fail_msg("failed")
#define skip() longjmp(cmocka_back, CMOCKA_SKIPPED)

/* --- assertions: each value is computed once --- */

#define CMOCKA_TRUE(holds, ...)                                                                    \
    do {                                                                                           \
        if (!(holds))                                                                              \
            fail_msg(__VA_ARGS__);                                                                 \
    } while (0)
#define CMOCKA_NUMBERS(a, relation, b)                                                             \
    do {                                                                                           \
        uintmax_t first_ = (uintmax_t)(a), second_ = (uintmax_t)(b);                               \
        CMOCKA_TRUE(first_ relation second_, "%s %s %s does not hold: %#jx, %#jx", #a, #relation,  \
                    #b, first_, second_);                                                          \
    } while (0)
#define CMOCKA_BYTES(a, relation, b, bytes)                                                        \
    CMOCKA_TRUE(memcmp(a, b, bytes) relation 0, "%s %s %s does not hold", #a, #relation, #b)
#define CMOCKA_STRINGS(a, relation, b)                                                             \
    do {                                                                                           \
        const char *first_ = (a), *second_ = (b);                                                  \
        CMOCKA_TRUE(strcmp(first_, second_) relation 0, "\"%s\" %s \"%s\" does not hold", first_,  \
                    #relation, second_);                                                           \
    } while (0)

#define assert_true(condition) CMOCKA_TRUE(condition, "not so: %s", #condition)
#define assert_false(condition) CMOCKA_TRUE(!(condition), "so: %s", #condition)
#define assert_null(p) CMOCKA_TRUE((p) == NULL, "not NULL: %s", #p)
#define assert_non_null(p) CMOCKA_TRUE((p) != NULL, "NULL: %s", #p)
#define assert_int_equal(a, b) CMOCKA_NUMBERS(a, ==, b)
#define assert_int_not_equal(a, b) CMOCKA_NUMBERS(a, !=, b)
#define assert_ptr_equal(a, b) CMOCKA_NUMBERS((uintptr_t)(a), ==, (uintptr_t)(b))
#define assert_ptr_not_equal(a, b) CMOCKA_NUMBERS((uintptr_t)(a), !=, (uintptr_t)(b))
#define assert_in_range(value, least, most)                                                        \
    do {                                                                                           \
        uintmax_t value_ = (uintmax_t)(value);                                                     \
        CMOCKA_TRUE(value_ >= (uintmax_t)(least) && value_ <= (uintmax_t)(most),                   \
                    "%s = %ju is not from %ju to %ju", #value, value_, (uintmax_t)(least),         \
                    (uintmax_t)(most));                                                            \
    } while (0)
#define assert_string_equal(a, b) CMOCKA_STRINGS(a, ==, b)
#define assert_string_not_equal(a, b) CMOCKA_STRINGS(a, !=, b)
#define assert_memory_equal(a, b, bytes) CMOCKA_BYTES(a, ==, b, bytes)
#define assert_memory_not_equal(a, b, bytes) CMOCKA_BYTES(a, !=, b, bytes)
