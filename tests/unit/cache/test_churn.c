/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Unit tests of cache: many threads that begin, allocate, pass blocks on and end. Every block is
 * marked while it lives. At the end nothing may be held. */
#include "cache_support.h"

#define PLACES 512u
#define HELD 64u
#define WAVES 25u
#define THREADS 8u /* at a time: 200 in all */
#define STEPS 600u

static _Atomic(char *) places[PLACES]; /* blocks on their way to another thread */

static char *new_block(struct hak_heap *heap, struct unit_random *r)
{
    unsigned cls = (unsigned)unit_below(r, unit_below(r, 8) == 0 ? HAK_CLASSES : 12);
    char *p = allocate(heap, cls);
    mark(p, hak_class(cls)->size_bytes, 0xabcd);
    return p;
}

static void free_block(struct hak_heap *heap, char *p)
{
    size_t size = hak_class(class_of_block(p))->size_bytes;
    MUST(is_marked(p, size, 0xabcd));
    mark(p, size, 0xdead);
    release(heap, p);
}

static void live_and_end(unsigned index, void *argument)
{
    struct unit_random r = {*(unsigned *)argument * THREADS + index + 1};
    struct hak_heap *heap = open_thread();
    char *held[HELD] = {0};
    for (unsigned i = 0; i < STEPS; i++) {
        char **h = &held[unit_below(&r, HELD)];
        char *p = *h != NULL ? *h : new_block(heap, &r);
        *h = NULL;
        switch (unit_below(&r, 4)) {
        case 0: /* passes it on, and frees what another thread has passed on */
            p = atomic_exchange(&places[unit_below(&r, PLACES)], p);
            if (p != NULL)
                free_block(heap, p);
            break;
        case 1:
            free_block(heap, p);
            break;
        default:
            *h = p;
        }
    }
    for (unsigned i = 0; i < HELD; i++)
        if (held[i] != NULL && i % 4 != 0)
            free_block(heap, held[i]);
        else if (held[i] != NULL && (held[i] = atomic_exchange(&places[i], held[i])) != NULL)
            free_block(heap, held[i]);
    close_thread(heap);
}

static void free_all_places(void)
{
    struct hak_heap *heap = open_thread();
    for (unsigned i = 0; i < PLACES; i++)
        if (places[i] != NULL)
            free_block(heap, places[i]);
    close_thread(heap);
}

static void two_hundred_threads_lose_nothing_and_leave_nothing(void **state)
{
    (void)state;
    start();
    for (unsigned wave = 0; wave < WAVES; wave++) {
        unit_in_threads(THREADS, live_and_end, &wave);
        assert_true(usage().heaps == 0);
    }
    verify_heaps();
    free_all_places();
    assert_nothing_held();
}

/* --- one thread allocates, others only free --- */

struct stream {
    _Atomic(char *) ring[256];
    _Atomic(unsigned) producers;
};

static void produce_or_consume(unsigned index, void *argument)
{
    struct stream *s = argument;
    struct unit_random r = {index + 3};
    struct hak_heap *heap = open_thread();
    if (index % 2 == 0) {
        for (unsigned i = 0; i < 20000; i++) {
            char *p = atomic_exchange(&s->ring[unit_below(&r, 256)], new_block(heap, &r));
            if (p != NULL)
                free_block(heap, p);
        }
        atomic_fetch_sub(&s->producers, 1u);
    } else {
        while (hak_load_acquire(&s->producers) != 0) {
            char *p = atomic_exchange(&s->ring[unit_below(&r, 256)], NULL);
            if (p != NULL)
                free_block(heap, p);
        }
    }
    close_thread(heap);
}

static void blocks_streamed_from_thread_to_thread_all_come_back(void **state)
{
    (void)state;
    static struct stream s = {.producers = 2};
    start();
    unit_in_threads(4, produce_or_consume, &s);
    struct hak_heap *heap = open_thread();
    for (unsigned i = 0; i < 256; i++)
        if (s.ring[i] != NULL)
            free_block(heap, s.ring[i]);
    close_thread(heap);
    assert_nothing_held();
}

/* --- walks --- */

static void live_or_walk(unsigned index, void *argument)
{
    if (index != 0) {
        live_and_end(index, argument);
        return;
    }
    for (int i = 0; i < 300; i++) {
        struct hak_cache_usage u = usage();
        MUST(u.used_bytes <= u.slab_bytes + u.bin_bytes);
        hak_cache_collect_orphans();
    }
}

static void the_heaps_of_running_threads_can_be_walked(void **state)
{
    (void)state;
    start();
    for (unsigned wave = 0; wave < 5; wave++)
        unit_in_threads(4, live_or_walk, &wave);
    free_all_places();
    assert_nothing_held();
}

/* --- refusals --- */

static void live_under_refusals(unsigned index, void *argument)
{
    (void)argument;
    struct unit_random r = {index + 1};
    struct hak_heap *heap;
    while ((heap = hak_cache_thread_start()) == NULL)
        continue; /* refused as well */
    hak_self = &heap->front;
    char *held[HELD] = {0};
    for (unsigned i = 0; i < 4000; i++) {
        char **h = &held[unit_below(&r, HELD)];
        if (index == 0 && i % 3 == 0)
            fake_os_fail(FAKE_ANY, 1, ENOMEM);
        if (*h != NULL) {
            free_block(heap, *h);
            *h = NULL;
            continue;
        }
        unsigned cls = (unsigned)unit_below(&r, HAK_CLASSES);
        bool zero;
        *h = try_allocate(heap, cls, &zero);
        if (*h != NULL)
            mark(*h, hak_class(cls)->size_bytes, 0xabcd);
    }
    for (unsigned i = 0; i < HELD; i++)
        if (held[i] != NULL)
            free_block(heap, held[i]);
    close_thread(heap);
}

static void refusals_amid_many_threads_lose_nothing(void **state)
{
    (void)state;
    start();
    unit_in_threads(4, live_under_refusals, NULL);
    fake_os_fail_nothing();
    assert_nothing_held();
}

/* The load moves from class to class while as many bytes as ever are live: slots go with it. */
static void slots_follow_a_load_that_moves_between_classes(void **state)
{
    (void)state;
    enum { BLOCKS = 6000, PHASES = 24, WARM_UP = 8 };
    static char *p[BLOCKS];
    static const size_t sizes[] = {1024, 2048, 512, 1536};
    start();
    struct hak_heap *heap = open_thread();
    struct hak_pool_stats before, after;
    memset(p, 0, sizeof p);
    for (unsigned phase = 0; phase < PHASES; phase++) {
        if (phase == WARM_UP)
            hak_pool_stats(&before);
        for (unsigned i = 0; i < BLOCKS; i++) { /* the oldest goes, a new one comes */
            if (p[i] != NULL)
                release(heap, p[i]);
            p[i] = allocate(heap, hak_class_of(sizes[phase % UNIT_COUNT(sizes)]));
        }
    }
    hak_pool_stats(&after);
    uint64_t all = 0;
    for (enum hak_stage stage = 0; stage < HAK_STAGE_COUNT; stage++)
        all += after.acquired[stage] - before.acquired[stage];
    uint64_t reused = 0;
    for (enum hak_stage stage = HAK_STAGE_ADOPT; stage <= HAK_STAGE_EMPTY; stage++)
        reused += after.acquired[stage] - before.acquired[stage];
    CHECK(all > 1000 && reused * 10 > all * 7, "%lu of %lu slots were in use before", reused, all);
    for (unsigned i = 0; i < BLOCKS; i++)
        release(heap, p[i]);
    hak_cache_flush(heap);
    assert_nothing_held();
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(two_hundred_threads_lose_nothing_and_leave_nothing),
    cmocka_unit_test(blocks_streamed_from_thread_to_thread_all_come_back),
    cmocka_unit_test(the_heaps_of_running_threads_can_be_walked),
    cmocka_unit_test(refusals_amid_many_threads_lose_nothing),
    cmocka_unit_test(slots_follow_a_load_that_moves_between_classes),
};
UNIT_MAIN(tests)
