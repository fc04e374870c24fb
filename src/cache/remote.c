/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cache: blocks freed by threads that do not own their slab.
 *
 *   freeing thread                                   owner, or whoever holds the heap's lock
 *   outbox: up to 64 blocks
 *     -> by slab and bitmap word: one atomic OR      inbox: take the whole list
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

#define GROUPS 32u

struct outbox_group {
    struct hak_slab *slab;
    unsigned word;
    uint64_t blocks;
};

static void outbox_send(const struct outbox_group *g)
{
    if (hak_slab_free_remote_any(g->slab, g->word, g->blocks))
        hak_inbox_push_any(g->slab);
}

/* Adds a block to the group of its slab and word; another group that sits in that place is sent first. */
static void outbox_add(struct outbox_group *groups, void *p)
{
    size_t slot = hak_slot_of(p);
    uint32_t kind = hak_load_relaxed(hak_map_entry(slot)) & HAK_KIND_MASK;
    if (HAK_UNLIKELY(kind >= HAK_KIND_CLASSES))
        hak_misuse(HAK_DOUBLE_FREE, p, 0); /* the slab is gone since the block came into the outbox */
    const struct hak_class *c = hak_class(kind / 2);
    struct hak_slab *s = hak_slab_of_slot(slot, c);
    unsigned index = hak_slab_checked_index(s, c, p);
    struct outbox_group *g = &groups[((slot & ~(size_t)(c->slots - 1u)) * 5 + index / 64) % GROUPS];
    if (g->slab != s || g->word != index / 64) {
        if (g->slab != NULL)
            outbox_send(g);
        *g = (struct outbox_group){.slab = s, .word = index / 64};
    }
    uint64_t bit = 1ull << (index % 64);
    if (HAK_UNLIKELY(g->blocks & bit))
        hak_misuse(HAK_DOUBLE_FREE, p, kind / 2);
    g->blocks |= bit;
}

void hak_outbox_flush(struct hak_heap *heap)
{
    struct outbox_group groups[GROUPS] = {0};
    for (unsigned i = 0; i < heap->outbox_blocks; i++)
        outbox_add(groups, heap->outbox[i]);
    for (unsigned i = 0; i < GROUPS; i++)
        if (groups[i].slab != NULL)
            outbox_send(&groups[i]);
    heap->outbox_blocks = 0;
    heap->outbox_bytes = 0;
    hak_count_owner(&heap->stats.remote_flushes, 1u);
    hak_cache_collect_orphans();
}

#define OUTBOX_MAX_BYTES ((uint32_t)64 << 10)

void hak_cache_free_remote(struct hak_heap *heap, unsigned cls, void *p)
{
    heap->outbox[heap->outbox_blocks++] = p;
    heap->outbox_bytes += hak_class(cls)->size_bytes;
    hak_count_owner(&heap->stats.remote_frees, 1u);
    if (HAK_UNLIKELY(heap->outbox_blocks == HAK_OUTBOX_BLOCKS || heap->outbox_bytes >= OUTBOX_MAX_BYTES))
        hak_outbox_flush(heap);
}

void hak_cache_shared_free(unsigned cls, void *p)
{
    const struct hak_class *c = hak_class(cls);
    struct hak_slab *s = hak_slab_of_slot(hak_slot_of(p), c);
    unsigned index = hak_slab_checked_index(s, c, p);
    if (hak_slab_free_remote_any(s, index / 64, 1ull << (index % 64)))
        hak_inbox_push_any(s);
    hak_cache_collect_orphans();
}
