/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Unit tests of large: what they share. */
#pragma once

#include "../unit.h"

#include "fake_os.h"
#include "large/large_internal.h"

#include <errno.h>

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

/* With 4 MiB for what nobody uses. */
static inline void start(void)
{
    assert_int_equal(hak_space_start(), 0);
    hak_pool_configure(&(struct hak_pool_config){.retired_max_count = 1024,
                                                 .retired_max_bytes = 4 * MIB,
                                                 .retired_max_age_ns = 1000000000u,
                                                 .huge_pages_from_bytes = 16 * MIB});
}

/* Without a cache of runs. */
static inline void *large_alloc(size_t bytes, size_t align_bytes, bool *zero)
{
    return hak_large_alloc_near(HAK_NO_RUN_CACHE, bytes, align_bytes, 0, zero);
}

static inline char *allocate(size_t bytes)
{
    bool zero;
    char *p = large_alloc(bytes, 1, &zero);
    CHECK(p != NULL, "%zu bytes", bytes);
    return p;
}

/* A block of just its slots: page-aligned ones have no colour. */
static inline char *allocate_plain(size_t bytes)
{
    bool zero;
    char *p = large_alloc(bytes, HAK_PAGE_BYTES, &zero);
    CHECK(p != NULL, "%zu bytes", bytes);
    return p;
}

static inline bool release(void *p)
{
    return hak_large_free(p, hak_map_lookup(p));
}

static inline size_t usable(const void *p)
{
    return hak_large_usable_bytes(p, hak_map_lookup(p));
}

static inline char *resize(void *p, size_t bytes)
{
    return hak_large_try_resize(p, hak_map_lookup(p), bytes);
}

static inline struct hak_large_stats large_stats(void)
{
    struct hak_large_stats s;
    hak_large_stats(&s);
    return s;
}

static inline size_t window_bytes(void)
{
    return fake_os_mapped_bytes() - hak_space_meta_bytes();
}

/* A word at the beginning of every page, that no other page has. */
static inline void fill(char *p, size_t bytes, uint64_t seed)
{
    for (size_t at = 0; at + 8 <= bytes; at += HAK_PAGE_BYTES)
        *(uint64_t *)(void *)(p + at) = seed + at;
}

static inline bool is_filled(const char *p, size_t bytes, uint64_t seed)
{
    for (size_t at = 0; at + 8 <= bytes; at += HAK_PAGE_BYTES)
        if (*(const uint64_t *)(const void *)(p + at) != seed + at)
            return false;
    return true;
}

static inline bool is_zero(const char *p, size_t bytes)
{
    for (size_t at = 0; at + 8 <= bytes; at += 512)
        if (*(const uint64_t *)(const void *)(p + at) != 0)
            return false;
    return true;
}

/* Pages of a mapped range that are in memory. */
static inline size_t resident_pages(char *p, size_t bytes)
{
    static unsigned char vec[1 << 14];
    size_t pages = bytes / HAK_PAGE_BYTES;
    size_t resident = 0;
    MUST(pages <= UNIT_COUNT(vec) && mincore(p, bytes, vec) == 0);
    for (size_t i = 0; i < pages; i++)
        resident += vec[i] & 1;
    return resident;
}

static inline void keep(size_t most_bytes)
{
    struct hak_pool_config config = {.retired_max_count = 1000,
                                     .retired_max_bytes = most_bytes,
                                     .retired_max_age_ns = UINT64_MAX};
    hak_pool_configure(&config);
}

static inline void keep_all(void)
{
    keep(SIZE_MAX);
}
