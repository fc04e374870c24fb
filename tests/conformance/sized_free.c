/* Conformance: free_sized, free_aligned_sized (C23) and cfree.
 *
 * glibc 2.36 has none of them to link against, so they are looked up.
 * Run with the library preloaded, or built against the prefixed one.
 * SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "conformance/support/cmocka_all.h"
#include "conformance/support/pattern.h"
#include "conformance/support/sizes.h"
#include "support/api.h"

/* The block that a freeing function gave back serves a later request: a no-op would not do. */
static void check_memory_returns(void (*free_one)(void *p, size_t size))
{
    static const size_t sizes[] = {64, 1000, KIB(30), KIB(300), MIB(3)};
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        size_t before = my_bytes_in_use();
        size_t rounds = MIB(256) / sizes[i] < 50000 ? MIB(256) / sizes[i] : 50000;
        for (size_t n = 0; n < rounds; n++) {
            void *p = my_malloc(sizes[i]);
            assert_non_null(p);
            free_one(p, sizes[i]);
        }
        size_t after = my_bytes_in_use();
        CHECK(after <= before || after - before < rounds * sizes[i] / 8, "%zu bytes lost, size %zu",
              after - before, sizes[i]);
    }
}

static void free_sized_one(void *p, size_t size)
{
    my_find_free_sized()(p, size);
}

static void free_sized_frees(void **state)
{
    (void)state;
    my_free_sized_fn *free_sized_found = my_find_free_sized();
    if (!free_sized_found && allocator_may_be_other())
        SKIP_BECAUSE("this allocator has no free_sized");
    assert_non_null(free_sized_found);
    free_sized_found(NULL, 0);
    free_sized_found(NULL, 100);
    for (size_t i = 0; i < COUNT_OF(all_sizes); i++) {
        size_t size = all_sizes[i];
        free_sized_found(my_malloc(size), size);
        free_sized_found(my_calloc(1, size), size);
        free_sized_found(my_realloc(my_malloc(10), size), size);
    }
    free_sized_found(my_malloc(0), 0);
    check_memory_returns(free_sized_one);
}

static void free_aligned_sized_one(void *p, size_t size)
{
    my_free(p);
    p = my_aligned_alloc(64, size);
    assert_non_null(p);
    my_find_free_aligned_sized()(p, 64, size);
}

static void free_aligned_sized_frees(void **state)
{
    (void)state;
    my_free_aligned_sized_fn *found = my_find_free_aligned_sized();
    if (!found && allocator_may_be_other())
        SKIP_BECAUSE("this allocator has no free_aligned_sized");
    assert_non_null(found);
    found(NULL, 64, 100);
    for (size_t align = 16; align <= MIB(4); align *= 4)
        for (size_t i = 0; i < COUNT_OF(all_sizes) && all_sizes[i] <= MIB(3); i++)
            found(my_aligned_alloc(align, all_sizes[i]), align, all_sizes[i]);
    check_memory_returns(free_aligned_sized_one);
}

static void cfree_one(void *p, size_t size)
{
    (void)size;
    my_find_cfree()(p);
}

static void cfree_is_free(void **state)
{
    (void)state;
    my_cfree_fn *found = my_find_cfree();
    if (!found && allocator_may_be_other())
        SKIP_BECAUSE("this allocator has no cfree");
    assert_non_null(found);
    found(NULL);
    for (size_t i = 0; i < COUNT_OF(all_sizes); i++)
        found(my_calloc(1, all_sizes[i]));
    check_memory_returns(cfree_one);
}

#if !defined(HAK_TEST_PREFIXED) && defined(__x86_64__) && defined(__GLIBC__)
#define HAS_OLD_CFREE
/* What an old program's object files refer to. */
__asm__(".symver old_cfree, cfree@GLIBC_2.2.5");
extern void old_cfree(void *p);

static void old_programs_find_the_same_cfree(void **state)
{
    (void)state;
    Dl_info of_cfree, of_malloc;
    assert_int_not_equal(dladdr(my_opaque((void *)old_cfree), &of_cfree), 0);
    assert_int_not_equal(dladdr(dlsym(RTLD_DEFAULT, "malloc"), &of_malloc), 0);
    CHECK(of_cfree.dli_fbase == of_malloc.dli_fbase, "cfree is from %s", of_cfree.dli_fname);
    old_cfree(my_malloc(100));
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(free_sized_frees),
        cmocka_unit_test(free_aligned_sized_frees),
        cmocka_unit_test(cfree_is_free),
#ifdef HAS_OLD_CFREE
        cmocka_unit_test(old_programs_find_the_same_cfree),
#endif
    };
    return RUN_TESTS(tests);
}
