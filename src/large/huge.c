/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * large: huge blocks: runs of whole superslabs of the window, of which only what is needed is
 * mapped. Growing maps more behind the block, shrinking unmaps, moving moves pages. Freed ones are
 * kept in a small cache. See large.h. */
#include "large/large_internal.h"

#define CACHE_ENTRIES 32u
#define CACHE_MIN_BYTES ((size_t)8 << 20)
#define CACHE_SHARE 4 /* of what live huge blocks use */
#define CACHE_MAX_AGE_NS 1000000000u

/* Under the lock. Unordered: it is short. */
static struct {
    struct hak_lock lock;
    unsigned count;
    size_t bytes;
    struct {
        size_t superslab;
        uint64_t freed_ns;
    } entries[CACHE_ENTRIES];
} cache;

/* The record of a huge block: its owner's alone, or the cache's. */
static struct hak_superslab *huge_record(size_t superslab)
{
    return hak_superslab(superslab);
}

static void huge_unmap(size_t superslab)
{
    struct hak_superslab *r = huge_record(superslab);
    if (hak_os_unmap(hak_superslab_address(superslab), r->huge.mapped_bytes) == 0)
        hak_space_give(superslab, r->huge.superslabs);
    else /* the system is out of mappings: the addresses are lost, the memory is not */
        hak_os_purge(hak_superslab_address(superslab), r->huge.mapped_bytes);
}

/* --- the cache --- */

static size_t cache_take_locked(unsigned i)
{
    size_t superslab = cache.entries[i].superslab;
    cache.bytes -= huge_record(superslab)->huge.mapped_bytes;
    cache.entries[i] = cache.entries[--cache.count];
    return superslab;
}

static bool cache_fits(size_t superslab, size_t bytes, size_t align)
{
    size_t have = huge_record(superslab)->huge.mapped_bytes;
    return have >= bytes && have - bytes <= bytes / 4 &&
           ((uintptr_t)hak_superslab_address(superslab) & (align - 1)) == 0;
}

static bool cache_try_get(size_t bytes, size_t align, size_t *superslab)
{
    hak_lock(&cache.lock);
    unsigned best = CACHE_ENTRIES;
    for (unsigned i = 0; i < cache.count; i++) {
        size_t s = cache.entries[i].superslab;
        if (cache_fits(s, bytes, align) &&
            (best == CACHE_ENTRIES ||
             huge_record(s)->huge.mapped_bytes <
                 huge_record(cache.entries[best].superslab)->huge.mapped_bytes))
            best = i;
    }
    if (best != CACHE_ENTRIES)
        *superslab = cache_take_locked(best);
    hak_unlock(&cache.lock);
    hak_add_relaxed(best != CACHE_ENTRIES ? &hak_large_counters.cache_hits
                                          : &hak_large_counters.cache_misses,
                    1u);
    return best != CACHE_ENTRIES;
}

/* Takes the oldest block out if the cache is over a limit. */
static bool cache_try_evict(size_t budget_bytes, uint64_t since_ns, unsigned most,
                            size_t *superslab)
{
    hak_lock(&cache.lock);
    unsigned oldest = 0;
    for (unsigned i = 1; i < cache.count; i++)
        if (cache.entries[i].freed_ns < cache.entries[oldest].freed_ns)
            oldest = i;
    bool evict = cache.count > 0 && (cache.bytes > budget_bytes || cache.count > most ||
                                     cache.entries[oldest].freed_ns < since_ns);
    if (evict)
        *superslab = cache_take_locked(oldest);
    hak_unlock(&cache.lock);
    return evict;
}

static size_t cache_evict(size_t budget_bytes, uint64_t since_ns, unsigned most)
{
    size_t bytes = 0;
    size_t superslab;
    while (cache_try_evict(budget_bytes, since_ns, most, &superslab)) {
        bytes += huge_record(superslab)->huge.mapped_bytes;
        huge_unmap(superslab);
    }
    return bytes;
}

static size_t cache_budget(void)
{
    return hak_max(CACHE_MIN_BYTES, hak_load_relaxed(&hak_large_counters.huge_bytes) / CACHE_SHARE);
}

void hak_huge_free(size_t superslab)
{
    size_t bytes = huge_record(superslab)->huge.mapped_bytes;
    hak_sub_relaxed(&hak_large_counters.huge_bytes, bytes);
    hak_sub_relaxed(&hak_large_counters.huge_blocks, 1u);
    size_t budget = cache_budget();
    uint64_t now = hak_os_now_ns();
    cache_evict(budget, now > CACHE_MAX_AGE_NS ? now - CACHE_MAX_AGE_NS : 0, CACHE_ENTRIES - 1);
    hak_lock(&cache.lock);
    bool keep = bytes <= budget && cache.count < CACHE_ENTRIES;
    if (keep) {
        cache.entries[cache.count].superslab = superslab;
        cache.entries[cache.count++].freed_ns = now;
        cache.bytes += bytes;
    }
    hak_unlock(&cache.lock);
    if (keep)
        cache_evict(budget, 0, CACHE_ENTRIES);
    else
        huge_unmap(superslab);
}

size_t hak_large_trim(void)
{
    return cache_evict(0, 0, 0);
}

/* --- blocks --- */

static void *huge_publish(size_t superslab)
{
    hak_add_relaxed(&hak_large_counters.huge_bytes, huge_record(superslab)->huge.mapped_bytes);
    hak_add_relaxed(&hak_large_counters.huge_blocks, 1u);
    hak_store_release(hak_map_entry(superslab * HAK_SLOTS),
                      HAK_KIND_HUGE); /* ORDER: [large-entry] */
    return hak_superslab_address(superslab);
}

static size_t huge_superslabs(size_t bytes)
{
    return (bytes + HAK_SUPERSLAB_BYTES - 1) >> HAK_SUPERSLAB_SHIFT;
}

/* Maps `bytes` (a multiple of a slot) at a place of their own. */
static bool huge_try_map(size_t bytes, size_t align, size_t *superslab)
{
    size_t count = huge_superslabs(bytes);
    size_t align_superslabs = align <= HAK_SUPERSLAB_BYTES ? 1 : align >> HAK_SUPERSLAB_SHIFT;
    if (hak_space_take(count, align_superslabs, bytes, false, superslab) != 0)
        return false;
    huge_record(*superslab)->huge.mapped_bytes = bytes;
    huge_record(*superslab)->huge.superslabs = count;
    return true;
}

void *hak_huge_alloc(size_t size_bytes, size_t align_bytes, bool *zero)
{
    if (size_bytes > HAK_HUGE_MAX || align_bytes > HAK_HUGE_MAX)
        return NULL;
    size_t bytes = hak_round_up(size_bytes, HAK_SLOT_BYTES);
    size_t superslab;
    *zero = false;
    if (cache_try_get(bytes, align_bytes, &superslab))
        return huge_publish(superslab);
    *zero = true;
    if (!huge_try_map(bytes, align_bytes, &superslab)) {
        hak_large_trim();
        hak_pool_trim();
        if (!huge_try_map(bytes, align_bytes, &superslab))
            return NULL;
    }
    return huge_publish(superslab);
}

static void huge_set_bytes(struct hak_superslab *r, size_t bytes)
{
    hak_add_relaxed(&hak_large_counters.huge_bytes,
                    bytes - r->huge.mapped_bytes); /* modulo 2^64: shrinks too */
    r->huge.mapped_bytes = bytes;
}

static bool huge_try_extend(size_t superslab, size_t bytes)
{
    struct hak_superslab *r = huge_record(superslab);
    size_t have = r->huge.superslabs;
    size_t need = huge_superslabs(bytes);
    if (need > have && !hak_space_try_take_at(superslab + have, need - have))
        return false;
    char *end = hak_superslab_address(superslab) + r->huge.mapped_bytes;
    if (hak_os_map_at(end, bytes - r->huge.mapped_bytes) != 0) {
        if (need > have)
            hak_space_give(superslab + have, need - have);
        return false;
    }
    r->huge.superslabs = hak_max(need, have);
    huge_set_bytes(r, bytes);
    return true;
}

static void huge_cut(size_t superslab, size_t bytes)
{
    struct hak_superslab *r = huge_record(superslab);
    size_t cut = r->huge.mapped_bytes - bytes;
    size_t keep = huge_superslabs(bytes);
    if (hak_os_unmap(hak_superslab_address(superslab) + bytes, cut) != 0)
        return; /* too many mappings: the block stays as large as it was */
    hak_space_give(superslab + keep, r->huge.superslabs - keep);
    r->huge.superslabs = keep;
    huge_set_bytes(r, bytes);
}

/* Moves a huge block's pages to a place with room for `bytes`. */
static void *huge_try_move(size_t superslab, size_t bytes)
{
    struct hak_superslab *r = huge_record(superslab);
    size_t to;
    if (!huge_try_map(bytes, HAK_SUPERSLAB_BYTES, &to))
        return NULL;
    if (hak_os_move(hak_superslab_address(superslab), hak_superslab_address(to),
                    r->huge.mapped_bytes, false) != 0) {
        huge_unmap(to);
        return NULL;
    }
    hak_add_relaxed(&hak_large_counters.moves, 1u);
    hak_store_relaxed(hak_map_entry(superslab * HAK_SLOTS), 0u);
    hak_sub_relaxed(&hak_large_counters.huge_bytes, r->huge.mapped_bytes);
    hak_sub_relaxed(&hak_large_counters.huge_blocks, 1u);
    hak_space_give(superslab, r->huge.superslabs);
    return huge_publish(to);
}

void *hak_huge_try_resize(size_t superslab, size_t new_bytes)
{
    size_t bytes = hak_round_up(new_bytes, HAK_SLOT_BYTES);
    size_t have = huge_record(superslab)->huge.mapped_bytes;
    if (bytes < have)
        huge_cut(superslab, bytes);
    if (bytes <= have || huge_try_extend(superslab, bytes))
        return hak_superslab_address(superslab);
    return huge_try_move(superslab, bytes);
}

void *hak_huge_try_adopt_pages(void *from, size_t from_bytes, size_t new_bytes)
{
    size_t to;
    if (!huge_try_map(hak_round_up(new_bytes, HAK_SLOT_BYTES), HAK_SUPERSLAB_BYTES, &to))
        return NULL;
    if (hak_os_move(from, hak_superslab_address(to), from_bytes, true) != 0) {
        huge_unmap(to);
        return NULL;
    }
    hak_add_relaxed(&hak_large_counters.moves, 1u);
    return huge_publish(to);
}

void hak_large_stats(struct hak_large_stats *out)
{
    struct large_counters *c = &hak_large_counters;
    hak_lock(&cache.lock);
    out->cached_bytes = cache.bytes;
    out->cached_blocks = cache.count;
    hak_unlock(&cache.lock);
    out->large_bytes = hak_load_relaxed(&c->large_bytes);
    out->large_blocks = hak_load_relaxed(&c->large_blocks);
    out->huge_bytes = hak_load_relaxed(&c->huge_bytes);
    out->huge_blocks = hak_load_relaxed(&c->huge_blocks);
    out->cache_hits = hak_load_relaxed(&c->cache_hits);
    out->cache_misses = hak_load_relaxed(&c->cache_misses);
    out->moved_pages_calls = hak_load_relaxed(&c->moves);
}

void hak_large_fork_child(void)
{
    if (hak_lock_recover(&cache.lock)) {
        cache.count = 0;
        cache.bytes = 0;
    }
}
