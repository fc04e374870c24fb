/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * large: blocks that are runs of slots, and the choice between those and huge ones. See large.h. */
#include "large/large_internal.h"

struct large_counters hak_large_counters;

static unsigned runs_slots(size_t bytes)
{
    return (unsigned)((bytes + HAK_SLOT_BYTES - 1) >> HAK_SLOT_SHIFT);
}

static void *runs_alloc(unsigned slots, unsigned align_slots, bool *zero)
{
    size_t slot;
    if (hak_pool_acquire_any(slots, align_slots, HAK_POOL_LABEL_RUN, &slot, zero) != 0)
        return NULL;
    struct hak_slab *s = hak_slab_record(slot);
    s->large_bytes = slots * HAK_SLOT_BYTES;
    hak_add_relaxed(&hak_large_counters.large_bytes, s->large_bytes);
    hak_add_relaxed(&hak_large_counters.large_blocks, 1u);
    /* ORDER: [large-entry] the record is whole */
    hak_store_release(hak_map_entry(slot), HAK_KIND_LARGE);
    return hak_slot_address(slot);
}

static void runs_release(size_t slot, size_t bytes)
{
    hak_sub_relaxed(&hak_large_counters.large_bytes, bytes);
    hak_sub_relaxed(&hak_large_counters.large_blocks, 1u);
    hak_pool_release_any(slot, runs_slots(bytes), HAK_POOL_LABEL_RUN, false);
}

/* Gives back the slots of a block behind the first `keep`. */
static void runs_cut(size_t slot, struct hak_slab *s, unsigned keep)
{
    size_t kept = keep * HAK_SLOT_BYTES;
    size_t cut = s->large_bytes - kept;
    s->large_bytes = kept;
    hak_sub_relaxed(&hak_large_counters.large_bytes, cut);
    bool purged = hak_os_purge(hak_slot_address(slot + keep), cut) == 0;
    hak_pool_release_any(slot + keep, runs_slots(cut), HAK_POOL_LABEL_RUN, purged);
}

static bool runs_try_extend(size_t slot, struct hak_slab *s, unsigned slots)
{
    bool zero;
    unsigned have = runs_slots(s->large_bytes);
    if (slots > HAK_SLOTS || !hak_pool_try_acquire_at(slot + have, slots - have, &zero))
        return false;
    hak_add_relaxed(&hak_large_counters.large_bytes, (slots - have) * HAK_SLOT_BYTES);
    s->large_bytes = slots * HAK_SLOT_BYTES;
    return true;
}

static void *runs_try_resize(void *p, size_t new_bytes)
{
    size_t slot = hak_slot_of(p);
    struct hak_slab *s = hak_slab_record(slot);
    size_t old_bytes = s->large_bytes;
    unsigned slots = new_bytes <= HAK_SUPERSLAB_BYTES ? runs_slots(new_bytes) : HAK_SLOTS + 1;
    if (slots < runs_slots(old_bytes))
        runs_cut(slot, s, slots);
    if (slots <= runs_slots(old_bytes) || runs_try_extend(slot, s, slots))
        return p;
    if (old_bytes < HAK_MOVE_MIN)
        return NULL;
    /* A block that outgrows its place goes on as a huge one, which has room to grow. */
    void *moved = hak_huge_try_adopt_pages(p, old_bytes, new_bytes);
    if (moved != NULL) {
        hak_store_relaxed(hak_map_entry(slot), 0u);
        hak_sub_relaxed(&hak_large_counters.large_bytes, old_bytes);
        hak_sub_relaxed(&hak_large_counters.large_blocks, 1u);
        hak_pool_release_any(slot, runs_slots(old_bytes), HAK_POOL_LABEL_RUN, true);
    }
    return moved;
}

void *hak_large_alloc(size_t size_bytes, size_t align_bytes, bool *zero)
{
    size_t align_slots = align_bytes <= HAK_SLOT_BYTES ? 1 : align_bytes >> HAK_SLOT_SHIFT;
    if (size_bytes <= HAK_LARGE_MAX && align_slots <= HAK_SLOTS / 2)
        return runs_alloc(runs_slots(size_bytes), (unsigned)align_slots, zero);
    return hak_huge_alloc(size_bytes, align_bytes, zero);
}

static bool large_begins(const void *p, uint32_t entry)
{
    size_t unit = entry == HAK_KIND_LARGE ? HAK_SLOT_BYTES : HAK_SUPERSLAB_BYTES;
    return ((uintptr_t)p & (unit - 1)) == 0;
}

bool hak_large_free(void *p, uint32_t entry)
{
    size_t slot = hak_slot_of(p);
    /* ORDER: [large-entry] whoever clears the entry owns the block; of two frees one finds it gone
     */
    if (!large_begins(p, entry) || !hak_cas_acquire(hak_map_entry(slot), &entry, 0u))
        return false;
    if (entry == HAK_KIND_LARGE)
        runs_release(slot, hak_slab_record(slot)->large_bytes);
    else
        hak_huge_free(slot / HAK_SLOTS);
    return true;
}

size_t hak_large_usable_bytes(const void *p, uint32_t entry)
{
    if (!large_begins(p, entry))
        return 0;
    size_t slot = hak_slot_of(p);
    return entry == HAK_KIND_LARGE ? hak_slab_record(slot)->large_bytes
                                   : hak_superslab(slot / HAK_SLOTS)->huge.mapped_bytes;
}

void *hak_large_try_resize(void *p, uint32_t entry, size_t new_bytes)
{
    if (new_bytes > HAK_HUGE_MAX)
        return NULL;
    return entry == HAK_KIND_LARGE ? runs_try_resize(p, new_bytes)
                                   : hak_huge_try_resize(hak_slot_of(p) / HAK_SLOTS, new_bytes);
}
