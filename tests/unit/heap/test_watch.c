/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Unit tests of heap: watched classes: every request for one of them comes to the slow path, which
 * finds the true class; the others, and free, do not notice. */
#include "heap_support.h"

static struct hak_class_set set_of(unsigned from, unsigned to)
{
    struct hak_class_set set = {{0}};
    for (unsigned cls = from; cls <= to; cls++)
        set.bits[cls / 64] |= UINT64_C(1) << cls % 64;
    return set;
}

/* What the fast path would take; NULL: it goes to the slow path. */
static void *fast(size_t bytes)
{
    struct hak_front *front = hak_self;
    uint64_t kind = bytes <= HAK_TINY_MAX
                        ? hak_load_relaxed(&front->tiny_kind[(bytes + 15) / 16])
                        : hak_load_relaxed(&hak_tables.small_kind[hak_small_index(bytes)]);
    return hak_cache_pop(front, kind);
}

/* So that the bin of a size has a block. */
static void warm(size_t bytes)
{
    void *p = allocate(bytes);
    void *q = allocate(bytes);
    release(p);
    release(q);
}

static const size_t sizes[] = {1, 40, 1024, 1041, 3000, 9000, 30000, 65536};

static void only_watched_classes_are_closed(void **state)
{
    (void)state;
    for (unsigned i = 0; i < UNIT_COUNT(sizes); i++)
        warm(sizes[i]);
    hak_cache_watch(HAK_WATCHER_SITES, set_of(hak_class_of(1041), hak_class_of(9000)));
    for (unsigned i = 0; i < UNIT_COUNT(sizes); i++) {
        bool watched = sizes[i] >= 1041 && sizes[i] <= 9000;
        void *p = fast(sizes[i]);
        CHECK((p == NULL) == watched, "size %zu", sizes[i]);
        assert_int_equal(hak_cache_is_watched(HAK_WATCHER_SITES, hak_class_of(sizes[i])), watched);
        if (p != NULL)
            release(p);
    }
    hak_cache_watch(HAK_WATCHER_SITES, (struct hak_class_set){{0}});
    for (unsigned i = 0; i < UNIT_COUNT(sizes); i++)
        release(fast(sizes[i]));
}

static void watched_blocks_are_like_the_others(void **state)
{
    (void)state;
    static char *p[UNIT_COUNT(sizes)][3];
    hak_cache_watch(HAK_WATCHER_SITES, (struct hak_class_set){{0}});
    release(allocate(1));
    hak_cache_watch(HAK_WATCHER_SITES, set_of(0, HAK_CLASSES - 1));
    for (unsigned round = 0; round < 50; round++) {
        for (unsigned i = 0; i < UNIT_COUNT(sizes); i++) {
            assert_null(fast(sizes[i]));
            p[i][0] = allocate(sizes[i]);
            p[i][1] = hak_heap_calloc(sizes[i]);
            p[i][2] = hak_heap_aligned(64, sizes[i]);
            assert_true(is_zero(p[i][1], sizes[i]));
            assert_int_equal((uintptr_t)p[i][2] % 64, 0);
            for (unsigned k = 0; k < 3; k++) {
                assert_true(hak_heap_usable_bytes(p[i][k]) >= sizes[i]);
                fill(p[i][k], sizes[i], i + k);
            }
        }
        for (unsigned i = 0; i < UNIT_COUNT(sizes); i++) {
            for (unsigned k = 0; k < 3; k++) {
                assert_true(is_filled(p[i][k], sizes[i], sizes[i], i + k));
                release(p[i][k]);
            }
        }
    }
    struct hak_front *front = hak_self;
    assert_null(*hak_load_relaxed(&front->bins[HAK_CLASSES].top)); /* the closed bin */
    assert_false(hak_cache_push(front, HAK_KIND_CLOSED, p));
    assert_nothing_is_lost();
}

/* A class that is watched is refined as the others are: behind the closed entries. */
static void coarse_classes_are_refined_while_they_are_closed(void **state)
{
    (void)state;
    static void *p[4000];
    release(allocate(1));
    assert_int_equal(hak_class(hak_front_class(hak_self, 600))->size_bytes, HAK_TINY_MAX);
    hak_cache_watch(HAK_WATCHER_SITES, set_of(0, HAK_CLASSES - 1));
    for (unsigned i = 0; i < UNIT_COUNT(p); i++)
        p[i] = allocate(1024);
    assert_int_equal(hak_class(hak_front_class(hak_self, 600))->size_bytes, 640);
    assert_null(fast(600));
    for (unsigned i = 0; i < UNIT_COUNT(p); i++)
        release(p[i]);
    size_t large = 30000; /* a fine class is below the one it has */
    unsigned cls = hak_class_of(large);
    while (hak_class(cls)->fine || !hak_class(cls - 1)->fine)
        cls--;
    large = hak_class(cls - 1)->size_bytes;
    assert_int_equal(hak_class_of(large), cls);
    hak_classes_refine(cls);
    assert_int_equal(hak_class_of(large), cls - 1);
    assert_null(fast(large));
    hak_cache_watch(HAK_WATCHER_SITES, (struct hak_class_set){{0}});
    assert_int_equal(hak_load_relaxed(&hak_tables.small_kind[hak_small_index(large)]),
                     (cls - 1) * 2);
    warm(600);
    void *q = fast(600);
    assert_int_equal(hak_heap_usable_bytes(q), 640);
    release(q);
}

static _Atomic(bool) done;

static void allocate_always(unsigned index, void *argument)
{
    (void)argument;
    if (index == 0) {
        for (unsigned i = 0; i < 300; i++)
            hak_cache_watch(HAK_WATCHER_SITES, set_of(0, i % 2 == 0 ? HAK_CLASSES - 1 : 0));
        hak_store_relaxed(&done, true);
        return;
    }
    for (unsigned i = 0; !hak_load_relaxed(&done); i++) {
        size_t size = (i * 37) % 70000;
        char *p = allocate(size);
        fill(p, size, i);
        MUST(is_filled(p, size, size, i));
        release(p);
    }
}

static void a_new_thread(unsigned index, void *argument)
{
    (void)index;
    (void)argument;
    MUST(fast(100) == NULL); /* it has no heap */
    warm(100);
    MUST(fast(100) == NULL);
}

static void threads_are_switched_while_they_run_and_before_they_start(void **state)
{
    (void)state;
    release(allocate(1));
    unit_in_threads(3, allocate_always, NULL);
    hak_cache_watch(HAK_WATCHER_SITES, set_of(0, HAK_CLASSES - 1));
    unit_in_threads(2, a_new_thread, NULL); /* heaps that were used before */
    unit_in_threads(8, a_new_thread, NULL); /* and new ones */
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(only_watched_classes_are_closed),
    cmocka_unit_test(watched_blocks_are_like_the_others),
    cmocka_unit_test(coarse_classes_are_refined_while_they_are_closed),
    cmocka_unit_test(threads_are_switched_while_they_run_and_before_they_start),
};
UNIT_MAIN(tests)
