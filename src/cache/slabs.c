/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cache: the slabs that a heap owns: lists by room, where a new one comes from, where an empty one
 * goes. Everything here runs under the heap's lock. */
#include "cache/cache_internal.h"
#include "large/large.h"

static void slabs_link_locked(struct hak_heap *heap, struct hak_slab *s, unsigned list)
{
    struct hak_slab **head = &heap->classes[s->cls].lists[list];
    s->list = (uint8_t)list;
    s->settle_free = (uint16_t)(hak_load_relaxed(&s->carved) -
                                hak_heap_list_until(list, hak_class(s->cls)->blocks));
    s->prev = NULL;
    s->next = *head;
    if (s->next != NULL)
        s->next->prev = s;
    *head = s;
}

static void slabs_unlink_locked(struct hak_heap *heap, struct hak_slab *s)
{
    hak_heap_leaves_walks_locked(heap, s);
    if (s->prev != NULL)
        s->prev->next = s->next;
    else
        heap->classes[s->cls].lists[s->list] = s->next;
    if (s->next != NULL)
        s->next->prev = s->prev;
}

void hak_heap_disown_locked(struct hak_heap *heap, struct hak_slab *s)
{
    slabs_unlink_locked(heap, s);
    heap->slab_bytes -= hak_class(s->cls)->slots * HAK_SLOT_BYTES;
    heap->free_bytes -= hak_slab_free_bytes(s);
    hak_count_owner(&heap->slabs, (size_t)-1);
}

static void slabs_set_map(struct hak_slab *s, uint32_t entry)
{
    size_t slot = hak_slab_slot(s);
    for (unsigned i = 0; i < hak_class(s->cls)->slots; i++)
        hak_store_relaxed(hak_map_entry(slot + i), entry);
}

void hak_heap_own_locked(struct hak_heap *heap, struct hak_slab *s)
{
    slabs_set_map(s, heap->tag | (uint32_t)s->cls * 2u);
    /* ORDER: [slab-owner] the heap is whole; and this is before the inbox of the former owner is
     * taken for the last time: see remote_send_any */
    hak_store_release(&s->owner, heap);
    heap->slab_bytes += hak_class(s->cls)->slots * HAK_SLOT_BYTES;
    heap->free_bytes += hak_slab_free_bytes(s);
    hak_count_owner(&heap->slabs, (size_t)1);
    hak_heap_use_class_locked(heap, s->cls);
    slabs_link_locked(heap, s, hak_heap_list_for(s));
}

static void slabs_release_locked(struct hak_heap *heap, struct hak_slab *s)
{
    const struct hak_class *c = hak_class(s->cls);
    if (HAK_UNLIKELY(s->purged_free_blocks != 0))
        hak_heap_emptied_purged(s);
    hak_heap_disown_locked(heap, s);
    hak_store_release(&s->owner, NULL); /* ORDER: [slab-owner] */
    slabs_set_map(s, 0);
    hak_pool_release_any(hak_slab_slot(s), c->slots, s->cls, false);
}

void hak_heap_settle_slow_locked(struct hak_heap *heap, struct hak_slab *s)
{
    if (hak_slab_used_blocks(s) == 0) {
        slabs_release_locked(heap, s);
        return;
    }
    slabs_unlink_locked(heap, s);
    slabs_link_locked(heap, s, hak_heap_list_for(s));
}

struct hak_slab *hak_heap_pick_locked(const struct hak_heap *heap, unsigned cls)
{
    for (unsigned list = 0; list < HAK_LIST_FULL; list++)
        if (heap->classes[cls].lists[list] != NULL)
            return heap->classes[cls].lists[list];
    return NULL;
}

/* Instead of one from the pool. The slab's owner is `heap` from now on; both heaps' locks are held.
 */
static void slabs_adopt_locked(struct hak_heap *heap, struct hak_heap *from, struct hak_slab *s)
{
    hak_heap_disown_locked(from, s);
    hak_heap_own_locked(heap, s);
    hak_count_owner(&heap->stats.adopted_slabs, 1u);
    hak_pool_count_adoption(s->cls);
}

/* Stage 0: a slab whose owner ended. */
static struct hak_slab *slabs_try_adopt_locked(struct hak_heap *heap, unsigned cls)
{
    struct hak_heap *orphans = hak_orphans_of_group(hak_load_relaxed(&heap->group));
    if (orphans == NULL || heap == orphans || hak_load_relaxed(&orphans->slabs) == 0 ||
        !hak_try_lock(&orphans->lock))
        return NULL;
    hak_heap_collect_locked(orphans);
    struct hak_slab *s = hak_heap_pick_locked(orphans, cls);
    if (s != NULL)
        slabs_adopt_locked(heap, orphans, s);
    hak_unlock(&orphans->lock);
    return s;
}

/* The emptiest, if a share of its blocks at least were used and are free: half of a thread that may
 * only be late, a quarter of one that has not refilled anything since somebody looked last. */
static struct hak_slab *slabs_pick_of_sleeper_locked(struct hak_heap *sleeper, unsigned cls)
{
    uint32_t refills = sleeper->home_refills;
    bool sleeps = sleeper->looked_refills == refills;
    unsigned share = sleeps ? 4 : 2;
    unsigned last = sleeps ? HAK_LIST_FULL - 2 : HAK_LIST_FULL - 1; /* with that share */
    sleeper->looked_refills = refills;
    for (unsigned list = HAK_LIST_FULL - 1; list >= last; list--)
        for (struct hak_slab *s = sleeper->classes[cls].lists[list]; s != NULL; s = s->next)
            if (hak_load_relaxed(&s->free_blocks) * share >= hak_class(cls)->blocks)
                return s; /* of most others most was never used: a heap has few of those */
    return NULL;
}

/* Takes `s`, if there is one, from a heap whose lock is held, and is not any more after that. */
static struct hak_slab *slabs_take_locked(struct hak_heap *heap, struct hak_heap *from,
                                          struct hak_slab *s)
{
    if (s != NULL)
        slabs_adopt_locked(heap, from, s);
    hak_unlock(&from->lock);
    if (s != NULL) /* what was sent before the slab had its new owner */
        hak_inbox_forward_any(from);
    return s;
}

/* From a heap that was found to have something in its inbox, and whose lock is held; it is not
 * any more after that. */
static struct hak_slab *slabs_take_over_locked(struct hak_heap *heap, struct hak_heap *from,
                                               unsigned cls)
{
    hak_heap_collect_locked(from);
    struct hak_slab *s = hak_load_relaxed(&from->group) == hak_load_relaxed(&heap->group)
                             ? slabs_pick_of_sleeper_locked(from, cls)
                             : NULL;
    return slabs_take_locked(heap, from, s);
}

/* Stage 0: a slab of a heap that waits for its next thread. Those are threads' own. */
static struct hak_slab *slabs_try_kept_locked(struct hak_heap *heap, unsigned cls)
{
    if (hak_load_relaxed(&heap->group) != HAK_GROUP_SHORT)
        return NULL;
    struct hak_heap *kept = hak_registry_lock_kept_with(cls);
    return kept != NULL ? slabs_take_locked(heap, kept, hak_heap_pick_locked(kept, cls)) : NULL;
}

/* What the search for one may cost, beside a slab's worth of page faults. */
#define HEAPS_LOOK_AT 32u
#define SLEEPERS_LOOK_AT 4u

/* Stage 0 as well: a slab of a thread that has not come by since others freed into its slabs: it
 * sleeps, waits for a processor, or is about to end. What it has of the slab in its bins returns as
 * other threads' blocks do. Before memory that nobody uses, as more of that would be touched while
 * this lies there: with more threads than processors, most owners wait. */
static struct hak_slab *slabs_try_take_over_locked(struct hak_heap *heap, unsigned cls)
{
    struct hak_slab *s = NULL;
    struct hak_heap *h = heap->looked_at != NULL ? heap->looked_at : heap;
    const struct hak_heap *begin = h;
    for (unsigned looked = 0, sleepers = 0; looked < HEAPS_LOOK_AT && sleepers < SLEEPERS_LOOK_AT;
         looked++) {
        h = h->next_heap != NULL ? h->next_heap : hak_cache_first_heap();
        if (h != heap && h != hak_orphans && hak_load_relaxed(&h->inbox) != NULL &&
            hak_heap_try_lock_whole(h)) {
            sleepers++;
            s = slabs_take_over_locked(heap, h, cls);
        }
        if (s != NULL || h == begin)
            break;
    }
    heap->looked_at = h;
    return s;
}

/* Without the pool. */
static struct hak_slab *slabs_try_find_locked(struct hak_heap *heap, unsigned cls)
{
    struct hak_slab *s = hak_heap_pick_locked(heap, cls);
    if (s == NULL && hak_load_relaxed(&heap->inbox) != NULL) {
        hak_heap_collect_locked(heap);
        s = hak_heap_pick_locked(heap, cls);
    }
    if (s == NULL)
        s = slabs_try_adopt_locked(heap, cls);
    if (s == NULL)
        s = slabs_try_kept_locked(heap, cls);
    return s != NULL ? s : slabs_try_take_over_locked(heap, cls);
}

/* The class is over its soft cap: all heaps take in what was freed into their slabs, so that the
 * caller, or the pool, may find room there. */
static void slabs_reclaim_locked(struct hak_heap *heap)
{
    hak_pool_count_reclaim();
    hak_heap_collect_locked(heap);
    hak_heaps_try_collect_any();
}

/* A heap that has used up so many slabs of a class will use up the next; a thread that wants a few
 * blocks of a class will not, and there may be a thousand of those. */
#define SLABS_BEFORE_DENSE 2
/* One that has so much uses up slabs of a class that it has just begun with, too. */
#define LARGE_HEAP_BYTES ((size_t)4 << 20)
#define SLAB_UNWRITTEN_SHARE 5u /* of a slab that is used up, as seldom as one block in five */
#define SLAB_PAGES_MOST (HAK_SLAB_MOST_SLOTS * HAK_SLOT_BYTES / HAK_PAGE_BYTES)
/* A look is a system call: after one that found pages that nobody has written to, so many slabs
 * are taken without. And after so many that were expected to be used up one has small pages, which
 * tell whether that is still so. */
#define SLABS_NOT_LOOKED_AT 16

/* Of a block of more than two pages a program may use the ends alone. */
static bool slabs_may_be_sparse(const struct hak_class *c)
{
    return c->size_bytes > 2 * HAK_PAGE_BYTES;
}

/* A full slab tells whether it does; not where there are huge pages, which are in memory in any
 * case. */
static bool slabs_tells_use(const struct hak_slab *s)
{
    return s != NULL && hak_pool_has_huge_pages() &&
           hak_load_relaxed(&hak_superslab(hak_slab_slot(s) / HAK_SLOTS)->huge_pages) !=
               HAK_HUGE_ASKED;
}

/* Of all blocks but the last ones, which may not be written to yet. */
static bool slabs_is_used_up(const struct hak_slab *s, const struct hak_class *c)
{
    unsigned char in_memory[SLAB_PAGES_MOST] = {0};
    char *slab = hak_slot_address(hak_slab_slot(s));
    hak_os_list_resident(slab, c->slots * HAK_SLOT_BYTES, in_memory);
    unsigned looked = c->blocks * 3u / 4;
    unsigned unwritten = 0;
    for (unsigned i = 0; i < looked; i++) {
        const char *middle = s->base + i * (size_t)c->size_bytes + c->size_bytes / 2;
        unwritten += !in_memory[(size_t)(middle - slab) / hak_os_page_bytes()];
    }
    return unwritten * SLAB_UNWRITTEN_SHARE <= looked;
}

/* Whether the next slab of a class will be used up, as far as those before it tell. */
static bool slabs_expects_use(struct hak_class_heap *ch, const struct hak_class *c)
{
    const struct hak_slab *full = ch->lists[HAK_LIST_FULL];
    int8_t *taken = &ch->slabs_taken;
    bool sparse = slabs_may_be_sparse(c);
    bool looks = sparse && *taken >= 0 && *taken <= SLABS_BEFORE_DENSE && slabs_tells_use(full);
    bool counts = sparse ? *taken < 0 || *taken >= SLABS_BEFORE_DENSE : *taken < SLABS_BEFORE_DENSE;
    if (looks && !slabs_is_used_up(full, c))
        *taken = -SLABS_NOT_LOOKED_AT;
    else if (looks || counts)
        ++*taken;
    bool is_to_tell = *taken > SLABS_BEFORE_DENSE + SLABS_NOT_LOOKED_AT;
    if (is_to_tell)
        *taken = SLABS_BEFORE_DENSE;
    return *taken >= SLABS_BEFORE_DENSE && !is_to_tell;
}

static unsigned slabs_density_locked(struct hak_heap *heap, unsigned cls)
{
    const struct hak_class *c = hak_class(cls);
    bool large = heap->slab_bytes >= LARGE_HEAP_BYTES && hak_pool_has_huge_pages();
    bool early = !slabs_may_be_sparse(c) && (large || hak_pool_is_huge_early());
    bool few = !slabs_expects_use(&heap->classes[cls], c) && !early;
    bool of_many = heap == hak_orphans; /* whoever adopts one may want little of it */
    return few || of_many || hak_load_relaxed(&heap->group) != HAK_GROUP_SHORT ? 0 : HAK_POOL_DENSE;
}

/* With much memory in a class, of all threads, the fine class below it is worth having. Not with a
 * cap, which is for all the sizes that the class had when it was set. */
static void slabs_refine(unsigned cls)
{
    if (hak_pool_slots_in_use(cls) >= hak_load_relaxed(&hak_cache_knobs.refine_slots) &&
        hak_pool_soft_cap(cls) == 0)
        hak_classes_refine(cls);
}

struct hak_slab *hak_heap_find_slab_locked(struct hak_heap *heap, unsigned cls)
{
    struct hak_slab *s = slabs_try_find_locked(heap, cls);
    if (s != NULL)
        return s;
    unsigned slots = hak_class(cls)->slots;
    hak_heap_grows_locked(heap, slots * HAK_SLOT_BYTES);
    unsigned label = cls | slabs_density_locked(heap, cls);
    slabs_refine(cls);
    size_t slot;
    bool zero;
    bool found = false;
    if (hak_pool_is_over_cap(cls, slots) &&
        !(found = hak_pool_try_kept(slots, slots, label, &slot, &zero))) {
        slabs_reclaim_locked(heap);
        s = slabs_try_find_locked(heap, cls);
        if (s != NULL)
            return s;
    }
    if (!found && !hak_large_try_acquire_any(slots, slots, label, &slot, &zero))
        return NULL;
    if (HAK_UNLIKELY(hak_load_relaxed(&hak_pool_knobs.prefault) != HAK_PREFAULT_NONE) && zero &&
        heap->classes[cls].slabs_taken >= SLABS_BEFORE_DENSE)
        hak_os_populate(hak_slot_address(slot), slots * HAK_SLOT_BYTES);
    s = hak_slab_make_owner(slot, cls, zero);
    hak_heap_own_locked(heap, s);
    return s;
}
