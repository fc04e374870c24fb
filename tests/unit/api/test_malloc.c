/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Unit tests of api: the malloc family's arguments, and frees of what is not ours. */
#include "../unit.h"

#include "fake_os.h"
#include "hakmem.h"

#include <errno.h>

static void a_product_that_overflows_is_refused(void **state)
{
    (void)state;
    char *p = hakmem_malloc(10);
    errno = 0;
    assert_null(hakmem_calloc(SIZE_MAX / 2, 3));
    assert_int_equal(errno, ENOMEM);
    errno = 0;
    assert_null(hakmem_reallocarray(p, SIZE_MAX / 2, 3));
    assert_int_equal(errno, ENOMEM);
    errno = 0;
    assert_null(hakmem_pvalloc(SIZE_MAX));
    assert_int_equal(errno, ENOMEM);
    hakmem_free(p);
    char *q = hakmem_reallocarray(NULL, 7, 9);
    assert_true(hakmem_malloc_usable_size(q) >= 63);
    hakmem_free(q);
}

static void alignments_are_checked_as_posix_says(void **state)
{
    (void)state;
    void *p = (void *)0x1234;
    static const size_t bad[] = {0, 1, 4, 7, 24, 4095, SIZE_MAX};
    for (size_t i = 0; i < UNIT_COUNT(bad); i++) {
        errno = 1234;
        CHECK(hakmem_posix_memalign(&p, bad[i], 10) == EINVAL, "%zu", bad[i]);
        assert_ptr_equal(p, (void *)0x1234);
        assert_int_equal(errno, 1234);
    }
    for (size_t align = 8; align <= (size_t)1 << 24; align *= 2) {
        errno = 1234;
        assert_int_equal(hakmem_posix_memalign(&p, align, 100), 0);
        assert_int_equal(errno, 1234);
        assert_int_equal((uintptr_t)p % align, 0);
        hakmem_free(p);
    }
    p = (void *)0x1234;
    errno = 1234;
    assert_int_equal(hakmem_posix_memalign(&p, 64, SIZE_MAX / 2), ENOMEM);
    assert_ptr_equal(p, (void *)0x1234);
    assert_int_equal(errno, ENOMEM); /* as with glibc */
}

static void memalign_rounds_other_alignments_up(void **state)
{
    (void)state;
    char *p = hakmem_memalign(3000, 10);
    assert_int_equal((uintptr_t)p % 4096, 0);
    hakmem_free(p);
    errno = 0;
    assert_null(hakmem_memalign(SIZE_MAX, 10));
    assert_int_equal(errno, EINVAL);
    p = hakmem_pvalloc(5000);
    assert_int_equal((uintptr_t)p % 4096, 0);
    assert_true(hakmem_malloc_usable_size(p) >= 8192);
    hakmem_free(p);
}

static void realloc_of_null_allocates_and_to_0_frees(void **state)
{
    (void)state;
    uint64_t before, after;
    char *p = hakmem_realloc(NULL, 100);
    assert_non_null(p);
    assert_int_equal(hakmem_ctl("live.blocks", &before, NULL), 0);
    assert_null(hakmem_realloc(p, 0));
    hakmem_malloc_trim(0);
    assert_int_equal(hakmem_ctl("live.blocks", &after, NULL), 0);
    assert_int_equal(after, before - 1);
}

static void null_is_freed_without_a_word(void **state)
{
    (void)state;
    hakmem_free(NULL);
    hakmem_cfree(NULL);
    hakmem_free_sized(NULL, 0);
    hakmem_free_aligned_sized(NULL, 16, 0);
    assert_int_equal(hakmem_malloc_usable_size(NULL), 0);
}

/* Whatever lies in the bins: of 16 sizes malloc's blocks are there as well, mostly not aligned. */
static void an_aligned_block_is_aligned_and_malloc_gets_it_next(void **state)
{
    (void)state;
    for (size_t align = 32; align <= 8192; align *= 2) {
        for (size_t size = 0; size <= 3000; size += 61) {
            void *plain[3];
            for (int i = 0; i < 3; i++)
                plain[i] = hakmem_malloc(size + 16 * (size_t)i);
            for (int i = 0; i < 3; i++)
                hakmem_free(plain[i]);
            char *p = hakmem_aligned_alloc(align, size);
            CHECK((uintptr_t)p % align == 0, "%zu aligned to %zu: %p", size, align, (void *)p);
            CHECK(hakmem_malloc_usable_size(p) >= size, "%zu aligned to %zu", size, align);
            hakmem_free(p);
        }
    }
    void *once = hakmem_aligned_alloc(64, 320);
    hakmem_free(once);
    void *again = hakmem_malloc(320);
    assert_ptr_equal(again, once);
    hakmem_free(again);
    again = hakmem_aligned_alloc(64, 320);
    assert_ptr_equal(again, once);
    hakmem_free(again);
}

static void sized_frees_free(void **state)
{
    (void)state;
    uint64_t before, after;
    hakmem_free(hakmem_malloc(1));
    hakmem_ctl("live.blocks", &before, NULL);
    for (int i = 0; i < 1000; i++) {
        hakmem_free_sized(hakmem_malloc(777), 777);
        hakmem_free_aligned_sized(hakmem_aligned_alloc(256, 512), 256, 512);
        hakmem_cfree(hakmem_valloc(5));
    }
    hakmem_malloc_trim(0);
    hakmem_ctl("live.blocks", &after, NULL);
    assert_int_equal(after, before);
}

/* --- misuse --- */

static void call_free(void *p)
{
    hakmem_free(p);
}

static void call_realloc(void *p)
{
    hakmem_realloc(p, 50);
}

static void assert_dies(void (*call)(void *), void *p, const char *words)
{
    char address[32];
    snprintf(address, sizeof address, " of %p", p);
    const char *said = fake_os_last_words(call, p);
    CHECK(said != NULL && strstr(said, words) != NULL, "%s instead of %s", said, words);
    CHECK(strstr(said, address) != NULL, "%s lacks %s", said, address);
}

static void what_is_no_block_cannot_be_freed_or_resized(void **state)
{
    (void)state;
    int local;
    char *large = hakmem_malloc(300000);
    char *huge = hakmem_malloc(3000000);
    assert_dies(call_free, &local, "invalid free");
    assert_dies(call_free, &local, "not from this allocator");
    assert_dies(call_realloc, &local, "invalid realloc");
    assert_dies(call_free, large + 16, "into a large block");
    assert_dies(call_realloc, huge + 4096, "into a large block");
    assert_dies(call_free, large + 65536, "invalid free");
    hakmem_free(large);
    hakmem_free(huge);
    assert_dies(call_free, large, "freed before");
    assert_dies(call_free, huge, "freed before");
    assert_dies(call_realloc, large, "freed before");
}

static void a_pointer_into_a_small_block_cannot_be_resized(void **state)
{
    (void)state;
    assert_dies(call_realloc, (char *)hakmem_malloc(500) + 16, "points into a block");
}

static void the_version_is_that_of_the_header(void **state)
{
    (void)state;
    char version[32];
    snprintf(version, sizeof version, "%d.%d.%d", HAKMEM_VERSION_MAJOR, HAKMEM_VERSION_MINOR,
             HAKMEM_VERSION_PATCH);
    assert_string_equal(hakmem_version(), version);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_product_that_overflows_is_refused),
    cmocka_unit_test(alignments_are_checked_as_posix_says),
    cmocka_unit_test(memalign_rounds_other_alignments_up),
    cmocka_unit_test(realloc_of_null_allocates_and_to_0_frees),
    cmocka_unit_test(null_is_freed_without_a_word),
    cmocka_unit_test(an_aligned_block_is_aligned_and_malloc_gets_it_next),
    cmocka_unit_test(sized_frees_free),
    cmocka_unit_test(what_is_no_block_cannot_be_freed_or_resized),
    cmocka_unit_test(a_pointer_into_a_small_block_cannot_be_resized),
    cmocka_unit_test(the_version_is_that_of_the_header),
};
UNIT_MAIN(tests)
