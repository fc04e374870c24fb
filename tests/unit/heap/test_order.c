/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Unit tests of heap: bins that keep the order in which blocks are freed (cache/order.c). */
#include "heap_support.h"

#include "cache/cache_internal.h"
#include "heap/profile.h"

#define MOST 200000u
#define LARGE_HEAP (4 * MIB)

static struct {
    char *p;
    uint32_t bytes;
} window[MOST];

static struct hak_heap *self(void)
{
    struct hak_heap *heap = hak_heap_self_slow();
    MUST(heap != NULL);
    return heap;
}

static uint32_t ordered(void)
{
    return hak_load_relaxed(&self()->front.ordered);
}

static uint32_t size_between(struct unit_random *r, uint32_t least, uint32_t most)
{
    return least + (uint32_t)unit_below(r, most - least + 1);
}

static void put(unsigned at, uint32_t bytes, bool zeroed)
{
    char *p = zeroed ? hak_heap_calloc(bytes) : allocate(bytes);
    MUST(!zeroed || is_zero(p, bytes));
    fill(p, bytes, at);
    window[at].p = p;
    window[at].bytes = bytes;
}

static void take(unsigned at)
{
    MUST(is_filled(window[at].p, window[at].bytes, window[at].bytes, at));
    release(window[at].p);
    window[at].p = NULL;
}

/* The oldest of `count` blocks is replaced, `steps` times. */
static void slide(unsigned count, unsigned steps, uint32_t least, uint32_t most, bool zeroed)
{
    struct unit_random r = {99};
    for (unsigned i = 0; i < steps; i++) {
        if (window[i % count].p != NULL)
            take(i % count);
        put(i % count, size_between(&r, least, most), zeroed);
    }
}

static void clear(unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        if (window[i].p != NULL)
            take(i);
}

static unsigned class_at(unsigned at)
{
    return (hak_map_lookup(window[at].p) & HAK_KIND_MASK) / 2;
}

/* The window's oldest block is its first. Of the blocks of each class, by age, how many in a
 * hundred lie behind the one before, on the same page or the next. */
static unsigned percent_in_order(unsigned count)
{
    static const char *last[HAK_CLASSES];
    unsigned pairs = 0, rising = 0;
    for (unsigned i = 0; i < count; i++) {
        const char *p = window[i].p;
        unsigned cls = class_at(i);
        if (last[cls] != NULL) {
            pairs++;
            rising += (uintptr_t)p - (uintptr_t)last[cls] - 1 < HAK_PAGE_BYTES;
        }
        last[cls] = p;
    }
    memset(last, 0, sizeof last);
    return rising * 100 / pairs;
}

static void a_window_of_a_large_heap_stays_in_order(void **state)
{
    (void)state;
    for (int zeroed = 0; zeroed < 2; zeroed++) {
        unsigned count = zeroed ? 40000 : 100000;
        slide(count, 20 * count, 10, 400, zeroed);
        assert_int_not_equal(ordered(), 0);
        assert_in_range(percent_in_order(count), 85, 100);
        clear(count);
        assert_nothing_is_lost();
    }
}

static void a_small_heap_hands_out_the_newest(void **state)
{
    (void)state;
    slide(10000, 200000, 10, 400, false);
    assert_true(self()->slab_bytes < LARGE_HEAP);
    assert_int_equal(ordered(), 0);
    assert_null(self()->front.meter);
    clear(10000);
    assert_nothing_is_lost();
}

/* What is freed is next in order already, and in the caches. */
static void blocks_of_one_class_are_handed_out_newest_first(void **state)
{
    (void)state;
    slide(150000, 150000, 200, 200, false);
    unsigned cls = class_at(149999);
    assert_true(hak_cache_is_ordered(&self()->front, cls));
    slide(150000, 150000, 200, 200, false);
    assert_false(hak_cache_is_ordered(&self()->front, cls));
    assert_in_range(percent_in_order(150000), 99, 100);
    for (unsigned i = 0; i < 1000; i++) {
        char *p = window[i].p;
        take(i);
        put(i, 200, false);
        assert_ptr_equal(window[i].p, p);
    }
    clear(150000);
    assert_nothing_is_lost();
}

/* A heap that grows slowly, and allocates for a moment all the time. */
static void what_is_freed_at_once_is_handed_out_newest_first(void **state)
{
    (void)state;
    slide(150000, 100000, 200, 200, false);
    unsigned cls = class_at(99999);
    assert_true(hak_cache_is_ordered(&self()->front, cls));
    unsigned other_places = 0;
    char *before = NULL;
    for (unsigned i = 100000; i < 110000; i++) {
        char *p = allocate(200), *q = allocate(200);
        release(q);
        other_places += p != before;
        before = p;
        release(p);
        if (i % 5 == 0)
            put(i, 200, false);
    }
    /* In order each would be another: here only those that a long-lived block follows. */
    assert_in_range(other_places, 0, 7000);
    clear(150000);
    assert_nothing_is_lost();
}

static void blocks_freed_at_random_are_handed_out_newest_first(void **state)
{
    (void)state;
    struct unit_random r = {7};
    slide(100000, 100000, 10, 400, false);
    for (unsigned i = 0; i < 400000; i++) {
        unsigned at = (unsigned)unit_below(&r, 100000);
        take(at);
        put(at, size_between(&r, 10, 400), false);
    }
    unsigned still = (unsigned)__builtin_popcount(ordered());
    assert_in_range(still, 0, 2); /* that have just carved */
    clear(100000);
    assert_nothing_is_lost();
}

/* Heaps that grow and are emptied again, so that bins grow, become small, and lend blocks. */
static void nothing_is_lost_in_phases(void **state)
{
    (void)state;
    struct unit_random r = {3};
    for (unsigned phase = 0; phase < 12; phase++) {
        uint32_t most = phase % 3 == 2 ? 1040 : 500;
        for (unsigned i = 0; i < 100000; i++)
            put(i, size_between(&r, 16, most), false);
        for (unsigned i = 0; i < 100000; i++)
            take(phase % 2 == 0 ? i : 99999 - i);
        for (unsigned i = 0; i < 20000; i++) { /* a small heap with classes in order */
            if (window[i % 5000].p != NULL)
                take(i % 5000);
            put(i % 5000, size_between(&r, 16, most), false);
            if (i % 3 != 0)
                take(i % 5000);
        }
        clear(5000);
    }
    assert_nothing_is_lost();
}

/* Blocks in bins pin pages as those few do that are in use. */
static void a_heap_of_which_little_is_in_use_keeps_none_in_metered_bins(void **state)
{
    (void)state;
    slide(200000, 200000, 10, 400, false);
    assert_int_not_equal(ordered(), 0);
    for (unsigned i = 0; i < 200000; i++)
        if (i % 400 != 0)
            take(i);
    unsigned metered = 0;
    for (unsigned cls = 0; cls < HAK_METERED_CLASSES; cls++)
        metered += hak_metered_blocks(self(), cls);
    assert_int_equal(metered, 0);
    clear(200000);
    assert_nothing_is_lost();
}

/* Refills of another class, until bins that rest were looked for twice. */
static void refill_others(unsigned from)
{
    uint64_t refills = hak_load_relaxed(&self()->stats.refills);
    for (unsigned i = from; hak_load_relaxed(&self()->stats.refills) < refills + 600; i++) {
        MUST(i < MOST);
        put(i, 1000, false);
    }
}

static void what_rests_in_metered_bins_goes_back(void **state)
{
    (void)state;
    slide(100000, 300000, 10, 400, false);
    assert_int_not_equal(ordered(), 0);
    refill_others(100000);
    for (unsigned cls = 0; cls < HAK_METERED_CLASSES; cls++)
        if (hak_cache_is_ordered(&self()->front, cls) && hak_class(cls)->size_bytes < 500)
            assert_int_equal(hak_metered_blocks(self(), cls), 0);
    clear(MOST);
    assert_nothing_is_lost();
}

static void bins_from_which_batches_are_taken_do_not_rest(void **state)
{
    (void)state;
    struct unit_random r = {5};
    slide(100000, 300000, 10, 400, false);
    uint64_t drained = hak_load_relaxed(&self()->stats.drained_blocks);
    for (unsigned i = 0; i < 400000; i++) {
        take(i % 100000);
        put(i % 100000, size_between(&r, 10, 400), false);
        if (i % 5 == 0)
            put(100000 + i / 5, 1000, false); /* a refill now and then */
    }
    assert_in_range(hak_load_relaxed(&self()->stats.drained_blocks) - drained, 0, 8000);
    clear(MOST);
    assert_nothing_is_lost();
}

static void the_heap_profile_ends_it(void **state)
{
    (void)state;
    slide(100000, 300000, 10, 400, false);
    assert_int_not_equal(ordered(), 0);
    assert_int_equal(hak_profile_start(1 << 20), 0);
    assert_int_equal(ordered(), 0);
    slide(150000, 300000, 10, 400, false);
    assert_int_equal(ordered(), 0);
    hak_profile_stop();
    slide(190000, 300000, 10, 400, false);
    assert_int_not_equal(ordered(), 0);
    clear(MOST);
    assert_nothing_is_lost();
}

static void end_in_the_midst(unsigned index, void *argument)
{
    (void)index, (void)argument;
    slide(100000, 300000, 10, 400, false);
    MUST(ordered() != 0);
}

static void a_thread_that_ends_leaves_all_of_it(void **state)
{
    (void)state;
    unit_in_threads(1, end_in_the_midst, NULL);
    clear(100000);
    assert_nothing_is_lost();
}

static pthread_barrier_t all;
static _Atomic(unsigned) guests;

static void slide_as_a_guest(unsigned index, void *argument)
{
    (void)index, (void)argument;
    release(allocate(1));
    pthread_barrier_wait(&all);
    if (hak_home(self()) != self() && hak_add_relaxed(&guests, 1) == 0) {
        slide(100000, 300000, 10, 400, false);
        MUST(hak_home(self()) != self() && hak_home(self())->slab_bytes >= LARGE_HEAP);
        MUST(ordered() == 0 && self()->front.meter == NULL);
        clear(100000);
    }
    pthread_barrier_wait(&all);
}

/* Of many threads each would need memory for it. */
static void guests_hand_out_the_newest(void **state)
{
    (void)state;
    fake_os_set_processors(1);
    assert_int_equal(pthread_barrier_init(&all, NULL, 4), 0);
    unit_in_threads(4, slide_as_a_guest, NULL);
    assert_true(hak_load_relaxed(&guests) > 0);
    pthread_barrier_destroy(&all);
    assert_nothing_is_lost();
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_window_of_a_large_heap_stays_in_order),
    cmocka_unit_test(a_small_heap_hands_out_the_newest),
    cmocka_unit_test(blocks_of_one_class_are_handed_out_newest_first),
    cmocka_unit_test(what_is_freed_at_once_is_handed_out_newest_first),
    cmocka_unit_test(blocks_freed_at_random_are_handed_out_newest_first),
    cmocka_unit_test(nothing_is_lost_in_phases),
    cmocka_unit_test(a_heap_of_which_little_is_in_use_keeps_none_in_metered_bins),
    cmocka_unit_test(what_rests_in_metered_bins_goes_back),
    cmocka_unit_test(bins_from_which_batches_are_taken_do_not_rest),
    cmocka_unit_test(the_heap_profile_ends_it),
    cmocka_unit_test(a_thread_that_ends_leaves_all_of_it),
    cmocka_unit_test(guests_hand_out_the_newest),
};
UNIT_MAIN(tests)
