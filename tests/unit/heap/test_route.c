/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Unit tests of heap: requests of every range reach a layer that serves them; blocks are found
 * again. */
#include "heap_support.h"

static const size_t sizes[] = {
    0,     1,      15,        16,     17,    100,     128,     129,     1000,
    1024,  1025,   4096,      4097,   10000, 32768,   40000,   65535,   65536,
    65537, 100000, 256 * KIB, 700000, MIB,   MIB + 1, 2 * MIB, 5 * MIB,
};

static void the_first_call_of_all_works(void **state)
{
    (void)state;
    assert_false(hak_heap_started());
    char *p = hak_heap_malloc(100);
    assert_non_null(p);
    assert_true(hak_heap_started());
    fill(p, 100, 1);
    release(p);
}

static uint64_t huge_pages_asked(void)
{
    struct hak_pool_stats stats;
    hak_pool_stats(&stats);
    return stats.huge_asked_total;
}

static void a_large_block_gets_huge_pages_unless_it_has_to_be_zero(void **state)
{
    (void)state;
    uint64_t before = huge_pages_asked();
    char *zeros = hak_heap_calloc(9 * MIB);
    assert_non_null(zeros);
    assert_int_equal(huge_pages_asked(), before);
    char *written = allocate(9 * MIB);
    assert_int_equal(huge_pages_asked(), before + 1);
    release(written);
    release(zeros);
}

static void a_thread_without_a_heap_gets_blocks_of_every_size_by_every_function(void **state)
{
    (void)state;
    struct hak_front *mine = hak_heap_self_slow() != NULL ? hak_self : NULL;
    hak_cache_set_metered(true);
    for (int metered = 1; metered >= 0; metered--) {
        for (size_t bytes = 0; bytes <= HAK_SMALL_MAX; bytes += bytes < 1100 ? 1 : 500) {
            hak_self = &hak_front_shared;
            char *p[] = {hak_heap_malloc(bytes), hak_heap_calloc(bytes),
                         hak_heap_aligned(16, bytes), hak_heap_aligned(256, bytes)};
            for (unsigned i = 0; i < 4; i++) {
                CHECK(p[i] != NULL, "%zu bytes, function %u", bytes, i);
                release(p[i]);
            }
        }
        hak_cache_set_metered(false);
    }
    hak_self = mine;
}

static void any_function_may_be_the_first(void **state)
{
    (void)state;
    for (int which = 0; which < 6; which++) {
        pid_t child = fork();
        if (child == 0) {
            int local;
            char *p = NULL;
            switch (which) {
            case 0:
                p = hak_heap_calloc(70);
                break;
            case 1:
                p = hak_heap_aligned(4096, 70);
                break;
            case 2:
                p = hak_heap_malloc(3 * MIB);
                break;
            case 3:
                MUST(!hak_heap_try_free(&local) && !hak_heap_free_slow(&local));
                break;
            case 4:
                MUST(hak_heap_usable_bytes(&local) == 0 && hak_heap_block_bytes(&local) == 0);
                break;
            case 5:
                hak_heap_trim();
                break;
            }
            if (p != NULL) {
                fill(p, 70, 1);
                release(p);
            }
            MUST(which > 2 || p != NULL);
            release(allocate(100));
            _exit(0);
        }
        int status;
        waitpid(child, &status, 0);
        CHECK(status == 0, "function %d", which);
    }
}

static void blocks_of_every_size_are_aligned_and_apart(void **state)
{
    (void)state;
    enum { EACH = 5 };
    static char *p[EACH * UNIT_COUNT(sizes)];
    for (size_t i = 0; i < UNIT_COUNT(p); i++) {
        size_t size = sizes[i % UNIT_COUNT(sizes)];
        p[i] = hak_heap_malloc(size);
        CHECK(p[i] != NULL && (uintptr_t)p[i] % 16 == 0, "%zu bytes: %p", size, (void *)p[i]);
        fill(p[i], size, (unsigned)i);
    }
    for (size_t i = 0; i < UNIT_COUNT(p); i++) {
        size_t size = sizes[i % UNIT_COUNT(sizes)];
        CHECK(is_filled(p[i], size, size, (unsigned)i), "%zu bytes", size);
        release(p[i]);
    }
}

static void every_size_up_to_70000_is_served(void **state)
{
    (void)state;
    for (size_t size = 0; size <= 70000; size += size < 5000 ? 1 : 37) {
        char *p = allocate(size);
        CHECK(hak_heap_usable_bytes(p) >= size, "size %zu: %zu usable", size,
              hak_heap_usable_bytes(p));
        MUST(hak_heap_block_bytes(p) == hak_heap_usable_bytes(p));
        p[0] = 1;
        p[size - (size > 0)] = 1;
        if (size % 3 != 0)
            release(p);
    }
}

static void all_usable_bytes_may_be_used(void **state)
{
    (void)state;
    static char *p[UNIT_COUNT(sizes)];
    for (int round = 0; round < 20; round++) {
        for (size_t i = 0; i < UNIT_COUNT(sizes); i++) {
            p[i] = allocate(sizes[i]);
            fill(p[i], hak_heap_usable_bytes(p[i]), (unsigned)i);
        }
        for (size_t i = 0; i < UNIT_COUNT(sizes); i++) {
            size_t bytes = hak_heap_usable_bytes(p[i]);
            CHECK(is_filled(p[i], bytes, bytes, (unsigned)i), "%zu bytes", sizes[i]);
            if (round % 2 == 0)
                release(p[i]);
        }
    }
}

static void calloc_gives_zeroes_on_used_memory_too(void **state)
{
    (void)state;
    for (int round = 0; round < 6; round++) {
        static char *p[UNIT_COUNT(sizes)];
        for (size_t i = 0; i < UNIT_COUNT(sizes); i++) {
            p[i] = hak_heap_calloc(sizes[i]);
            CHECK(p[i] != NULL && is_zero(p[i], sizes[i]), "%zu bytes, round %d", sizes[i], round);
            memset(p[i], 0xff, hak_heap_usable_bytes(p[i]));
        }
        for (size_t i = 0; i < UNIT_COUNT(sizes); i++)
            release(p[i]);
        if (round == 3)
            hak_heap_trim();
    }
}

/* The block of before was written here and there, and has begun somewhere else. */
static void calloc_of_a_long_block_keeps_out_of_memory_what_was_out_of_it(void **state)
{
    (void)state;
    unit_without_huge_pages();
    for (size_t bytes = MIB + 1000; bytes <= 40 * MIB; bytes = bytes * 2 + 12345) {
        static unsigned char resident[40 * MIB / HAK_PAGE_BYTES];
        for (size_t step = 8 * KIB; step <= bytes; step *= 4) {
            char *before = allocate(bytes);
            for (size_t i = 0; i < bytes; i += step)
                before[i] = 1;
            release(before);
            size_t asked = bytes - step % 999;
            char *p = hak_heap_calloc(asked);
            MUST(p != NULL);
            char *page = p + -(uintptr_t)p % HAK_PAGE_BYTES;
            size_t pages = (asked - (size_t)(page - p)) / HAK_PAGE_BYTES;
            assert_int_equal(mincore(page, pages * HAK_PAGE_BYTES, resident), 0);
            size_t in_memory = 0;
            for (size_t i = 0; i < pages; i++)
                in_memory += resident[i] & 1;
            bool huge = bytes >= 8 * MIB; /* what malloc gives has huge pages */
            CHECK(huge || step < 32 * 4 * KIB || in_memory <= bytes / step + 32,
                  "%zu bytes, a byte in %zu: %zu pages", bytes, step, in_memory);
            CHECK(is_zero(p, asked), "%zu bytes, a byte in %zu", bytes, step);
            memset(p, 1, asked);
            release(p);
            hak_heap_trim();
        }
    }
}

/* Small ones are zeroed in pieces that overlap: each length up to a few lines, beside live blocks.
 */
static void calloc_zeroes_what_was_asked_for_and_no_more(void **state)
{
    (void)state;
    for (size_t bytes = 0; bytes <= 300; bytes++) {
        char *p[3];
        for (unsigned i = 0; i < 3; i++) {
            p[i] = hak_heap_malloc(bytes);
            MUST(p[i] != NULL);
            memset(p[i], 0xff, hak_heap_usable_bytes(p[i]));
        }
        size_t usable = hak_heap_usable_bytes(p[1]);
        release(p[1]);
        char *zeroed = hak_heap_calloc(bytes);
        CHECK(zeroed == p[1], "%zu bytes: another block than was freed last", bytes);
        CHECK(is_zero(zeroed, bytes), "%zu bytes", bytes);
        size_t end = hak_round_up(bytes, 16);
        for (size_t i = end < 16 ? 16 : end; i < usable; i++)
            CHECK((unsigned char)zeroed[i] == 0xff, "%zu bytes: byte %zu was written", bytes, i);
        release(zeroed);
        for (unsigned i = 0; i < 3; i += 2) {
            for (size_t at = 0; at < usable; at++)
                CHECK((unsigned char)p[i][at] == 0xff, "%zu bytes: a neighbour", bytes);
            release(p[i]);
        }
    }
}

static void aligned_blocks_are_as_small_as_their_alignment_allows(void **state)
{
    (void)state;
    static const struct {
        size_t align, size, block;
    } cases[] = {
        {64, 2048, 2112},   {128, 2048, 2048},    {512, 4096, 4096},    {4096, 1, 4096},
        {4096, 4096, 4096}, {64, 4096, 4160},     {2048, 4097, 6144},   {8192, 8192, 8192},
        {64, 8192, 8448},   {4096, 12288, 12288}, {4096, 16384, 16384}, {4096, 20480, 24576},
        {64, 16384, 16640}, {64, 5056, 5120},     {128, 5056, 6144},    {16, 1024, 1040},
        {32, 1024, 1024},   {1024, 5, 1024},      {16, 65536, 66688},   {65536, 1, 65536},
    };
    for (unsigned i = 0; i < UNIT_COUNT(cases); i++) {
        char *p = hak_heap_aligned(cases[i].align, cases[i].size);
        size_t usable = hak_heap_usable_bytes(p);
        CHECK(usable == cases[i].block, "%zu bytes aligned to %zu: %zu", cases[i].size,
              cases[i].align, usable);
        release(p);
    }
}

static void aligned_blocks_are_aligned(void **state)
{
    (void)state;
    for (size_t align = 1; align <= 64 * MIB; align *= 2) {
        for (size_t i = 0; i < UNIT_COUNT(sizes); i++) {
            char *p = hak_heap_aligned(align, sizes[i]);
            CHECK(p != NULL && (uintptr_t)p % align == 0, "%zu bytes at a multiple of %zu: %p",
                  sizes[i], align, (void *)p);
            CHECK(hak_heap_usable_bytes(p) >= sizes[i], "%zu bytes at a multiple of %zu", sizes[i],
                  align);
            fill(p, sizes[i], 3);
            if (i % 4 != 0)
                release(p);
        }
    }
}

static void realloc_keeps_the_content(void **state)
{
    (void)state;
    for (size_t i = 0; i < UNIT_COUNT(sizes); i++) {
        for (size_t j = 1; j < UNIT_COUNT(sizes); j++) {
            char *p = allocate(sizes[i]);
            fill(p, sizes[i], (unsigned)(i + j));
            char *q = heap_realloc(p, sizes[j]);
            CHECK(q != NULL && hak_heap_usable_bytes(q) >= sizes[j], "from %zu to %zu", sizes[i],
                  sizes[j]);
            CHECK(is_filled(q, hak_min(sizes[i], sizes[j]), sizes[i], (unsigned)(i + j)),
                  "from %zu to %zu", sizes[i], sizes[j]);
            fill(q, sizes[j], 9);
            release(q);
        }
    }
}

static void a_block_that_grows_step_by_step_keeps_its_content(void **state)
{
    (void)state;
    unsigned char *p = NULL;
    size_t have = 0;
    for (size_t size = 8; size < 20 * MIB; size += size / 3 + 8) {
        p = p == NULL ? hak_heap_malloc(size) : heap_realloc(p, size);
        assert_non_null(p);
        for (; have < size; have += 997)
            p[have] = (unsigned char)(have / 997);
        for (size_t at = 0; at < size; at += 997)
            CHECK(p[at] == (unsigned char)(at / 997), "at %zu of %zu", at, size);
    }
    release(p);
}

/* Eight classes a doubling, of which it goes through every other one at most. */
static void a_block_that_grows_by_little_moves_seldom(void **state)
{
    (void)state;
    char *p = allocate(1024);
    unsigned moves = 0;
    for (size_t size = 1025; size <= 32 * 1024; size += 16) {
        char *q = heap_realloc(p, size);
        assert_non_null(q);
        assert_true(hak_heap_usable_bytes(q) <= size + size / 2);
        moves += q != p;
        p = q;
    }
    CHECK(moves <= 5 * 8 / 2, "%u moves", moves);
    release(p);
}

static void a_block_that_grows_by_much_gets_what_it_asks_for(void **state)
{
    (void)state;
    static const size_t grown[] = {1300, 1536, 2048, 3000, 4096, 6144, 10000, 20000, 40000};
    for (size_t i = 0; i < UNIT_COUNT(grown); i++) {
        char *other = allocate(grown[i]);
        char *p = heap_realloc(allocate(grown[i] * 2 / 3), grown[i]);
        assert_int_equal(hak_heap_usable_bytes(p), hak_heap_usable_bytes(other));
        release(p);
        release(other);
    }
}

static void what_may_keep_its_place_is_what_realloc_leaves_there(void **state)
{
    (void)state;
    for (size_t i = 0; i < UNIT_COUNT(sizes); i++) {
        for (size_t j = 1; j < UNIT_COUNT(sizes); j++) {
            char *p = allocate(sizes[i]);
            bool may_keep = hak_heap_may_keep(p, sizes[j]);
            CHECK(!may_keep || sizes[i] <= HAK_SMALL_MAX, "%zu is a large block", sizes[i]);
            CHECK(!may_keep || !hak_heap_may_keep(p + 1, sizes[j]), "inside of %zu", sizes[i]);
            CHECK(!may_keep || sizes[j] <= hak_heap_usable_bytes(p), "from %zu to %zu", sizes[i],
                  sizes[j]);
            char *q = heap_realloc(p, sizes[j]);
            if (sizes[i] <= HAK_SMALL_MAX)
                CHECK((p == q) == may_keep, "from %zu to %zu", sizes[i], sizes[j]);
            release(q);
        }
    }
    assert_false(hak_heap_may_keep(NULL, 1));
}

static void a_block_that_shrinks_gives_memory_back(void **state)
{
    (void)state;
    char *small = allocate(60000);
    fill(small, 60000, 4);
    char *q = heap_realloc(small, 100);
    assert_true(hak_heap_usable_bytes(q) <= 200);
    assert_true(is_filled(q, 100, 60000, 4));
    char *large = allocate(32 * MIB);
    fill(large, 32 * MIB, 5);
    size_t mapped = fake_os_mapped_bytes();
    q = heap_realloc(large, MIB);
    assert_true(is_filled(q, MIB, 32 * MIB, 5));
    assert_true(fake_os_mapped_bytes() <= mapped - 30 * MIB);
}

/* Each is read into a buffer for the longest. Where they stayed in it the next one would not have
 * room there. */
static void a_buffer_that_is_cut_short_serves_the_next(void **state)
{
    (void)state;
    static const size_t buffers[] = {3 * MIB / 2, 3 * MIB, 8 * MIB};
    for (size_t i = 0; i < UNIT_COUNT(buffers); i++) {
        char *kept[40];
        struct hak_pool_stats before, after;
        hak_pool_stats(&before);
        for (unsigned j = 0; j < UNIT_COUNT(kept); j++) {
            char *buffer = allocate(buffers[i]);
            memset(buffer, (int)j, 100 * KIB);
            kept[j] = heap_realloc(buffer, 100 * KIB);
            assert_non_null(kept[j]);
        }
        hak_pool_stats(&after);
        uint64_t superslabs = after.mapped_superslabs - before.mapped_superslabs;
        uint64_t unmapped = after.unmapped_superslabs - before.unmapped_superslabs;
        if (!HAK_HARDENED)
            CHECK(superslabs <= 24, "%zu: %llu superslabs mapped, %llu unmapped", buffers[i],
                  (unsigned long long)superslabs, (unsigned long long)unmapped);
        for (unsigned j = 0; j < UNIT_COUNT(kept); j++) {
            for (size_t at = 0; at < 100 * KIB; at += 999)
                CHECK(kept[j][at] == (char)j, "%u at %zu", j, at);
            release(kept[j]);
        }
    }
}

static void sizes_beyond_all_memory_are_refused_with_enomem(void **state)
{
    (void)state;
    static const size_t absurd[] = {PTRDIFF_MAX, (size_t)PTRDIFF_MAX + 1, SIZE_MAX, SIZE_MAX - 4096,
                                    HAK_HUGE_MAX + 1};
    char *p = allocate(100);
    char *large = allocate(3 * MIB);
    fill(p, 100, 1);
    for (size_t i = 0; i < UNIT_COUNT(absurd); i++) {
        errno = 0;
        assert_null(hak_heap_malloc(absurd[i]));
        assert_int_equal(errno, ENOMEM);
        errno = 0;
        assert_null(hak_heap_calloc(absurd[i]));
        assert_int_equal(errno, ENOMEM);
        errno = 0;
        assert_null(hak_heap_aligned(4096, absurd[i]));
        assert_int_equal(errno, ENOMEM);
        errno = 0;
        assert_null(heap_realloc(p, absurd[i]));
        assert_int_equal(errno, ENOMEM);
        errno = 0;
        assert_null(heap_realloc(large, absurd[i]));
        assert_int_equal(errno, ENOMEM);
    }
    errno = 0;
    assert_null(hak_heap_aligned((size_t)1 << 63, 1));
    assert_int_equal(errno, ENOMEM);
    assert_true(is_filled(p, 100, 100, 1));
    assert_true(hak_heap_usable_bytes(large) >= 3 * MIB);
}

static void free_keeps_errno(void **state)
{
    (void)state;
    for (size_t i = 0; i < UNIT_COUNT(sizes); i++) {
        char *p = allocate(sizes[i]);
        errno = 1234;
        release(p);
        assert_int_equal(errno, 1234);
    }
    errno = 1234;
    hak_heap_trim();
    assert_int_equal(errno, 1234);
}

static void what_is_no_block_is_not_freed(void **state)
{
    (void)state;
    int local;
    static int global;
    char *large = allocate(300 * KIB);
    char *huge = allocate(3 * MIB);
    void *const bad[] = {NULL,       &local,        &global,     (void *)8,     (void *)UINTPTR_MAX,
                         large + 16, large + 65536, huge + 4096, huge + 2 * MIB};
    for (size_t i = 0; i < UNIT_COUNT(bad); i++) {
        CHECK(!hak_heap_try_free(bad[i]), "%p", bad[i]);
        CHECK(!hak_heap_free_slow(bad[i]), "%p", bad[i]);
        CHECK(hak_heap_usable_bytes(bad[i]) == 0, "%p", bad[i]);
    }
    release(large);
    release(huge);
    assert_false(hak_heap_free_slow(large));
    assert_false(hak_heap_free_slow(huge));
}

static void why_not_tells_the_cases_apart(void **state)
{
    (void)state;
    int local;
    char *large = allocate(300 * KIB);
    assert_non_null(strstr(hak_heap_why_not(&local), "not from this allocator"));
    char *huge = allocate(5 * MIB);
    assert_non_null(strstr(hak_heap_why_not(large + 16), "into a large block"));
    assert_non_null(strstr(hak_heap_why_not(large + 300 * KIB - 1), "into a large block"));
    assert_non_null(strstr(hak_heap_why_not(huge + 5 * MIB - 1), "into a large block"));
    assert_non_null(strstr(hak_heap_why_not(huge + 7 * MIB), "no block is there"));
    release(large);
    release(huge);
    assert_non_null(strstr(hak_heap_why_not(large), "no block is there"));
    assert_non_null(strstr(hak_heap_why_not(large + 200 * KIB), "no block is there"));
    assert_non_null(strstr(hak_heap_why_not(huge + 3 * MIB), "no block is there"));
}

static void call_usable(void *p)
{
    hak_heap_usable_bytes(p);
}

static void the_usable_size_of_a_pointer_into_a_block_is_a_misuse(void **state)
{
    (void)state;
    const char *said = fake_os_last_words(call_usable, allocate(500) + 16);
    assert_non_null(said);
    assert_non_null(strstr(said, "points into a block"));
}

static void trim_gives_back_all_that_is_free(void **state)
{
    (void)state;
    static char *p[4000];
    char *live = allocate(100);
    fill(live, 100, 7);
    hak_heap_trim();
    size_t before = fake_os_mapped_bytes() - hak_space_meta_bytes();
    for (size_t i = 0; i < UNIT_COUNT(p); i++)
        p[i] = allocate(i % 50 == 0 ? 300 * KIB : i % 500 == 7 ? 3 * MIB : 3000);
    for (size_t i = 0; i < UNIT_COUNT(p); i++)
        release(p[i]);
    size_t held = fake_os_mapped_bytes() - hak_space_meta_bytes();
    size_t given = hak_heap_trim();
    size_t after = fake_os_mapped_bytes() - hak_space_meta_bytes();
    assert_true(given > 0 && held - after >= given); /* what was purged before may be unmapped */
    assert_true(held > before + 2 * MIB);
    assert_true(after <= before + 4 * MIB); /* superslabs mapped ahead and never touched may stay */
    assert_true(is_filled(live, 100, 100, 7));
    release(live);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(the_first_call_of_all_works),
    cmocka_unit_test(a_large_block_gets_huge_pages_unless_it_has_to_be_zero),
    cmocka_unit_test(a_thread_without_a_heap_gets_blocks_of_every_size_by_every_function),
    cmocka_unit_test(any_function_may_be_the_first),
    cmocka_unit_test(blocks_of_every_size_are_aligned_and_apart),
    cmocka_unit_test(every_size_up_to_70000_is_served),
    cmocka_unit_test(all_usable_bytes_may_be_used),
    cmocka_unit_test(calloc_gives_zeroes_on_used_memory_too),
    cmocka_unit_test(calloc_of_a_long_block_keeps_out_of_memory_what_was_out_of_it),
    cmocka_unit_test(calloc_zeroes_what_was_asked_for_and_no_more),
    cmocka_unit_test(aligned_blocks_are_as_small_as_their_alignment_allows),
    cmocka_unit_test(aligned_blocks_are_aligned),
    cmocka_unit_test(realloc_keeps_the_content),
    cmocka_unit_test(a_block_that_grows_by_little_moves_seldom),
    cmocka_unit_test(a_block_that_grows_by_much_gets_what_it_asks_for),
    cmocka_unit_test(what_may_keep_its_place_is_what_realloc_leaves_there),
    cmocka_unit_test(a_buffer_that_is_cut_short_serves_the_next),
    cmocka_unit_test(a_block_that_grows_step_by_step_keeps_its_content),
    cmocka_unit_test(a_block_that_shrinks_gives_memory_back),
    cmocka_unit_test(sizes_beyond_all_memory_are_refused_with_enomem),
    cmocka_unit_test(free_keeps_errno),
    cmocka_unit_test(what_is_no_block_is_not_freed),
    cmocka_unit_test(why_not_tells_the_cases_apart),
    cmocka_unit_test(the_usable_size_of_a_pointer_into_a_block_is_a_misuse),
    cmocka_unit_test(trim_gives_back_all_that_is_free),
};
UNIT_MAIN(tests)
