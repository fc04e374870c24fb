/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * hard: blocks of size classes. See hard.h. */
#include "hard/hard_internal.h"

#include <string.h>

struct hard hak_hard = {.claim_mask = HARD_LIVE | HARD_MAKER_MASK};

/* Of a kind below HAK_KIND_CLASSES; spares the fast paths a shift. */
HAK_ALWAYS_INLINE const struct hak_class *blocks_class(uint64_t kind)
{
    return (const struct hak_class *)(const void *)((const char *)hak_tables.classes +
                                                    kind * (sizeof(struct hak_class) / 2));
}

/* --- allocation --- */

HAK_ALWAYS_INLINE void blocks_write(char *p, _Atomic(uint32_t) *word, size_t bytes,
                                    size_t block_bytes, uint32_t how)
{
    hak_store_relaxed(word, how | (uint32_t)bytes);
    hard_canary_put_new(p, bytes, block_bytes);
}

/* Makes a block of heap's the program's. */
static HAK_NOINLINE void *blocks_give(char *p, uint64_t kind, size_t bytes, uint32_t how)
{
    const struct hak_class *c = hak_class((unsigned)kind / 2);
    _Atomic(uint32_t) *word = hard_word(c, p);
    uint32_t before = hak_load_relaxed(word);
    /* Memory fresh from the system is not touched before the program does it. */
    if ((before != 0 || !hak_slab_of_slot(hak_slot_of(p), c)->zero) &&
        HAK_UNLIKELY(!hard_is_zero(p, c->size_bytes)))
        hak_hard_written_after_free(p, (unsigned)kind / 2, c->size_bytes);
    if (HAK_UNLIKELY(before & HARD_LIVE)) /* two threads have freed it in the same moment */
        hak_hard_double_free(p, (unsigned)kind / 2);
    blocks_write(p, word, bytes, c->size_bytes, how);
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
    return p == NULL ? NULL : blocks_give(p, hak_map_lookup(p) & HAK_KIND_MASK, bytes, how);
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
    char *p = hak_cache_pop(front, kind);
    if (HAK_UNLIKELY(p == NULL))
        return blocks_malloc_slow(bytes, how);
    const struct hak_class *c = blocks_class(kind);
    size_t block_bytes = c->size_bytes;
    struct hard_place_of_word at = hard_find_word(c, (uintptr_t)p - front->base);
    _Atomic(uint32_t) *word = hak_space_word(at.slab_bytes, at.index);
    /* What is not as usual is found out there. */
    if (HAK_UNLIKELY(hak_load_relaxed(word) != HARD_FREED) ||
        HAK_UNLIKELY(!hard_is_zero(p, block_bytes)))
        return blocks_give(p, kind, bytes, how);
    blocks_write(p, word, bytes, block_bytes, how);
    return p;
}

void *hak_hard_malloc(size_t size_bytes)
{
    return blocks_malloc(size_bytes, HARD_LIVE);
}

void *hak_hard_new(size_t size_bytes, enum hak_maker maker)
{
    return blocks_malloc(size_bytes, HARD_LIVE | (uint32_t)maker << HARD_MAKER_SHIFT);
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
    return blocks_give(p, hak_map_lookup(p) & HAK_KIND_MASK, size_bytes, how);
}

/* --- the way back --- */

static HAK_COLD _Noreturn void blocks_refuse(const void *p, unsigned cls, uint32_t word,
                                             const struct hard_claim *claim)
{
    const struct hak_class *c = hak_class(cls);
    unsigned index = hak_block_checked_index(cls, p);
    if (word & HARD_LIVE)
        hak_hard_mismatch(p, cls, word, word & HARD_SIZE_MASK, claim);
    if (index >= hak_load_relaxed(&hak_slab_of_slot(hak_slot_of(p), c)->carved) || word == 0)
        hak_misuse(HAK_NEVER_ALLOCATED, p, cls);
    hak_hard_double_free(p, cls);
}

/* What of a block was not zero before it was the program's: not none, and never beyond the block.
 */
HAK_ALWAYS_INLINE size_t blocks_clear_bytes(size_t bytes)
{
    return (bytes + HAK_ALIGNMENT) & ~(HAK_ALIGNMENT - 1);
}

/* Looks at the canary, clears the block and keeps it for a while. */
HAK_ALWAYS_INLINE void blocks_bury(void *p, uint64_t kind, size_t bytes, struct hard_thread *t)
{
    size_t block_bytes = blocks_class(kind)->size_bytes;
    if (HAK_UNLIKELY(!hard_canary_take(p, bytes, block_bytes)))
        hak_hard_overflow(p, (unsigned)kind / 2, bytes);
    hard_zero(p, blocks_clear_bytes(bytes));
    hard_quarantine(t, p, hak_hard.line_of_kind[kind], kind);
}

/* The same for what is not inlined. */
static HAK_NOINLINE void blocks_bury_slow(void *p, uint64_t kind, size_t bytes, uint64_t bin)
{
    size_t block_bytes = blocks_class(kind)->size_bytes;
    if (HAK_UNLIKELY(!hard_canary_take(p, bytes, block_bytes)))
        hak_hard_overflow(p, (unsigned)kind / 2, bytes);
    if (bytes >= HARD_ZERO_INLINE_BYTES)
        memset(p, 0, bytes);
    else
        hard_zero(p, blocks_clear_bytes(bytes));
    struct hard_thread *t = hak_hard_self;
    if (HAK_UNLIKELY(hak_load_relaxed(&t->busy)))
        t = hak_hard_quarantine_slow();
    if (t == NULL)
        hak_hard_release_slow(p);
    else
        hard_quarantine(t, p, hak_hard.line_of_kind[kind], bin);
}

/* Blocks of other threads, and all that is wrong. */
static HAK_NOINLINE void blocks_free_slow(void *p, struct hard_claim claim,
                                          hak_free_foreign *foreign)
{
    uint32_t entry = hak_map_lookup(p);
    if (entry <= HAK_KIND_MASK) { /* nothing of ours, or a large block */
        if (p != NULL && (entry == 0 || !hak_hard_large_free(p, entry, &claim)))
            foreign(p);
        return;
    }
    unsigned kind = entry & HAK_KIND_MASK;
    hak_block_checked_index(kind / 2, p); /* a pointer into a block does not return */
    uint32_t word = hak_exchange_relaxed(hard_word(hak_class(kind / 2), p), HARD_FREED);
    if (HAK_UNLIKELY((word ^ claim.word) & claim.mask))
        blocks_refuse(p, kind / 2, word, &claim);
    blocks_bury_slow(p, kind, word & HARD_SIZE_MASK, HAK_KIND_CLOSED);
}

/* What the caller of free says, in a register. */
static HAK_NOINLINE void blocks_free_plain_slow(void *p, hak_free_foreign *foreign)
{
    blocks_free_slow(p, hard_claim_of_free(), foreign);
}

/* The block at p is freed from now on: its word goes from live to freed. False: nothing was done,
 * as the slow path has to see to it, or as it does not fit the claim, which the slow path reports.
 * The owner of the slab has no need of an atomic step: should another thread free the same block in
 * the very same moment, the block comes to heap twice, and blocks_give finds it live. */
HAK_ALWAYS_INLINE bool blocks_try_free(void *p, uint32_t claim, uint32_t mask)
{
    struct hak_front *front = hak_self;
    size_t p_bytes = (uintptr_t)p - front->base;
    size_t slot = p_bytes >> HAK_SLOT_SHIFT;
    if (HAK_UNLIKELY(slot >= front->slots))
        return false;
    uint64_t kind = hak_load_relaxed(&front->map[slot]) ^ front->tag;
    if (HAK_UNLIKELY(kind >= HAK_KIND_CLASSES))
        return false;
    const struct hak_class *c = blocks_class(kind);
    struct hard_place_of_word at = hard_find_word(c, p_bytes);
    if (HAK_UNLIKELY(at.index >= c->blocks))
        return false;
    _Atomic(uint32_t) *place = hak_space_word(at.slab_bytes, at.index);
    uint32_t word = hak_load_relaxed(place);
    if (HAK_UNLIKELY((word ^ claim) & mask))
        return false;
    hak_store_relaxed(place, HARD_FREED);
    size_t bytes = word & HARD_SIZE_MASK;
    struct hard_thread *t = hak_hard_self;
    if (HAK_UNLIKELY(bytes >= HARD_ZERO_INLINE_BYTES) || HAK_UNLIKELY(hak_load_relaxed(&t->busy)))
        blocks_bury_slow(p, kind, bytes, kind);
    else
        blocks_bury(p, kind, bytes, t);
    return true;
}

void hak_hard_free(void *p, hak_free_foreign *foreign)
{
    if (HAK_UNLIKELY(!blocks_try_free(p, HARD_LIVE, hak_hard.claim_mask)))
        blocks_free_plain_slow(p, foreign);
}

void hak_hard_free_claimed(void *p, const struct hak_claim *claim, hak_free_foreign *foreign)
{
    struct hard_claim c = {.word = hard_how(claim->align_bytes, claim->maker),
                           .mask = hak_hard.claim_mask,
                           .size_bytes = claim->size_bytes};
    if (claim->sized) {
        c.word |= (uint32_t)hak_min(claim->size_bytes, HARD_SIZE_MASK);
        c.mask |= HARD_SIZE_MASK;
    }
    if (claim->aligned)
        c.mask |= HARD_ALIGN_MASK;
    if (HAK_UNLIKELY(!blocks_try_free(p, c.word, c.mask)))
        blocks_free_slow(p, c, foreign);
}

void hak_hard_delete(void *p, enum hak_maker maker, size_t size_bytes, hak_free_foreign *foreign)
{
    struct hard_claim c = {.word = HARD_LIVE | (uint32_t)maker << HARD_MAKER_SHIFT,
                           .mask = hak_hard.claim_mask,
                           .size_bytes = size_bytes};
    if (size_bytes != SIZE_MAX) {
        c.word |= (uint32_t)hak_min(size_bytes, HARD_SIZE_MASK);
        c.mask |= HARD_SIZE_MASK;
    }
    if (HAK_UNLIKELY(!blocks_try_free(p, c.word, c.mask)))
        blocks_free_slow(p, c, foreign);
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
    hard_canary_put(p, bytes, block_bytes);
}

/* Another thread has freed the block while it was moved. */
static void blocks_gone(void *p)
{
    hak_hard_double_free(p, HARD_LARGE);
}

static void *blocks_move(void *p, size_t have, size_t bytes)
{
    void *q = hak_hard_malloc(bytes);
    if (q == NULL)
        return NULL;
    memcpy(q, p, hak_min(have, bytes));
    hak_hard_free(p, blocks_gone);
    return q;
}

bool hak_hard_realloc(void *p, size_t size_bytes, void **out)
{
    const struct hard_claim claim = hard_claim_of_free();
    uint32_t entry = hak_map_lookup(p);
    if (entry <= HAK_KIND_MASK) {
        if (!hak_hard_large_realloc(p, entry, size_bytes, out))
            return false;
        if (*out == NULL)
            *out = blocks_move(p, hak_hard_large_usable_bytes(p, entry), size_bytes);
        return true;
    }
    unsigned cls = (entry & HAK_KIND_MASK) / 2;
    hak_block_checked_index(cls, p); /* a pointer into a block does not return */
    _Atomic(uint32_t) *at = hard_word(hak_class(cls), p);
    uint32_t word = hak_load_relaxed(at);
    size_t have = word & HARD_SIZE_MASK;
    size_t block_bytes = hak_class(cls)->size_bytes;
    if ((word ^ claim.word) & claim.mask)
        blocks_refuse(p, cls, word, &claim);
    if (!hard_canary_holds(p, have, block_bytes))
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
    const struct hak_class *c = hak_class((entry & HAK_KIND_MASK) / 2);
    struct hard_place_of_word at =
        hard_find_word(c, (uintptr_t)p - hak_load_relaxed(&hak_space.base));
    if (at.index >= c->blocks)
        return 0;
    uint32_t word = hak_load_relaxed(hak_space_word(at.slab_bytes, at.index));
    return word & HARD_LIVE ? word & HARD_SIZE_MASK : 0;
}

void hak_hard_configure(const struct hak_hard_config *config)
{
    hak_hard.claim_mask = HARD_LIVE | (config->check_makers ? HARD_MAKER_MASK : 0);
}
