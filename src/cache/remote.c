/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cache: blocks freed by threads that do not own their slab.
 *
 *   freeing thread                                   owner, or whoever holds the heap's lock
 *   outbox: a message for each of 16 owners
 *     -> full, displaced, or 64 KiB wait:              inbox: take the whole list
 *        push it to the owner's inbox                  return each block to its slab,
 *                                                      the owner some to its bins
 *
 * The inbox is a list of messages; pushes are compare-and-swap, the only removal takes all, so
 * there is no ABA. A message goes to the owner of the slab of its first block. A slab may change
 * its owner while its blocks wait: whoever takes them out sends them on to the owner that their
 * slab has now. A slab of which a block waits is not empty, so it is not released meanwhile. */
#include "cache/cache_internal.h"

#include <string.h>

/* The slab of a block that is on its way. */
static struct hak_slab *remote_slab(void *p)
{
    size_t slot = hak_slot_of(p);
    uint32_t entry = hak_load_relaxed(hak_map_entry(slot));
    if (HAK_UNLIKELY(entry >> HAK_TAG_SHIFT == 0))
        hak_misuse(HAK_DOUBLE_FREE, p, HAK_CLASSES);
    return hak_slab_of_slot(slot, hak_class((entry & HAK_KIND_MASK) / 2));
}

static void inbox_link_any(struct hak_heap *heap, struct hak_message *m)
{
    struct hak_message *head = hak_load_relaxed(&heap->inbox);
    do {
        hak_store_relaxed(&m->next, head);
        /* ORDER: [inbox-list] the message; and whoever took the inbox before had given its slabs
         * away before that */
    } while (!hak_cas_acq_rel(&heap->inbox, &head, m));
    hak_add_relaxed(&heap->inbox_messages, 1u);
}

/* Sends a message to the owner of the slab of its first block; returns that heap. */
static struct hak_heap *remote_send_any(struct hak_message *m)
{
    void *first = m->blocks[HAK_MESSAGE_BLOCKS - 1];
    struct hak_slab *s = remote_slab(first);
    struct hak_heap *owner = hak_load_acquire(&s->owner); /* ORDER: [slab-owner] */
    if (HAK_UNLIKELY(owner == NULL))
        hak_misuse(HAK_DOUBLE_FREE, first, HAK_CLASSES);
    if (HAK_UNLIKELY(hak_load_relaxed(&owner->lost))) { /* and its blocks with it */
        hak_meta_free(m, sizeof *m);
        return owner;
    }
    inbox_link_any(owner, m);
    /* The owner may have given the slab away and taken its inbox for the last time in between: of
     * two changes of an inbox one comes first, so either that saw the message, or this sees the new
     * owner. ORDER: [slab-owner] */
    if (HAK_UNLIKELY(hak_load_acquire(&s->owner) != owner))
        hak_inbox_forward_any(owner);
    return owner;
}

static struct hak_message *inbox_take_any(struct hak_heap *heap)
{
    hak_store_relaxed(&heap->inbox_messages, 0u);
    return hak_exchange_acq_rel(&heap->inbox, NULL); /* ORDER: [inbox-list] */
}

void hak_inbox_forward_any(struct hak_heap *heap)
{
    struct hak_message *m = inbox_take_any(heap);
    while (m != NULL) {
        struct hak_message *next = hak_load_relaxed(&m->next);
        remote_send_any(m);
        m = next;
    }
}

/* Where a bin has no room for what others freed it grows as if its own thread had freed that: a
 * thread whose blocks all end elsewhere would refill from its slabs forever otherwise, and blocks
 * of 16 KiB three at a time. Not as far, though: with all that a bin may hold falloff takes 5% more
 * memory and the same time. */
#define BIN_GROWS_TO_BYTES ((size_t)128 << 10)

/* Returns the heap's blocks to their slabs; how many others are left in the message.
 *
 * A block whose neighbour in the message is of another slab costs some hundred instructions, a push
 * to the owner's bin ten. Those that lie side by side cost little either way, and return to their
 * slab, so that they are handed out in order again. */
static unsigned remote_collect_locked(struct hak_heap *heap, struct hak_message *m,
                                      struct hak_heap *to_bins)
{
    void **end = m->blocks + HAK_MESSAGE_BLOCKS;
    unsigned others = 0;
    unsigned collected = 0;
    size_t bytes = 0;
    for (void **at = m->blocks + m->free; at < end;) {
        size_t slot = hak_slot_of(*at);
        uint32_t entry = hak_load_relaxed(hak_map_entry(slot));
        uint32_t kind = entry & HAK_KIND_MASK;
        if (HAK_UNLIKELY((entry ^ kind) != heap->tag)) {
            m->blocks[others++] = *at++;
            continue;
        }
        const struct hak_class *c = hak_class(kind / 2);
        uintptr_t slab_mask = ~(uintptr_t)c->offset_mask;
        if (to_bins != NULL && !hak_heap_is_streak(at, end, slab_mask)) {
            hak_block_checked_index(kind / 2, *at);
            if (HAK_LIKELY(hak_cache_push(&to_bins->front, kind, *at))) {
                at++, collected++;
                continue;
            }
            struct hak_class_heap *ch = &to_bins->classes[kind / 2];
            ch->overflowed |= (size_t)ch->capacity * c->size_bytes < BIN_GROWS_TO_BYTES;
        }
        struct hak_slab *s = hak_slab_of_slot(slot, c);
        unsigned put = hak_heap_put_locked(heap, s, c, slab_mask, at, end);
        bytes += put * (size_t)c->size_bytes;
        collected += put;
        at += put;
    }
    hak_count_owner(&heap->stats.collected_blocks, (uint64_t)collected);
    hak_heap_freed_locked(heap, bytes);
    if (HAK_UNLIKELY(others != 0)) {
        m->free = HAK_MESSAGE_BLOCKS - others;
        memmove(m->blocks + m->free, m->blocks, others * sizeof *m->blocks);
    }
    return others;
}

/* Messages are had and given back several at a time, so that a thread takes the lock of all records
 * less than once a slab of 64-byte blocks that it sends or collects. */
#define SPARE_MOST 32u

static void remote_give_back_locked(struct hak_heap *heap)
{
    if (heap->done_count != 0)
        hak_meta_free_chain(heap->done_first, heap->done_last, sizeof(struct hak_message));
    heap->done_first = NULL;
    heap->done_count = 0;
}

static void remote_done_locked(struct hak_heap *heap, struct hak_meta_free *m)
{
    m->next = heap->done_first;
    heap->done_first = m;
    if (heap->done_count++ == 0)
        heap->done_last = m;
    if (heap->done_count == SPARE_MOST)
        remote_give_back_locked(heap);
}

void hak_heap_free_messages_owner_locked(struct hak_heap *heap)
{
    struct hak_heap *home = hak_home(heap);
    struct hak_meta_free *m = heap->spare_messages;
    heap->spare_messages = NULL;
    heap->spare_wanted = 0;
    while (m != NULL) {
        struct hak_meta_free *next = m->next;
        remote_done_locked(home, m);
        m = next;
    }
    remote_give_back_locked(home);
}

/* All of its cache lines are on their way at once while the message before is looked through: they
 * lie in the cache of the thread that sent it. */
static void remote_prefetch(const struct hak_message *m)
{
    for (size_t at = 0; m != NULL && at < sizeof *m; at += HAK_CACHE_LINE)
        __builtin_prefetch((const char *)m + at);
}

static void inbox_collect_locked(struct hak_heap *heap, struct hak_heap *to_bins)
{
    if (hak_load_relaxed(&heap->inbox) == NULL)
        return;
    struct hak_message *m = inbox_take_any(heap);
    remote_prefetch(m);
    while (m != NULL) {
        struct hak_message *next = hak_load_relaxed(&m->next);
        remote_prefetch(next);
        if (HAK_UNLIKELY(remote_collect_locked(heap, m, to_bins) != 0))
            remote_send_any(m);
        else
            remote_done_locked(heap, (void *)m);
        m = next;
    }
}

void hak_heap_collect_locked(struct hak_heap *heap)
{
    inbox_collect_locked(heap, NULL);
}

/* Of a home with guests whoever comes by first would have all of it in its bins, and the others
 * take new slabs. */
void hak_heap_collect_owner_locked(struct hak_heap *heap)
{
    struct hak_heap *home = hak_home(heap);
    inbox_collect_locked(home, hak_home_is_shared(home) ? NULL : heap);
}

bool hak_heap_try_collect_any(struct hak_heap *heap)
{
    if (hak_load_relaxed(&heap->inbox) == NULL || !hak_heap_try_lock_whole(heap))
        return false;
    hak_heap_collect_locked(heap);
    hak_unlock(&heap->lock);
    return true;
}

void hak_heaps_try_collect_any(void)
{
    for (struct hak_heap *h = hak_cache_first_heap(); h != NULL; h = h->next_heap)
        hak_heap_try_collect_any(h);
}

void hak_cache_collect_orphans(void)
{
    for (unsigned group = 0; group < HAK_GROUPS; group++) {
        struct hak_heap *orphans = hak_orphans_of_group(group);
        if (orphans != NULL)
            hak_heap_try_collect_any(orphans);
    }
}

/* --- outbox --- */

/* Most owners that run collect before this many messages wait for them. One that has more sleeps,
 * or only frees: whoever frees the next of its blocks does it instead, and each message at once
 * where the owner's thread has ended. */
#define INBOX_MOST_MESSAGES 64u
static bool outbox_owner_sleeps(const struct hak_heap *owner)
{
    return hak_load_relaxed(&owner->thread) == 0 ||
           hak_load_relaxed(&owner->inbox_messages) >= INBOX_MOST_MESSAGES;
}

static void outbox_send(struct hak_heap *heap, struct hak_outbox *o)
{
    struct hak_message *m = o->message;
    m->free = o->free;
    hak_count_owner(&heap->stats.remote_frees, (uint64_t)(HAK_MESSAGE_BLOCKS - o->free));
    heap->exchanged_blocks += HAK_MESSAGE_BLOCKS - o->free;
    hak_count_owner(&heap->stats.remote_sends, 1u);
    *o = (struct hak_outbox){0};
    struct hak_heap *owner = remote_send_any(m);
    if (outbox_owner_sleeps(owner) && hak_heap_try_collect_any(owner))
        hak_count_owner(&heap->stats.collected_for_others, 1u);
}

void hak_outbox_flush(struct hak_heap *heap)
{
    for (unsigned i = 0; i < HAK_OUTBOXES; i++)
        if (heap->outbox[i].message != NULL)
            outbox_send(heap, &heap->outbox[i]);
    heap->outbox_bytes = 0;
    hak_cache_collect_orphans();
    hak_cache_tick_any();
}

/* Twice as many as the last time: a heap that sends one now and then holds no more. */
static struct hak_message *outbox_new_message(struct hak_heap *heap)
{
    if (heap->spare_messages == NULL) {
        heap->spare_wanted = (uint8_t)hak_min(hak_max(heap->spare_wanted * 2u, 1), SPARE_MOST);
        heap->spare_messages = hak_meta_alloc_chain(sizeof(struct hak_message), heap->spare_wanted);
    }
    struct hak_meta_free *m = heap->spare_messages;
    if (m != NULL)
        heap->spare_messages = m->next;
    return (void *)m;
}

bool hak_outbox_try_add(struct hak_heap *heap, uint32_t entry, void *p)
{
    struct hak_outbox *o = hak_outbox_of(heap, entry);
    if (o->message != NULL && (o->free == 0 || o->tag != entry >> HAK_TAG_SHIFT))
        outbox_send(heap, o);
    if (o->message == NULL) {
        struct hak_message *m = outbox_new_message(heap);
        if (m == NULL)
            return false;
        *o = (struct hak_outbox){m, entry >> HAK_TAG_SHIFT, HAK_MESSAGE_BLOCKS};
    }
    o->message->blocks[--o->free] = p;
    heap->outbox_bytes += hak_class((entry & HAK_KIND_MASK) / 2)->size_bytes;
    return true;
}

/* There is no room for p in a message that waits, or so much waits that all of it is sent. */
void hak_cache_free_remote(struct hak_heap *heap, uint32_t entry, void *p)
{
    unsigned cls = (entry & HAK_KIND_MASK) / 2;
    hak_block_checked_index(cls, p);
    if (HAK_UNLIKELY(heap->exchanged_blocks >> heap->exchange_refused >=
                     hak_load_relaxed(&hak_cache_knobs.exchange_blocks))) {
        const struct hak_slab *s = hak_slab_of_slot(hak_slot_of(p), hak_class(cls));
        hak_homes_weigh_owner(heap, hak_load_acquire(&s->owner)); /* ORDER: [slab-owner] */
    }
    if (HAK_UNLIKELY(!hak_outbox_try_add(heap, entry, p)))
        hak_cache_free_direct(cls, p);
    if (heap->outbox_bytes >= HAK_OUTBOX_MAX_BYTES)
        hak_outbox_flush(heap);
}

/* True when the heap has taken the block, which was not so when the slab has changed its owner. */
static bool remote_try_return(struct hak_heap *owner, struct hak_slab *s, void *p)
{
    if (!hak_heap_lock_whole(owner))
        return true; /* a fork left it half changed: the block is lost with it */
    bool owned = hak_load_relaxed(&s->owner) == owner;
    if (owned) {
        const struct hak_class *c = hak_class(s->cls);
        hak_slab_put_owner(s, c, p);
        hak_heap_settle_freed_locked(owner, s);
        hak_heap_freed_locked(owner, c->size_bytes);
    }
    hak_unlock(&owner->lock);
    return owned;
}

void hak_cache_free_direct(unsigned cls, void *p)
{
    struct hak_slab *s = hak_slab_of_slot(hak_slot_of(p), hak_class(cls));
    struct hak_heap *owner;
    do {
        owner = hak_load_acquire(&s->owner); /* ORDER: [slab-owner] */
        if (owner == NULL)
            hak_misuse(HAK_DOUBLE_FREE, p, cls);
    } while (!remote_try_return(owner, s, p));
}
