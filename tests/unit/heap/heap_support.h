/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Unit tests of heap: what they share. Nothing is started here: the first call does that. */
#pragma once

#include "../unit.h"

#include "bytes.h"
#include "fake_os.h"
#include "heap/heap.h"

#include <errno.h>

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

static inline void release(void *p)
{
    if (!hak_heap_try_free(p))
        MUST(hak_heap_free_slow(p));
}

static inline char *allocate(size_t bytes)
{
    char *p = hak_heap_malloc(bytes);
    MUST(p != NULL);
    return p;
}

static inline void *heap_realloc(void *p, size_t bytes)
{
    return hak_heap_realloc_from(p, hak_heap_usable_bytes(p), bytes, 0);
}

#define FILL_STEP ((size_t)40000)

/* Writes the first `bytes` of a block: every byte of short ones, both ends and some bytes between
 * of long ones. */
static inline void fill(char *p, size_t bytes, unsigned seed)
{
    size_t dense = hak_min(bytes, 4096);
    memset(p, (int)(seed & 0xff), dense);
    for (size_t i = dense; i < bytes; i += FILL_STEP)
        p[i] = (char)(seed + i / FILL_STEP);
    if (bytes > dense)
        p[bytes - 1] = (char)seed;
}

/* True if the first `bytes` of what fill(p, filled, seed) wrote are still there. */
static inline bool is_filled(const char *p, size_t bytes, size_t filled, unsigned seed)
{
    size_t dense = hak_min(filled, 4096);
    if (!bytes_all(p, hak_min(bytes, dense), (unsigned char)seed))
        return false;
    for (size_t i = dense; i < bytes; i += FILL_STEP)
        if (i != filled - 1 && p[i] != (char)(seed + i / FILL_STEP))
            return false;
    return bytes < filled || filled <= dense || p[filled - 1] == (char)seed;
}

static inline bool is_zero(const char *p, size_t bytes)
{
    return bytes_all(p, bytes, 0);
}

/* After every block was freed: nothing is held. */
static inline void assert_nothing_is_lost(void)
{
    hak_heap_trim();
    struct hak_cache_usage u;
    hak_cache_usage(&u);
    assert_int_equal(u.used_blocks, 0);
    assert_int_equal(u.bin_blocks, 0);
    assert_int_equal(u.slabs, 0);
}
