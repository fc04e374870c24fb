/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Unit tests of cache: what those of homes share: four threads on one processor. */
#pragma once

#include "cache_support.h"

enum { MANY = 4000 };
static char *blocks[MANY];

static inline void allocate_many(struct hak_heap *heap, unsigned cls, unsigned from, unsigned to)
{
    hak_self = &heap->front;
    for (unsigned i = from; i < to; i++)
        mark(blocks[i] = allocate(heap, cls), hak_class(cls)->size_bytes, i);
}

static inline void release_many(struct hak_heap *heap, unsigned from, unsigned to)
{
    hak_self = &heap->front;
    for (unsigned i = from; i < to; i++) {
        MUST(is_marked(blocks[i], hak_class(class_of_block(blocks[i]))->size_bytes, i));
        release(heap, blocks[i]);
    }
}

/* Two homes; heap 2 is a guest of the first, heap 3 of the second. */
static struct hak_heap *heaps[4];

static inline void start_four(void)
{
    start();
    fake_os_set_processors(1);
    for (unsigned i = 0; i < UNIT_COUNT(heaps); i++)
        heaps[i] = open_thread();
}

static inline void become_another_thread(struct hak_heap *heap)
{
    hak_store_relaxed(&heap->thread, (uintptr_t)8);
}
