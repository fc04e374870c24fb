/* Conformance: programs and the keys for thread data, of which the library needs some of its own: a
 * program that sets one which it never created, and one that has taken all.
 * SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "conformance/support/child.h"
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

/* ---- all keys are taken before the first allocation ---- */

#define MANY_THREADS 1500
#define MOST_KIB 65536 /* of which a thread's memory is half a percent */

static long resident_kib(void)
{
    long all = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file == NULL || fscanf(file, "%ld %ld", &all, &resident) != 2)
        _exit(2);
    fclose(file);
    return resident * (sysconf(_SC_PAGESIZE) / 1024);
}

static void *use_many_sizes(void *unused)
{
    static __thread char *blocks[100];
    for (size_t i = 0; i < 100; i++) {
        blocks[i] = my_malloc(64 * (i + 1));
        memset(blocks[i], 1, 64);
    }
    for (size_t i = 0; i < 100; i++)
        my_free(blocks[i]);
    return unused;
}

static void begin_and_end(int threads)
{
    for (int i = 0; i < threads; i++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, use_many_sizes, NULL) != 0 ||
            pthread_join(thread, NULL) != 0)
            _exit(3);
    }
}

/* `until`: so many threads later the program needs them no more. */
static int without_keys(int until)
{
    pthread_key_t keys[PTHREAD_KEYS_MAX];
    int taken = 0;
    while (taken < PTHREAD_KEYS_MAX && pthread_key_create(&keys[taken], NULL) == 0)
        taken++;
    begin_and_end(until);
    while (taken > 0)
        pthread_key_delete(keys[--taken]);
    begin_and_end(MANY_THREADS - until);
    long kib = resident_kib();
    if (kib > MOST_KIB)
        fprintf(stderr, "%ld KiB resident after %d threads\n", kib, MANY_THREADS);
    return kib > MOST_KIB;
}

static struct child child;

static void assert_memory_stays(const char *until)
{
    char *argv[] = {(char *)child_self(), "--without-keys", (char *)until, NULL};
    child.argv = argv;
    assert_true(child_run(&child));
    if (!child_exited(&child, 0))
        fail_msg("%s", child_describe(&child));
}

static void threads_without_keys_leave_no_memory(void **state)
{
    (void)state;
    assert_memory_stays("1500");
}

static void threads_leave_none_once_there_are_keys(void **state)
{
    (void)state;
    assert_memory_stays("20");
}

int main(int argc, char **argv)
{
    if (argc == 3)
        return without_keys(atoi(argv[2]));
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_key_that_was_never_created_is_nobodys),
        cmocka_unit_test(threads_without_keys_leave_no_memory),
        cmocka_unit_test(threads_leave_none_once_there_are_keys),
    };
    return RUN_TESTS(tests);
}
