/* Conformance, start and end: a library that depends on libc only, so the loader constructs it
 * before a preloaded allocator and destroys it after that one.
 *
 * Linked by early_late.c.
 * SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "conformance/startend/late.h"

#include <pthread.h>

#include "conformance/startend/busy.h"

static void *kept[COUNT_OF(all_sizes)];

__attribute__((constructor)) static void late_constructor(void)
{
    for (size_t i = 0; i < COUNT_OF(all_sizes); i++) {
        kept[i] = my_malloc(all_sizes[i]);
        busy_require(kept[i] != NULL, "malloc in a library's constructor");
        pattern_fill(kept[i], all_sizes[i], i);
    }
}

static void *late_thread(void *unused)
{
    (void)unused;
    busy_require(busy_churn(20000, 5), "work in a thread after the last destructor");
    return NULL;
}

__attribute__((destructor)) static void late_destructor(void)
{
    pthread_t thread;
    busy_require(busy_sizes(MIB(3)) && busy_churn(20000, 6), "work after the last destructor");
    for (size_t i = 0; i < COUNT_OF(all_sizes); i++) {
        busy_require(pattern_holds(kept[i], all_sizes[i], i), "a block of the first constructor");
        my_free(kept[i]);
    }
    busy_require(pthread_create(&thread, NULL, late_thread, NULL) == 0 &&
                     pthread_join(thread, NULL) == 0,
                 "a thread after the last destructor");
    busy_say("library destructor\n");
}

bool late_was_constructed(void)
{
    return kept[COUNT_OF(all_sizes) - 1] != NULL;
}
