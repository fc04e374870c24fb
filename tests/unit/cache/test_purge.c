/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Unit tests of cache: free pages inside slabs that are used in part go back to the system. */
#include "cache_support.h"

#include <sys/mman.h>

#define SECOND_NS 1000000000ull
#define BLOCKS 127u /* of 512 bytes, in a slab */

static size_t resident_pages(const char *from, size_t pages)
{
    unsigned char in_memory[16];
    size_t resident = 0;
    MUST(pages <= UNIT_COUNT(in_memory));
    MUST(mincore((void *)(uintptr_t)from, pages * HAK_PAGE_BYTES, in_memory) == 0);
    for (size_t i = 0; i < pages; i++)
        resident += in_memory[i] & 1;
    return resident;
}

static char *slot_of(const void *p)
{
    return hak_slot_address(hak_slot_of(p));
}

/* Fills a slab of 512-byte blocks and frees all but those of which keep(i) is true. */
static void fill_and_free(struct hak_heap *heap, char **p, bool (*keep)(unsigned))
{
    unsigned cls = hak_class_of(512);
    for (unsigned i = 0; i < BLOCKS; i++) {
        p[i] = allocate(heap, cls);
        memset(p[i], 1, 512);
        mark(p[i], 512, i);
    }
    for (unsigned i = 0; i < BLOCKS; i++)
        if (!keep(i))
            release(heap, p[i]);
    hak_lock(&heap->lock);
    hak_heap_drain_locked(heap, cls, hak_bin_blocks(heap, cls));
    hak_unlock(&heap->lock);
}

static bool keep_first_and_last(unsigned i)
{
    return i == 0 || i == BLOCKS - 1;
}

static bool keep_one_a_page(unsigned i)
{
    return i % 8 == 3;
}

static void pages_without_a_block_in_use_go_and_the_others_stay(void **state)
{
    (void)state;
    static char *p[BLOCKS];
    start();
    struct hak_heap *heap = open_thread();
    fill_and_free(heap, p, keep_first_and_last);
    assert_ptr_equal(slot_of(p[0]), slot_of(p[BLOCKS - 1]));
    assert_int_equal(resident_pages(slot_of(p[0]), 16), 16);
    assert_int_equal(hak_cache_purge(), 14 * HAK_PAGE_BYTES);
    assert_int_equal(resident_pages(slot_of(p[0]), 16), 2);
    assert_true(is_marked(p[0], 512, 0) && is_marked(p[BLOCKS - 1], 512, BLOCKS - 1));
    assert_int_equal(hak_cache_purge(), 0); /* nothing has changed: not even a call */

    for (unsigned i = 1; i < BLOCKS - 1; i++) { /* and the blocks are there to be had */
        char *q = allocate(heap, hak_class_of(512));
        assert_ptr_equal(slot_of(q), slot_of(p[0]));
        mark(q, 512, i);
        p[i] = q;
    }
    for (unsigned i = 0; i < BLOCKS; i++)
        assert_true(is_marked(p[i], 512, i));
}

static void a_block_in_each_page_keeps_them_all(void **state)
{
    (void)state;
    static char *p[BLOCKS];
    start();
    fill_and_free(open_thread(), p, keep_one_a_page);
    assert_int_equal(hak_cache_purge(), 0);
    assert_int_equal(resident_pages(slot_of(p[3]), 16), 16);
}

/* The huge pages of a superslab of which all slots are slabs of 512-byte blocks, after all but one
 * in `keep` of those were freed, and the pages of what is free have gone. */
static unsigned huge_pages_after(unsigned keep)
{
    static char *p[128 * BLOCKS];
    start();
    struct hak_heap *heap = open_thread();
    unsigned cls = hak_class_of(512);
    for (unsigned i = 0; i < UNIT_COUNT(p); i++) {
        p[i] = allocate(heap, cls);
        memset(p[i], 1, 512);
    }
    struct hak_superslab *s = NULL;
    for (unsigned i = 0; s == NULL || (uint32_t)hak_load_relaxed(&s->state) != UINT32_MAX; i++) {
        assert_true(i < UNIT_COUNT(p));
        s = hak_superslab(hak_slot_of(p[i]) / HAK_SLOTS);
    }
    assert_int_equal(hak_load_relaxed(&s->missing), 0);
    hak_store_relaxed(&s->huge_pages, (uint8_t)HAK_HUGE_ASKED);
    for (unsigned i = 0; i < UNIT_COUNT(p); i++)
        if (i % keep != 0)
            release(heap, p[i]);
    hak_lock(&heap->lock);
    hak_heap_drain_locked(heap, cls, hak_bin_blocks(heap, cls));
    hak_unlock(&heap->lock);
    assert_true(hak_cache_purge() != 0);
    return hak_load_relaxed(&s->huge_pages);
}

/* Else the system may make a huge page of what is left, and all is in memory again. */
static void no_huge_page_brings_them_back(void **state)
{
    (void)state;
    assert_int_equal(huge_pages_after(BLOCKS), HAK_HUGE_FORBIDDEN);
}

static void unless_more_than_half_of_them_stays(void **state)
{
    (void)state;
    assert_int_equal(huge_pages_after(12), HAK_HUGE_ASKED);
}

static void what_was_never_carved_goes_with_the_end(void **state)
{
    (void)state;
    start();
    struct hak_heap *heap = open_thread();
    unsigned cls = hak_class_of(4096);
    char *p[3];
    for (unsigned i = 0; i < 3; i++) {
        p[i] = allocate(heap, cls);
        memset(p[i], 1, 4096);
    }
    release(heap, p[2]);
    hak_lock(&heap->lock);
    hak_heap_drain_locked(heap, cls, hak_bin_blocks(heap, cls));
    hak_unlock(&heap->lock);
    size_t pages = hak_round_up(2 * hak_class(cls)->size_bytes, HAK_PAGE_BYTES) / HAK_PAGE_BYTES;
    assert_int_equal(hak_cache_purge(), (16 - pages) * HAK_PAGE_BYTES);
    assert_int_equal(resident_pages(slot_of(p[0]), 16), pages);
}

static void a_refused_purge_loses_nothing(void **state)
{
    (void)state;
    static char *p[BLOCKS];
    start();
    fill_and_free(open_thread(), p, keep_first_and_last);
    fake_os_fail(FAKE_PURGE, 1, EINVAL);
    assert_int_equal(hak_cache_purge(), 0);
    assert_true(is_marked(p[0], 512, 0) && is_marked(p[BLOCKS - 1], 512, BLOCKS - 1));
}

static char *all[32768]; /* 32 MiB of blocks of 1 KiB */

static void allocate_all(struct hak_heap *heap)
{
    for (size_t i = 0; i < UNIT_COUNT(all); i++) {
        all[i] = allocate(heap, hak_class_of(1024));
        memset(all[i], 1, 1024);
    }
}

/* The ones from `from` to `to` of each 64. */
static void release_of_64(struct hak_heap *heap, size_t from, size_t to)
{
    for (size_t i = 0; i < UNIT_COUNT(all); i++)
        if (i % 64 >= from && i % 64 <= to)
            release(heap, all[i]);
}

/* Until nothing is left of what the heap has begun to give back. */
static void come_by(struct hak_heap *heap)
{
    unsigned cls = hak_class_of(64);
    for (unsigned i = 0; heap->purge.slot != 0 || heap->purge.lists != 0; i++) {
        MUST(i < 1000);
        release(heap, allocate(heap, cls));
        hak_lock(&heap->lock);
        hak_heap_drain_locked(heap, cls, hak_bin_blocks(heap, cls));
        hak_unlock(&heap->lock);
    }
}

static void a_heap_with_more_free_than_in_use_purges_by_itself(void **state)
{
    (void)state;
    start();
    struct hak_heap *heap = open_thread();
    allocate_all(heap);
    assert_int_equal(counted(&heap->stats.purged_bytes), 0);
    release_of_64(heap, 1, 63);
    assert_true(counted(&heap->stats.purged_bytes) >= (size_t)16 << 20);
    release_of_64(heap, 0, 0);
    verify_heaps();
    hak_cache_flush(heap);
    assert_nothing_held();
    assert_int_equal(heap->free_bytes, 0);
    assert_int_equal(heap->slab_bytes, 0);
}

static void a_heap_that_grows_purges_when_a_quarter_of_what_is_in_use_is_free(void **state)
{
    (void)state;
    start();
    struct hak_heap *heap = open_thread();
    allocate_all(heap);
    release_of_64(heap, 0, 11); /* 6 of 26 MiB */
    allocate(heap, hak_class_of(500));
    assert_int_equal(counted(&heap->stats.purged_bytes), 0);
    release_of_64(heap, 12, 19); /* 10 of 22 */
    assert_int_equal(counted(&heap->stats.purged_bytes), 0);
    allocate(heap, hak_class_of(300));
    assert_true(counted(&heap->stats.purged_bytes) != 0);
    come_by(heap);
    assert_true(counted(&heap->stats.purged_bytes) >= (size_t)4 << 20);
    verify_heaps();
}

/* Of 32 MiB more than 500 slabs have pages that nobody uses, when the first go. */
static void no_call_gives_back_more_than_the_pages_of_16_slabs(void **state)
{
    (void)state;
    start();
    struct hak_heap *heap = open_thread();
    allocate_all(heap);
    uint64_t purged = 0;
    unsigned calls = 0;
    for (size_t i = 0; i < UNIT_COUNT(all); i++) {
        if (i % 64 == 0)
            continue;
        release(heap, all[i]);
        uint64_t now = counted(&heap->stats.purged_bytes);
        assert_in_range(now - purged, 0, 16 * HAK_SLOT_BYTES);
        calls += now != purged;
        purged = now;
    }
    assert_true(calls >= 16 && purged >= (size_t)16 << 20);
    verify_heaps();
}

/* What lies in a bin keeps a page for each block, and a large bin would soon hold as much again. */
static void a_heap_that_empties_empties_its_bins_and_makes_them_small(void **state)
{
    (void)state;
    static char *others[600];
    start();
    struct hak_heap *heap = open_thread();
    unsigned cls = hak_class_of(1024), other = hak_class_of(64);
    allocate_all(heap);
    for (unsigned round = 0; round < 40; round++) {
        for (unsigned i = 0; i < UNIT_COUNT(others); i++)
            others[i] = allocate(heap, other);
        for (unsigned i = 0; i < UNIT_COUNT(others); i++)
            release(heap, others[i]);
    }
    unsigned large = heap->classes[other].capacity;
    assert_true(large >= 500 && hak_bin_blocks(heap, other) >= 500);
    size_t i = 0;
    while (counted(&heap->stats.purged_bytes) == 0) {
        assert_int_equal(heap->classes[other].capacity, large);
        MUST(i < UNIT_COUNT(all));
        if (i % 64 != 0)
            release(heap, all[i]);
        i++;
    }
    assert_true(heap->classes[other].capacity < 100);
    assert_int_equal(hak_bin_blocks(heap, other), 0);
    assert_in_range(hak_bin_blocks(heap, cls), 0, 1);
    for (; i < UNIT_COUNT(all); i++)
        release(heap, all[i]);
    for (i = 0; i < UNIT_COUNT(others); i++)
        others[i] = allocate(heap, other);
    verify_heaps();
}

/* What was free when pages were given back last is more than what is free now: nothing has grown.
 */
static void free_blocks_that_were_taken_again_are_no_reason_to_purge(void **state)
{
    (void)state;
    static char *others[BLOCKS];
    start();
    struct hak_heap *heap = open_thread();
    unsigned cls = hak_class_of(1024);
    allocate_all(heap);
    release_of_64(heap, 1, 63);
    allocate(heap, hak_class_of(300)); /* grows, and so begins to give back what is free by now */
    come_by(heap);
    fill_and_free(heap, others, keep_first_and_last);
    uint64_t purged = counted(&heap->stats.purged_bytes);
    assert_true(purged != 0);
    size_t slabs = hak_load_relaxed(&heap->slabs);
    while (hak_load_relaxed(&heap->slabs) == slabs) /* takes again, and nothing is freed */
        allocate(heap, cls);
    assert_int_equal(counted(&heap->stats.purged_bytes), purged);
    assert_int_equal(resident_pages(slot_of(others[0]), 16), 16);
}

static void idle_slabs_are_purged_after_a_while(void **state)
{
    (void)state;
    static char *p[BLOCKS];
    start();
    fake_os_set_time_ns(10ull * SECOND_NS);
    hak_cache_tick_any();
    struct hak_heap *heap = open_thread();
    fill_and_free(heap, p, keep_first_and_last);
    for (unsigned i = 1; i <= 8; i++) { /* two seconds: too soon */
        fake_os_set_time_ns(10ull * SECOND_NS + i * (SECOND_NS / 4));
        hak_cache_tick_any();
    }
    assert_int_equal(counted(&heap->stats.purged_bytes), 0);
    for (unsigned i = 9; i <= 48; i++) {
        fake_os_set_time_ns(10ull * SECOND_NS + i * (SECOND_NS / 4));
        hak_cache_tick_any();
    }
    assert_int_equal(counted(&heap->stats.purged_bytes), 14 * HAK_PAGE_BYTES);
}

/* 512 slabs of which half of the pages are free. */
static struct hak_heap *heap_with_many_idle_slabs(void)
{
    start();
    fake_os_set_time_ns(10ull * SECOND_NS);
    hak_cache_tick_any();
    struct hak_heap *heap = open_thread();
    allocate_all(heap);
    release_of_64(heap, 1, 32);
    assert_int_equal(counted(&heap->stats.purged_bytes), 0);
    return heap;
}

/* Ticks from the `from`-th on until pages have gone, or the `until`-th; which it was. */
static unsigned tick_until_purged(struct hak_heap *heap, unsigned from, unsigned until)
{
    uint64_t purged = counted(&heap->stats.purged_bytes);
    for (; from < until && counted(&heap->stats.purged_bytes) == purged; from++) {
        fake_os_set_time_ns(10ull * SECOND_NS + from * (SECOND_NS / 4));
        hak_cache_tick_any();
    }
    return from;
}

/* Blocks begin at other places of a page in each slab: of most eight pages are free, or seven. */
#define IDLE_ALL_BYTES (UNIT_COUNT(all) / 64 * 8 * HAK_PAGE_BYTES)

static void a_tick_looks_at_so_many_idle_slabs_at_most(void **state)
{
    (void)state;
    struct hak_heap *heap = heap_with_many_idle_slabs();
    unsigned tick = tick_until_purged(heap, 1, 64);
    size_t portion = counted(&heap->stats.purged_bytes);
    assert_in_range(portion, 1, IDLE_ALL_BYTES / 3);
    tick = tick_until_purged(heap, tick, tick + 1); /* the next does as many */
    assert_int_equal(counted(&heap->stats.purged_bytes), 2 * portion);
    for (unsigned i = 0; i < 64; i++)
        tick = tick_until_purged(heap, tick, tick + 1);
    assert_in_range(counted(&heap->stats.purged_bytes), IDLE_ALL_BYTES * 6 / 8, IDLE_ALL_BYTES);
    verify_heaps();
}

static void the_owner_sees_to_the_rest_of_them(void **state)
{
    (void)state;
    struct hak_heap *heap = heap_with_many_idle_slabs();
    tick_until_purged(heap, 1, 64);
    for (unsigned i = 0; i < 512; i++) {
        hak_lock(&heap->lock);
        hak_heap_freed_locked(heap, 0);
        hak_unlock(&heap->lock);
    }
    assert_in_range(counted(&heap->stats.purged_bytes), IDLE_ALL_BYTES * 6 / 8, IDLE_ALL_BYTES);
    assert_int_equal(heap->idle.lists, 0);
    verify_heaps();
}

/* The slab that would be looked at next is gone, or in another list. */
static void slabs_that_go_meanwhile_are_left_out(void **state)
{
    (void)state;
    struct hak_heap *heap = heap_with_many_idle_slabs();
    tick_until_purged(heap, 1, 64);
    assert_int_not_equal(heap->idle.slot, 0);
    release_of_64(heap, 33, 63);
    for (size_t i = 0; i < UNIT_COUNT(all); i += 64)
        release(heap, all[i]);
    hak_lock(&heap->lock);
    hak_heap_drain_locked(heap, hak_class_of(1024), hak_bin_blocks(heap, hak_class_of(1024)));
    hak_unlock(&heap->lock);
    tick_until_purged(heap, 64, 128);
    assert_int_equal(heap->idle.slot, 0);
    verify_heaps();
}

/* All blocks are freed, in an order in which each slab has some in use until late, and all are
 * wanted again: pages that went while the slabs still had blocks in use would go each time. */
static void a_program_that_frees_all_and_wants_it_again_is_not_purged_for_long(void **state)
{
    (void)state;
    const size_t stride = 12345;
    start();
    struct hak_heap *heap = open_thread();
    uint64_t purged[8];
    for (unsigned round = 0; round < UNIT_COUNT(purged); round++) {
        allocate_all(heap);
        for (size_t i = 0; i < UNIT_COUNT(all); i++)
            release(heap, all[i * stride % UNIT_COUNT(all)]);
        purged[round] = counted(&heap->stats.purged_bytes);
    }
    assert_true(purged[0] >= (size_t)8 << 20);
    assert_int_equal(purged[UNIT_COUNT(purged) - 1], purged[UNIT_COUNT(purged) / 2 - 1]);
    verify_heaps();
}

/* Seven of eight blocks go, at random, and as many of the next of four sizes come: a slab is free
 * as a whole some phases later, and is wanted then. */
static void nor_is_one_whose_blocks_have_another_size_in_each_phase(void **state)
{
    (void)state;
    static const size_t sizes[] = {1400, 1800, 2300, 2900};
    struct unit_random random = {7};
    uint64_t purged[20];
    memset(all, 0, sizeof all);
    start();
    struct hak_heap *heap = open_thread();
    for (unsigned round = 0; round < UNIT_COUNT(purged); round++) {
        unsigned cls = hak_class_of(sizes[round % UNIT_COUNT(sizes)]);
        for (size_t i = 0; i < UNIT_COUNT(all) / 4; i++) {
            if (all[i] != NULL && unit_below(&random, 8) == 0)
                continue;
            if (all[i] != NULL)
                release(heap, all[i]);
            all[i] = NULL;
        }
        for (size_t i = 0; i < UNIT_COUNT(all) / 4; i++)
            if (all[i] == NULL)
                all[i] = allocate(heap, cls);
        purged[round] = counted(&heap->stats.purged_bytes);
    }
    assert_true(purged[7] >= (size_t)8 << 20);
    assert_int_equal(purged[UNIT_COUNT(purged) - 1], purged[7]);
    verify_heaps();
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(pages_without_a_block_in_use_go_and_the_others_stay),
    cmocka_unit_test(a_block_in_each_page_keeps_them_all),
    cmocka_unit_test(no_huge_page_brings_them_back),
    cmocka_unit_test(unless_more_than_half_of_them_stays),
    cmocka_unit_test(what_was_never_carved_goes_with_the_end),
    cmocka_unit_test(a_refused_purge_loses_nothing),
    cmocka_unit_test(a_heap_with_more_free_than_in_use_purges_by_itself),
    cmocka_unit_test(a_heap_that_grows_purges_when_a_quarter_of_what_is_in_use_is_free),
    cmocka_unit_test(no_call_gives_back_more_than_the_pages_of_16_slabs),
    cmocka_unit_test(a_heap_that_empties_empties_its_bins_and_makes_them_small),
    cmocka_unit_test(free_blocks_that_were_taken_again_are_no_reason_to_purge),
    cmocka_unit_test(idle_slabs_are_purged_after_a_while),
    cmocka_unit_test(a_tick_looks_at_so_many_idle_slabs_at_most),
    cmocka_unit_test(the_owner_sees_to_the_rest_of_them),
    cmocka_unit_test(slabs_that_go_meanwhile_are_left_out),
    cmocka_unit_test(a_program_that_frees_all_and_wants_it_again_is_not_purged_for_long),
    cmocka_unit_test(nor_is_one_whose_blocks_have_another_size_in_each_phase),
};
UNIT_MAIN(tests)
