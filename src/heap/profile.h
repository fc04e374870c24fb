/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * heap: where allocation and the heap profile meet: counts the bytes that a thread is given, and
 * makes a block a sample when a sample point lies in it. For route.c, and api, which switches it.
 *
 * A sampled block of a size class has a run of slots of the large layer to itself, of which only
 * its own pages are touched; so free finds it by its kind, and free of all others is what it was.
 * The thread's own fast paths go by metered bins (cache/meter.c) while profiling is on. Threads
 * without a heap (starting, ending) are not counted. */
#pragma once

#include "heap/heap.h"
#include "telemetry/prof.h"
#include "telemetry/root.h"

/* As hak_prof_start and hak_prof_stop, and all threads are told. Any thread without a lock. */
int hak_profile_start(uint64_t period_bytes);
void hak_profile_stop(void);

/* Does what the hakmem command has asked for. */
void hak_profile_answer_slow(void);

/* Slow paths call it when they hold no lock. */
static inline void hak_profile_notice_request(void)
{
    if (HAK_UNLIKELY(hak_load_relaxed(&hak_root.requests[HAK_ROOT_ASK_PROFILE]) != 0))
        hak_profile_answer_slow();
}

/* The shortest way: blocks from the class's bin for the metered bin that malloc found empty. NULL:
 * it is to go the long way. */
static inline void *hak_profile_try_metered(size_t size_bytes)
{
    struct hak_front *front = hak_self;
    unsigned kind = hak_load_relaxed(&front->tiny_kind[(size_bytes + 15) / 16]);
    if (front->meter == NULL || kind < HAK_KIND_METERED)
        return NULL;
    unsigned cls = (kind - HAK_KIND_METERED) / 2;
    return HAK_LIKELY(front->meter->of[cls].thin < HAK_METER_THIN_TURNS)
               ? hak_cache_meter_take(hak_heap_of_front(front), cls)
               : NULL;
}

/* The shortest way for sizes above HAK_TINY_MAX, whose classes have no metered bin and so come by
 * each time: counted, and out of the class's own bin. NULL: as above; also when somebody has asked
 * for something. */
static inline void *hak_profile_try_counted(size_t size_bytes)
{
    struct hak_front *front = hak_self;
    struct hak_meter *m = front->meter;
    unsigned cls = hak_class_of(size_bytes);
    if (m == NULL || m->of[HAK_METERED_CLASSES].left_bytes < (int64_t)hak_class(cls)->size_bytes ||
        hak_load_relaxed(&hak_root.requests[HAK_ROOT_ASK_PROFILE]) != 0)
        return NULL;
    void *p = hak_cache_pop(front, cls * 2u);
    if (HAK_LIKELY(p != NULL))
        m->of[HAK_METERED_CLASSES].left_bytes -= (int64_t)hak_class(cls)->size_bytes;
    return p;
}

/* A block of a class of which malloc's bin was empty; as hak_cache_refill. */
void *hak_profile_small(struct hak_heap *heap, unsigned cls, size_t size_bytes, size_t align_bytes,
                        bool *zero);
/* A large or huge block has been given out. */
void hak_profile_large(const void *p);
/* realloc of a large or huge block, without a copy, from one place to the other; before, it had the
 * site (0: it was no sample) and so many bytes. Nothing happens where it stayed what it was. */
void hak_profile_resized(const void *from, const void *to, uint32_t site, size_t bytes);
/* A block of a class keeps its place for another size that was asked for. */
void hak_profile_kept(const void *p, size_t asked_bytes);
