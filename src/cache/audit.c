/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cache: the end of a process. Frees are checked when blocks leave their bin for their slabs, and
 * what is in the bins of the thread that ends the process never does. So it is looked at where it
 * is, and nothing is written but locks: a child of fork shares its pages with others. */
#include "cache/cache_internal.h"

#include <string.h>

/* Of a bin's and a metered bin's blocks, those that were looked at already: numbers of blocks, from
 * 1, at places that follow from the address (open addressing: D. Knuth, TAOCP 3, 6.4). */
#define AUDIT_MOST_BLOCKS 2048u /* more than both have */
struct audit_bins {
    void *const *blocks, *const *metered;
    unsigned count; /* of the bin's */
    unsigned places_mask;
    uint16_t seen[AUDIT_MOST_BLOCKS * 2];
};
/* Not on the stack: the process may end on the small one of a signal handler. It ends once, in one
 * thread. */
static struct audit_bins audit_bins HAK_RARELY_USED;

static const void *audit_block(const struct audit_bins *b, unsigned number)
{
    return number < b->count ? b->blocks[number] : b->metered[number - b->count];
}

static void audit_note(struct audit_bins *b, unsigned number, unsigned cls)
{
    const void *p = audit_block(b, number);
    size_t place = ((uintptr_t)p >> 4) * 0x9E3779B97F4A7C15u >> 40;
    for (;; place++) {
        uint16_t *seen = &b->seen[place & b->places_mask];
        if (*seen == 0) {
            *seen = (uint16_t)(number + 1);
            return;
        }
        if (audit_block(b, *seen - 1u) == p)
            hak_misuse(HAK_DOUBLE_FREE, p, cls);
    }
}

/* What bins_drain_locked and what it calls would find. */
static void audit_in_slab_locked(const struct hak_heap *heap, unsigned cls, const void *p)
{
    size_t slot = hak_slot_of(p);
    uint32_t entry = hak_load_relaxed(hak_map_entry(slot));
    unsigned index = hak_block_checked_index(cls, p);
    if (HAK_UNLIKELY(entry != (heap->front.tag | cls * 2))) {
        hak_bin_refuse_gone(p, cls, entry);
        return; /* another heap has taken it over */
    }
    const struct hak_slab *s = hak_slab_of_slot(slot, hak_class(cls));
    if (HAK_UNLIKELY(index >= hak_load_relaxed(&s->carved)))
        hak_slab_no_block(cls, p);
    if (HAK_UNLIKELY(hak_load_relaxed(&s->free_bits[index / 64]) >> index % 64 & 1))
        hak_misuse(HAK_DOUBLE_FREE, p, cls);
}

static void audit_class_locked(struct hak_heap *heap, unsigned cls, hak_cache_look *look)
{
    struct audit_bins *b = &audit_bins;
    unsigned count = hak_bin_blocks(heap, cls);
    unsigned metered_count = hak_metered_blocks(heap, cls);
    unsigned all = (unsigned)hak_min(count + metered_count, AUDIT_MOST_BLOCKS);
    if (all == 0)
        return;
    b->count = count;
    b->blocks = heap->classes[cls].stack + 1;
    b->metered = metered_count == 0 ? NULL : hak_metered_stack(heap->front.meter, cls) + 1;
    b->places_mask = (2u << hak_log2_ceil(all)) - 1;
    memset(b->seen, 0, (b->places_mask + 1) * sizeof b->seen[0]);
    for (unsigned i = 0; i < all; i++) {
        audit_note(b, i, cls);
        audit_in_slab_locked(heap, cls, audit_block(b, i));
        if (look != NULL)
            look(audit_block(b, i), cls);
    }
}

/* The process may end in a signal handler that has interrupted anything: a heap whose lock is held
 * is left alone. */
static void audit_heap(struct hak_heap *heap, hak_cache_look *look)
{
    struct hak_heap *home = hak_heap_try_lock_home(heap);
    if (home == NULL)
        return;
    for (unsigned cls = 0; (cls = hak_heap_next_used_locked(heap, cls)) < HAK_CLASSES; cls++)
        audit_class_locked(heap, cls, look);
    hak_unlock(&home->lock);
}

static void audit_groups(struct hak_heap *heap, hak_cache_look *look)
{
    audit_heap(heap, look);
    for (unsigned i = 0; i < HAK_GROUPS - 1; i++)
        if (heap->group_heaps[i] != NULL)
            audit_heap(heap->group_heaps[i], look);
}

void hak_cache_audit(struct hak_heap *heap, hak_cache_look *look)
{
    if (heap != NULL)
        audit_groups(heap, look);
    if (!hak_registry_has_kept() || !hak_try_lock(&hak_registry.lock))
        return;
    for (struct hak_heap *h = hak_load_relaxed(&hak_registry.kept); h != NULL; h = h->next_free)
        audit_groups(h, look);
    hak_unlock(&hak_registry.lock);
}
