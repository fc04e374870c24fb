/* Conformance, start and end: a library that allocates when it is loaded, used and unloaded.
 *
 * Loaded by loading.c.
 * SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "conformance/startend/busy.h"

void *plugin_take(size_t size);
void plugin_give(void *p);
void *plugin_resize(void *p, size_t size);

static void *at_load;
static __thread char thread_data[200];

__attribute__((constructor)) static void plugin_constructor(void)
{
    at_load = my_malloc(5000);
    busy_require(at_load && busy_churn(500, 1), "work when a library is loaded");
    pattern_fill(at_load, 5000, 2);
}

__attribute__((destructor)) static void plugin_destructor(void)
{
    busy_require(pattern_holds(at_load, 5000, 2) && busy_churn(500, 1),
                 "work when a library is unloaded");
    my_free(at_load);
}

void *plugin_take(size_t size)
{
    void *p = my_malloc(size);
    thread_data[size % sizeof thread_data]++; /* the loader allocates this thread's copy */
    if (p)
        pattern_fill(p, size, 1);
    return p;
}

void plugin_give(void *p)
{
    my_free(p);
}

void *plugin_resize(void *p, size_t size)
{
    return my_realloc(p, size);
}
