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

typedef int posix_memalign_fn(void **out, size_t align, size_t size);

/* glibc 2.36 has dropped this one; programs linked with an older one still ask for it. */
static posix_memalign_fn *find_posix_memalign_alias(void)
{
    union {
        void *object;
        posix_memalign_fn *function;
    } u = {.object = dlsym(RTLD_DEFAULT, "__posix_memalign")};
    return u.function;
}

static void *take(unsigned how, size_t size)
{
    void *p = NULL;
    switch (how % 10) {
    case 0:
        return __libc_malloc(size);
    case 1:
        return __libc_calloc(1, size);
    case 2:
        return __libc_realloc(NULL, size);
    case 3:
        return __libc_memalign(64, size);
    case 4:
        return __libc_valloc(size);
    case 5:
        return __libc_pvalloc(size);
    case 6:
        return malloc(size);
    case 7:
        return aligned_alloc(256, size);
    case 8:
        return realloc(NULL, size);
    default:
        return find_posix_memalign_alias() && find_posix_memalign_alias()(&p, 64, size) ? NULL
               : p                                                                      ? p
                   : malloc(size);
    }
}

static void give(unsigned how, void *p)
{
    if (how % 2)
        free(p);
    else
        __libc_free(p);
}

static void any_name_frees_what_any_other_gave(void **state)
{
    (void)state;
    for (unsigned from = 0; from < 10; from++) {
        for (unsigned to = 0; to < 2; to++) {
            for (size_t i = 0; i < COUNT_OF(all_sizes); i++) {
                size_t size = all_sizes[i];
                void *p = take(from, size);
                CHECK(p && (uintptr_t)p % 16 == 0, "way %u size %zu", from, size);
                CHECK(malloc_usable_size(p) >= size, "way %u size %zu", from, size);
                pattern_fill(p, size, i);
                p = to ? realloc(p, size + 9) : __libc_realloc(p, size + 9);
                CHECK(p && pattern_holds(p, size, i), "way %u size %zu", from, size);
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
        blocks[i].p = take((unsigned)(r >> 50), size);
        blocks[i].size = size;
        assert_non_null(blocks[i].p);
        pattern_fill(blocks[i].p, size, i);
    }
    for (size_t i = 0; i < COUNT; i++)
        give((unsigned)i, blocks[i].p);
}

static void the_rules_hold_for_the_aliases(void **state)
{
    (void)state;
    static const size_t too_big[] = {SIZE_MAX, SIZE_MAX - 4095, (size_t)PTRDIFF_MAX + 1};
    for (size_t i = 0; i < COUNT_OF(too_big); i++) {
        size_t n = too_big[i];
        void *all[] = {__libc_malloc(n), __libc_calloc(1, n),    __libc_realloc(NULL, n),
                       __libc_valloc(n), __libc_memalign(64, n), __libc_pvalloc(n)};
        for (size_t k = 0; k < COUNT_OF(all); k++)
            CHECK(all[k] == NULL, "way %zu size %#zx", k, n);
        errno = 0;
        assert_null(__libc_malloc(n));
        assert_int_equal(errno, ENOMEM);
    }
    assert_null(__libc_calloc(SIZE_MAX / 2 + 1, 2));
    assert_null(__libc_realloc(__libc_malloc(100), 0));
    __libc_free(NULL);
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    void *v = __libc_valloc(10), *p = __libc_pvalloc(10), *m = __libc_memalign(MIB(1), 10);
    assert_true((uintptr_t)v % page == 0 && (uintptr_t)p % page == 0 && (uintptr_t)m % MIB(1) == 0);
    assert_true(malloc_usable_size(p) >= page);
    free(v);
    free(p);
    free(m);
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
        cmocka_unit_test(the_rules_hold_for_the_aliases),
        cmocka_unit_test(posix_memalign_has_its_alias),
        cmocka_unit_test(mallopt_and_mallinfo_have_their_aliases),
        cmocka_unit_test(all_aliases_come_from_one_library),
    };
    return RUN_TESTS(tests);
}
