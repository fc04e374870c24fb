/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * hard: blocks of size classes. See hard.h. */
#include "hard/hard_internal.h"

#include <string.h>

struct hard hak_hard = {.maker_mask = HARD_MAKER_MASK};

/* --- allocation --- */

/* Makes a block of heap's the program's. */
HAK_ALWAYS_INLINE void *blocks_give(char *p, unsigned cls, size_t bytes, uint32_t how)
{
    size_t block_bytes = hak_class(cls)->size_bytes;
    _Atomic(uint32_t) *word = hak_space_word(p);
    uint32_t before = hak_load_relaxed(word);
    /* Memory fresh from the system is not touched before the program does it. */
    if ((before != 0 || !hak_slab_of_slot(hak_slot_of(p), hak_class(cls))->zero) &&
        HAK_UNLIKELY(!hard_is_zero(p, block_bytes)))
        hak_hard_written_after_free(p, cls);
    if (HAK_UNLIKELY(before & HARD_LIVE)) /* two threads have freed it in the same moment */
        hak_hard_double_free(p, cls);
    hak_store_relaxed(word, how | (uint32_t)bytes);
    hard_canary_put(p, bytes, block_bytes - bytes);
    return p;
}

/* The first allocation of a thread comes this way, so that whoever is here first makes the secret.
 */
static void blocks_start(void)
{
    static struct hak_lock lock;
    static _Atomic(bool) made;
    /* ORDER: [hard-secret] the secret is seen with it */
    if (HAK_LIKELY(hak_load_acquire(&made)))
        return;
    hak_lock(&lock);
    if (!hak_load_relaxed(&made)) {
        hak_hard_large_start();
        hak_hard.secret[0] = hak_os_random();
        hak_hard.secret[1] = hak_os_random() | 1;
        hak_store_release(&made, true); /* ORDER: [hard-secret] */
    }
    hak_unlock(&lock);
}

static HAK_NOINLINE void *blocks_malloc_slow(size_t bytes, uint32_t how)
{
    blocks_start();
    if (bytes >= HAK_SMALL_MAX)
        return hak_hard_large_alloc(bytes, how);
    void *p = hak_heap_malloc_slow(bytes + 1);
    return p == NULL ? NULL : blocks_give(p, (hak_map_lookup(p) & HAK_KIND_MASK) / 2, bytes, how);
}

HAK_ALWAYS_INLINE void *blocks_malloc(size_t bytes, uint32_t how)
{
    struct hak_front *front = hak_self;
    uint64_t kind;
    if (HAK_LIKELY(bytes < HAK_TINY_MAX))
        kind = hak_load_relaxed(&front->tiny_kind[bytes / 16 + 1]);
    else if (bytes < HAK_SMALL_MAX)
        kind = hak_load_relaxed(&hak_tables.small_kind[bytes / 128 + 1]);
    else
        return blocks_malloc_slow(bytes, how);
    void *p = hak_cache_pop(front, kind);
    if (HAK_UNLIKELY(p == NULL))
        return blocks_malloc_slow(bytes, how);
    return blocks_give(p, (unsigned)kind / 2, bytes, how);
}

void *hak_hard_malloc(size_t size_bytes)
{
    return blocks_malloc(size_bytes, HARD_LIVE);
}

void *hak_hard_alloc(size_t size_bytes, size_t align_bytes, enum hak_maker maker)
{
    uint32_t how = hard_how(align_bytes, maker);
    if (HAK_LIKELY(align_bytes <= HAK_ALIGNMENT))
        return blocks_malloc(size_bytes, how);
    blocks_start();
    if (size_bytes >= HAK_SLOT_BYTES || align_bytes > HAK_SLOT_BYTES)
        return hak_hard_large_alloc(size_bytes, how);
    void *p = hak_heap_aligned(align_bytes, size_bytes + 1);
    if (p == NULL)
        return NULL;
    uint32_t kind = hak_map_lookup(p) & HAK_KIND_MASK;
    return blocks_give(p, kind / 2, size_bytes, how);
}

/* --- the way back --- */

static HAK_COLD _Noreturn void blocks_refuse(const void *p, unsigned cls, uint32_t word,
                                             const struct hard_claim *claim)
{
    const struct hak_class *c = hak_class(cls);
    unsigned index = hak_block_checked_index(cls, p); /* a pointer into a block does not return */
    if (word & HARD_LIVE)
        hak_hard_mismatch(p, cls, word, word & HARD_SIZE_MASK, claim);
    if (index >= hak_load_relaxed(&hak_slab_of_slot(hak_slot_of(p), c)->carved) || word == 0)
        hak_misuse(HAK_NEVER_ALLOCATED, p, cls);
    hak_hard_double_free(p, cls);
}

/* The live block at p is freed from now on. Its word: what does not fit the claim is reported. The
 * owner of the slab has no need of an atomic step: should another thread free the same block in
 * the very same moment, the block comes to heap twice, and blocks_give finds it live. */
HAK_ALWAYS_INLINE uint32_t blocks_end(void *p, unsigned cls, bool own,
                                      const struct hard_claim *claim)
{
    _Atomic(uint32_t) *at = hak_space_word(p);
    uint32_t word = own ? hak_load_relaxed(at) : hak_exchange_relaxed(at, HARD_FREED);
    if (HAK_UNLIKELY(((word ^ claim->word) & claim->mask) || (uintptr_t)p % HAK_ALIGNMENT != 0))
        blocks_refuse(p, cls, word, claim);
    if (own)
        hak_store_relaxed(at, HARD_FREED);
    return word;
}

/* Looks at the canary, clears the block and keeps it for a while. */
HAK_ALWAYS_INLINE void blocks_bury(void *p, unsigned cls, uint32_t word)
{
    size_t bytes = word & HARD_SIZE_MASK;
    size_t block_bytes = hak_class(cls)->size_bytes;
    if (HAK_UNLIKELY(!hard_canary_holds(p, bytes, block_bytes - bytes)))
        hak_hard_overflow(p, cls, bytes);
    hard_zero(p, hak_min(hak_round_up(bytes + sizeof(uint64_t), HAK_ALIGNMENT), block_bytes));
    hard_quarantine(p, cls);
}

static HAK_NOINLINE bool blocks_free_slow(void *p, const struct hard_claim *claim)
{
    uint32_t entry = hak_map_lookup(p);
    if (entry <= HAK_KIND_MASK) /* nothing of ours, or a large block */
        return entry != 0 && hak_hard_large_free(p, entry, claim);
    unsigned cls = (entry & HAK_KIND_MASK) / 2;
    blocks_bury(p, cls, blocks_end(p, cls, false, claim));
    return true;
}

HAK_ALWAYS_INLINE bool blocks_free(void *p, const struct hard_claim *claim)
{
    struct hak_front *front = hak_self;
    size_t slot = ((uintptr_t)p - front->base) >> HAK_SLOT_SHIFT;
    if (HAK_UNLIKELY(slot >= front->slots))
        return blocks_free_slow(p, claim);
    uint32_t kind = hak_load_relaxed(&front->map[slot]) ^ front->tag;
    if (HAK_UNLIKELY(kind >= HAK_KIND_CLASSES))
        return blocks_free_slow(p, claim);
    blocks_bury(p, kind / 2, blocks_end(p, kind / 2, true, claim));
    return true;
}

bool hak_hard_free(void *p)
{
    return blocks_free(p, &(struct hard_claim){.word = HARD_LIVE | HAK_BY_MALLOC,
                                               .mask = HARD_LIVE | hak_hard.maker_mask});
}

bool hak_hard_free_claimed(void *p, const struct hak_claim *claim)
{
    struct hard_claim c = {.word = hard_how(claim->align_bytes, claim->maker),
                           .mask = HARD_LIVE | hak_hard.maker_mask,
                           .size_bytes = claim->size_bytes};
    if (claim->sized) {
        c.word |= (uint32_t)hak_min(claim->size_bytes, HARD_SIZE_MASK);
        c.mask |= HARD_SIZE_MASK;
    }
    if (claim->aligned)
        c.mask |= HARD_ALIGN_MASK;
    return blocks_free(p, &c);
}

/* --- the rest --- */

/* A block keeps its place while it fills at least half of it. */
static bool blocks_stay(size_t block_bytes, size_t bytes)
{
    return bytes < block_bytes && (bytes >= block_bytes / 2 || block_bytes <= 64);
}

static void blocks_resize(char *p, unsigned cls, _Atomic(uint32_t) *at, uint32_t word, size_t bytes)
{
    size_t have = word & HARD_SIZE_MASK;
    size_t block_bytes = hak_class(cls)->size_bytes;
    /* A free by another thread in between is a misuse, and found here. */
    if (!hak_cas_relaxed(at, &word, (word & ~HARD_SIZE_MASK) | (uint32_t)bytes))
        hak_hard_double_free(p, cls);
    size_t from = hak_min(have, bytes);
    memset(p + from, 0, hak_min(have + sizeof(uint64_t), block_bytes) - from);
    hard_canary_put(p, bytes, block_bytes - bytes);
}

static void *blocks_move(void *p, size_t have, size_t bytes)
{
    void *q = hak_hard_malloc(bytes);
    if (q == NULL)
        return NULL;
    memcpy(q, p, hak_min(have, bytes));
    hak_hard_free(p);
    return q;
}

bool hak_hard_realloc(void *p, size_t size_bytes, void **out)
{
    const struct hard_claim claim = {.word = HARD_LIVE | HAK_BY_MALLOC,
                                     .mask = HARD_LIVE | hak_hard.maker_mask};
    uint32_t entry = hak_map_lookup(p);
    if (entry <= HAK_KIND_MASK) {
        if (!hak_hard_large_realloc(p, entry, size_bytes, out))
            return false;
        if (*out == NULL)
            *out = blocks_move(p, hak_hard_large_usable_bytes(p, entry), size_bytes);
        return true;
    }
    unsigned cls = (entry & HAK_KIND_MASK) / 2;
    _Atomic(uint32_t) *at = hak_space_word(p);
    uint32_t word = hak_load_relaxed(at);
    size_t have = word & HARD_SIZE_MASK;
    size_t block_bytes = hak_class(cls)->size_bytes;
    if (((word ^ claim.word) & claim.mask) || (uintptr_t)p % HAK_ALIGNMENT != 0)
        blocks_refuse(p, cls, word, &claim);
    if (!hard_canary_holds(p, have, block_bytes - have))
        hak_hard_overflow(p, cls, have);
    *out = p;
    if (blocks_stay(block_bytes, size_bytes))
        blocks_resize(p, cls, at, word, size_bytes);
    else
        *out = blocks_move(p, have, size_bytes);
    return true;
}

size_t hak_hard_usable_bytes(const void *p)
{
    uint32_t entry = hak_map_lookup(p);
    if (entry <= HAK_KIND_MASK)
        return entry == 0 ? 0 : hak_hard_large_usable_bytes(p, entry);
    uint32_t word = hak_load_relaxed(hak_space_word(p));
    return word & HARD_LIVE && (uintptr_t)p % HAK_ALIGNMENT == 0 ? word & HARD_SIZE_MASK : 0;
}

void hak_hard_configure(const struct hak_hard_config *config)
{
    hak_hard.maker_mask = config->check_makers ? HARD_MAKER_MASK : 0;
}
