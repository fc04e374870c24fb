/* Conformance, start and end: the stack of the thread of HAKMEM_BACKGROUND_THREAD in a program with
 * much thread-local data, which glibc puts on each thread's stack.
 *
 * Run with the library preloaded and with the option set.
 * SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <dlfcn.h>
#include <pthread.h>

#include "conformance/support/cmocka_all.h"
#include "conformance/support/sizes.h"

/* With the thread's own record so much fits 64 KiB, and leaves too little: looking at a control
 * group takes 6 KiB. */
enum { DATA_BYTES = 57 * 1024, LEAST_BYTES = 32 * 1024 };
static __thread volatile char data[DATA_BYTES];

typedef int create_fn(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

static size_t stack_bytes; /* of the last thread that was begun */

/* The one that the library calls. */
int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                   void *argument)
{
    create_fn *create = (create_fn *)dlsym(RTLD_NEXT, "pthread_create");
    int error = create(thread, attributes, run, argument);
    if (error == 0 && attributes != NULL)
        pthread_attr_getstacksize(attributes, &stack_bytes);
    return error;
}

static void the_background_thread_has_a_stack_beside_thread_local_data(void **state)
{
    (void)state;
    data[DATA_BYTES - 1] = 1; /* the compiler keeps it */
    CHECK(stack_bytes >= DATA_BYTES + LEAST_BYTES, "%zu bytes", stack_bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_background_thread_has_a_stack_beside_thread_local_data),
    };
    return RUN_TESTS(tests);
}
