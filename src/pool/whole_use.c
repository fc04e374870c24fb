/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * pool: are huge blocks used from end to end? Which of them get huge pages for that. See pool.h.
 *
 * [dense]: a huge block may be used from end to end or here and there, and huge pages are a gain
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
#include "pool/pool_internal.h"

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
    whole_trust_again(pool_whole_superslabs(bytes) * UNPROVEN_PAID_FOR);
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
void hak_whole_forget_last(size_t first)
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

void hak_whole_learn_of_freed(const struct hak_whole *w)
{
    hak_whole_forget_last(w->first);
    if (whole_look_is_due() || whole_is_owed(w))
        whole_look(w->first, w->mapped_bytes);
}

void hak_whole_note_last(const struct hak_whole *w)
{
    if (!pool_knows_dense() || whole_can_tell(w))
        hak_store_relaxed(&hak_pool.last_whole,
                          (uint64_t)(w->mapped_bytes / HAK_SLOT_BYTES) << 32 | (w->first + 1));
}

/* From a block that the program still has. One with huge pages may only not be used yet. */
void hak_whole_learn_of_last(void)
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
bool hak_whole_is_large(size_t bytes)
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
        (how & HAK_WHOLE_WRITTEN && hak_whole_is_large(bytes)) ||
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
void hak_whole_advise(const struct hak_whole *w, size_t bytes, size_t from, unsigned how)
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
