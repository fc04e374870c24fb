/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * hard: malloc and free for blocks of size classes. Compiled twice, for any machine and for those
 * with AVX2, which clear and look at twice as much with an instruction; choose.c says which are
 * used. HARD_PATH(name) is what a function is called in the file that includes this one. */
#include "hard/hard_internal.h"

#include <string.h>

#ifndef HARD_PATH
#define HARD_PATH(name) name##_plain
#endif

/* Of a kind below HAK_KIND_CLASSES; spares the fast paths a shift. */
HAK_ALWAYS_INLINE const struct hak_class *paths_class(uint64_t kind)
{
    return (const struct hak_class *)(const void *)((const char *)hak_tables.classes +
                                                    kind * (sizeof(struct hak_class) / 2));
}

/* --- allocation --- */

HAK_ALWAYS_INLINE void paths_write(char *p, _Atomic(uint32_t) *word, size_t bytes, uint32_t how)
{
    hak_store_relaxed(word, how | (uint32_t)bytes);
    uint64_t canary = hard_canary(p);
    __builtin_memcpy(p + bytes, &canary, sizeof canary);
}

/* Makes a block of heap's the program's. */
static HAK_NOINLINE void *paths_give(char *p, uint64_t kind, size_t bytes, uint32_t how)
{
    const struct hak_class *c = hak_class((unsigned)kind / 2);
    _Atomic(uint32_t) *word = hard_word(c, p);
    uint32_t before = hak_load_relaxed(word);
    if (HAK_UNLIKELY(before & HARD_LIVE)) /* two threads have freed it in the same moment */
        hak_hard_double_free(p, (unsigned)kind / 2);
    /* Memory fresh from the system is not touched before the program does it. */
    if ((before != 0 || !hak_slab_of_slot(hak_slot_of(p), c)->zero) &&
        HAK_UNLIKELY(!hard_is_zero(p, c->size_bytes)))
        hak_hard_written(p, (unsigned)kind / 2, before);
    paths_write(p, word, bytes, how);
    return p;
}

static HAK_NOINLINE void *paths_malloc_slow(size_t bytes, uint32_t how)
{
    void *p;
    hak_hard_start_slow();
    if (bytes == 0 && (p = hak_hard_nothing_alloc(how)) != NULL)
        return p;
    if (bytes > HAK_SMALL_MAX - HARD_CANARY_BYTES)
        return hak_hard_large_alloc(bytes, how);
    p = hak_heap_malloc_slow(bytes + HARD_CANARY_BYTES);
    return p == NULL ? NULL : paths_give(p, hak_map_lookup(p) & HAK_KIND_MASK, bytes, how);
}

HAK_ALWAYS_INLINE void *paths_malloc(size_t bytes, uint32_t how)
{
    struct hak_front *front = hak_self;
    uint64_t kind;
    /* 0 is none of the sizes that are less than so many. */
    if (HAK_LIKELY(bytes - 1 < HAK_TINY_MAX - HARD_CANARY_BYTES))
        kind = hak_load_relaxed(&front->tiny_kind[(bytes + HARD_CANARY_BYTES + 15) / 16]);
    else if (bytes - 1 < HAK_SMALL_MAX - HARD_CANARY_BYTES)
        kind = hak_load_relaxed(&hak_tables.small_kind[hak_small_index(bytes + HARD_CANARY_BYTES)]);
    else
        return paths_malloc_slow(bytes, how);
    char *p = hak_cache_pop(front, kind);
    if (HAK_UNLIKELY(p == NULL))
        return paths_malloc_slow(bytes, how);
    const struct hak_class *c = paths_class(kind);
    size_t block_bytes = c->size_bytes;
    struct hard_place_of_word at = hard_find_word(c, (uintptr_t)p - front->base);
    _Atomic(uint32_t) *word = hak_class_word(c, at.slab_bytes, at.index);
    /* What is not as usual is found out there. */
    if (HAK_UNLIKELY(!(hak_load_relaxed(word) & HARD_FREED)) ||
        HAK_UNLIKELY(!hard_is_zero(p, block_bytes)))
        return paths_give(p, kind, bytes, how);
    paths_write(p, word, bytes, how);
    return p;
}

void *HARD_PATH(hak_hard_malloc)(size_t size_bytes)
{
    return paths_malloc(size_bytes, HARD_LIVE);
}

void *HARD_PATH(hak_hard_new)(size_t size_bytes, enum hak_maker maker)
{
    return paths_malloc(size_bytes, HARD_LIVE | (uint32_t)maker << HARD_MAKER_SHIFT);
}

void *HARD_PATH(hak_hard_alloc)(size_t size_bytes, size_t align_bytes, enum hak_maker maker)
{
    uint32_t how = hard_how(align_bytes, maker);
    if (HAK_LIKELY(align_bytes <= HAK_ALIGNMENT))
        return paths_malloc(size_bytes, how);
    hak_hard_start_slow();
    if (size_bytes > HAK_SLOT_BYTES - HARD_CANARY_BYTES || align_bytes > HAK_SLOT_BYTES)
        return hak_hard_large_alloc(size_bytes, how);
    void *p = hak_heap_aligned(align_bytes, size_bytes + HARD_CANARY_BYTES);
    if (p == NULL)
        return NULL;
    return paths_give(p, hak_map_lookup(p) & HAK_KIND_MASK, size_bytes, how);
}

/* --- the way back --- */

/* Looks at the canary, clears the block and keeps it for a while, before it goes to `bin`. */
HAK_ALWAYS_INLINE void paths_bury(void *p, uint64_t kind, size_t bytes, uint64_t bin,
                                  struct hard_thread *t)
{
    size_t block_bytes = paths_class(kind)->size_bytes;
    if (HAK_UNLIKELY(!hard_canary_is_whole(p, bytes, block_bytes))) {
        hak_hard_overflow_slow(p, (unsigned)kind / 2, bytes);
        return;
    }
    hard_zero(p, bytes + HARD_CANARY_BYTES);
    hard_quarantine(t, p, hak_hard.line_of_kind[kind], bin);
}

/* The same for what is not inlined. */
static HAK_NOINLINE void paths_bury_slow(void *p, uint64_t kind, size_t bytes, uint64_t bin)
{
    size_t block_bytes = paths_class(kind)->size_bytes;
    if (HAK_UNLIKELY(!hard_canary_is_whole(p, bytes, block_bytes)) ||
        HAK_UNLIKELY(
            !hard_rest_is_zero((char *)p + bytes + HARD_CANARY_BYTES, (char *)p + block_bytes)))
        hak_hard_overflow(p, (unsigned)kind / 2, bytes);
    if (bytes >= HARD_FAST_BYTES)
        hard_zero_written(p, hak_round_up(bytes + HARD_CANARY_BYTES, HAK_ALIGNMENT));
    else
        hard_zero(p, bytes + HARD_CANARY_BYTES);
    struct hard_thread *t = hak_hard_self;
    if (HAK_UNLIKELY(hard_is_busy(t)))
        t = hak_hard_quarantine_slow();
    if (t == NULL)
        hak_hard_release_slow(p);
    else
        hard_quarantine(t, p, hak_hard.line_of_kind[kind], bin);
}

HAK_ALWAYS_INLINE void paths_bury_any(void *p, uint64_t kind, size_t bytes, uint64_t bin)
{
    struct hard_thread *t = hak_hard_self;
    if (HAK_UNLIKELY(bytes >= hak_load_relaxed(&t->fast_bytes)))
        paths_bury_slow(p, kind, bytes, bin);
    else
        paths_bury(p, kind, bytes, bin, t);
}

/* Blocks of other threads, and all that is wrong. */
static HAK_NOINLINE void paths_free_slow(void *p, struct hard_claim claim,
                                         hak_free_foreign *foreign)
{
    uint32_t entry = hak_map_lookup(p);
    if (entry <= HAK_KIND_MASK) { /* nothing of ours, a large block, or one of no bytes */
        if (p != NULL && (entry == 0 ? !hak_hard_nothing_try_free(p, &claim)
                                     : !hak_hard_large_free(p, entry, &claim)))
            foreign(p);
        return;
    }
    uint64_t kind = entry & HAK_KIND_MASK;
    hak_block_checked_index((unsigned)kind / 2, p); /* a pointer into a block does not return */
    _Atomic(uint32_t) *place = hard_word(paths_class(kind), p);
    uint32_t word = hak_load_relaxed(place);
    if (HAK_UNLIKELY(!hard_fits(word, &claim)) ||
        HAK_UNLIKELY(!hak_cas_relaxed(place, &word, word ^ (HARD_LIVE | HARD_FREED))))
        hak_hard_refuse(p, (unsigned)kind / 2, word, &claim);
    paths_bury_any(p, kind, word & HARD_SIZE_MASK, HAK_KIND_CLOSED);
}

/* What the caller of free says, in a register. */
static HAK_NOINLINE void paths_free_plain_slow(void *p, hak_free_foreign *foreign)
{
    paths_free_slow(p, hard_claim_of_free(), foreign);
}

/* The block at p is freed from now on: its word goes from live to freed. False: nothing was done,
 * as the slow path has to see to it, or as it does not fit the claim, which the slow path reports.
 * The owner of the slab, and those who share it with others, take no atomic step: should another
 * thread free the same block in the very same moment, the block comes to heap twice, and paths_give
 * finds it live. */
HAK_ALWAYS_INLINE bool paths_try_free(void *p, uint32_t claim, const uint32_t *mask)
{
    struct hak_front *front = hak_self;
    size_t p_bytes = (uintptr_t)p - front->base;
    size_t slot = p_bytes >> HAK_SLOT_SHIFT;
    if (HAK_UNLIKELY(slot >= front->slots))
        return false;
    uint64_t kind = hak_load_relaxed(&front->map[slot]) ^ front->tag;
    if (HAK_UNLIKELY(kind >= HAK_KIND_CLASSES))
        return false;
    HAK_OPAQUE(kind);
    const struct hak_class *c = paths_class(kind);
    struct hard_place_of_word at = hard_find_word(c, p_bytes);
    if (HAK_UNLIKELY(at.index >= c->blocks))
        return false;
    _Atomic(uint32_t) *place = hak_class_word(c, at.slab_bytes, at.index);
    uint32_t word = hak_load_relaxed(place);
    if (HAK_UNLIKELY((word ^ claim) & *mask))
        return false;
    hak_store_relaxed(place, word ^ (HARD_LIVE | HARD_FREED));
    size_t bytes = word & HARD_SIZE_MASK;
    paths_bury_any(p, kind, bytes, kind);
    return true;
}

void HARD_PATH(hak_hard_free)(void *p, hak_free_foreign *foreign)
{
    if (HAK_UNLIKELY(!paths_try_free(p, HARD_LIVE, &hak_hard.claim_mask)))
        paths_free_plain_slow(p, foreign);
}

void HARD_PATH(hak_hard_free_claimed)(void *p, const struct hak_claim *claim,
                                      hak_free_foreign *foreign)
{
    struct hard_claim c = {.word = hard_how(claim->align_bytes, claim->maker),
                           .mask = hak_hard.claim_mask,
                           .size_bytes = claim->size_bytes};
    if (claim->sized) {
        c.word |= (uint32_t)hak_min(claim->size_bytes, HARD_SIZE_MASK);
        c.mask |= HARD_SIZE_MASK & hak_hard.sizes_mask;
    }
    if (claim->aligned)
        c.mask |= HARD_ALIGN_MASK & hak_hard.sizes_mask;
    if (HAK_UNLIKELY(!paths_try_free(p, c.word, &c.mask)))
        paths_free_slow(p, c, foreign);
}

void HARD_PATH(hak_hard_delete)(void *p, enum hak_maker maker, size_t size_bytes,
                                hak_free_foreign *foreign)
{
    struct hard_claim c = {.word = HARD_LIVE | (uint32_t)maker << HARD_MAKER_SHIFT,
                           .mask = hak_hard.claim_mask,
                           .size_bytes = size_bytes};
    if (size_bytes != SIZE_MAX) {
        c.word |= (uint32_t)hak_min(size_bytes, HARD_SIZE_MASK);
        c.mask |= HARD_SIZE_MASK & hak_hard.sizes_mask;
    }
    if (HAK_UNLIKELY(!paths_try_free(p, c.word, &c.mask)))
        paths_free_slow(p, c, foreign);
}

bool HARD_PATH(hak_hard_is_zero)(const char *p, size_t bytes)
{
    return hard_is_zero(p, bytes);
}

void HARD_PATH(hak_hard_zero_written)(char *p, size_t bytes)
{
    if (bytes < HARD_STEP_BYTES)
        hard_zero(p, bytes);
    else
        hard_zero_written(p, bytes);
}
