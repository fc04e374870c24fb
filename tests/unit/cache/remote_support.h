/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Unit tests of cache: what those of blocks that others free share. */
#pragma once

#include "cache_support.h"

#define MANY 2000u

/* One thread can open several heaps: what differs from several threads is only who holds the
 * pointer. */
static struct hak_heap *owner, *other;
static char *blocks[MANY];

static inline void start_two(void)
{
    start();
    hak_store_relaxed(&hak_cache_knobs.exchange_blocks, UINT64_MAX); /* they stay apart */
    owner = open_thread();
    other = open_thread();
}

static inline void allocate_many(struct hak_heap *heap, unsigned cls, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        blocks[i] = allocate(heap, cls);
        mark(blocks[i], hak_class(cls)->size_bytes, i);
    }
}

static inline void release_many(struct hak_heap *heap, unsigned cls, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        assert_true(is_marked(blocks[i], hak_class(cls)->size_bytes, i));
        release(heap, blocks[i]);
    }
}

static inline void call_release(void *p)
{
    release(other, p);
}

static inline void call_flush(void *heap)
{
    hak_cache_flush(heap);
}

static inline void assert_dies(void (*call)(void *), void *argument, const char *words)
{
    const char *said = fake_os_last_words(call, argument);
    CHECK(said != NULL && strstr(said, words) != NULL, "%s instead of %s", said, words);
}
