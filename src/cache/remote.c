/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cache: blocks freed by threads that do not own their slab.
 *
 *   freeing thread                                   owner, or whoever holds the heap's lock
 *   outbox: 32 groups of blocks of one bitmap word
 *     -> displaced, or 64 KiB wait: one atomic OR    inbox: take the whole list
 *     -> first into this slab: push it to the          clear the slab's flag
 *        inbox of its owner                            exchange each word of remote bits with 0
 *
 * The inbox is a list of slabs linked through their records; pushes are compare-and-swap, the only removal takes all, so there is
 * no ABA. A slab is in one inbox at most: whoever sets its flag links it. A slab may change its owner, or be released,
 * while it waits in an inbox: then it is handed on, or dropped. */
#include "cache/cache_internal.h"

/* Links a slab into a heap's inbox. */
static void inbox_link_any(struct hak_heap *heap, struct hak_slab *s)
{
    struct hak_slab *head = hak_load_relaxed(&heap->inbox);
    do {
        hak_store_relaxed(&s->inbox_next, head);
    } while (!hak_cas_seq_cst(&heap->inbox, &head, s)); /* ORDER: [inbox-list] the link; seq_cst for [slab-owner] */
}

void hak_inbox_push_any(struct hak_slab *s)
{
    for (;;) {
        struct hak_heap *owner = hak_load_seq_cst(&s->owner); /* ORDER: [slab-owner] */
        if (owner != NULL) {
            inbox_link_any(owner, s);
            /* The owner may have given the slab away and taken its inbox for the last time in between: either that saw
             * the slab, or this sees the new owner. ORDER: [slab-owner] */
            if (hak_load_seq_cst(&s->owner) != owner)
                hak_inbox_forward_any(owner);
            return;
        }
        /* All blocks have been collected already and the slab was released. Whoever gets it next may count on the flag. */
        hak_exchange_seq_cst(&s->in_inbox, false);      /* ORDER: [inbox-flag] */
        if (hak_load_seq_cst(&s->owner) == NULL ||      /* ORDER: [slab-owner] */
            hak_exchange_seq_cst(&s->in_inbox, true))   /* ORDER: [inbox-flag] */
            return;
    }
}

/* Takes all slabs of an inbox. */
static struct hak_slab *inbox_take_any(struct hak_heap *heap)
{
    return hak_exchange_seq_cst(&heap->inbox, NULL); /* ORDER: [inbox-list] seq_cst for [slab-owner] */
}

/* Takes one slab off a list that inbox_take_any returned. From then on others may link it anywhere. */
static struct hak_slab *inbox_next(struct hak_slab **list)
{
    struct hak_slab *s = *list;
    *list = hak_load_relaxed(&s->inbox_next);
    hak_exchange_acq_rel(&s->in_inbox, false); /* ORDER: [inbox-flag] before the bits are looked at */
    return s;
}

static void inbox_hand_on(struct hak_slab *s)
{
    /* ORDER: [inbox-flag] [slab-owner] */
    if (hak_load_seq_cst(&s->owner) != NULL && !hak_exchange_acq_rel(&s->in_inbox, true))
        hak_inbox_push_any(s);
}

void hak_inbox_forward_any(struct hak_heap *heap)
{
    struct hak_slab *list = inbox_take_any(heap);
    while (list != NULL)
        inbox_hand_on(inbox_next(&list));
}

void hak_heap_collect_locked(struct hak_heap *heap)
{
    if (hak_load_relaxed(&heap->inbox) == NULL)
        return;
    struct hak_slab *list = inbox_take_any(heap);
    while (list != NULL) {
        struct hak_slab *s = inbox_next(&list);
        if (hak_load_relaxed(&s->owner) != heap) { /* only the holder of this lock makes this heap an owner, or no longer one */
            inbox_hand_on(s);
            continue;
        }
        unsigned blocks = hak_slab_collect_owner(s);
        hak_count_owner(&heap->stats.collected_blocks, blocks);
        if (blocks != 0)
            hak_heap_settle_locked(heap, s);
    }
}

void hak_cache_collect_orphans(void)
{
    struct hak_heap *orphans = hak_orphans;
    if (hak_load_relaxed(&orphans->inbox) != NULL && hak_try_lock(&orphans->lock)) {
        hak_heap_collect_locked(orphans);
        hak_unlock(&orphans->lock);
    }
}

/* --- outbox --- */

static void outbox_send(const struct hak_outbox_group *g)
{
    if (hak_slab_free_remote_any(g->slab, g->word, g->blocks))
        hak_inbox_push_any(g->slab);
}

void hak_outbox_flush(struct hak_heap *heap)
{
    for (unsigned i = 0; i < HAK_OUTBOX_GROUPS; i++) {
        struct hak_outbox_group *g = &heap->outbox[i];
        if (g->slab != NULL)
            outbox_send(g);
        g->slab = NULL;
    }
    heap->outbox_bytes = 0;
    hak_count_owner(&heap->stats.remote_flushes, 1u);
    hak_cache_collect_orphans();
}

#define OUTBOX_MAX_BYTES ((uint32_t)64 << 10)

void hak_cache_free_remote(struct hak_heap *heap, unsigned cls, void *p)
{
    const struct hak_class *c = hak_class(cls);
    unsigned index = hak_block_checked_index(cls, p);
    struct hak_slab *s = hak_slab_of_slot(hak_slot_of(p), c);
    uint64_t bit = 1ull << (index % 64);
    struct hak_outbox_group *g = &heap->outbox[((uintptr_t)p >> 12) % HAK_OUTBOX_GROUPS];
    if (g->slab != s || g->word != index / 64) {
        if (g->slab != NULL)
            outbox_send(g);
        *g = (struct hak_outbox_group){.slab = s, .word = index / 64};
    }
    if (HAK_UNLIKELY(g->blocks & bit))
        hak_misuse(HAK_DOUBLE_FREE, p, cls);
    g->blocks |= bit;
    heap->outbox_bytes += c->size_bytes;
    hak_count_owner(&heap->stats.remote_frees, 1u);
    if (HAK_UNLIKELY(heap->outbox_bytes >= OUTBOX_MAX_BYTES))
        hak_outbox_flush(heap);
}

void hak_cache_shared_free(unsigned cls, void *p)
{
    struct hak_slab *s = hak_slab_of_slot(hak_slot_of(p), hak_class(cls));
    unsigned index = hak_block_checked_index(cls, p);
    if (hak_slab_free_remote_any(s, index / 64, 1ull << (index % 64)))
        hak_inbox_push_any(s);
    hak_cache_collect_orphans();
}
