/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * hard: blocks of size classes. See hard.h. */
#include "hard/hard_internal.h"

#include <errno.h>
#include <string.h>

struct hard hak_hard = {.claim_mask = HARD_LIVE | HARD_MAKER_MASK,
                        .sizes_mask = HARD_SIZE_MASK | HARD_ALIGN_MASK};

/* The first allocation of a thread comes this way, so that whoever is here first makes the secret.
 */
void hak_hard_start_slow(void)
{
    static struct hak_lock lock;
    static _Atomic(bool) made;
    /* ORDER: [hard-secret] the secret is seen with it */
    if (HAK_LIKELY(hak_load_acquire(&made)))
        return;
    hak_heap_lock(&lock);
    if (!hak_load_relaxed(&made)) {
        hak_hard_kept_start();
        hak_heap_set_relief(hak_hard_relieve);
        hak_hard.secret[0] = hak_os_random();
        hak_hard.secret[1] = hak_os_random() | 1;
        hak_store_release(&made, true); /* ORDER: [hard-secret] */
    }
    hak_unlock(&lock);
}

/* A library that was linked with a C++ runtime of its own, and hides that, makes its objects by
 * malloc and ends those of others by free; what it exchanges with other libraries is then ended by
 * the other kind, which is right. (Debian's rustc with LLVM: strings.) Libraries may be loaded at
 * any time. */
HAK_COLD bool hak_hard_may_mix(uint32_t word, const struct hard_claim *claim)
{
    static _Atomic(bool) known;
    uint32_t wrong = (word ^ claim->word) & claim->mask;
    bool of_malloc = (word & HARD_MAKER_MASK) == 0 || (claim->word & HARD_MAKER_MASK) == 0;
    if ((wrong & ~HARD_MAKER_MASK) || !of_malloc)
        return false;
    if (!hak_load_relaxed(&known) && hak_os_has_hidden_operators())
        hak_store_relaxed(&known, true);
    return hak_load_relaxed(&known);
}

HAK_COLD void hak_hard_refuse(const void *p, unsigned cls, uint32_t word,
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

/* --- the rest --- */

/* A block keeps its place while it fills at least half of it. */
static bool blocks_stay(size_t block_bytes, size_t bytes)
{
    return bytes <= block_bytes - HARD_CANARY_BYTES &&
           (bytes >= block_bytes / 2 || block_bytes <= 64);
}

static void blocks_resize(char *p, unsigned cls, _Atomic(uint32_t) *at, uint32_t word, size_t bytes)
{
    size_t have = word & HARD_SIZE_MASK;
    size_t block_bytes = hak_class(cls)->size_bytes;
    /* A free by another thread in between is a misuse, and found here. */
    if (!hak_cas_relaxed(at, &word, (word & ~HARD_SIZE_MASK) | (uint32_t)bytes))
        hak_hard_double_free(p, cls);
    size_t from = hak_min(have, bytes);
    memset(p + from, 0, have + HARD_CANARY_BYTES - from);
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

/* To less. NULL: it may stay where it is, and that is no failure to the program. */
static void *blocks_try_move(void *p, size_t have, size_t bytes)
{
    int error = errno;
    hak_heap_can_do_without(true);
    void *q = blocks_move(p, have, bytes);
    hak_heap_can_do_without(false);
    if (q == NULL)
        errno = error;
    return q;
}

static void *blocks_move_large(void *p, uint32_t entry, size_t bytes)
{
    size_t have = hak_hard_large_usable_bytes(p, entry);
    void *q = bytes <= have ? blocks_try_move(p, have, bytes) : NULL;
    if (q == NULL && bytes <= have && hak_hard_large_try_shrink(p, entry, bytes))
        return p;
    return q != NULL ? q : blocks_move(p, have, bytes);
}

/* A block of no bytes. False: p is none. */
static bool blocks_try_grow_nothing(void *p, const struct hard_claim *claim, size_t bytes,
                                    void **out)
{
    if (!hak_hard_nothing_is(p))
        return false;
    *out = hak_hard_malloc(bytes);
    return *out == NULL || hak_hard_nothing_try_free(p, claim);
}

bool hak_hard_realloc(void *p, size_t size_bytes, void **out)
{
    const struct hard_claim claim = hard_claim_of_free();
    uint32_t entry = hak_map_lookup(p);
    if (entry == 0)
        return blocks_try_grow_nothing(p, &claim, size_bytes, out);
    if (entry <= HAK_KIND_MASK) {
        if (!hak_hard_large_realloc(p, entry, size_bytes, out))
            return false;
        if (*out == NULL)
            *out = blocks_move_large(p, entry, size_bytes);
        return true;
    }
    unsigned cls = (entry & HAK_KIND_MASK) / 2;
    hak_block_checked_index(cls, p); /* a pointer into a block does not return */
    _Atomic(uint32_t) *at = hard_word(hak_class(cls), p);
    uint32_t word = hak_load_relaxed(at);
    size_t have = word & HARD_SIZE_MASK;
    size_t block_bytes = hak_class(cls)->size_bytes;
    if ((word ^ claim.word) & claim.mask)
        hak_hard_refuse(p, cls, word, &claim);
    if (!hard_canary_holds(p, have, block_bytes))
        hak_hard_overflow(p, cls, have);
    bool stays = blocks_stay(block_bytes, size_bytes);
    bool grows = !stays && size_bytes > have;
    *out = stays   ? NULL
           : grows ? blocks_move(p, have, size_bytes)
                   : blocks_try_move(p, have, size_bytes);
    if (*out == NULL && !grows) {
        blocks_resize(p, cls, at, word, size_bytes);
        *out = p;
    }
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
    uint32_t word = hak_load_relaxed(hak_class_word(c, at.slab_bytes, at.index));
    return word & HARD_LIVE ? word & HARD_SIZE_MASK : 0;
}

void hak_hard_configure(const struct hak_hard_config *config)
{
    hak_hard.claim_mask = HARD_LIVE | (config->check_makers ? HARD_MAKER_MASK : 0);
    hak_hard.sizes_mask = config->check_sizes ? HARD_SIZE_MASK | HARD_ALIGN_MASK : 0;
}
