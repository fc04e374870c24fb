/* Conformance: the __libc_ aliases are the same allocator. Blocks taken by one name are freed by
 * another, content and rules are as for the plain names.
 *
 * Run with the library preloaded or linked; the prefixed library has no such names.
 * SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <unistd.h>

#include "conformance/support/cmocka_all.h"
#include "conformance/support/pattern.h"
#include "conformance/support/sizes.h"

extern void *__libc_malloc(size_t size);
extern void __libc_free(void *p);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *p, size_t size);
extern void *__libc_memalign(size_t align, size_t size);
extern void *__libc_valloc(size_t size);
extern void *__libc_pvalloc(size_t size);
extern int __libc_mallopt(int parameter, int value);
extern struct mallinfo __libc_mallinfo(void);

/* glibc has these for itself, for old programs, or in some of its versions: they are looked up. */
typedef int posix_memalign_fn(void **out, size_t align, size_t size);
typedef void *reallocarray_fn(void *p, size_t count, size_t size);
typedef void free_fn(void *p);

static posix_memalign_fn *find_posix_memalign_alias(void)
{
    return (posix_memalign_fn *)dlsym(RTLD_DEFAULT, "__posix_memalign");
}

static reallocarray_fn *find_reallocarray_alias(void)
{
    return (reallocarray_fn *)dlsym(RTLD_DEFAULT, "__libc_reallocarray");
}

static free_fn *find_cfree_alias(void)
{
    return (free_fn *)dlsym(RTLD_DEFAULT, "__libc_cfree");
}

static void *by_calloc(size_t size)
{
    return __libc_calloc(1, size);
}

static void *by_realloc(size_t size)
{
    return __libc_realloc(NULL, size);
}

static void *by_memalign(size_t size)
{
    return __libc_memalign(64, size);
}

static void *by_reallocarray(size_t size)
{
    return find_reallocarray_alias() ? find_reallocarray_alias()(NULL, 1, size) : malloc(size);
}

static void *by_posix_memalign(size_t size)
{
    void *p = NULL;
    if (!find_posix_memalign_alias())
        return malloc(size);
    int error = find_posix_memalign_alias()(&p, 64, size);
    if (error)
        errno = error;
    return p;
}

static void *by_plain_aligned_alloc(size_t size)
{
    return aligned_alloc(256, size);
}

static void *by_plain_realloc(size_t size)
{
    return realloc(NULL, size);
}

/* Each way to take a block: the aliases, then plain names. */
static const struct {
    const char *name;
    void *(*take)(size_t size);
} ways[] = {
    {"__libc_malloc", __libc_malloc},
    {"__libc_calloc", by_calloc},
    {"__libc_realloc", by_realloc},
    {"__libc_memalign", by_memalign},
    {"__libc_valloc", __libc_valloc},
    {"__libc_pvalloc", __libc_pvalloc},
    {"__libc_reallocarray", by_reallocarray},
    {"__posix_memalign", by_posix_memalign},
    {"malloc", malloc},
    {"aligned_alloc", by_plain_aligned_alloc},
    {"realloc", by_plain_realloc},
};
enum { WAYS = COUNT_OF(ways), WAYS_TO_FREE = 3 };

static void give(unsigned how, void *p)
{
    if (how % WAYS_TO_FREE == 0)
        free(p);
    else if (how % WAYS_TO_FREE == 1 || !find_cfree_alias())
        __libc_free(p);
    else
        find_cfree_alias()(p);
}

static void any_name_frees_what_any_other_gave(void **state)
{
    (void)state;
    for (unsigned from = 0; from < WAYS; from++) {
        for (unsigned to = 0; to < WAYS_TO_FREE; to++) {
            for (size_t i = 0; i < COUNT_OF(all_sizes); i++) {
                size_t size = all_sizes[i];
                void *p = ways[from].take(size);
                CHECK(p && (uintptr_t)p % 16 == 0, "%s, size %zu", ways[from].name, size);
                CHECK(malloc_usable_size(p) >= size, "%s, size %zu", ways[from].name, size);
                pattern_fill(p, size, i);
                p = to ? realloc(p, size + 9) : __libc_realloc(p, size + 9);
                CHECK(p && pattern_holds(p, size, i), "%s, size %zu", ways[from].name, size);
                give(to, p);
            }
        }
    }
}

static void many_blocks_through_all_names(void **state)
{
    (void)state;
    enum { COUNT = 500 };
    static struct {
        void *p;
        size_t size;
    } blocks[COUNT];
    uint64_t random = 3;
    for (size_t step = 0; step < 200000; step++) {
        uint64_t r = random_next(&random);
        size_t i = r % COUNT, size = (r >> 16) % 3000;
        if (blocks[i].p) {
            CHECK(pattern_holds(blocks[i].p, blocks[i].size, i), "step %zu", step);
            give((unsigned)(r >> 40), blocks[i].p);
        }
        blocks[i].p = ways[(r >> 50) % WAYS].take(size);
        blocks[i].size = size;
        assert_non_null(blocks[i].p);
        pattern_fill(blocks[i].p, size, i);
    }
    for (size_t i = 0; i < COUNT; i++)
        give((unsigned)i, blocks[i].p);
}

static void too_much_is_null_and_enomem(void **state)
{
    (void)state;
    static const size_t too_big[] = {SIZE_MAX, SIZE_MAX - 4095, (size_t)PTRDIFF_MAX + 1};
    for (size_t i = 0; i < COUNT_OF(too_big); i++) {
        for (unsigned way = 0; way < WAYS; way++) {
            errno = 0;
            void *p = ways[way].take(too_big[i]);
            CHECK(p == NULL && errno == ENOMEM, "%s, size %#zx: %p, errno %d", ways[way].name,
                  too_big[i], p, errno);
        }
    }
    errno = 0;
    assert_null(__libc_calloc(SIZE_MAX / 2 + 1, 2));
    assert_int_equal(errno, ENOMEM);
}

static void size_0_is_a_block_of_its_own(void **state)
{
    (void)state;
    for (unsigned way = 0; way < WAYS; way++) {
        void *a = ways[way].take(0), *b = ways[way].take(0);
        CHECK(a && b && a != b, "%s: %p and %p", ways[way].name, a, b);
        give(way, a);
        give(way + 1, b);
    }
}

static void alignments_hold_for_the_aliases(void **state)
{
    (void)state;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    void *v = __libc_valloc(10), *p = __libc_pvalloc(10), *m = __libc_memalign(MIB(1), 10);
    assert_true((uintptr_t)v % page == 0 && (uintptr_t)p % page == 0 && (uintptr_t)m % MIB(1) == 0);
    assert_true(malloc_usable_size(p) >= page);
    free(v);
    free(p);
    free(m);
}

static void check_kept(void *p, size_t size, const char *after)
{
    CHECK(errno == ENOMEM, "%s, size %zu: errno %d", after, size, errno);
    CHECK(malloc_usable_size(p) >= size && pattern_holds(p, size, size), "%s, size %zu", after,
          size);
}

static void a_failing_realloc_keeps_its_block(void **state)
{
    (void)state;
    static const size_t too_big[] = {SIZE_MAX, (size_t)PTRDIFF_MAX + 1, SIZE_MAX / 4};
    reallocarray_fn *array = find_reallocarray_alias();
    for (size_t i = 0; i < COUNT_OF(all_sizes); i++) {
        size_t size = all_sizes[i];
        void *p = __libc_malloc(size);
        assert_non_null(p);
        pattern_fill(p, size, size);
        for (size_t k = 0; k < COUNT_OF(too_big); k++) {
            errno = 0;
            assert_null(__libc_realloc(p, too_big[k]));
            check_kept(p, size, "__libc_realloc");
            errno = 0;
            assert_null(array ? array(p, too_big[k] / 8 + 1, 8) : realloc(p, too_big[k]));
            check_kept(p, size, "__libc_reallocarray");
        }
        __libc_free(p);
    }
    assert_null(__libc_realloc(__libc_malloc(100), 0)); /* this one has not failed: it frees */
}

static void errno_is_kept_by_each_free(void **state)
{
    (void)state;
    enum { MARK = 4711 };
    for (unsigned way = 0; way < WAYS_TO_FREE; way++) {
        errno = MARK;
        give(way, NULL);
        assert_int_equal(errno, MARK);
        for (size_t i = 0; i < COUNT_OF(all_sizes); i++) {
            void *p = __libc_malloc(all_sizes[i]);
            errno = MARK;
            give(way, p);
            CHECK(errno == MARK, "way %u, size %zu: errno %d", way, all_sizes[i], errno);
            p = __libc_malloc(all_sizes[i]);
            errno = MARK;
            assert_null(__libc_realloc(p, 0));
            CHECK(errno == MARK, "__libc_realloc, size %zu: errno %d", all_sizes[i], errno);
        }
    }
}

static void cfree_has_its_alias(void **state)
{
    (void)state;
    free_fn *alias = find_cfree_alias();
    if (!alias && allocator_may_be_other())
        SKIP_BECAUSE("this allocator has no __libc_cfree");
    assert_non_null(alias);
    struct mallinfo2 before = mallinfo2();
    for (size_t i = 0; i < 100; i++) {
        void *p = calloc(1, MIB(1) + i);
        assert_non_null(p);
        alias(p);
    }
    struct mallinfo2 after = mallinfo2();
    assert_true(after.uordblks + after.hblkhd < before.uordblks + before.hblkhd + MIB(10));
}

static void reallocarray_has_its_alias(void **state)
{
    (void)state;
    reallocarray_fn *alias = find_reallocarray_alias();
    if (!alias && allocator_may_be_other())
        SKIP_BECAUSE("this allocator has no __libc_reallocarray");
    assert_non_null(alias);
    void *p = NULL;
    for (size_t count = 1; count < 3000; count += 1 + count / 3) {
        p = alias(p, count, 24);
        CHECK(p && malloc_usable_size(p) >= count * 24, "%zu elements", count);
        CHECK(pattern_holds(p, count / 2 * 24, 7), "%zu elements", count);
        pattern_fill(p, count * 24, 7);
    }
    __libc_free(p);
}

static void posix_memalign_has_its_alias(void **state)
{
    (void)state;
    posix_memalign_fn *alias = find_posix_memalign_alias();
    if (!alias && allocator_may_be_other())
        SKIP_BECAUSE("this allocator has no __posix_memalign");
    assert_non_null(alias);
    void *p = &p;
    assert_int_equal(alias(&p, 3, 10), EINVAL);
    assert_ptr_equal(p, &p);
    assert_int_equal(alias(&p, 4096, 10), 0);
    assert_int_equal((uintptr_t)p % 4096, 0);
    free(p);
}

static void mallopt_and_mallinfo_have_their_aliases(void **state)
{
    (void)state;
    assert_int_equal(__libc_mallopt(M_MXFAST, 64), 1);
    assert_int_equal(__libc_mallopt(M_MXFAST, 1 << 20), 0); /* beyond glibc's range */
    struct mallinfo before = __libc_mallinfo();
    void *p = malloc(MIB(40));
    struct mallinfo full = __libc_mallinfo();
    struct mallinfo2 wide = mallinfo2();
    free(p);
    struct mallinfo after = __libc_mallinfo();
    int begin = before.uordblks + before.hblkhd, most = full.uordblks + full.hblkhd;
    CHECK(most - begin >= (int)MIB(40), "%d to %d", begin, most);
    assert_int_equal(most, wide.uordblks + wide.hblkhd);
    CHECK(after.uordblks + after.hblkhd < begin + (int)MIB(1), "%d left", after.uordblks);
}

static void all_aliases_come_from_one_library(void **state)
{
    (void)state;
    static const char *const names[] = {
        "__libc_malloc", "__libc_free",    "__libc_calloc",  "__libc_realloc",  "__libc_memalign",
        "__libc_valloc", "__libc_pvalloc", "__libc_mallopt", "__libc_mallinfo",
    };
    Dl_info of_malloc, of_alias;
    assert_int_not_equal(dladdr(dlsym(RTLD_DEFAULT, "malloc"), &of_malloc), 0);
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        void *symbol = dlsym(RTLD_DEFAULT, names[i]);
        if (!symbol && allocator_may_be_other())
            continue;
        CHECK(symbol && dladdr(symbol, &of_alias), "%s", names[i]);
        CHECK(of_alias.dli_fbase == of_malloc.dli_fbase, "%s is from %s", names[i],
              of_alias.dli_fname);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_name_frees_what_any_other_gave),
        cmocka_unit_test(many_blocks_through_all_names),
        cmocka_unit_test(too_much_is_null_and_enomem),
        cmocka_unit_test(size_0_is_a_block_of_its_own),
        cmocka_unit_test(alignments_hold_for_the_aliases),
        cmocka_unit_test(a_failing_realloc_keeps_its_block),
        cmocka_unit_test(errno_is_kept_by_each_free),
        cmocka_unit_test(cfree_has_its_alias),
        cmocka_unit_test(reallocarray_has_its_alias),
        cmocka_unit_test(posix_memalign_has_its_alias),
        cmocka_unit_test(mallopt_and_mallinfo_have_their_aliases),
        cmocka_unit_test(all_aliases_come_from_one_library),
    };
    return RUN_TESTS(tests);
}
