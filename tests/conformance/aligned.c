/* Conformance: aligned_alloc, memalign, posix_memalign, valloc, pvalloc.
 *
 * Run with the library preloaded, or built against the prefixed one.
 * SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <errno.h>
#include <unistd.h>

#include "conformance/support/cmocka_all.h"
#include "conformance/support/pattern.h"
#include "conformance/support/sizes.h"
#include "support/api.h"

static bool is_aligned(const void *p, size_t align)
{
    return ((uintptr_t)p & (align - 1)) == 0;
}

static void *posix_style(size_t align, size_t size)
{
    void *p = NULL;
    int error = my_posix_memalign(&p, align, size);
    return error ? NULL : p;
}

typedef void *aligned_fn(size_t align, size_t size);

static aligned_fn *const aligned_functions[] = {my_aligned_alloc, my_memalign, posix_style};

/* Two blocks live at once, every byte written, then an ordinary free. */
static void check_aligned(aligned_fn *allocate, size_t align, size_t size)
{
    void *two[2];
    for (size_t i = 0; i < 2; i++) {
        two[i] = allocate(align, size);
        CHECK(two[i] && is_aligned(two[i], align), "align %zu size %zu gave %p", align, size,
              two[i]);
        CHECK(my_malloc_usable_size(two[i]) >= size, "align %zu size %zu", align, size);
        pattern_fill(two[i], my_malloc_usable_size(two[i]), align + size + i);
    }
    for (size_t i = 0; i < 2; i++) {
        size_t usable = my_malloc_usable_size(two[i]);
        CHECK(pattern_holds(two[i], usable, align + size + i), "align %zu size %zu", align, size);
        my_free(two[i]);
    }
}

static void small_alignments_with_all_sizes(void **state)
{
    (void)state;
    for (size_t align = 8; align <= KIB(64); align *= 2)
        for (size_t i = 0; i < COUNT_OF(all_sizes) && all_sizes[i] <= KIB(32); i++)
            for (size_t f = 0; f < COUNT_OF(aligned_functions); f++)
                check_aligned(aligned_functions[f], align, all_sizes[i]);
    for (size_t align = 8, f = 0; align <= KIB(64); align *= 2, f = (f + 1) % 3)
        for (size_t i = 0; i < COUNT_OF(all_sizes); i++)
            if (all_sizes[i] > KIB(32) && all_sizes[i] <= MIB(2))
                check_aligned(aligned_functions[f], align, all_sizes[i]);
}

static void alignments_up_to_1_gib(void **state)
{
    (void)state;
    static const size_t sizes[] = {1, 16, 100, 4096, KIB(64), 100000, MIB(1), MIB(3)};
    for (size_t align = KIB(128), f = 0; align <= GIB(1); align *= 2, f = (f + 1) % 3)
        for (size_t i = 0; i < COUNT_OF(sizes); i++)
            check_aligned(aligned_functions[f], align, sizes[i]);
}

static void size_0_is_aligned_unique_and_freeable(void **state)
{
    (void)state;
    for (size_t f = 0; f < COUNT_OF(aligned_functions); f++) {
        for (size_t align = 16; align <= MIB(4); align *= 4) {
            void *a = aligned_functions[f](align, 0);
            void *b = aligned_functions[f](align, 0);
            assert_true(a && b && a != b && is_aligned(a, align) && is_aligned(b, align));
            my_free(a);
            my_free(b);
        }
    }
}

static void aligned_blocks_can_be_reallocated(void **state)
{
    (void)state;
    for (size_t align = 32; align <= MIB(4); align *= 2) {
        static const size_t to[] = {1, 100, 5000, 70000, MIB(1), MIB(5)};
        for (size_t i = 0; i < COUNT_OF(to); i++) {
            void *p = my_memalign(align, 300);
            assert_non_null(p);
            pattern_fill(p, 300, align);
            p = my_realloc(p, to[i]);
            assert_non_null(p);
            CHECK(pattern_holds(p, to[i] < 300 ? to[i] : 300, align), "align %zu to %zu", align,
                  to[i]);
            my_free(p);
        }
    }
}

static void posix_memalign_checks_its_alignment_and_leaves_its_result_alone(void **state)
{
    (void)state;
    static const size_t bad[] = {0, 1,  2,  3,  4,   5,    6,        7,
                                 9, 12, 24, 40, 100, 4097, SIZE_MAX, SIZE_MAX - 7};
    int mark;
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        void *p = &mark;
        errno = 12345;
        CHECK(my_posix_memalign(&p, bad[i], 64) == EINVAL, "alignment %zu", bad[i]);
        assert_ptr_equal(p, &mark);
        assert_int_equal(errno, 12345); /* the error is the result; errno is not set */
    }
    static const size_t too_big[] = {SIZE_MAX, SIZE_MAX - 4096, (size_t)PTRDIFF_MAX + 1,
                                     PTRDIFF_MAX};
    for (size_t i = 0; i < COUNT_OF(too_big); i++) {
        void *p = &mark;
        CHECK(my_posix_memalign(&p, 64, too_big[i]) == ENOMEM, "size %zu", too_big[i]);
        assert_ptr_equal(p, &mark);
    }
    void *p = &mark;
    assert_int_equal(my_posix_memalign(&p, (size_t)1 << 63, 64), ENOMEM);
    assert_ptr_equal(p, &mark);
    assert_int_equal(my_posix_memalign(&p, sizeof(void *), 64), 0);
    assert_ptr_not_equal(p, &mark);
    my_free(p);
}

/* As glibc 2.36: what is no power of two is rounded up to the next one, 0 is the least alignment.
 */
static void memalign_and_aligned_alloc_round_odd_alignments_up(void **state)
{
    (void)state;
    static const size_t odd[][2] = {{0, 16},
                                    {1, 16},
                                    {3, 16},
                                    {17, 32},
                                    {24, 32},
                                    {100, 128},
                                    {129, 256},
                                    {1000, 1024},
                                    {4097, KIB(8)},
                                    {5000, KIB(8)},
                                    {KIB(48), KIB(64)},
                                    {100000, KIB(128)},
                                    {MIB(3), MIB(4)}};
    for (size_t i = 0; i < COUNT_OF(odd); i++) {
        for (size_t f = 0; f < 2; f++) {
            void *p[8];
            for (size_t k = 0; k < COUNT_OF(p); k++) {
                p[k] = aligned_functions[f](odd[i][0], 40);
                CHECK(p[k] && is_aligned(p[k], odd[i][1]), "alignment %zu gave %p", odd[i][0],
                      p[k]);
            }
            for (size_t k = 0; k < COUNT_OF(p); k++)
                my_free(p[k]);
        }
    }
    for (size_t f = 0; f < 2; f++) { /* no power of two is left above this one */
        errno = 0;
        assert_null(aligned_functions[f](SIZE_MAX / 2 + 2, 16));
        assert_int_equal(errno, EINVAL);
    }
}

static void aligned_alloc_takes_sizes_that_are_no_multiple(void **state)
{
    (void)state;
    for (size_t size = 1; size < 600; size += 7)
        check_aligned(my_aligned_alloc, 256, size);
}

static void valloc_and_pvalloc_are_page_aligned(void **state)
{
    (void)state;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    for (size_t i = 0; i < COUNT_OF(all_sizes); i++) {
        void *v = my_valloc(all_sizes[i]);
        void *p = my_pvalloc(all_sizes[i]);
        assert_true(v && p && is_aligned(v, page) && is_aligned(p, page));
        assert_true(my_malloc_usable_size(v) >= all_sizes[i]);
        size_t whole = (all_sizes[i] + page - 1) / page * page;
        CHECK(my_malloc_usable_size(p) >= whole, "pvalloc(%zu) is not whole pages", all_sizes[i]);
        pattern_fill(p, whole, 1);
        pattern_fill(v, all_sizes[i], 2);
        assert_true(pattern_holds(p, whole, 1));
        my_free(v);
        my_free(p);
    }
    void *v = my_valloc(0), *p = my_pvalloc(0);
    assert_true(v && p && v != p && is_aligned(v, page) && is_aligned(p, page));
    my_free(v);
    my_free(p);
}

/* Thousands live at once: what aligns them must not waste a slab for each. */
static void many_aligned_blocks_live_at_once(void **state)
{
    (void)state;
    enum { COUNT = 4000 };
    static void *blocks[COUNT];
    uint64_t random = 5;
    for (size_t i = 0; i < COUNT; i++) {
        size_t align = (size_t)16 << (random_next(&random) % 9);
        blocks[i] = my_aligned_alloc(align, 100);
        assert_true(blocks[i] && is_aligned(blocks[i], align));
        pattern_fill(blocks[i], 100, i);
    }
    for (size_t i = 0; i < COUNT; i++) {
        assert_true(pattern_holds(blocks[i], 100, i));
        my_free(blocks[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_alignments_with_all_sizes),
        cmocka_unit_test(alignments_up_to_1_gib),
        cmocka_unit_test(size_0_is_aligned_unique_and_freeable),
        cmocka_unit_test(aligned_blocks_can_be_reallocated),
        cmocka_unit_test(posix_memalign_checks_its_alignment_and_leaves_its_result_alone),
        cmocka_unit_test(memalign_and_aligned_alloc_round_odd_alignments_up),
        cmocka_unit_test(aligned_alloc_takes_sizes_that_are_no_multiple),
        cmocka_unit_test(valloc_and_pvalloc_are_page_aligned),
        cmocka_unit_test(many_aligned_blocks_live_at_once),
    };
    return RUN_TESTS(tests);
}
