/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * pool: acquire in stages, cheapest first, and release. Lock-free but for the last stage. See
 * pool.h. */
#include "os/probes.h"
#include "os/trace.h"
#include "pool/pool_internal.h"

struct pool hak_pool HAK_USED_LATER = {
    .config = {.max_count = 1024,
               .max_bytes = 0,
               .max_age_ns = 1000000000u,
               .huge_pages_from_bytes = (size_t)HAK_POOL_HUGE_PAGES_FROM_MB << 20},
};
struct hak_pool_knobs hak_pool_knobs = {
    .keep_percent = 25,
    .grow_divisor = 8,
    .huge_keep_bytes = UINT64_MAX,
};

void hak_pool_mark_dense(size_t superslab, bool dense)
{
    _Atomic(uint64_t) *word = &hak_space_groups()[superslab / 64].dense;
    uint64_t bit = 1ull << (superslab % 64);
    if (dense)
        hak_or_relaxed(word, bit);
    else if (hak_superslab_is_dense(superslab))
        hak_and_relaxed(word, ~bit);
}

void hak_pool_set_dense(size_t superslab, bool dense)
{
    struct hak_superslab *s = hak_superslab(superslab);
    hak_pool_mark_dense(superslab, dense);
    hak_store_relaxed(&s->huge_pages, (uint8_t)(dense ? HAK_HUGE_DUE : HAK_HUGE_NONE));
    hak_store_relaxed(&s->was_purged, false);
}

uint32_t hak_pool_rooms(uint64_t state)
{
    uint32_t rooms = 0, starts = ~pool_busy(state);
    for (unsigned room = 0, slots = 1; room < POOL_ROOM_EMPTY; room++) {
        starts &= starts >> (pool_room_slots(room) - slots);
        slots = pool_room_slots(room);
        if (starts == 0)
            break;
        rooms |= 1u << room;
    }
    return rooms | (pool_among_empty(state) != 0 ? 1u << POOL_ROOM_EMPTY : 0);
}

void hak_pool_offer(size_t superslab)
{
    _Atomic(uint64_t) *avail = hak_space_groups()[superslab / 64].avail;
    uint64_t bit = 1ull << (superslab % 64);
    uint64_t state = hak_load_relaxed(&hak_superslab(superslab)->state); /* as freed, or later */
    for (uint32_t rooms = hak_pool_rooms(state); rooms != 0; rooms &= rooms - 1) {
        _Atomic(uint64_t) *word = &avail[hak_ctz64(rooms)];
        /* ORDER: [slot-avail] after the slots were freed: pairs with the re-check in pool_withdraw
         */
        if (!(hak_load_seq_cst(word) & bit))
            hak_or_relaxed(word, bit);
    }
}

/* Takes a superslab without such a room out of that index, unless slots have become free meanwhile.
 */
static void pool_withdraw(size_t superslab, unsigned room)
{
    _Atomic(uint64_t) *avail = &hak_space_groups()[superslab / 64].avail[room];
    uint64_t bit = 1ull << (superslab % 64);
    hak_and_seq_cst(avail, ~bit); /* ORDER: [slot-avail] */
    /* ORDER: [slot-avail] a release that did not see the bit cleared is seen here */
    if (hak_pool_rooms(hak_load_seq_cst(&hak_superslab(superslab)->state)) >> room & 1)
        hak_or_relaxed(avail, bit);
}

/* Claims the slots of `mask` if all of them are free. */
static bool pool_try_claim(struct hak_superslab *s, uint64_t *state, uint32_t mask)
{
    uint64_t claimed = *state | mask | ((uint64_t)mask << 32);
    /* ORDER: [slot-state] what the last owner of the slots did is over */
    if (!hak_cas_acquire(&s->state, state, claimed))
        return false;
    uint32_t empty = pool_dirty(*state) & mask;
    if (empty != 0)
        hak_sub_relaxed(&hak_pool.empty_now, hak_popcount64(empty));
    if (empty != mask)
        hak_kept_regret(hak_popcount64(mask & ~empty));
    return true;
}

/* Where a run of slots begins: at the lowest place, or in the hardened build a single slot at any;
 * longer ones would soon find no place any more. */
static unsigned pool_choose(uint32_t starts, unsigned count)
{
    if (HAK_HARDENED && count == 1)
        for (unsigned skip = hak_os_random_below(hak_popcount64(starts)); skip > 0; skip--)
            starts &= starts - 1;
    return hak_ctz64(starts);
}

/* Claims a run out of one superslab: slots that are free and, with `among`, also in that mask. */
static bool pool_try_superslab(size_t superslab, unsigned count, unsigned align,
                               uint32_t (*among)(uint64_t), size_t *slot, bool *zero)
{
    struct hak_superslab *s = hak_superslab(superslab);
    uint64_t state = hak_load_relaxed(&s->state);
    for (;;) {
        uint32_t starts = hak_run_starts32(among(state), count) & hak_aligned_starts32(align);
        if (starts == 0)
            return false;
        unsigned at = pool_choose(starts, count);
        uint32_t mask = hak_low_bits32(count) << at;
        bool clean = !(pool_dirty(state) & mask);
        if (pool_try_claim(s, &state, mask)) {
            *slot = superslab * HAK_SLOTS + at;
            *zero = clean;
            return true;
        }
    }
}

static uint32_t pool_among_free(uint64_t state)
{
    return ~pool_busy(state);
}

/* Of a group's superslabs that are of the kind, and in both indexes. */
static uint64_t pool_candidates(size_t group, bool dense, unsigned room, unsigned and_room)
{
    const struct hak_space_group *g = &hak_space_groups()[group];
    uint64_t kind = hak_load_relaxed(&g->dense) ^ (dense ? 0 : UINT64_MAX);
    return kind & hak_load_relaxed(&g->avail[room]) & hak_load_relaxed(&g->avail[and_room]);
}

/* The first superslab at or after `from` that is of the kind and has both rooms, as far as the
 * index knows; SIZE_MAX if there is none. */
static size_t pool_next_with_room(size_t from, bool dense, unsigned room, unsigned and_room)
{
    size_t groups = (hak_space_high_water() + 63) / 64;
    uint64_t wanted = UINT64_MAX << (from % 64);
    for (size_t g = from / 64; g < groups; g++, wanted = UINT64_MAX) {
        uint64_t found = wanted & pool_candidates(g, dense, room, and_room);
        for (; found != 0; found &= found - 1) {
            size_t superslab = g * 64 + hak_ctz64(found);
            uint32_t rooms = hak_pool_rooms(hak_load_relaxed(&hak_superslab(superslab)->state));
            if (!(rooms >> room & 1))
                pool_withdraw(superslab, room);
            else if (!(rooms >> and_room & 1))
                pool_withdraw(superslab, and_room);
            else
                return superslab;
        }
    }
    return SIZE_MAX;
}

/* EMPTY slots, the lowest. See [looks]: where so many superslabs have EMPTY ones that do not lie
 * side by side, a run is made of UNUSED ones, and those age. */
static bool pool_try_empty(unsigned count, unsigned align, bool dense, size_t *slot, bool *zero)
{
    if (hak_load_relaxed(&hak_pool.empty_now) == 0)
        return false;
    unsigned room = pool_room_of(count);
    unsigned looks = 0;
    for (size_t i = pool_next_with_room(0, dense, room, POOL_ROOM_EMPTY);
         i != SIZE_MAX && looks < POOL_LOOKS;
         i = pool_next_with_room(i + 1, dense, room, POOL_ROOM_EMPTY), looks++)
        if (pool_try_superslab(i, count, align, pool_among_empty, slot, zero))
            return true;
    return false;
}

/* What the map says that it is used for. (The labels may be a huge block's record by now.) */
static bool pool_holds(size_t superslab, unsigned label)
{
    uint32_t kind = label == HAK_POOL_LABEL_RUN ? HAK_KIND_LARGE : label * 2u;
    for (size_t i = 0; i < HAK_SLOTS; i++) {
        uint32_t entry = hak_load_relaxed(hak_map_entry(superslab * HAK_SLOTS + i));
        if (entry != 0 && (entry & HAK_KIND_MASK) == kind)
            return true;
    }
    return false;
}

/* Of the superslabs that have such a run the fullest, as the others may then become free as a
 * whole; of equal ones the first that holds the class. SIZE_MAX: there is none. See [looks]. */
static size_t pool_fullest(unsigned count, unsigned align, bool dense, unsigned label)
{
    size_t best = SIZE_MAX;
    unsigned best_slots = 0;
    unsigned looks = 0;
    unsigned room = pool_room_of(count);
    for (size_t i = pool_next_with_room(0, dense, room, room);
         i != SIZE_MAX && (best == SIZE_MAX || looks < POOL_LOOKS);
         i = pool_next_with_room(i + 1, dense, room, room), looks++) {
        uint64_t state = hak_load_relaxed(&hak_superslab(i)->state);
        unsigned slots = hak_popcount64(pool_busy(state));
        if (slots < best_slots ||
            (hak_run_starts32(~pool_busy(state), count) & hak_aligned_starts32(align)) == 0)
            continue;
        if (best == SIZE_MAX || slots > best_slots ||
            (pool_holds(i, label) && !pool_holds(best, label))) {
            best = i;
            best_slots = slots;
        }
    }
    return best;
}

static bool pool_try_fullest(unsigned count, unsigned align, bool dense, unsigned label,
                             size_t *slot, bool *zero)
{
    size_t superslab;
    do {
        superslab = pool_fullest(count, align, dense, label);
    } while (superslab != SIZE_MAX &&
             !pool_try_superslab(superslab, count, align, pool_among_free, slot, zero));
    return superslab != SIZE_MAX;
}

#define LARGE_HUGE_SUPERSLABS 4u
bool hak_pool_is_large(void)
{
    return pool_wants_huge_pages(pool_used_superslabs() / LARGE_HUGE_SUPERSLABS);
}

/* What will be used up goes to superslabs with huge pages, what may not be keeps out of them, or
 * memory would be held that nobody touches; but for EMPTY slots, which are held anyway. UNUSED ones
 * of the wrong kind cost nothing where they are. */
bool hak_pool_try_free(unsigned count, unsigned align, bool dense, unsigned label, size_t *slot,
                       bool *zero)
{
    return pool_try_fullest(count, align, dense, label, slot, zero) ||
           (dense && !hak_pool_is_large() &&
            pool_try_fullest(count, align, false, label, slot, zero));
}

bool hak_pool_try_free_any(unsigned count, unsigned align, unsigned label, size_t *slot, bool *zero)
{
    return pool_try_fullest(count, align, false, label, slot, zero) ||
           pool_try_fullest(count, align, true, label, slot, zero);
}

/* The superslab in which a slot of this class became EMPTY last may still have one: its pages and
 * its cache lines are warm. */
static bool pool_try_warm(unsigned count, unsigned label, size_t superslab, size_t *slot,
                          bool *zero)
{
    struct hak_superslab *s = hak_superslab(superslab);
    uint64_t state = hak_load_relaxed(&s->state);
    uint32_t starts =
        hak_run_starts32(pool_among_empty(state), count) & hak_aligned_starts32(count);
    for (; starts != 0; starts &= starts - 1) {
        unsigned at = hak_ctz64(starts);
        if (hak_load_relaxed(&s->label[at]) != label)
            continue;
        if (pool_try_claim(s, &state, hak_low_bits32(count) << at)) {
            *slot = superslab * HAK_SLOTS + at;
            *zero = false;
            return true;
        }
        break;
    }
    return false;
}

/* Slots of slabs are matched one by one; runs have so many lengths that any EMPTY slots will do. */
static bool pool_try_hint(unsigned count, unsigned align, unsigned label, size_t *slot, bool *zero)
{
    uint32_t hint = hak_load_relaxed(&hak_pool.warm[label]);
    if (hint == 0)
        return false;
    bool found = label == HAK_POOL_LABEL_RUN
                     ? pool_try_superslab(hint - 1, count, align, pool_among_empty, slot, zero)
                     : pool_try_warm(count, label, hint - 1, slot, zero);
    if (!found)
        hak_store_relaxed(&hak_pool.warm[label], 0u);
    return found;
}

/* A child of a fork, whose pool is as large as its parent's was, may need little more than it has,
 * as one that serves a request does: each that came to a superslab would hold all of that. So what
 * it takes first has small pages: until it has grown by a superslab since it had least. */
#define CHILD_FIRST_SLOTS HAK_SLOTS
static bool pool_is_a_young_child(void)
{
    size_t least = hak_load_relaxed(&hak_pool.child_least_slots);
    if (least == 0 || hak_pool_is_huge_early())
        return false;
    size_t in_use = hak_load_relaxed(&hak_pool.in_use_now);
    bool is_young = in_use < least + CHILD_FIRST_SLOTS;
    if (!is_young)
        hak_store_relaxed(&hak_pool.child_least_slots, 0u);
    else if (in_use < least)
        hak_store_relaxed(&hak_pool.child_least_slots, in_use);
    return is_young;
}

/* A slot of a superslab is acquired: with the first one huge pages are asked for, or small ones,
 * and with the last one huge ones again where they were forbidden. */
static void pool_begin_huge(struct hak_superslab *s, size_t slot)
{
    size_t superslab = slot / HAK_SLOTS;
    uint8_t due = HAK_HUGE_DUE, none = HAK_HUGE_NONE;
    switch (hak_load_relaxed(&s->huge_pages)) {
    case HAK_HUGE_DUE:
        if (hak_cas_relaxed(&s->huge_pages, &due, (uint8_t)HAK_HUGE_ASKED) &&
            (pool_is_a_young_child() ||
             !hak_pool_try_huge_pages(hak_superslab_address(superslab), HAK_SUPERSLAB_BYTES,
                                      hak_slot_address(slot))))
            hak_store_relaxed(&s->huge_pages, (uint8_t)HAK_HUGE_NONE);
        break;
    case HAK_HUGE_NONE:
        if (hak_load_relaxed(&s->missing) == 0 &&
            hak_cas_relaxed(&s->huge_pages, &none, (uint8_t)HAK_HUGE_SMALL))
            hak_os_advise_small_pages(hak_superslab_address(superslab), HAK_SUPERSLAB_BYTES);
        break;
    case HAK_HUGE_FORBIDDEN:
        if (pool_busy(hak_load_relaxed(&s->state)) == POOL_ALL)
            hak_pool_permit_huge_pages(superslab);
        break;
    default:
        break;
    }
}

static void pool_hit(enum hak_stage stage, unsigned label, unsigned count, size_t slot)
{
    struct hak_superslab *s = hak_superslab(slot / HAK_SLOTS);
    hak_add_relaxed(&hak_pool.acquired[stage][label], 1u);
    pool_count_in_use(label, (long)count);
    if (label != HAK_POOL_LABEL_RUN)
        hak_store_relaxed(&s->has_bits, true);
    pool_begin_huge(s, slot);
    HAK_PROBE3(acquire, (unsigned)stage, label, count);
    HAK_TRACE(HAK_TRACE_ACQUIRE, "stage", hak_stage_name(stage), {"class", label},
              {"superslab", slot / HAK_SLOTS}, {"slot", slot % HAK_SLOTS}, {"count", count});
}

/* In a large pool what will be used up finds UNUSED slots among the dense ones alone: it would take
 * the next superslab for each slot, of those that are prewarmed for instance. */
static bool pool_try_retired(unsigned count, bool dense, size_t *slot, bool *zero)
{
    size_t superslab;
    if (!hak_retired_try_take_newest(&superslab))
        return false;
    struct hak_superslab *s = hak_superslab(superslab);
    if (dense && hak_pool_is_large())
        hak_pool_mark_dense(superslab, true);
    *slot = superslab * HAK_SLOTS;
    *zero = !(pool_dirty(hak_load_relaxed(&s->state)) & hak_low_bits32(count));
    uint32_t others = POOL_ALL & ~hak_low_bits32(count);
    hak_or_relaxed(&s->state, (uint64_t)hak_low_bits32(count) << 32);
    hak_add_relaxed(&hak_pool.empty_now,
                    hak_popcount64(others & pool_dirty(hak_load_relaxed(&s->state))));
    /* ORDER: [slot-state] the other slots are free from here on */
    hak_and_seq_cst(&s->state, ~(uint64_t)others);
    if (count < HAK_SLOTS)
        hak_pool_offer(superslab);
    return true;
}

bool hak_pool_try_empty(unsigned count, unsigned align, unsigned label, size_t *slot, bool *zero)
{
    bool dense = label & HAK_POOL_DENSE;
    label &= ~HAK_POOL_DENSE;
    enum hak_stage stage = HAK_STAGE_WARM;
    if (!pool_try_hint(count, align, label, slot, zero)) {
        if (!pool_try_empty(count, align, dense, slot, zero) &&
            !pool_try_empty(count, align, !dense, slot, zero))
            return false;
        stage = HAK_STAGE_EMPTY;
    }
    pool_hit(stage, label, count, *slot);
    return true;
}

bool hak_pool_try_kept(unsigned count, unsigned align, unsigned label, size_t *slot, bool *zero)
{
    if (hak_pool_try_empty(count, align, label, slot, zero))
        return true;
    bool dense = label & HAK_POOL_DENSE;
    label &= ~HAK_POOL_DENSE;
    enum hak_stage stage = HAK_STAGE_UNUSED;
    if (!hak_pool_try_free(count, align, dense, label, slot, zero)) {
        if (!pool_try_retired(count, dense, slot, zero))
            return false;
        stage = HAK_STAGE_RETIRED;
    }
    pool_hit(stage, label, count, *slot);
    return true;
}

int hak_pool_acquire_any(unsigned count, unsigned align, unsigned label, size_t *slot, bool *zero)
{
    if (hak_pool_try_kept(count, align, label, slot, zero))
        return 0;
    if (hak_load_relaxed(&hak_pool.prewarm_due) != 0) {
        hak_pool_prewarm(hak_exchange_relaxed(&hak_pool.prewarm_due, (size_t)0));
        return hak_pool_acquire_any(count, align, label, slot, zero);
    }
    bool dense = label & HAK_POOL_DENSE;
    label &= ~HAK_POOL_DENSE;
    int error = hak_pool_grow(count, align, dense, label, slot, zero);
    if (error == 0)
        pool_hit(HAK_STAGE_FRESH, label, count, *slot);
    return error;
}

bool hak_pool_try_acquire_at(size_t slot, unsigned count, bool *zero)
{
    unsigned at = slot % HAK_SLOTS;
    if (at == 0 || at + count > HAK_SLOTS)
        return false;
    struct hak_superslab *s = hak_superslab(slot / HAK_SLOTS);
    uint32_t mask = hak_low_bits32(count) << at;
    uint64_t state = hak_load_relaxed(&s->state);
    while (!(pool_busy(state) & mask)) {
        *zero = !(pool_dirty(state) & mask);
        if (pool_try_claim(s, &state, mask)) {
            pool_count_in_use(HAK_POOL_LABEL_RUN, (long)count);
            return true;
        }
    }
    return false;
}

bool hak_pool_try_retire(size_t superslab, uint64_t state)
{
    /* ORDER: [slot-state] the last owners of all slots are done with them */
    if (pool_busy(state) != 0 ||
        !hak_cas_acquire(&hak_superslab(superslab)->state, &state, state | POOL_ALL))
        return false;
    hak_sub_relaxed(&hak_pool.empty_now, hak_popcount64(pool_dirty(state)));
    hak_retired_put(superslab, 1);
    return true;
}

void hak_pool_release_any(size_t slot, unsigned count, unsigned label, bool purged)
{
    size_t superslab = slot / HAK_SLOTS;
    struct hak_superslab *s = hak_superslab(superslab);
    unsigned at = slot % HAK_SLOTS;
    uint64_t mask = (uint64_t)hak_low_bits32(count) << at;
    uint64_t now = hak_os_now_ns();
    for (unsigned i = 0; i < count; i++)
        hak_store_relaxed(&s->label[at + i], (uint8_t)label);
    if (purged)
        hak_and_relaxed(&s->state, ~(mask << 32));
    else
        hak_add_relaxed(&hak_pool.empty_now, count);
    hak_store_relaxed(&s->released_ns, now);
    hak_store_relaxed(&hak_pool.warm[label], (uint32_t)superslab + 1);
    hak_add_relaxed(&hak_pool.released, 1u);
    pool_count_in_use(label, -(long)count);
    HAK_TRACE(HAK_TRACE_FREE, "purged", purged ? "yes" : "no", {"class", label},
              {"superslab", superslab}, {"slot", at}, {"count", count});
    /* ORDER: [slot-state] all that the owner did in the slots; seq_cst for [slot-avail] */
    uint64_t state = hak_and_seq_cst(&s->state, ~mask) & ~mask;
    if (hak_pool_try_retire(superslab, state))
        return;
    hak_pool_offer(superslab);
    hak_retired_tick(now);
    hak_retired_enforce();
}
