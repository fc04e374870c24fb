/* Conformance, start and end: a library that allocates is loaded and unloaded again and again;
 * blocks outlive the library that took them, and are freed by one that did not.
 *
 * Run with the library preloaded. The plugin lies beside this program.
 * SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <pthread.h>

#include "conformance/startend/busy.h"
#include "conformance/support/child.h"
#include "conformance/support/cmocka_all.h"

typedef void *take_fn(size_t size);
typedef void give_fn(void *p);

static const char *plugin_path;

static void *load(void)
{
    void *handle = dlopen(plugin_path, RTLD_NOW | RTLD_LOCAL);
    CHECK(handle, "%s", dlerror());
    return handle;
}

static void blocks_outlive_the_library(void **state)
{
    (void)state;
    for (int round = 0; round < 300; round++) {
        void *blocks[COUNT_OF(range_sizes)];
        void *handle = load();
        take_fn *take = (take_fn *)dlsym(handle, "plugin_take");
        assert_non_null(take);
        for (size_t i = 0; i < COUNT_OF(range_sizes); i++) {
            blocks[i] = take(range_sizes[i]);
            assert_non_null(blocks[i]);
        }
        assert_int_equal(dlclose(handle), 0);
        handle = load();
        give_fn *give = (give_fn *)dlsym(handle, "plugin_give");
        assert_non_null(give);
        for (size_t i = 0; i < COUNT_OF(range_sizes); i++) {
            CHECK(pattern_holds(blocks[i], range_sizes[i], 1), "size %zu", range_sizes[i]);
            i % 2 ? my_free(blocks[i]) : give(blocks[i]);
        }
        assert_int_equal(dlclose(handle), 0);
    }
}

static void *load_and_unload(void *unused)
{
    (void)unused;
    for (int i = 0; i < 100; i++) {
        void *handle = load();
        take_fn *take = (take_fn *)dlsym(handle, "plugin_take");
        void *p = take(3000);
        dlclose(handle);
        my_free(p);
    }
    return NULL;
}

static void in_several_threads_while_others_allocate(void **state)
{
    (void)state;
    pthread_t threads[4];
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, load_and_unload, NULL), 0);
    assert_true(busy_churn(300000, 2));
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
}

#ifdef LM_ID_NEWLM /* not in other libcs than glibc */
static void a_library_in_its_own_namespace(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        void *handle = dlmopen(LM_ID_NEWLM, "libm.so.6", RTLD_NOW); /* brings a second libc */
        CHECK(handle, "%s", dlerror());
        assert_true(busy_sizes(KIB(64)));
        assert_int_equal(dlclose(handle), 0);
    }
}
#endif

int main(void)
{
    plugin_path = child_beside("libstartend_plugin.so");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_outlive_the_library),
        cmocka_unit_test(in_several_threads_while_others_allocate),
#ifdef LM_ID_NEWLM
        cmocka_unit_test(a_library_in_its_own_namespace),
#endif
    };
    return RUN_TESTS(tests);
}
