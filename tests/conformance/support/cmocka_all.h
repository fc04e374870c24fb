/* Conformance support: cmocka with the headers it wants before it, and assertions that say which
 * case of a loop failed.
 *
 * Included by tests. Never by the library.
 * SPDX-License-Identifier: Apache-2.0 OR MIT */
#ifndef HAK_TEST_CMOCKA_ALL_H
#define HAK_TEST_CMOCKA_ALL_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "conformance/support/allocator.h"

/* Fails the running test with a message in printf form. */
#define CHECK(condition, format, ...)                                                              \
    do {                                                                                           \
        if (!(condition))                                                                          \
            fail_msg("not so: %s: " format, #condition, ##__VA_ARGS__);                            \
    } while (0)

/* Skips with a stated reason (a test of another allocator, or what the system forbids). */
#define SKIP_BECAUSE(reason)                                                                       \
    do {                                                                                           \
        print_message("skipped: %s\n", reason);                                                    \
        skip();                                                                                    \
    } while (0)

/* The system's programs have the same libc as this one, so that they too can have the library. */
static inline void require_system_programs(void)
{
#ifndef __GLIBC__
    if (system("true >/dev/null 2>&1") != 0)
        SKIP_BECAUSE("the programs of this system have another libc");
#endif
}

/* HAK_TEST_FILTER=PATTERN runs only the tests of that name; * and ? stand for anything. */
static inline void cmocka_all_begin(void)
{
    allocator_require();
    const char *pattern = getenv("HAK_TEST_FILTER");
    if (pattern)
        cmocka_set_test_filter(pattern);
}

#define RUN_TESTS(tests) (cmocka_all_begin(), cmocka_run_group_tests(tests, NULL, NULL))

#endif
