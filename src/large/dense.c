/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * large: are runs of slots used from end to end? Those of which that is known get slots of
 * superslabs with huge pages, where writing to blocks of 200 or 620 kB takes a quarter of the time;
 * of others huge pages would keep in memory what nobody uses.
 *
 * [dense-runs]: whenever a run gets memory that nobody has touched, a few pages of the one that
 * did so eight times before are looked at (a call each; of the last one a thread may be about to
 * write the first byte). After so many that were in memory, one after the other, runs get huge
 * pages; but one in 16 goes without, to be looked at. One that was not used up ends it, and looks
 * become fewer (base/looks.h). */
#include "base/looks.h"
#include "large/large_internal.h"

#define DENSE_ENOUGH 4u
#define DENSE_LOOK_EVERY 16u
#define DENSE_LAST 8u
#define PAGES_LOOKED_AT 3u
#define LOOKS_LEFT_OUT_MOST 15u

static struct {
    _Atomic(uint64_t) last[DENSE_LAST]; /* pages << 32, first slot + 1; 0: none */
    _Atomic(uint32_t) next;             /* of those, modulo their number */
    _Atomic(uint32_t) used;             /* in a row */
    _Atomic(uint32_t) given;            /* since there were enough */
    struct hak_looks looks;
} dense;

bool hak_large_is_in_memory(const char *place, size_t bytes)
{
    size_t step = bytes / (PAGES_LOOKED_AT + 1);
    for (size_t i = 1; i <= PAGES_LOOKED_AT; i++)
        if (!hak_os_is_resident(place + i * step))
            return false;
    return true;
}

static bool dense_is_known(void)
{
    return hak_load_relaxed(&dense.used) >= DENSE_ENOUGH;
}

/* With huge pages all is in memory: what the block leaves of its slots, and what blocks of its
 * length leave of a superslab, unless others fill it. A quarter at most. */
static bool dense_fills(size_t bytes, unsigned slots)
{
    unsigned held = hak_pool_is_filled() ? slots : HAK_SLOTS / (HAK_SLOTS / slots);
    return bytes >= held * (HAK_SLOT_BYTES / 4 * 3);
}

unsigned hak_runs_label(size_t bytes, unsigned slots)
{
    return dense_is_known() && dense_fills(bytes, slots) &&
                   hak_add_relaxed(&dense.given, 1u) % DENSE_LOOK_EVERY != 0
               ? HAK_POOL_LABEL_RUN | HAK_POOL_DENSE
               : HAK_POOL_LABEL_RUN;
}

static void dense_found_unused(void)
{
    hak_look_less(&dense.looks, LOOKS_LEFT_OUT_MOST);
    hak_store_relaxed(&dense.used, 0u);
    for (unsigned i = 0; i < DENSE_LAST; i++) /* of the same time */
        hak_store_relaxed(&dense.last[i], (uint64_t)0);
}

/* If the program still has it. With huge pages it is in memory in any case. */
static void dense_look(uint64_t run)
{
    size_t slot = (uint32_t)run - 1;
    if (run == 0 || hak_load_relaxed(hak_map_entry(slot)) != HAK_KIND_LARGE ||
        hak_load_relaxed(&hak_superslab(slot / HAK_SLOTS)->huge_pages) == HAK_HUGE_ASKED)
        return;
    if (!hak_large_is_in_memory(hak_slot_address(slot), (size_t)(run >> 32) * HAK_PAGE_BYTES)) {
        dense_found_unused();
    } else if (!dense_is_known()) {
        hak_add_relaxed(&dense.used, 1u);
        hak_look_anew(&dense.looks);
    }
}

void hak_runs_learn(size_t slot, size_t bytes)
{
    if (HAK_HARDENED || !hak_pool_has_huge_pages()) /* in that build guards lie between them */
        return;
    if (!hak_look_is_due(&dense.looks))
        return;
    uint64_t run = (uint64_t)(bytes / HAK_PAGE_BYTES) << 32 | (slot + 1);
    uint32_t at = hak_add_relaxed(&dense.next, 1u) % DENSE_LAST;
    dense_look(hak_exchange_relaxed(&dense.last[at], run));
}
