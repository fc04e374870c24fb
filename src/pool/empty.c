/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * pool: EMPTY slots go back to the system, and superslabs of which no slot is in use any more are
 * retired. When that is done is decided in retired.c. See pool.h. */
#include "pool/pool_internal.h"

/* A huge page is resident whole, and where huge pages are asked for the system puts together anew
 * (in the background, within minutes) what was given back. Where half of a superslab has been of no
 * use for long that costs more than it gains. What was never used yet is about to be, while the
 * pool grows. */
static bool purge_ends_huge(const struct hak_superslab *s, uint64_t state, bool grows)
{
    uint32_t free = ~pool_busy(state);
    return pool_may_be_huge(s) && hak_popcount64(free) >= HAK_SLOTS / 2 &&
           (!grows || hak_load_relaxed(&s->was_purged) || (free & pool_dirty(state)));
}

/* Purges the EMPTY slots of a superslab that is in use: claims them, purges, and only then makes
 * them UNUSED. UNUSED ones, too, where the system may have put a huge page together. */
static size_t purge_superslab(size_t superslab, bool aged, bool grows)
{
    struct hak_superslab *s = hak_superslab(superslab);
    uint64_t state = hak_load_relaxed(&s->state);
    uint32_t empty, claimed;
    bool ends_huge;
    do {
        empty = ~pool_busy(state) & pool_dirty(state);
        ends_huge = aged && purge_ends_huge(s, state, grows);
        claimed = ends_huge ? ~pool_busy(state) : empty;
        if (claimed == 0)
            return 0;
        /* ORDER: [slot-state] what the last owners of the slots did is over */
    } while (!hak_cas_acquire(&s->state, &state, state | claimed));
    if (ends_huge) {
        hak_pool_forbid_huge_pages(superslab);
        hak_pool_mark_dense(superslab, false);
    }
    size_t slots = 0;
    for (uint32_t left = claimed; left != 0;) {
        unsigned at = hak_ctz64(left);
        unsigned count = hak_ctz64(~((uint64_t)left >> at));
        uint32_t run = hak_low_bits32(count) << at;
        left &= ~run;
        if (hak_os_purge(hak_slot_address(superslab * HAK_SLOTS + at), count * HAK_SLOT_BYTES) != 0)
            continue;
        hak_and_relaxed(&s->state, ~((uint64_t)run << 32));
        slots += hak_popcount64(run & empty);
    }
    hak_store_relaxed(&s->was_purged, true);
    hak_sub_relaxed(&hak_pool.empty_now, slots);
    hak_add_relaxed(&hak_pool.purged_total, slots);
    if (hak_popcount64(~pool_busy(state)) >= HAK_SLOTS / 4)
        hak_pool_pages_went(superslab * HAK_SLOTS);
    /* ORDER: [slot-state] the purge is over */
    state = hak_and_seq_cst(&s->state, ~(uint64_t)claimed) & ~(uint64_t)claimed;
    /* The last slot may have been released meanwhile. (Where the system refuses everything,
     * retiring would lead back here.) */
    if (slots != hak_popcount64(empty) || !hak_pool_try_retire(superslab, state))
        hak_pool_offer(superslab);
    return slots;
}

size_t hak_pool_purge_empty(size_t slots, uint64_t since_ns, bool grows)
{
    size_t purged = 0;
    bool aged = since_ns != UINT64_MAX || !grows;
    unsigned room = aged ? 0 : POOL_ROOM_EMPTY; /* what is aged may end huge pages, too */
    if (grows && hak_load_relaxed(&hak_pool.empty_now) == 0)
        return 0;
    for (size_t i = hak_space_high_water(); i-- > 0 && purged < slots;) {
        if (!aged && hak_load_relaxed(&hak_pool.empty_now) == 0)
            break;
        uint64_t avail = hak_load_relaxed(&hak_space_groups()[i / 64].avail[room]);
        if (avail == 0)
            i -= i % 64; /* the whole group has none */
        else if ((avail >> i % 64 & 1) &&
                 hak_load_relaxed(&hak_superslab(i)->released_ns) < since_ns)
            purged += purge_superslab(i, aged, grows);
    }
    return purged;
}

void hak_pool_retire_free(void)
{
    for (size_t i = 0; i < hak_space_high_water(); i++)
        if (hak_load_relaxed(&hak_space_groups()[i / 64].avail[0]) >> i % 64 & 1)
            hak_pool_try_retire(i, hak_load_relaxed(&hak_superslab(i)->state));
}
