/* Conformance: a C program that loads a C++ library. The C++ runtime comes with it, and only it
 * sees the runtime: a failing operator new still calls the handler and throws.
 * SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <dlfcn.h>

#include "conformance/cxx_plugin.h"
#include "conformance/support/child.h"
#include "conformance/support/cmocka_all.h"

static plugin_fail_fn *plugin_fail;

static int load(void **state)
{
    (void)state;
    if (dlopen("libstdc++.so.6", RTLD_NOW | RTLD_NOLOAD) != NULL)
        return -1; /* then this would show nothing */
    void *plugin = dlopen(child_beside("libconformance_cxx_plugin.so"), RTLD_NOW | RTLD_LOCAL);
    if (plugin == NULL)
        return -1;
    *(void **)&plugin_fail = dlsym(plugin, "plugin_fail");
    return plugin_fail == NULL ? -1 : 0;
}

static void assert_all_end(enum plugin_handler handler, int expected_calls)
{
    for (enum plugin_way way = 0; way < PLUGIN_WAYS; way++) {
        int calls = -1;
        enum plugin_end end = plugin_fail(way, handler, &calls);
        assert_int_equal(end, way >= PLUGIN_NOTHROW ? PLUGIN_NULL : PLUGIN_BAD_ALLOC);
        assert_int_equal(calls, expected_calls);
    }
}

static void without_a_handler(void **state)
{
    (void)state;
    assert_all_end(PLUGIN_NO_HANDLER, 0);
}

static void with_a_handler_that_gives_up(void **state)
{
    (void)state;
    assert_all_end(PLUGIN_GIVES_UP, 1);
}

static void with_a_handler_that_throws(void **state)
{
    (void)state;
    assert_all_end(PLUGIN_THROWS, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_a_handler),
        cmocka_unit_test(with_a_handler_that_gives_up),
        cmocka_unit_test(with_a_handler_that_throws),
    };
    return cmocka_run_group_tests(tests, load, NULL);
}
