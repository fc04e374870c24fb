/* Conformance: sizes above PTRDIFF_MAX and products that overflow give NULL and ENOMEM, in every
 * function; a failing realloc leaves the block as it was.
 *
 * Run with the library preloaded, or built against the prefixed one.
 * SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <errno.h>

#include "conformance/support/cmocka_all.h"
#include "conformance/support/pattern.h"
#include "conformance/support/sizes.h"
#include "support/api.h"

/* PTRDIFF_MAX itself and a little below are allowed by the rule and refused by every machine. */
static const size_t too_big[] = {
    SIZE_MAX,
    SIZE_MAX - 1,
    SIZE_MAX - 15,
    SIZE_MAX - 16,
    SIZE_MAX - 4094,
    SIZE_MAX - 4095,
    SIZE_MAX - 4096,
    SIZE_MAX - 65535,
    SIZE_MAX - 65536,
    SIZE_MAX - MIB(2),
    SIZE_MAX - MIB(4),
    SIZE_MAX / 2 + 1,
    SIZE_MAX / 2 + 2,
    SIZE_MAX / 2 + 65536,
    (size_t)PTRDIFF_MAX,
    (size_t)PTRDIFF_MAX - 1,
    (size_t)PTRDIFF_MAX - 4096,
    (size_t)PTRDIFF_MAX - MIB(2),
    (size_t)1 << 62,
    (size_t)1 << 50,
};

#define CHECK_ENOMEM(call, n)                                                                      \
    do {                                                                                           \
        errno = 0;                                                                                 \
        void *result = (call);                                                                     \
        CHECK(result == NULL, "%s with %#zx gave %p", #call, n, result);                           \
        CHECK(errno == ENOMEM, "%s with %#zx: errno %d", #call, n, errno);                         \
    } while (0)

static void every_function_refuses_what_is_too_big(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(too_big); i++) {
        size_t n = too_big[i];
        CHECK_ENOMEM(my_malloc(n), n);
        CHECK_ENOMEM(my_calloc(1, n), n);
        CHECK_ENOMEM(my_calloc(n, 1), n);
        CHECK_ENOMEM(my_realloc(NULL, n), n);
        CHECK_ENOMEM(my_reallocarray(NULL, n, 1), n);
        CHECK_ENOMEM(my_reallocarray(NULL, 1, n), n);
        CHECK_ENOMEM(my_valloc(n), n);
        CHECK_ENOMEM(my_pvalloc(n), n);
        for (size_t align = 16; align <= GIB(1); align *= 4) {
            CHECK_ENOMEM(my_aligned_alloc(align, n), n);
            CHECK_ENOMEM(my_memalign(align, n), n);
            void *p = &p;
            CHECK(my_posix_memalign(&p, align, n) == ENOMEM, "align %zu size %#zx", align, n);
            assert_ptr_equal(p, &p);
        }
    }
}

static void products_that_overflow_are_refused(void **state)
{
    (void)state;
    static const size_t pairs[][2] = {
        {SIZE_MAX, 2},
        {2, SIZE_MAX},
        {SIZE_MAX, SIZE_MAX},
        {SIZE_MAX / 2 + 1, 2},   /* wraps to 0 */
        {SIZE_MAX / 16 + 1, 16}, /* wraps to 0 */
        {SIZE_MAX / 16 + 2, 16}, /* wraps to 16 */
        {(size_t)1 << 32, (size_t)1 << 32},
        {((size_t)1 << 32) + 1, (size_t)1 << 32},
        {SIZE_MAX / 3 + 1, 3},
        {3, SIZE_MAX / 3 + 1},
        {(size_t)PTRDIFF_MAX / 8 + 1, 8}, /* no overflow, but above PTRDIFF_MAX */
    };
    for (size_t i = 0; i < COUNT_OF(pairs); i++) {
        size_t a = pairs[i][0], b = pairs[i][1];
        CHECK_ENOMEM(my_calloc(a, b), a);
        CHECK_ENOMEM(my_reallocarray(NULL, a, b), a);
    }
}

static void huge_alignments_are_refused(void **state)
{
    (void)state;
    for (int shift = 48; shift < 64; shift++) {
        size_t align = (size_t)1 << shift;
        CHECK_ENOMEM(my_memalign(align, 16), align);
        CHECK_ENOMEM(my_aligned_alloc(align, 16), align);
        void *p = &p;
        CHECK(my_posix_memalign(&p, align, 16) == ENOMEM, "align %#zx", align);
        assert_ptr_equal(p, &p);
    }
    CHECK_ENOMEM(my_memalign((size_t)1 << 62, (size_t)PTRDIFF_MAX), (size_t)1 << 62);
    CHECK_ENOMEM(my_memalign((size_t)1 << 63, SIZE_MAX), (size_t)1 << 63);
}

static void a_failing_realloc_leaves_the_block_as_it_was(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(all_sizes); i++) {
        size_t size = all_sizes[i];
        void *p = my_malloc(size);
        assert_non_null(p);
        size_t usable = my_malloc_usable_size(p);
        pattern_fill(p, usable, i);
        for (size_t k = 0; k < COUNT_OF(too_big); k++) {
            CHECK_ENOMEM(my_realloc(p, too_big[k]), too_big[k]);
            CHECK_ENOMEM(my_reallocarray(p, too_big[k], 1), too_big[k]);
        }
        CHECK_ENOMEM(my_reallocarray(p, SIZE_MAX / 2 + 1, 2), size);
        CHECK_ENOMEM(my_reallocarray(p, (size_t)1 << 33, (size_t)1 << 33), size);
        void *other = my_malloc(size); /* would be the same place if p had been freed */
        assert_ptr_not_equal(other, p);
        pattern_fill(other, size, i + 1);
        CHECK(my_malloc_usable_size(p) == usable, "size %zu", size);
        CHECK(pattern_holds(p, usable, i), "size %zu", size);
        my_free(other);
        my_free(p);
    }
}

static void the_allocator_works_on_after_refusals(void **state)
{
    (void)state;
    for (size_t i = 0; i < 10000; i++) {
        errno = 0;
        assert_null(my_malloc(too_big[i % COUNT_OF(too_big)]));
        void *p = my_malloc(i);
        assert_non_null(p);
        my_free(p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_function_refuses_what_is_too_big),
        cmocka_unit_test(products_that_overflow_are_refused),
        cmocka_unit_test(huge_alignments_are_refused),
        cmocka_unit_test(a_failing_realloc_leaves_the_block_as_it_was),
        cmocka_unit_test(the_allocator_works_on_after_refusals),
    };
    return RUN_TESTS(tests);
}
