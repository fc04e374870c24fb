/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * api: where blocks come from and go to: heap, or in the hardened library the layer before it. For
 * files of api only. */
#pragma once

#include "hard/hard.h"

HAK_ALWAYS_INLINE void *api_malloc(size_t bytes)
{
    return HAK_HARDENED ? hak_hard_malloc(bytes) : hak_heap_malloc(bytes);
}

static inline void *api_malloc_at(size_t bytes, uintptr_t site)
{
    return HAK_HARDENED ? hak_hard_malloc(bytes) : hak_heap_malloc_at(bytes, site);
}

/* All zero. */
HAK_ALWAYS_INLINE void *api_calloc(size_t bytes)
{
    return HAK_HARDENED ? hak_hard_malloc(bytes) : hak_heap_calloc(bytes);
}

static inline void *api_calloc_at(size_t bytes, uintptr_t site)
{
    return HAK_HARDENED ? hak_hard_malloc(bytes) : hak_heap_calloc_from(bytes, site);
}

/* align_bytes a power of two. */
static inline void *api_aligned_at(size_t align_bytes, size_t bytes, uintptr_t site)
{
    if (HAK_HARDENED)
        return hak_hard_alloc(bytes, align_bytes, HAK_BY_MALLOC);
    void *p = hak_heap_try_aligned(align_bytes, bytes);
    return HAK_LIKELY(p != NULL) ? p : hak_heap_aligned_from(align_bytes, bytes, site);
}

/* What the program may write. */
static inline size_t api_usable_bytes(const void *p)
{
    return HAK_HARDENED ? hak_hard_usable_bytes(p) : hak_heap_block_bytes(p);
}

/* p is not NULL, bytes > 0. False: it is no block of ours. */
static inline bool api_realloc_at(void *p, size_t bytes, uintptr_t site, void **out)
{
    if (HAK_HARDENED)
        return hak_hard_realloc(p, bytes, out);
    size_t have = hak_heap_usable_bytes(p);
    if (HAK_UNLIKELY(have == 0))
        return false;
    *out = hak_heap_realloc_from(p, have, bytes, site);
    return true;
}
