/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Unit tests of cache: refill, overflow and the size of bins, in one thread. */
#include "cache_support.h"

#include "bytes.h"

#define MANY 20000u
#define MOST (32u * 4096u + 1u) /* more than a superslab holds of the smallest class */

static char *blocks[MOST];

static void a_bin_is_filled_in_ascending_order(void **state)
{
    (void)state;
    start();
    struct hak_heap *heap = open_thread();
    for (unsigned cls = 0; cls < HAK_CLASSES; cls++) {
        char *before = allocate(heap, cls);
        for (unsigned i = 0; i < hak_class(cls)->blocks - 1u; i++) {
            char *p = allocate(heap, cls);
            CHECK(p == before + hak_class(cls)->size_bytes, "class %u, block %u", cls, i);
            before = p;
        }
    }
    verify_heaps();
}

static void a_fresh_thread_takes_a_page_of_a_class_and_no_more(void **state)
{
    (void)state;
    start();
    struct hak_heap *heap = open_thread();
    for (unsigned cls = 0; cls < HAK_CLASSES; cls++) {
        char *p = allocate(heap, cls);
        struct hak_slab *s = hak_slab_of_slot(hak_slot_of(p), hak_class(cls));
        size_t carved = hak_load_relaxed(&s->carved) * (size_t)hak_class(cls)->size_bytes;
        CHECK(carved <
                  hak_max(hak_class(cls)->size_bytes, HAK_PAGE_BYTES) + hak_class(cls)->size_bytes,
              "class %u: %zu", cls, carved);
    }
}

static void the_first_stacks_of_all_classes_fit_into_the_heap(void **state)
{
    (void)state;
    start();
    struct hak_heap *heap = open_thread();
    for (unsigned cls = 0; cls < HAK_CLASSES; cls++)
        allocate(heap, cls);
    assert_in_range(heap->arena_used_bytes, HAK_STACK_ARENA_BYTES - 256, HAK_STACK_ARENA_BYTES);
}

static void the_block_freed_last_is_allocated_first(void **state)
{
    (void)state;
    start();
    struct hak_heap *heap = open_thread();
    for (unsigned cls = 0; cls < HAK_CLASSES; cls++) {
        for (unsigned i = 0; i < 500; i++)
            blocks[i] = allocate(heap, cls);
        for (unsigned i = 0; i < 500; i++) {
            release(heap, blocks[i]);
            char *again = allocate(heap, cls);
            CHECK(again == blocks[i], "class %u, free %u", cls, i);
            release(heap, again);
        }
    }
    verify_heaps();
}

static void an_overflow_gives_the_oldest_blocks_back(void **state)
{
    (void)state;
    start();
    struct hak_heap *heap = open_thread();
    unsigned cls = hak_class_of(64);
    for (unsigned i = 0; i < 3000; i++)
        blocks[i] = allocate(heap, cls);
    unsigned n = 0;
    unsigned before = hak_bin_blocks(heap, cls);
    while (counted(&heap->stats.drains) == 0)
        release(heap, blocks[n++]);
    unsigned kept = hak_bin_blocks(heap, cls);
    assert_true(kept > 1 && kept < before + n);
    assert_int_equal(counted(&heap->stats.drained_blocks), before + n - kept);
    for (unsigned i = 0; i < kept && i < n; i++) /* the newest, newest first */
        assert_ptr_equal(allocate(heap, cls), blocks[n - 1 - i]);
    verify_heaps();
}

static unsigned capacity(struct hak_heap *heap, unsigned cls)
{
    return heap->classes[cls].capacity;
}

static void allocate_many(struct hak_heap *heap, unsigned cls, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        blocks[i] = allocate(heap, cls);
}

static void release_many(struct hak_heap *heap, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        release(heap, blocks[i]);
}

static void a_thread_that_only_allocates_keeps_small_bins(void **state)
{
    (void)state;
    start();
    struct hak_heap *heap = open_thread();
    for (unsigned cls = 0; cls < HAK_CLASSES; cls += 3) {
        size_t size = hak_class(cls)->size_bytes;
        allocate(heap, cls);
        unsigned first = capacity(heap, cls);
        allocate_many(heap, cls, (unsigned)hak_min(MANY, ((size_t)8 << 20) / size));
        size_t most = hak_max((size_t)16 << 10, hak_min(heap->slab_bytes / 256, (size_t)64 << 10));
        CHECK(capacity(heap, cls) == first || capacity(heap, cls) * size <= most,
              "class %u: %u blocks", cls, capacity(heap, cls));
    }
}

static void a_bin_grows_when_overflows_are_followed_by_underflows(void **state)
{
    (void)state;
    start();
    struct hak_heap *heap = open_thread();
    unsigned cls = hak_class_of(64);
    allocate_many(heap, cls, 5000);
    unsigned before = capacity(heap, cls);
    release_many(heap, 5000); /* overflows only */
    assert_int_equal(capacity(heap, cls), before);
    uint64_t grown = counted(&heap->stats.grown_bins);
    unsigned turns = 0;
    while (capacity(heap, cls) == before && turns < 100) {
        allocate_many(heap, cls, before + 1); /* one underflow after the overflows */
        release_many(heap, before + 1);
        turns++;
    }
    assert_int_equal(counted(&heap->stats.grown_bins), grown + 1);
    assert_true(capacity(heap, cls) > before);
    assert_true(turns > 1); /* a bin that may hold 16 KiB needs more evidence than one turn */
    verify_heaps();
}

/* More blocks than a new bin holds, so many times. */
static void use_many(struct hak_heap *heap, unsigned cls, int rounds)
{
    for (int round = 0; round < rounds; round++) {
        allocate_many(heap, cls, 600);
        release_many(heap, 600);
    }
}

static void a_working_set_over_the_capacity_soon_fits_the_bin(void **state)
{
    (void)state;
    start();
    struct hak_heap *heap = open_thread();
    unsigned cls = hak_class_of(64);
    use_many(heap, cls, 40);
    uint64_t refills = counted(&heap->stats.refills);
    uint64_t drains = counted(&heap->stats.drains);
    use_many(heap, cls, 12);
    assert_int_equal(counted(&heap->stats.refills), refills);
    assert_int_equal(counted(&heap->stats.drains), drains);
}

/* Allocates `count` blocks as malloc does; returns how many are of a larger class. */
static unsigned allocate_or_larger(struct hak_heap *heap, unsigned cls, unsigned count)
{
    unsigned larger = 0;
    for (unsigned i = 0; i < count; i++) {
        bool zero = false;
        blocks[i] = hak_cache_pop(&heap->front, cls * 2u);
        if (blocks[i] == NULL)
            blocks[i] = hak_cache_refill_or_larger(heap, cls, &zero);
        MUST(blocks[i] != NULL);
        unsigned got = class_of_block(blocks[i]);
        CHECK(got == cls || (hak_class(got)->size_bytes > hak_class(cls)->size_bytes && !zero),
              "class %u: %u", cls, got);
        larger += got != cls;
    }
    return larger;
}

/* The bin has overflowed, and blocks of the next class are free. Returns how many of those. */
static unsigned turn(struct hak_heap *heap, unsigned cls)
{
    allocate(heap, cls); /* both bins are open */
    allocate(heap, cls + 1);
    unsigned of_next = capacity(heap, cls + 1);
    allocate_many(heap, cls + 1, of_next);
    release_many(heap, of_next);
    unsigned count = hak_bin_blocks(heap, cls) + capacity(heap, cls) + 1;
    allocate_many(heap, cls, count);
    release_many(heap, count);
    return hak_bin_blocks(heap, cls + 1);
}

static void at_its_peak_a_class_takes_free_blocks_of_the_next(void **state)
{
    (void)state;
    start();
    struct hak_heap *heap = open_thread();
    unsigned cls = hak_class_of(512);
    unsigned free_of_next = turn(heap, cls);
    MUST(free_of_next > 1);
    unsigned worth = hak_bin_batch(&heap->classes[cls]);
    unsigned larger = allocate_or_larger(heap, cls, 500);
    assert_int_equal(larger, hak_min(free_of_next, worth));
    assert_int_equal(counted(&heap->stats.borrowed_blocks), larger);
    release_many(heap, 500); /* each to its own bin */
    verify_heaps();
}

/* What allocates and frees in bulk turns, too, but refills often in a row: it does not come for
 * each block that the next class has. */
static void many_refills_in_a_row_are_no_swing(void **state)
{
    (void)state;
    start();
    struct hak_heap *heap = open_thread();
    unsigned cls = hak_class_of(64);
    uint64_t refills = 0;
    for (unsigned round = 0; round < 20; round++) {
        allocate_many(heap, cls + 1, MANY);
        release_many(heap, MANY);
        refills = counted(&heap->stats.refills);
        allocate_or_larger(heap, cls, MANY);
        refills = counted(&heap->stats.refills) - refills;
        release_many(heap, MANY);
    }
    CHECK(refills <= 100, "%lu refills for %u blocks", refills, MANY);
    verify_heaps();
}

static void a_class_without_a_turn_takes_memory(void **state)
{
    (void)state;
    start();
    struct hak_heap *heap = open_thread();
    unsigned cls = hak_class_of(512);
    allocate_many(heap, cls + 1, 10);
    release_many(heap, 10);
    assert_int_equal(allocate_or_larger(heap, cls, 5000), 0);
    verify_heaps();
}

static void what_depends_on_its_class_gets_it(void **state)
{
    (void)state;
    start();
    struct hak_heap *heap = open_thread();
    unsigned cls = hak_class_of(512);
    turn(heap, cls);
    for (unsigned i = 0; i < 500; i++)
        assert_int_equal(class_of_block(allocate(heap, cls)), cls);
    assert_int_equal(counted(&heap->stats.borrowed_blocks), 0);
}

static void a_large_heap_does_not_borrow(void **state)
{
    (void)state;
    start();
    struct hak_heap *heap = open_thread();
    unsigned cls = hak_class_of(512);
    for (unsigned i = 0; i < (8u << 20) / HAK_SLOT_BYTES; i++)
        allocate(heap, hak_class_of(HAK_SLOT_BYTES - 4096));
    MUST(turn(heap, cls) > 1);
    assert_int_equal(allocate_or_larger(heap, cls, 5000), 0);
}

/* Refills of a bin that another thread has made large, and that a new one begins with. */
static void a_thread_takes_little_of_a_large_bin_that_it_did_not_make(void **state)
{
    (void)state;
    start();
    struct hak_heap *heap = open_thread();
    unsigned cls = hak_class_of(64);
    use_many(heap, cls, 40);
    unsigned large = capacity(heap, cls);
    assert_true(large >= 511);
    close_thread(heap);
    assert_ptr_equal(open_thread(), heap);
    assert_int_equal(capacity(heap, cls), large);
    unsigned taken = 0;
    for (unsigned expected = 16; expected <= 128; expected *= 2) {
        allocate_many(heap, cls, 1); /* it comes from a refill: all of the last is used */
        taken = hak_bin_blocks(heap, cls) + 1;
        assert_int_equal(taken, expected);
        allocate_many(heap, cls, taken - 1);
    }
    verify_heaps();
}

static void bins_have_a_limit_in_blocks_and_bytes(void **state)
{
    (void)state;
    start();
    struct hak_heap *heap = open_thread();
    for (unsigned cls = 0; cls < HAK_CLASSES; cls += 7) {
        size_t size = hak_class(cls)->size_bytes;
        unsigned count = (unsigned)hak_min(MANY, ((size_t)4 << 20) / size);
        for (int round = 0; round < 20; round++) {
            allocate_many(heap, cls, count);
            release_many(heap, count);
        }
        CHECK(capacity(heap, cls) <= 1022 && capacity(heap, cls) * size <= (256u << 10),
              "class %u: %u blocks", cls, capacity(heap, cls));
    }
    verify_heaps();
}

static void a_bin_that_cannot_grow_works_on(void **state)
{
    (void)state;
    start();
    struct hak_heap *heap = open_thread();
    unsigned cls = hak_class_of(32);
    fake_os_fail_from(FAKE_MAP, 1, ENOMEM);
    for (int round = 0; round < 20; round++) {
        allocate_many(heap, cls, 10000);
        for (unsigned i = 0; i < 10000; i++)
            mark(blocks[i], 32, i);
        for (unsigned i = 0; i < 10000; i++)
            assert_true(is_marked(blocks[i], 32, i));
        release_many(heap, 10000);
    }
    verify_heaps();
}

/* Often enough for what the thread has left to be looked for twice. */
static void refill_often(struct hak_heap *heap, unsigned cls)
{
    uint64_t begin = counted(&heap->stats.refills);
    for (unsigned n = 0; counted(&heap->stats.refills) < begin + 600; n = n % MANY + 1)
        blocks[n] = allocate(heap, cls);
}

static void a_bin_that_its_thread_has_left_gives_its_blocks_back(void **state)
{
    (void)state;
    start();
    struct hak_heap *heap = open_thread();
    unsigned left = hak_class_of(512);
    for (unsigned i = 0; i < 10; i++)
        blocks[i] = allocate(heap, left);
    for (unsigned i = 0; i < 10; i++)
        release(heap, blocks[i]);
    unsigned stays = capacity(heap, left);
    assert_true(hak_bin_blocks(heap, left) != 0);
    refill_often(heap, hak_class_of(64));
    assert_int_equal(hak_bin_blocks(heap, left), 0);
    assert_int_equal(capacity(heap, left), stays);
    allocate(heap, left);
    verify_heaps();
}

/* What is left of a size that a program uses no more dies one by one; each would pin its slab. */
static void so_does_a_bin_into_which_its_thread_only_frees(void **state)
{
    (void)state;
    start();
    struct hak_heap *heap = open_thread();
    unsigned left = hak_class_of(512);
    unsigned used = hak_class_of(64);
    enum { STALE = 60, REFILLS_A_FREE = 100, FEW = 6 };
    char *old[STALE];
    for (unsigned i = 0; i < STALE; i++)
        old[i] = allocate(heap, left);
    uint64_t begin = counted(&heap->stats.refills);
    for (unsigned n = 0, freed = 0; freed < STALE; n = n % MANY + 1) {
        blocks[n] = allocate(heap, used);
        if (counted(&heap->stats.refills) < begin + (freed + 1) * REFILLS_A_FREE)
            continue;
        release(heap, old[freed++]);
        unsigned held = hak_bin_blocks(heap, left);
        CHECK(freed <= FEW || held <= FEW, "%u freed, %u in the bin", freed, held);
    }
    verify_heaps();
}

static void a_grown_bin_that_its_thread_has_left_becomes_small(void **state)
{
    (void)state;
    start();
    struct hak_heap *heap = open_thread();
    unsigned left = hak_class_of(64);
    unsigned first = 0;
    for (int round = 0; round < 40; round++) {
        allocate_many(heap, left, 600);
        release_many(heap, 600);
        first = first == 0 ? capacity(heap, left) : first;
    }
    assert_true(capacity(heap, left) >= 600);
    refill_often(heap, hak_class_of(512));
    assert_int_equal(hak_bin_blocks(heap, left), 0);
    assert_true(capacity(heap, left) <= 2 * first + 1);
    for (int round = 0; round < 40; round++) {
        allocate_many(heap, left, 600);
        release_many(heap, 600);
    }
    assert_true(capacity(heap, left) >= 600);
    verify_heaps();
}

static void flush_returns_everything_to_the_pool(void **state)
{
    (void)state;
    start();
    struct hak_heap *heap = open_thread();
    for (unsigned cls = 0; cls < HAK_CLASSES; cls++) {
        unsigned count = hak_class(cls)->blocks * 3u;
        allocate_many(heap, cls, count);
        release_many(heap, count);
    }
    assert_true(usage().bin_blocks > 0);
    hak_cache_flush(heap);
    assert_nothing_held();
    struct hak_pool_stats s;
    hak_pool_stats(&s);
    uint64_t acquires = 0;
    for (enum hak_stage stage = 0; stage < HAK_STAGE_COUNT; stage++)
        acquires += s.acquired[stage];
    assert_int_equal(acquires, s.released);
}

static void a_thread_that_did_nothing_flushes_nothing(void **state)
{
    (void)state;
    start();
    struct hak_heap *heap = open_thread();
    hak_cache_flush(heap);
    close_thread(heap);
    assert_nothing_held();
}

/* --- against a shadow --- */

struct shadow {
    char *p;
    unsigned cls;
};

static bool is_zero(const char *p, size_t bytes)
{
    return bytes_all(p, bytes, 0);
}

static void blocks_said_to_be_zero_are_zero_and_live_ones_are_left_alone(void **state)
{
    (void)state;
    static struct shadow held[2000];
    struct unit_random r = {5};
    unsigned zeroes = 0;
    start();
    struct hak_heap *heap = open_thread();
    for (unsigned i = 0; i < 60000; i++) {
        struct shadow *h = &held[unit_below(&r, UNIT_COUNT(held))];
        if (h->p != NULL) {
            size_t size = hak_class(h->cls)->size_bytes;
            CHECK(is_marked(h->p, size, (uintptr_t)h), "class %u, %p", h->cls, (void *)h->p);
            release(heap, h->p);
            h->p = NULL;
            continue;
        }
        bool zero;
        h->cls = (unsigned)unit_below(&r, unit_below(&r, 3) == 0 ? HAK_CLASSES : 20);
        h->p = try_allocate(heap, h->cls, &zero);
        size_t size = hak_class(h->cls)->size_bytes;
        CHECK(!zero || is_zero(h->p, size), "class %u, %p", h->cls, (void *)h->p);
        zeroes += zero;
        memset(h->p, 0xee, hak_min(size, 256));
        mark(h->p, size, (uintptr_t)h);
    }
    assert_true(zeroes > 10);
    verify_heaps();
    for (unsigned i = 0; i < UNIT_COUNT(held); i++)
        if (held[i].p != NULL)
            release(heap, held[i].p);
    hak_cache_flush(heap);
    assert_nothing_held();
}

/* --- refusals --- */

static void without_memory_a_refill_gives_null_and_later_works(void **state)
{
    (void)state;
    start();
    struct hak_heap *heap = open_thread();
    for (unsigned cls = 0; cls < HAK_CLASSES; cls += 5) {
        fake_os_fail_from(FAKE_ANY, 1, ENOMEM);
        unsigned n = 0;
        bool zero;
        while ((blocks[n] = try_allocate(heap, cls, &zero)) != NULL) {
            mark(blocks[n], hak_class(cls)->size_bytes, n);
            n++;
            MUST(n < MOST);
        }
        assert_null(try_allocate(heap, cls, &zero));
        fake_os_fail_nothing();
        blocks[n] = allocate(heap, cls);
        mark(blocks[n], hak_class(cls)->size_bytes, n);
        for (unsigned i = 0; i <= n; i++) {
            CHECK(is_marked(blocks[i], hak_class(cls)->size_bytes, i), "class %u, block %u of %u",
                  cls, i, n);
            release(heap, blocks[i]);
        }
    }
    verify_heaps();
    hak_cache_flush(heap);
    assert_nothing_held();
}

static void without_memory_a_thread_gets_no_heap_and_later_does(void **state)
{
    (void)state;
    hak_classes_start();
    assert_int_equal(hak_space_start(), 0);
    fake_os_fail_from(FAKE_ANY, 1, ENOMEM);
    assert_int_equal(hak_cache_start(), ENOMEM);
    fake_os_fail_nothing();
    assert_int_equal(hak_cache_start(), 0);
    unsigned n = 0;
    fake_os_fail_from(FAKE_ANY, 1, ENOMEM);
    while (hak_cache_thread_start() != NULL)
        MUST(++n < 100);
    fake_os_fail_nothing();
    assert_non_null(hak_cache_thread_start());
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_bin_is_filled_in_ascending_order),
    cmocka_unit_test(a_fresh_thread_takes_a_page_of_a_class_and_no_more),
    cmocka_unit_test(the_first_stacks_of_all_classes_fit_into_the_heap),
    cmocka_unit_test(the_block_freed_last_is_allocated_first),
    cmocka_unit_test(an_overflow_gives_the_oldest_blocks_back),
    cmocka_unit_test(a_thread_that_only_allocates_keeps_small_bins),
    cmocka_unit_test(a_bin_grows_when_overflows_are_followed_by_underflows),
    cmocka_unit_test(a_working_set_over_the_capacity_soon_fits_the_bin),
    cmocka_unit_test(at_its_peak_a_class_takes_free_blocks_of_the_next),
    cmocka_unit_test(many_refills_in_a_row_are_no_swing),
    cmocka_unit_test(a_class_without_a_turn_takes_memory),
    cmocka_unit_test(what_depends_on_its_class_gets_it),
    cmocka_unit_test(a_large_heap_does_not_borrow),
    cmocka_unit_test(a_thread_takes_little_of_a_large_bin_that_it_did_not_make),
    cmocka_unit_test(bins_have_a_limit_in_blocks_and_bytes),
    cmocka_unit_test(a_bin_that_cannot_grow_works_on),
    cmocka_unit_test(a_bin_that_its_thread_has_left_gives_its_blocks_back),
    cmocka_unit_test(so_does_a_bin_into_which_its_thread_only_frees),
    cmocka_unit_test(a_grown_bin_that_its_thread_has_left_becomes_small),
    cmocka_unit_test(flush_returns_everything_to_the_pool),
    cmocka_unit_test(a_thread_that_did_nothing_flushes_nothing),
    cmocka_unit_test(blocks_said_to_be_zero_are_zero_and_live_ones_are_left_alone),
    cmocka_unit_test(without_memory_a_refill_gives_null_and_later_works),
    cmocka_unit_test(without_memory_a_thread_gets_no_heap_and_later_does),
};
UNIT_MAIN(tests)
