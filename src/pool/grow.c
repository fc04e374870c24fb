/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * pool: superslabs from the system, in growing steps. One thread at a time. See pool.h. */
#include "pool/pool_internal.h"
#include "space/failure.h"

#include <errno.h>

/* The first superslab is mapped in steps, so that a small program neither holds 2 MiB of address
 * space and commit charge that it will not use nor fails to start under a small limit. Later, an
 * eighth of what is mapped at once (a knob) for slots that will be used up, else a superslab. */
#define GROW_FIRST_STEP_SLOTS 8u
#define GROW_MOST_SUPERSLABS ((size_t)16)

void hak_pool_set_limit(size_t superslabs)
{
    hak_store_relaxed(&hak_pool.limit_superslabs, superslabs);
}

bool hak_pool_has_limit(void)
{
    return hak_load_relaxed(&hak_pool.limit_superslabs) != 0;
}

bool hak_pool_is_huge_early(void)
{
    return hak_load_relaxed(&hak_pool.config.huge_pages_from_bytes) == 0;
}

bool hak_pool_is_filled(void)
{
    size_t slots = pool_slot_superslabs() * HAK_SLOTS;
    return hak_load_relaxed(&hak_pool.in_use_now) >= slots / 4 * 3;
}

bool hak_pool_has_huge_pages(void)
{
    return pool_wants_huge_pages(pool_used_superslabs());
}

static bool grow_try_reserve(size_t superslabs)
{
    size_t most = hak_load_relaxed(&hak_pool.limit_superslabs);
    size_t now = hak_load_relaxed(&hak_pool.mapped_now);
    do {
        if (most != 0 && now + superslabs > most)
            return false;
    } while (!hak_cas_relaxed(&hak_pool.mapped_now, &now, now + superslabs));
    return true;
}

int hak_pool_reserve(size_t superslabs)
{
    if (grow_try_reserve(superslabs))
        return 0;
    bool is_leaving = hak_retired_begin_leaving();
    if (hak_load_relaxed(&hak_pool.retired_now) != 0 || hak_load_relaxed(&hak_pool.postponed) != 0)
        hak_pool_trim();
    bool reserved = grow_try_reserve(superslabs);
    if (is_leaving)
        hak_unlock(&hak_pool.leave_lock);
    return reserved ? 0 : hak_refused(HAK_FAILURE_EXHAUSTION, ENOMEM, "fresh");
}

int hak_pool_map(size_t superslabs, size_t align, size_t bytes, bool with_meta, size_t *first)
{
    int error = hak_pool_reserve(superslabs);
    if (error != 0)
        return error;
    error = hak_space_take(superslabs, align, bytes, with_meta, first);
    if (error != 0)
        hak_sub_relaxed(&hak_pool.mapped_now, superslabs);
    return error;
}

/* Claims the first `count` slots of a superslab that was just mapped, and offers the rest. `mapped`
 * of its slots are there. */
static void grow_publish(size_t superslab, unsigned mapped, unsigned count)
{
    struct hak_superslab *s = hak_superslab(superslab);
    uint32_t missing = ~hak_low_bits32(mapped);
    uint64_t taken = hak_low_bits32(count);
    hak_store_relaxed(&s->missing, missing);
    /* ORDER: [slot-state] the superslab's memory is mapped; seq_cst for [slot-avail]: the place may
     * be in the index from earlier, about to be withdrawn as full */
    hak_store_seq_cst(&s->state, taken | missing | (taken << 32));
    if (count < mapped)
        hak_pool_offer(superslab);
}

/* Maps the slots of a superslab that was begun up to `end`, claims those in `taken`, and offers the
 * others. */
static int grow_map_to_locked(size_t superslab, unsigned end, uint32_t taken)
{
    struct hak_superslab *s = hak_superslab(superslab);
    unsigned have = hak_ctz64(hak_load_relaxed(&s->missing));
    char *from = hak_superslab_address(superslab) + have * HAK_SLOT_BYTES;
    int error = hak_os_map_at(from, (end - have) * HAK_SLOT_BYTES);
    if (error != 0)
        return hak_refused(HAK_FAILURE_MAP, error, "fresh");
    uint32_t fresh = hak_low_bits32(end) & ~hak_low_bits32(have);
    hak_store_relaxed(&s->missing, ~hak_low_bits32(end));
    hak_or_relaxed(&s->state, (uint64_t)taken << 32);
    hak_and_seq_cst(&s->state, ~(uint64_t)(fresh & ~taken)); /* ORDER: [slot-state] */
    hak_pool_offer(superslab);
    return 0;
}

/* Maps more of a superslab that was begun. */
static int grow_extend_locked(size_t superslab, unsigned count, unsigned align, size_t *slot)
{
    struct hak_superslab *s = hak_superslab(superslab);
    unsigned have = hak_ctz64(hak_load_relaxed(&s->missing));
    unsigned at = (unsigned)hak_round_up(have, align);
    if (at + count > HAK_SLOTS)
        return ENOMEM;
    unsigned end = (unsigned)hak_min(HAK_SLOTS, hak_round_up(at + count, GROW_FIRST_STEP_SLOTS));
    *slot = superslab * HAK_SLOTS + at;
    return grow_map_to_locked(superslab, end, hak_low_bits32(count) << at);
}

/* Maps more of one of the superslabs that were begun; usually there is one at most. */
static bool grow_try_partial_locked(unsigned count, unsigned align, size_t *slot)
{
    for (uint32_t *link = &hak_pool.partial; *link != 0; link = &hak_superslab(*link - 1)->older) {
        struct hak_superslab *s = hak_superslab(*link - 1);
        if (grow_extend_locked(*link - 1, count, align, slot) != 0)
            continue;
        if (hak_load_relaxed(&s->missing) == 0)
            *link = s->older;
        return true;
    }
    return false;
}

/* No superslab more is to be had: what lacks of those that were begun, whose slots that are there
 * may be too few for a long run. */
static void grow_complete_locked(void)
{
    while (hak_pool.partial != 0) {
        uint32_t link = hak_pool.partial; /* out of the list first: once it is whole, others may */
        hak_pool.partial = hak_superslab(link - 1)->older; /* retire it, and link it there */
        if (grow_map_to_locked(link - 1, HAK_SLOTS, 0) != 0) {
            hak_pool.partial = link;
            break;
        }
    }
}

static void grow_add_partial_locked(size_t superslab)
{
    hak_superslab(superslab)->older = hak_pool.partial;
    hak_pool.partial = (uint32_t)superslab + 1;
}

void hak_pool_try_add_partial(size_t superslab)
{
    if (!hak_try_lock(&hak_pool.grow_lock))
        return;
    grow_add_partial_locked(superslab);
    hak_unlock(&hak_pool.grow_lock);
}

/* [huge-size]: a huge page saves half a millisecond of page faults, and holds up to 2 MiB for
 * nothing where the pool does not grow on. That pools of all sizes are alike in by what share they
 * will yet grow is the best guess: of n superslabs in use one more is then used up but for one time
 * in n, when half of it is lost, which is one part in 2n² of the pool. That is a smaller share than
 * the half millisecond is of the time in which a superslab is used up, if that is less than n² ms.
 * But a program grows for a part of its time and holds its memory for all of it: so a pool that is
 * not large yet gets huge pages as long as the share is eight times smaller. (Time that passed: a
 * program that waits has no use for speed.) And none any more once one was dear: see huge_pages.c.
 * Figures: docs/performance.md. */
#define GROW_SURE_SUPERSLABS 2u /* so many times as much as for the first: always */
#define GROW_QUICK_NS UINT64_C(125000)
static bool grow_is_worth_huge_pages_locked(uint64_t now_ns)
{
    uint64_t since_last_ns = now_ns - hak_load_relaxed(&hak_pool.grown_ns);
    size_t in_use = hak_load_relaxed(&hak_pool.in_use_now) / HAK_SLOTS;
    bool quick = since_last_ns <= in_use * in_use * GROW_QUICK_NS;
    bool cheap = hak_load_relaxed(&hak_pool.huge_paid_ns) == 0;
    return pool_wants_huge_pages(pool_used_superslabs() / GROW_SURE_SUPERSLABS) ||
           (pool_wants_huge_pages(in_use) && quick && cheap);
}

/* The load goes up and down, rather than up, and what is mapped now may never be used up: since the
 * pool last grew a quarter of its slots has come back. */
#define GROW_PEAK_SHARE 4u
static bool grow_is_for_a_peak_locked(void)
{
    uint64_t released = hak_load_relaxed(&hak_pool.released) - hak_pool.released_at_growth;
    size_t slots = hak_load_relaxed(&hak_pool.mapped_now) * HAK_SLOTS;
    return released >= slots / GROW_PEAK_SHARE && !hak_pool_is_large();
}

/* Takes `superslabs` new ones of which `slots` (all of them, or some of the only one) are mapped.
 */
static int grow_take_locked(size_t superslabs, unsigned slots, unsigned count, bool dense,
                            size_t *slot)
{
    size_t first;
    size_t bytes = (superslabs - 1) * HAK_SUPERSLAB_BYTES + slots * HAK_SLOT_BYTES;
    uint64_t now_ns = hak_os_now_ns();
    dense = dense && slots == HAK_SLOTS && grow_is_worth_huge_pages_locked(now_ns) &&
            !grow_is_for_a_peak_locked();
    int error = hak_pool_map(superslabs, 1, bytes, true, &first);
    if (error != 0)
        return error;
    for (size_t i = 0; i < superslabs; i++)
        hak_pool_set_dense(first + i, dense);
    hak_add_relaxed(&hak_pool.mapped_total, superslabs);
    hak_pool.released_at_growth = hak_load_relaxed(&hak_pool.released);
    hak_store_relaxed(&hak_pool.grown_ns, now_ns);
    hak_kept_regret(superslabs * HAK_SLOTS);
    if (slots < HAK_SLOTS)
        grow_add_partial_locked(first);
    grow_publish(first, superslabs > 1 ? HAK_SLOTS : slots, count);
    for (size_t i = 1; i < superslabs; i++)
        grow_publish(first + i, HAK_SLOTS, 0);
    *slot = first * HAK_SLOTS;
    return 0;
}

static int grow_locked(unsigned count, unsigned align, bool dense, unsigned label, size_t *slot,
                       bool *zero)
{
    /* Somebody may have grown the pool, or released, while this thread waited for the lock. */
    if (hak_pool_try_free(count, align, dense, label, slot, zero))
        return 0;
    *zero = true;
    if (grow_try_partial_locked(count, align, slot))
        return 0;
    size_t mapped = hak_load_relaxed(&hak_pool.mapped_now);
    size_t step = mapped / hak_load_relaxed(&hak_pool_knobs.grow_divisor);
    step = dense ? hak_min(step, GROW_MOST_SUPERSLABS) : 1;
    unsigned first_step = (unsigned)hak_round_up(count, GROW_FIRST_STEP_SLOTS);
    int error = ENOMEM;
    if (step > 1)
        error = grow_take_locked(step, HAK_SLOTS, count, dense, slot);
    if (error != 0 && (mapped > 0 || (dense && hak_pool_is_huge_early())))
        error = grow_take_locked(1, HAK_SLOTS, count, dense, slot);
    if (error != 0)
        error = grow_take_locked(1, first_step, count, dense, slot);
    if (error != 0 && count < first_step)
        error = grow_take_locked(1, count, count, dense, slot);
    if (error == 0)
        return 0;
    grow_complete_locked();
    /* Also what could not be unmapped meanwhile has become slots. */
    if (hak_pool_try_free_any(count, align, label, slot, zero))
        error = 0;
    hak_pool_retire_free(); /* what lacked stood for a slot in use until now */
    return error;
}

int hak_pool_acquire_apart(size_t *slot)
{
    size_t first;
    bool zero;
    if (hak_load_relaxed(&hak_pool.limit_superslabs) != 0)
        return hak_pool_acquire_any(HAK_SLOTS, 1, HAK_POOL_LABEL_RUN, slot, &zero);
    int error = hak_space_take(1, 1, HAK_SUPERSLAB_BYTES, true, &first);
    if (error != 0)
        return error;
    hak_os_advise_small_pages(hak_superslab_address(first), HAK_SUPERSLAB_BYTES);
    hak_pool_set_dense(first, false);
    grow_publish(first, HAK_SLOTS, HAK_SLOTS);
    *slot = first * HAK_SLOTS;
    return 0;
}

int hak_pool_grow(unsigned count, unsigned align, bool dense, unsigned label, size_t *slot,
                  bool *zero)
{
    hak_lock(&hak_pool.grow_lock);
    int error = grow_locked(count, align, dense, label, slot, zero);
    hak_unlock(&hak_pool.grow_lock);
    return error;
}
