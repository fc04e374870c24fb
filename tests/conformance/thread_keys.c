/* Conformance: programs and the keys for thread data, of which the library needs some of its own: a
 * program that sets one which it never created.
 * SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <pthread.h>
#include <string.h>

#include "conformance/support/cmocka_all.h"
#include "support/api.h"

#define THREADS 20

static pthread_key_t never_created; /* 0 */

static void *set_the_key(void *value)
{
    my_free(my_malloc(100));
    pthread_setspecific(never_created, value);
    my_free(my_malloc(100));
    return NULL;
}

/* What a destructor of the library's takes for its own it would change. */
static void a_key_that_was_never_created_is_nobodys(void **state)
{
    (void)state;
    static char mine[8192], same[sizeof mine];
    memset(mine, 0x11, sizeof mine);
    memset(same, 0x11, sizeof same);
    for (int i = 0; i < THREADS; i++) {
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, set_the_key, mine), 0);
        assert_int_equal(pthread_join(thread, NULL), 0);
        assert_memory_equal(mine, same, sizeof mine);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_key_that_was_never_created_is_nobodys),
    };
    return RUN_TESTS(tests);
}
