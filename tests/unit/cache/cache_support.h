/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Unit tests of cache: what they share: a thread's allocations as the heap layer would make them,
 * and what must hold of a heap. */
#pragma once

#include "../unit.h"

#include "cache/cache_internal.h"
#include "fake_os.h"

#include <errno.h>

static inline void start(void)
{
    hak_classes_start();
    assert_int_equal(hak_space_start(), 0);
    assert_int_equal(hak_cache_start(), 0);
}

static inline struct hak_heap *open_thread(void)
{
    struct hak_heap *heap = hak_cache_thread_start();
    MUST(heap != NULL);
    hak_self = &heap->front;
    return heap;
}

/* Of a process that starts: two homes, and the guest of one. */
static inline struct hak_heap *open_guest(void)
{
    fake_os_set_processors(1);
    for (unsigned i = 0; i < 2; i++) {
        struct hak_heap *home = open_thread();
        MUST(hak_home(home) == home);
    }
    struct hak_heap *guest = open_thread();
    MUST(hak_home(guest) != guest);
    return guest;
}

static inline void end_thread(struct hak_heap *heap)
{
    hak_self = &hak_front_none;
    hak_cache_thread_end(heap);
}

/* And nothing is kept for the next one. */
static inline void close_thread(struct hak_heap *heap)
{
    end_thread(heap);
    hak_registry_give_kept();
}

/* NULL: out of memory. */
static inline void *try_allocate(struct hak_heap *heap, unsigned cls, bool *zero)
{
    *zero = false;
    void *p = hak_cache_pop(&heap->front, cls * 2u);
    return p != NULL ? p : hak_cache_refill(heap, cls, zero);
}

static inline char *allocate(struct hak_heap *heap, unsigned cls)
{
    bool zero;
    char *p = try_allocate(heap, cls, &zero);
    MUST(p != NULL);
    return p;
}

static inline void release(struct hak_heap *heap, void *p)
{
    uint32_t entry = hak_map_lookup(p);
    uint32_t kind = entry & HAK_KIND_MASK;
    MUST(entry != 0 && kind < HAK_KIND_CLASSES);
    if ((entry ^ heap->front.tag) != kind) {
        if (!hak_cache_try_free_remote(heap, entry, p))
            hak_cache_free_remote(heap, entry, p);
    } else if (!hak_cache_push(&heap->front, kind, p))
        hak_cache_overflow(heap, kind / 2, p);
}

static inline unsigned class_of_block(const void *p)
{
    return (hak_map_lookup(p) & HAK_KIND_MASK) / 2;
}

static inline struct hak_heap *owner_of(const void *p)
{
    return hak_load_relaxed(&hak_slab_of_slot(hak_slot_of(p), hak_class(class_of_block(p)))->owner);
}

/* A thread that a fork leaves behind is changing the heap. */
static inline void hold_as_another_thread(struct hak_heap *heap)
{
    hak_lock(&heap->lock);
    hak_store_relaxed(&heap->lock.holder, (uintptr_t)8);
}

/* The beginning and the end of a live block say whose it is. */
static inline void mark(char *p, size_t size, uint64_t seed)
{
    uint64_t first = seed ^ (uintptr_t)p;
    memcpy(p, &first, sizeof first);
    memcpy(p + size - sizeof seed, &seed, sizeof seed);
}

static inline bool is_marked(const char *p, size_t size, uint64_t seed)
{
    uint64_t first, last;
    memcpy(&first, p, sizeof first);
    memcpy(&last, p + size - sizeof last, sizeof last);
    return last == seed && first == (seed ^ (uintptr_t)p);
}

static inline struct hak_cache_usage usage(void)
{
    struct hak_cache_usage u;
    hak_cache_usage(&u);
    return u;
}

static inline uint64_t counted(_Atomic(uint64_t) *counter)
{
    return hak_load_relaxed(counter);
}

static inline size_t window_slots(void)
{
    size_t busy = 0;
    for (size_t slot = 0; slot < hak_space_high_water() * HAK_SLOTS; slot++)
        busy += hak_load_relaxed(hak_map_entry(slot)) != 0;
    return busy;
}

static inline size_t verify_slab(struct hak_heap *heap, struct hak_slab *s, unsigned cls,
                                 unsigned list)
{
    hak_slab_verify_owner(s);
    assert_int_equal(s->cls, cls);
    assert_int_equal(s->list, list);
    assert_ptr_equal(hak_load_relaxed(&s->owner), heap);
    assert_true(hak_slab_used_blocks(s) > 0);
    assert_true((hak_slab_room_blocks(s) == 0) == (list == HAK_LIST_FULL));
    for (unsigned i = 0; i < hak_class(cls)->slots; i++)
        assert_int_equal(hak_load_relaxed(hak_map_entry(hak_slab_slot(s) + i)),
                         heap->tag | cls * 2u);
    return hak_class(cls)->slots;
}

/* Everything that is known of all heaps agrees; no thread runs. */
static inline void verify_heaps(void)
{
    size_t slots = 0;
    for (struct hak_heap *h = hak_cache_first_heap(); h != NULL; h = h->next_heap) {
        size_t slabs = 0;
        for (unsigned cls = 0; cls < HAK_CLASSES; cls++) {
            for (unsigned list = 0; list < HAK_LISTS; list++) {
                struct hak_slab *before = NULL;
                for (struct hak_slab *s = h->classes[cls].lists[list]; s != NULL;
                     before = s, s = s->next, slabs++) {
                    assert_ptr_equal(s->prev, before);
                    slots += verify_slab(h, s, cls, list);
                }
            }
            for (unsigned i = hak_bin_blocks(h, cls); i > 0; i--) { /* of any heap's slabs */
                uint32_t entry = hak_map_lookup(h->classes[cls].stack[i]);
                assert_int_equal(entry & HAK_KIND_MASK, cls * 2u);
                assert_int_not_equal(entry >> HAK_TAG_SHIFT, 0);
            }
        }
        assert_int_equal(slabs, hak_load_relaxed(&h->slabs));
    }
    assert_int_equal(slots, window_slots());
}

/* After every block was freed and every thread that still runs has flushed: nothing is held. */
static inline void assert_nothing_held(void)
{
    hak_cache_collect_orphans();
    verify_heaps();
    struct hak_cache_usage u = usage();
    assert_int_equal(u.used_blocks, 0);
    assert_int_equal(u.bin_blocks, 0);
    assert_int_equal(u.slabs, 0);
    assert_int_equal(window_slots(), 0);
}
