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
 * The inbox is a list of slabs linked through their records; pushes are compare-and-swap, the only
 * removal takes all, so there is no ABA. A slab is in one inbox at most: whoever sets its flag
 * links it. A slab may change its owner, or be released, while it waits in an inbox: then it is
 * handed on, or dropped. */
#include "cache/cache_internal.h"

/* Links a slab into a heap's inbox. */
static void inbox_link_any(struct hak_heap *heap, struct hak_slab *s)
{
    struct hak_slab *head = hak_load_relaxed(&heap->inbox);
    do {
        hak_store_relaxed(&s->inbox_next, head);
        /* ORDER: [inbox-list] the link; and whoever took the inbox before had given its slabs away
         * before that */
    } while (!hak_cas_acq_rel(&heap->inbox, &head, s));
    hak_add_relaxed(&heap->inbox_slabs, 1u);
}

void hak_inbox_push_any(struct hak_slab *s)
{
    for (;;) {
        struct hak_heap *owner = hak_load_acquire(&s->owner); /* ORDER: [slab-owner] */
        if (owner != NULL) {
            inbox_link_any(owner, s);
            /* The owner may have given the slab away and taken its inbox for the last time in
             * between: of two changes of an inbox one comes first, so either that saw the slab, or
             * this sees the new owner. ORDER: [slab-owner] */
            if (hak_load_acquire(&s->owner) != owner)
                hak_inbox_forward_any(owner);
            return;
        }
        /* All blocks have been collected already and the slab was released. Whoever gets it next
         * may count on the flag. */
        hak_exchange_acq_rel(&s->in_inbox, false);    /* ORDER: [inbox-flag] */
        if (hak_load_acquire(&s->owner) == NULL ||    /* ORDER: [slab-owner] */
            hak_exchange_acq_rel(&s->in_inbox, true)) /* ORDER: [inbox-flag] */
            return;
    }
}

/* Takes all slabs of an inbox. */
static struct hak_slab *inbox_take_any(struct hak_heap *heap)
{
    hak_store_relaxed(&heap->inbox_slabs, 0u);
    return hak_exchange_acq_rel(&heap->inbox, NULL); /* ORDER: [inbox-list] */
}

/* Takes one slab off a list that inbox_take_any returned. From then on others may link it anywhere.
 */
static struct hak_slab *inbox_next(struct hak_slab **list)
{
    struct hak_slab *s = *list;
    *list = hak_load_relaxed(&s->inbox_next);
    hak_exchange_acq_rel(&s->in_inbox,
                         false); /* ORDER: [inbox-flag] before the bits are looked at */
    return s;
}

static void inbox_hand_on(struct hak_slab *s)
{
    /* ORDER: [inbox-flag] [slab-owner] */
    if (hak_load_acquire(&s->owner) != NULL && !hak_exchange_acq_rel(&s->in_inbox, true))
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
        if (hak_load_relaxed(&s->owner) !=
            heap) { /* only the holder of this lock makes this heap an owner, or no longer one */
            inbox_hand_on(s);
            continue;
        }
        unsigned blocks = hak_slab_collect_owner(s);
        hak_count_owner(&heap->stats.collected_blocks, blocks);
        if (blocks == 0)
            continue;
        unsigned cls = s->cls; /* the slab may be gone after the next line */
        hak_heap_settle_freed_locked(heap, s);
        hak_heap_freed_locked(heap, cls, blocks);
    }
}

bool hak_heap_try_collect_any(struct hak_heap *heap)
{
    if (hak_load_relaxed(&heap->inbox) == NULL || !hak_heap_try_lock_whole(heap))
        return false;
    hak_heap_collect_locked(heap);
    hak_unlock(&heap->lock);
    return true;
}

void hak_cache_collect_orphans(void)
{
    hak_heap_try_collect_any(hak_orphans);
}

/* --- outbox --- */

/* Most owners that run collect before this many slabs wait for them. This one sleeps, or only
 * frees: whoever frees the next of its blocks does it instead. With 16, threads that free blocks of
 * each other's at random collected for each other all the time. */
#define INBOX_MOST_SLABS 64u

static void outbox_collect_for_owner(struct hak_heap *heap, struct hak_slab *s)
{
    /* Heaps are never unmapped; this one may be new. ORDER: [slab-owner] */
    struct hak_heap *owner = hak_load_acquire(&s->owner);
    if (owner != NULL && hak_load_relaxed(&owner->inbox_slabs) >= INBOX_MOST_SLABS &&
        hak_heap_try_collect_any(owner))
        hak_count_owner(&heap->stats.collected_for_others, 1u);
}

static void outbox_send(struct hak_heap *heap, struct hak_outbox_group *g,
                        struct hak_outbox_group next)
{
    /* NOLINTNEXTLINE(performance-no-int-to-ptr): only the number of its slot is wanted */
    struct hak_slab *s = hak_slab_record(hak_slot_of((void *)g->place));
    unsigned word = g->place % HAK_SLOT_BYTES;
    hak_count_owner(&heap->stats.remote_frees, hak_popcount64(g->blocks));
    hak_count_owner(&heap->stats.remote_sends, 1u);
    bool first = hak_slab_free_remote_any(s, word, g->blocks);
    *g = next;
    if (!first)
        return;
    hak_inbox_push_any(s);
    outbox_collect_for_owner(heap, s);
}

void hak_outbox_flush(struct hak_heap *heap)
{
    for (unsigned i = 0; i < HAK_OUTBOX_GROUPS; i++)
        if (heap->outbox[i].place != 0)
            outbox_send(heap, &heap->outbox[i], (struct hak_outbox_group){0});
    heap->outbox_bytes = 0;
    hak_cache_collect_orphans();
    hak_cache_tick_any();
}

void hak_cache_displace_remote(struct hak_heap *heap, struct hak_outbox_group *g, uintptr_t place,
                               uint64_t blocks)
{
    const struct hak_outbox_group next = {place, blocks};
    if (g->place != 0)
        outbox_send(heap, g, next);
    else
        *g = next;
}

/* It is time to send everything, or something is wrong with p. */
void hak_cache_free_remote(struct hak_heap *heap, unsigned cls, void *p)
{
    unsigned index = hak_block_checked_index(cls, p);
    struct hak_outbox_group *g = hak_outbox_group_of(heap, p);
    uintptr_t place = hak_outbox_place(cls, p, index);
    uint64_t bit = 1ull << (index % 64);
    if (g->place == place && (g->blocks & bit))
        hak_misuse(HAK_DOUBLE_FREE, p, cls);
    if (g->place == place)
        g->blocks |= bit;
    else
        hak_cache_displace_remote(heap, g, place, bit);
    heap->outbox_bytes += hak_class(cls)->size_bytes;
    if (heap->outbox_bytes >= HAK_OUTBOX_MAX_BYTES)
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
