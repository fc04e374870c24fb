/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * pool: whole superslabs for huge blocks. They come from the retired superslabs if a run of those
 * is long enough. If not, runs that are too short are moved together: superslabs are aligned to
 * what one entry of the upper page table maps, so the kernel moves that entry (mremap) and not 512
 * pages, which costs a hundredth of faulting them in anew. Only the rest comes from the system.
 *
 * Pieces that were moved are mappings that do not merge with their neighbours, so there is a limit
 * to how many there may be. See pool.h. */
#include "pool/pool_internal.h"

#include <errno.h>

#define MOVE_MOST_PIECES 16u      /* in a block; and none shorter than this part of it */
#define MOVED_MOST ((size_t)1024) /* in all; the kernel's limit on mappings is 65530 by default */

/* What hak_pool_reserve has counted as mapped is a huge block's. What a block grows by has to lie
 * behind it, or where it moves to: nothing that might have been kept would have served. */
static void whole_count_mapped(size_t superslabs, bool grows)
{
    hak_add_relaxed(&hak_pool.whole_now, superslabs);
    hak_add_relaxed(&hak_pool.mapped_total, superslabs);
    if (!grows)
        hak_kept_regret(superslabs * HAK_SLOTS);
}

static void whole_count_unmapped(size_t superslabs)
{
    hak_sub_relaxed(&hak_pool.mapped_now, superslabs);
    hak_sub_relaxed(&hak_pool.whole_now, superslabs);
    hak_add_relaxed(&hak_pool.unmapped_total, superslabs);
}

static int whole_take_fresh(size_t bytes, size_t align, unsigned how, struct hak_whole *w)
{
    w->superslabs = pool_whole_superslabs(bytes);
    w->mapped_bytes = bytes;
    w->clean_slots = 0;
    int error = hak_pool_map(w->superslabs, align, bytes, false, &w->first);
    if (error != 0)
        return error;
    whole_count_mapped(w->superslabs, how & HAK_WHOLE_FRESH);
    hak_store_relaxed(&hak_superslab(w->first)->huge_pages, (uint8_t)HAK_HUGE_NONE);
    hak_whole_learn_of_last();
    if (!(how & HAK_WHOLE_FRESH))
        hak_whole_advise(w, bytes, 0, how);
    hak_whole_note_last(w);
    return 0;
}

/* Not below a limit: until it is moved it counts where it comes from and where it goes to, and
 * others would be refused what the limit leaves them. */
static bool whole_may_move(void)
{
    return !hak_pool_has_limit() && hak_load_relaxed(&hak_pool.retired_now) != 0 &&
           hak_load_relaxed(&hak_pool.moved_pieces) < MOVED_MOST;
}

static void whole_unmap(size_t first, size_t superslabs, size_t mapped_bytes);

/* What a refused move leaves. Before Linux 6.17 the place is unmapped by the time that a source of
 * several mappings is refused; since then some of them may have been moved. A purge is refused
 * where a page is not mapped. False: the place is not mapped as a whole. */
static bool whole_mend_refused(size_t from, size_t place, size_t superslabs)
{
    size_t bytes = superslabs * HAK_SUPERSLAB_BYTES;
    if (hak_os_moved_bytes(hak_superslab_address(from), bytes) == 0) {
        hak_retired_put(from, superslabs);
    } else {
        hak_add_relaxed(&hak_pool.whole_now, superslabs);
        whole_unmap(from, superslabs, bytes);
    }
    int mapped = hak_os_map_at(hak_superslab_address(place), bytes);
    return mapped == 0 ||
           (mapped == EEXIST && hak_os_purge(hak_superslab_address(place), bytes) == 0);
}

/* How many of the first `bytes` of a range lie in the last superslab that they reach, in slots. */
static unsigned whole_last_slots(size_t bytes)
{
    return (unsigned)((bytes - 1) / HAK_SLOT_BYTES % HAK_SLOTS) + 1;
}

/* Of a retired superslab: how many slots at its end have no memory. */
static unsigned whole_clean_end(size_t superslab)
{
    uint32_t dirty = pool_dirty(hak_load_relaxed(&hak_superslab(superslab)->state));
    return dirty == 0 ? HAK_SLOTS : HAK_SLOTS - 1 - hak_log2_floor(dirty);
}

/* Moves retired superslabs to the front of a fresh range, for a block of so many bytes, and counts
 * them. False: the range is not mapped any more. */
static bool whole_try_move_in(struct hak_whole *w, size_t bytes, size_t *moved)
{
    size_t have = 0;
    bool is_mapped = true;
    size_t least = w->superslabs / MOVE_MOST_PIECES + 1;
    while (have < w->superslabs && whole_may_move()) {
        size_t from;
        size_t want = w->superslabs - have;
        size_t run =
            hak_retired_take_run(want, whole_last_slots(bytes), hak_min(least, want), &from);
        if (run == 0)
            break;
        w->clean_slots = whole_clean_end(from + run - 1); /* if it comes to be the last */
        if (hak_os_move(hak_superslab_address(from), hak_superslab_address(w->first + have),
                        run * HAK_SUPERSLAB_BYTES, false) != 0) {
            is_mapped = whole_mend_refused(from, w->first + have, run);
            break;
        }
        hak_space_give(from, run);
        hak_add_relaxed(&hak_pool.moved_pieces, (size_t)1);
        hak_add_relaxed(&hak_pool.moved_total, 1u);
        have += run;
    }
    if (have < w->superslabs) /* of more none was touched either, but one may have a huge page */
        w->clean_slots = 0;
    *moved = have;
    return is_mapped;
}

static int whole_take_moved(size_t bytes, unsigned how, struct hak_whole *w, bool *zero)
{
    w->superslabs = pool_whole_superslabs(bytes);
    w->mapped_bytes =
        w->superslabs * HAK_SUPERSLAB_BYTES; /* what is moved in needs a mapping there */
    int error = hak_pool_map(w->superslabs, 1, w->mapped_bytes, false, &w->first);
    if (error != 0)
        return error;
    size_t moved;
    bool is_mapped = whole_try_move_in(w, bytes, &moved);
    hak_sub_relaxed(&hak_pool.mapped_now, moved); /* they were counted where they came from */
    hak_add_relaxed(&hak_pool.whole_now, moved);
    whole_count_mapped(w->superslabs - moved, false);
    if (!is_mapped) {
        whole_unmap(w->first, w->superslabs, w->mapped_bytes);
        return ENOMEM;
    }
    hak_store_relaxed(&hak_superslab(w->first)->huge_pages, (uint8_t)HAK_HUGE_NONE);
    hak_whole_advise(w, bytes, moved, how);
    *zero = moved == 0;
    return 0;
}

int hak_whole_take(size_t bytes, size_t align, unsigned how, struct hak_whole *w, bool *zero)
{
    size_t want = pool_whole_superslabs(bytes);
    *zero = true;
    if (align > 1 || how & HAK_WHOLE_FRESH)
        return whole_take_fresh(bytes, align, how, w);
    if (hak_retired_take_run(want, whole_last_slots(bytes), want, &w->first) != 0) {
        w->superslabs = want;
        w->mapped_bytes = want * HAK_SUPERSLAB_BYTES;
        w->clean_slots = whole_clean_end(w->first + want - 1);
        hak_add_relaxed(&hak_pool.whole_now, want);
        *zero = false;
        return 0;
    }
    if (whole_may_move() && whole_take_moved(bytes, how, w, zero) == 0)
        return 0;
    return whole_take_fresh(bytes, align, how, w);
}

bool hak_whole_try_make(size_t slot, unsigned slots, struct hak_whole *w)
{
    bool zero;
    unsigned others = HAK_SLOTS - slots;
    if (slot % HAK_SLOTS != 0 ||
        (others != 0 && !hak_pool_try_acquire_at(slot + slots, others, &zero)))
        return false;
    *w = (struct hak_whole){slot / HAK_SLOTS, 1, HAK_SUPERSLAB_BYTES, 0};
    pool_count_in_use(HAK_POOL_LABEL_RUN, -(long)HAK_SLOTS);
    hak_add_relaxed(&hak_pool.whole_now, (size_t)1);
    hak_retired_forget_slabs(w->first, 1);
    return true;
}

/* What is not known to a record yet, or was: all slots of a superslab that lies in a huge block are
 * claimed, so that whoever finds it by an old hint takes nothing from it. */
static void whole_make_slots(size_t superslab, unsigned clean_slots)
{
    struct hak_superslab *s = hak_superslab(superslab);
    for (unsigned i = 0; i < HAK_SLOTS; i++)
        hak_store_relaxed(&s->label[i], (uint8_t)HAK_POOL_LABEL_RUN);
    hak_store_relaxed(&s->missing, 0u);
    hak_pool_set_dense(superslab, false);
    uint64_t dirty = hak_low_bits32(HAK_SLOTS - clean_slots);
    hak_store_relaxed(&s->state, dirty << 32 | POOL_ALL);
}

/* The system is out of mappings: what cannot be unmapped serves as slots. */
static void whole_offer_slots(size_t first, size_t superslabs, size_t mapped_bytes)
{
    hak_sub_relaxed(&hak_pool.whole_now, superslabs);
    for (size_t i = first; i < first + superslabs; i++) {
        unsigned slots = (unsigned)(hak_min(mapped_bytes, HAK_SUPERSLAB_BYTES) / HAK_SLOT_BYTES);
        mapped_bytes -= slots * HAK_SLOT_BYTES;
        whole_make_slots(i, 0);
        hak_store_relaxed(&hak_superslab(i)->released_ns, hak_os_now_ns());
        hak_retired_offer_slots(i, slots);
        if (slots < HAK_SLOTS)
            hak_pool_try_add_partial(i);
    }
}

static void whole_postpone(size_t first, size_t superslabs, size_t mapped_bytes)
{
    struct hak_superslab *s = hak_superslab(first);
    s->huge.superslabs = (uint32_t)superslabs;
    s->huge.mapped_bytes = mapped_bytes;
    uint32_t before = hak_load_relaxed(&hak_pool.postponed);
    do {
        s->older = before;
        /* ORDER: [postponed] the record is whole */
    } while (!hak_cas_release(&hak_pool.postponed, &before, (uint32_t)first + 1));
}

/* Hardened build: what is unmapped may be inaccessible, and in one mapping with what is so beside
 * it, which would have to be cut. */
static bool whole_try_open(size_t first, size_t mapped_bytes)
{
    return !HAK_HARDENED || hak_os_protect(hak_superslab_address(first), mapped_bytes, true) == 0;
}

static void whole_unmap(size_t first, size_t superslabs, size_t mapped_bytes)
{
    if (superslabs == 0)
        return;
    char *at = hak_superslab_address(first);
    if (hak_os_unmap(at, mapped_bytes) == 0 ||
        (HAK_HARDENED && whole_try_open(first, mapped_bytes) &&
         hak_os_unmap(at, mapped_bytes) == 0)) {
        whole_count_unmapped(superslabs);
        hak_space_give(first, superslabs);
    } else if (whole_try_open(first, mapped_bytes) &&
               hak_space_need_meta(first + superslabs) == 0) {
        whole_offer_slots(first, superslabs, mapped_bytes);
    } else { /* nor are there records for slots: tried again later */
        hak_os_purge(at, mapped_bytes);
        whole_postpone(first, superslabs, mapped_bytes);
    }
}

size_t hak_whole_unmap_postponed(void)
{
    if (HAK_LIKELY(hak_load_relaxed(&hak_pool.postponed) == 0))
        return 0;
    size_t before = hak_load_relaxed(&hak_pool.unmapped_total);
    uint32_t link = hak_exchange_acquire(&hak_pool.postponed, 0u); /* ORDER: [postponed] */
    while (link != 0) {
        struct hak_superslab *s = hak_superslab(link - 1);
        size_t first = link - 1;
        link = s->older;
        whole_unmap(first, s->huge.superslabs, s->huge.mapped_bytes);
    }
    return (hak_load_relaxed(&hak_pool.unmapped_total) - before) * HAK_SUPERSLAB_BYTES;
}

void hak_whole_be_exact(void)
{
    hak_store_relaxed(&hak_pool.exact, true);
}

bool hak_whole_is_exact(void)
{
    return hak_load_relaxed(&hak_pool.exact);
}

/* The last superslab may be mapped in part. */
static bool whole_try_complete(const struct hak_whole *w)
{
    size_t missing = w->superslabs * HAK_SUPERSLAB_BYTES - w->mapped_bytes;
    return missing == 0 ||
           (!hak_whole_is_exact() &&
            hak_os_map_at(hak_superslab_address(w->first) + w->mapped_bytes, missing) == 0);
}

void hak_whole_give(const struct hak_whole *w)
{
    hak_whole_learn_of_freed(w);
    size_t room = pool_keeps_huge(w->mapped_bytes) ? hak_kept_room_superslabs() : 0;
    size_t keep = hak_min(w->superslabs, room);
    size_t mapped_bytes = w->mapped_bytes;
    if (keep == w->superslabs && whole_try_complete(w))
        mapped_bytes = keep * HAK_SUPERSLAB_BYTES;
    else if (keep == w->superslabs)
        keep--;
    if (keep != 0 && hak_space_need_meta(w->first + keep) != 0)
        keep = 0;
    if (keep < w->superslabs) {
        whole_unmap(w->first + keep, w->superslabs - keep,
                    mapped_bytes - keep * HAK_SUPERSLAB_BYTES);
        hak_kept_evicted((w->superslabs - keep) * HAK_SLOTS);
    }
    size_t clean =
        w->clean_slots + (w->superslabs * HAK_SUPERSLAB_BYTES - w->mapped_bytes) / HAK_SLOT_BYTES;
    size_t behind = w->superslabs * HAK_SLOTS;
    for (size_t i = 0; i < keep; i++) {
        behind -= HAK_SLOTS;
        whole_make_slots(w->first + i,
                         (unsigned)hak_min(clean - hak_min(clean, behind), HAK_SLOTS));
    }
    hak_sub_relaxed(&hak_pool.whole_now, keep);
    if (keep != 0)
        hak_retired_put(w->first, keep);
}

void hak_whole_unmap(const struct hak_whole *w)
{
    hak_whole_forget_last(w->first);
    whole_unmap(w->first, w->superslabs, w->mapped_bytes);
}

static bool whole_try_extend_to(struct hak_whole *w, size_t bytes)
{
    size_t have = w->superslabs;
    size_t need = hak_max(pool_whole_superslabs(bytes), have);
    if (hak_pool_reserve(need - have) != 0)
        return false;
    char *end = hak_superslab_address(w->first) + w->mapped_bytes;
    bool taken = need == have || hak_space_try_take_at(w->first + have, need - have);
    if (!taken || hak_os_map_at(end, bytes - w->mapped_bytes) != 0) {
        if (taken && need > have)
            hak_space_give(w->first + have, need - have);
        hak_sub_relaxed(&hak_pool.mapped_now, need - have);
        return false;
    }
    whole_count_mapped(need - have, true);
    w->superslabs = need;
    w->mapped_bytes = bytes;
    hak_whole_grown(w, have);
    return true;
}

/* A large block that grows by little at a time gets whole superslabs, or none would have a huge
 * page: there has to be room for one when the first of its pages is touched. */
static bool whole_grows_by_superslabs(const struct hak_whole *w, size_t bytes)
{
    size_t superslabs = pool_whole_superslabs(bytes);
    return !HAK_HARDENED && superslabs > w->superslabs && !hak_whole_is_exact() &&
           hak_whole_is_large(bytes);
}

bool hak_whole_try_extend(struct hak_whole *w, size_t bytes)
{
    size_t all = hak_round_up(bytes, HAK_SUPERSLAB_BYTES);
    return (whole_grows_by_superslabs(w, bytes) && whole_try_extend_to(w, all)) ||
           whole_try_extend_to(w, bytes);
}

bool hak_whole_try_cut(struct hak_whole *w, size_t bytes)
{
    size_t keep = pool_whole_superslabs(bytes);
    if (hak_os_unmap(hak_superslab_address(w->first) + bytes, w->mapped_bytes - bytes) != 0)
        return false;
    hak_whole_forget_last(w->first); /* of which more would be looked at */
    whole_count_unmapped(w->superslabs - keep);
    hak_space_give(w->first + keep, w->superslabs - keep);
    w->superslabs = keep;
    w->mapped_bytes = bytes;
    return true;
}

void hak_whole_moved_away(const struct hak_whole *w)
{
    hak_whole_forget_last(w->first);
    whole_count_unmapped(w->superslabs);
    hak_space_give(w->first, w->superslabs);
}
