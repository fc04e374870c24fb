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

static size_t whole_superslabs(size_t bytes)
{
    return (bytes + HAK_SUPERSLAB_BYTES - 1) >> HAK_SUPERSLAB_SHIFT;
}

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

/* [dense]: a huge block may be used from end to end or here and there, and huge pages are a gain
 * for the first and a waste for the second. What the program does with the last one that it got,
 * and did with those that it freed, tells which to expect: of each a few pages are looked at (a
 * call each), more of a larger one, in the first half, because what lies behind the bytes asked for
 * may have been given back. After so many that were in memory huge pages are asked for; after a
 * page that was not, no longer. Looks that find the same again become fewer (base/looks.h), in the
 * end one in 16, or, of freed blocks where all are used, where the calls would take longer than the
 * rest of free, one in 128.
 *
 * A large block that did not have to be zero gets them without that, as a program can use such
 * memory here and there only if it keeps in mind where it has written before; most fill it, all or
 * from the beginning on. But some do, or reserve more than they need: a table of 1 GiB with a
 * thousand entries held 920 MB. Nor does what a program did with its other blocks tell what it will
 * do with one that is larger than all of them. So no more is given on trust than a little or than
 * is used, slabs and, once huge blocks are known to be used from end to end, those of them that
 * were not themselves given on trust; what is beyond has small pages, and if those are in memory
 * when the next block is asked for, that pays for some times as much; if not, nothing is known of
 * huge blocks any more.
 *
 * With huge pages all is in memory as soon as a byte of each 2 MiB is, so that such a block was
 * used up is known only if what lies behind its last huge page is in memory, too. */
#define LEFT_OUT_WHILE_UNUSED 15u
#define LEFT_OUT_WHILE_USED 127u
#define DENSE_SAMPLES_MOST 4u
#define DENSE_SAMPLE_BYTES ((size_t)2 << 20)
#define WRITTEN_SHARE 2u /* half of what has to be mapped for slabs to get huge pages */
#define UNPROVEN_LEAST_SUPERSLABS ((size_t)16) /* or two blocks, if that is less */
#define UNPROVEN_LEAST_BLOCKS 2u
#define UNPROVEN_PAID_FOR 4u /* times what was seen to be used */

static bool whole_has_huge_pages(size_t first)
{
    return hak_load_relaxed(&hak_superslab(first)->huge_pages) == HAK_HUGE_ASKED;
}

/* The end is where there are small pages, if there is one. */
static bool whole_tells_use(size_t first, size_t bytes)
{
    size_t end = hak_round_down(bytes, HAK_SUPERSLAB_BYTES);
    return !whole_has_huge_pages(first) ||
           (end != bytes && hak_os_is_resident(hak_superslab_address(first) + end));
}

static bool whole_look_is_due(void)
{
    return hak_look_is_due(pool_knows_dense() ? &hak_pool.used_looks : &hak_pool.dense_looks);
}

static void whole_found_unused(void)
{
    hak_look_less(&hak_pool.dense_looks, LEFT_OUT_WHILE_UNUSED);
    hak_look_anew(&hak_pool.used_looks);
    hak_store_relaxed(&hak_pool.dense_samples, 0u);
}

/* Threads at the same time may count one for two. */
static void whole_trust_again(size_t superslabs)
{
    size_t before = hak_load_relaxed(&hak_pool.unproven);
    hak_store_relaxed(&hak_pool.unproven, before - hak_min(before, superslabs));
}

static size_t whole_samples(size_t bytes)
{
    return hak_min(1 + bytes / DENSE_SAMPLE_BYTES, DENSE_SAMPLES_MOST);
}

static bool whole_is_in_memory(size_t first, size_t bytes)
{
    size_t samples = whole_samples(bytes);
    for (size_t i = 0; i < samples; i++) {
        size_t at = bytes / 2 / samples * (i + 1);
        if (!hak_os_is_resident(hak_superslab_address(first) + at - HAK_PAGE_BYTES))
            return false;
    }
    return true;
}

/* It is in memory. */
static void whole_found_used(size_t first, size_t bytes)
{
    bool known = pool_knows_dense();
    if (known)
        hak_look_less(&hak_pool.used_looks, LEFT_OUT_WHILE_USED);
    if (!whole_tells_use(first, bytes))
        return;
    whole_trust_again(whole_superslabs(bytes) * UNPROVEN_PAID_FOR);
    if (known)
        return;
    hak_add_relaxed(&hak_pool.dense_samples, (uint32_t)whole_samples(bytes));
    hak_look_anew(&hak_pool.dense_looks);
}

static void whole_look(size_t first, size_t bytes)
{
    if (whole_is_in_memory(first, bytes))
        whole_found_used(first, bytes);
    else
        whole_found_unused();
}

/* The block at this place is the program's no longer. */
static void whole_forget_last(size_t first)
{
    uint64_t last = hak_load_relaxed(&hak_pool.last_whole);
    if ((uint32_t)last == first + 1)
        hak_cas_relaxed(&hak_pool.last_whole, &last, (uint64_t)0);
}

/* By this block can be seen whether it is used. */
static bool whole_can_tell(const struct hak_whole *w)
{
    return !whole_has_huge_pages(w->first) || w->mapped_bytes % HAK_SUPERSLAB_BYTES != 0;
}

static bool whole_is_owed(const struct hak_whole *w)
{
    return pool_knows_dense() && hak_load_relaxed(&hak_pool.unproven) != 0 && whole_can_tell(w);
}

static void whole_learn(const struct hak_whole *w)
{
    whole_forget_last(w->first);
    if (whole_look_is_due() || whole_is_owed(w))
        whole_look(w->first, w->mapped_bytes);
}

/* From a block that the program still has. One with huge pages may only not be used yet. */
static void whole_learn_of_last(void)
{
    uint64_t last = hak_exchange_relaxed(&hak_pool.last_whole, (uint64_t)0);
    size_t first = (uint32_t)last - 1, bytes = (size_t)(last >> 32) * HAK_SLOT_BYTES;
    bool known = pool_knows_dense();
    if (last == 0 || (!known && !whole_look_is_due()))
        return;
    if (whole_is_in_memory(first, bytes))
        whole_found_used(first, bytes);
    else if (!known || !whole_has_huge_pages(first))
        whole_found_unused();
}

/* Large enough for huge pages without evidence. */
static bool whole_is_large(size_t bytes)
{
    return pool_wants_huge_pages(bytes / HAK_SUPERSLAB_BYTES * WRITTEN_SHARE);
}

/* Superslabs that are used, as far as is known, but for some. */
static size_t whole_used(size_t but_for)
{
    size_t mapped = hak_load_relaxed(&hak_pool.mapped_now);
    return pool_knows_dense() ? mapped - hak_min(mapped, but_for) : pool_slot_superslabs();
}

/* Lets no more through without evidence than is used, or than two blocks have: huge pages are about
 * to be asked for, for `superslabs` of a block of `of_superslabs`. What a block grows by, of those
 * that are known to be used, does not count. */
static bool whole_try_trust(size_t superslabs, size_t of_superslabs, bool grows)
{
    size_t before = hak_load_relaxed(&hak_pool.unproven);
    size_t least = hak_min(UNPROVEN_LEAST_SUPERSLABS, UNPROVEN_LEAST_BLOCKS * of_superslabs);
    size_t most = hak_max(least, whole_used(superslabs + before));
    if (grows && pool_knows_dense())
        return superslabs <= most;
    if (before + superslabs > most)
        return false;
    hak_add_relaxed(&hak_pool.unproven, superslabs);
    return true;
}

static bool whole_is_proven(void)
{
    return pool_knows_dense() || hak_pool_is_huge_early();
}

/* Is what is to be touched from the superslab number `from` of the range on to have huge pages? The
 * block has so many bytes; there may be more of the range. */
static bool whole_wants_huge(const struct hak_whole *w, size_t bytes, size_t from, unsigned how,
                             bool grows)
{
    size_t whole = w->mapped_bytes / HAK_SUPERSLAB_BYTES;
    bool wanted =
        (how & HAK_WHOLE_WRITTEN && whole_is_large(bytes)) ||
        (whole_is_proven() && pool_wants_huge_pages(hak_load_relaxed(&hak_pool.mapped_now)));
    return wanted && whole > from &&
           (hak_pool_is_huge_early() || whole_try_trust(whole - from, whole, grows));
}

/* For what begins with the superslab number `begin`, of which the one numbered `from` is the first
 * to be touched, if they are not dear. It remains one mapping in any case. */
static void whole_try_huge(const struct hak_whole *w, size_t begin, size_t from)
{
    char *at = hak_superslab_address(w->first + begin);
    size_t bytes = w->mapped_bytes - begin * HAK_SUPERSLAB_BYTES;
    if (hak_pool_try_huge_pages(at, bytes, hak_superslab_address(w->first + from))) {
        hak_store_relaxed(&hak_superslab(w->first)->huge_pages, (uint8_t)HAK_HUGE_ASKED);
    } else {
        hak_os_advise_small_pages(at, bytes);
        if (!pool_knows_dense())
            whole_trust_again(w->mapped_bytes / HAK_SUPERSLAB_BYTES - from);
    }
}

/* For what begins there. */
static void whole_advise(const struct hak_whole *w, size_t bytes, size_t from, unsigned how)
{
    size_t skip = from * HAK_SUPERSLAB_BYTES;
    if (!whole_wants_huge(w, bytes, from, how, false))
        return;
    if (!whole_is_proven()) {
        whole_try_huge(w, from, from);
        return;
    }
    hak_pool_ask_for_huge_pages(hak_superslab_address(w->first) + skip, w->mapped_bytes - skip);
    hak_store_relaxed(&hak_superslab(w->first)->huge_pages, (uint8_t)HAK_HUGE_ASKED);
}

/* All of the block is advised, what it was before too: so it can be moved. */
void hak_whole_grown(const struct hak_whole *w, size_t from)
{
    /* What was the block until now has been written, if it has small pages to tell it. */
    if (!pool_knows_dense() && hak_load_relaxed(&hak_pool.unproven) == 0 && whole_look_is_due())
        whole_look(w->first, from * HAK_SUPERSLAB_BYTES);
    if (whole_wants_huge(w, w->mapped_bytes, from, HAK_WHOLE_WRITTEN, true))
        whole_try_huge(w, 0, from);
}

static int whole_take_fresh(size_t bytes, size_t align, unsigned how, struct hak_whole *w)
{
    w->superslabs = whole_superslabs(bytes);
    w->mapped_bytes = bytes;
    int error = hak_pool_map(w->superslabs, align, bytes, false, &w->first);
    if (error != 0)
        return error;
    whole_count_mapped(w->superslabs, how & HAK_WHOLE_FRESH);
    hak_store_relaxed(&hak_superslab(w->first)->huge_pages, (uint8_t)HAK_HUGE_NONE);
    whole_learn_of_last();
    if (!(how & HAK_WHOLE_FRESH))
        whole_advise(w, bytes, 0, how);
    if (!pool_knows_dense() || whole_can_tell(w))
        hak_store_relaxed(&hak_pool.last_whole,
                          (uint64_t)(bytes / HAK_SLOT_BYTES) << 32 | (w->first + 1));
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

/* Moves retired superslabs to the front of a fresh range and counts them. False: the range is not
 * mapped any more. */
static bool whole_try_move_in(const struct hak_whole *w, size_t *moved)
{
    size_t have = 0;
    bool is_mapped = true;
    size_t least = w->superslabs / MOVE_MOST_PIECES + 1;
    while (have < w->superslabs && whole_may_move()) {
        size_t from;
        size_t want = w->superslabs - have;
        size_t run = hak_retired_take_run(want, hak_min(least, want), &from);
        if (run == 0)
            break;
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
    *moved = have;
    return is_mapped;
}

static int whole_take_moved(size_t bytes, unsigned how, struct hak_whole *w, bool *zero)
{
    w->superslabs = whole_superslabs(bytes);
    w->mapped_bytes =
        w->superslabs * HAK_SUPERSLAB_BYTES; /* what is moved in needs a mapping there */
    int error = hak_pool_map(w->superslabs, 1, w->mapped_bytes, false, &w->first);
    if (error != 0)
        return error;
    size_t moved;
    bool is_mapped = whole_try_move_in(w, &moved);
    hak_sub_relaxed(&hak_pool.mapped_now, moved); /* they were counted where they came from */
    hak_add_relaxed(&hak_pool.whole_now, moved);
    whole_count_mapped(w->superslabs - moved, false);
    if (!is_mapped) {
        whole_unmap(w->first, w->superslabs, w->mapped_bytes);
        return ENOMEM;
    }
    hak_store_relaxed(&hak_superslab(w->first)->huge_pages, (uint8_t)HAK_HUGE_NONE);
    whole_advise(w, bytes, moved, how);
    *zero = moved == 0;
    return 0;
}

int hak_whole_take(size_t bytes, size_t align, unsigned how, struct hak_whole *w, bool *zero)
{
    size_t want = whole_superslabs(bytes);
    *zero = true;
    if (align > 1 || how & HAK_WHOLE_FRESH)
        return whole_take_fresh(bytes, align, how, w);
    if (hak_retired_take_run(want, want, &w->first) != 0) {
        w->superslabs = want;
        w->mapped_bytes = want * HAK_SUPERSLAB_BYTES;
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
    *w = (struct hak_whole){slot / HAK_SLOTS, 1, HAK_SUPERSLAB_BYTES};
    pool_count_in_use(HAK_POOL_LABEL_RUN, -(long)HAK_SLOTS);
    hak_add_relaxed(&hak_pool.whole_now, (size_t)1);
    hak_retired_forget_slabs(w->first, 1);
    return true;
}

/* What is not known to a record yet, or was: all slots of a superslab that lies in a huge block are
 * claimed, so that whoever finds it by an old hint takes nothing from it. */
static void whole_make_slots(size_t superslab)
{
    struct hak_superslab *s = hak_superslab(superslab);
    for (unsigned i = 0; i < HAK_SLOTS; i++)
        hak_store_relaxed(&s->label[i], (uint8_t)HAK_POOL_LABEL_RUN);
    hak_store_relaxed(&s->missing, 0u);
    hak_pool_set_dense(superslab, false);
    hak_store_relaxed(&s->state, UINT64_MAX);
}

/* The system is out of mappings: what cannot be unmapped serves as slots. */
static void whole_offer_slots(size_t first, size_t superslabs, size_t mapped_bytes)
{
    hak_sub_relaxed(&hak_pool.whole_now, superslabs);
    for (size_t i = first; i < first + superslabs; i++) {
        unsigned slots = (unsigned)(hak_min(mapped_bytes, HAK_SUPERSLAB_BYTES) / HAK_SLOT_BYTES);
        mapped_bytes -= slots * HAK_SLOT_BYTES;
        whole_make_slots(i);
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
    whole_learn(w);
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
    for (size_t i = 0; i < keep; i++)
        whole_make_slots(w->first + i);
    hak_sub_relaxed(&hak_pool.whole_now, keep);
    if (keep != 0)
        hak_retired_put(w->first, keep);
}

void hak_whole_unmap(const struct hak_whole *w)
{
    whole_forget_last(w->first);
    whole_unmap(w->first, w->superslabs, w->mapped_bytes);
}

static bool whole_try_extend_to(struct hak_whole *w, size_t bytes)
{
    size_t have = w->superslabs;
    size_t need = hak_max(whole_superslabs(bytes), have);
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
    size_t superslabs = whole_superslabs(bytes);
    return !HAK_HARDENED && superslabs > w->superslabs && !hak_whole_is_exact() &&
           whole_is_large(bytes);
}

bool hak_whole_try_extend(struct hak_whole *w, size_t bytes)
{
    size_t all = hak_round_up(bytes, HAK_SUPERSLAB_BYTES);
    return (whole_grows_by_superslabs(w, bytes) && whole_try_extend_to(w, all)) ||
           whole_try_extend_to(w, bytes);
}

bool hak_whole_try_cut(struct hak_whole *w, size_t bytes)
{
    size_t keep = whole_superslabs(bytes);
    if (hak_os_unmap(hak_superslab_address(w->first) + bytes, w->mapped_bytes - bytes) != 0)
        return false;
    whole_forget_last(w->first); /* of which more would be looked at */
    whole_count_unmapped(w->superslabs - keep);
    hak_space_give(w->first + keep, w->superslabs - keep);
    w->superslabs = keep;
    w->mapped_bytes = bytes;
    return true;
}

void hak_whole_moved_away(const struct hak_whole *w)
{
    whole_forget_last(w->first);
    whole_count_unmapped(w->superslabs);
    hak_space_give(w->first, w->superslabs);
}
