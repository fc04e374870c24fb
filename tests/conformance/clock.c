/* Conformance: a program, or a library that is loaded with it, may have a clock_gettime of its own
 * (libfaketime): its time is not the allocator's, and it may allocate itself.
 * SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "conformance/support/cmocka_all.h"
#include "support/api.h"

#define BLOCKS 20000

static volatile bool watched; /* volatile: malloc is declared to call nothing in this file */
static volatile unsigned calls;

/* libfaketime allocates here when it is first called. This one counts: so the test fails, where it
 * would not end otherwise. */
int clock_gettime(clockid_t clock, struct timespec *now)
{
    if (watched)
        calls++;
    return (int)syscall(SYS_clock_gettime, clock, now);
}

/* Sizes of all kinds: memory is taken, given back and moved, all of which looks at the time. */
static void the_clock_of_the_program_is_not_asked(void **state)
{
    (void)state;
    static char *blocks[BLOCKS];
    watched = true;
    for (size_t i = 0; i < BLOCKS; i++) {
        size_t bytes = i % 500 == 0 ? 4u << 20 : i % 50 == 0 ? 200000 : i % 3000 + 1;
        blocks[i] = my_malloc(bytes);
        if (blocks[i] != NULL)
            blocks[i][bytes - 1] = 1;
    }
    for (size_t i = 0; i < BLOCKS; i++)
        my_free(blocks[i]);
    watched = false;
    assert_int_equal(calls, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_clock_of_the_program_is_not_asked),
    };
    return RUN_TESTS(tests);
}
