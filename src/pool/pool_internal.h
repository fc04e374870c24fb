/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * pool: what its files share. */
#pragma once

#include "base/looks.h"
#include "pool/pool.h"

/* What may be kept beyond the share of what is in use, by how much is in use, and what it is
 * learned from: kept.c */
#define POOL_LEVELS 16u
struct pool_level {
    _Atomic(size_t) extra_slots;
    _Atomic(size_t) evicted_slots;          /* went for the limit's sake, and are not back yet */
    _Atomic(size_t) regretted_lately_slots; /* came back; since something last grew old */
};

struct pool {
    struct hak_lock grow_lock;  /* one thread at a time asks the system for memory */
    struct hak_lock leave_lock; /* see hak_retired_begin_leaving */
    uint32_t partial; /* superslabs mapped in part, linked by `older`; + 1; under grow_lock */
    struct {          /* struct hak_pool_config, each of its own: may change while others read */
        _Atomic(size_t) max_count, max_bytes, huge_pages_from_bytes;
        _Atomic(uint64_t) max_age_ns;
    } config;
    uint64_t released_at_growth; /* `released` when a superslab was mapped last, */
    _Atomic(uint64_t) grown_ns;  /* and when that was; both written under grow_lock */
    _Atomic(size_t) limit_superslabs;
    _Atomic(size_t) retired_now;
    _Atomic(size_t) mapped_now;        /* superslabs, wholly or in part, huge blocks' too */
    _Atomic(size_t) whole_now;         /* those of huge blocks */
    _Atomic(size_t) empty_now;         /* EMPTY slots of superslabs that are not retired */
    _Atomic(size_t) in_use_now;        /* the sum of in_use: each release asks for it */
    _Atomic(size_t) child_least_slots; /* of a forked process that has not grown: see acquire.c */
    _Atomic(size_t) waiting_now;       /* of those, about; may be less than 0 for a moment */
    struct pool_level levels[POOL_LEVELS];
    _Atomic(size_t) most_in_use_slots; /* since something last grew old */
    _Atomic(uint64_t) evicted_ns;      /* the last time; 0: nothing went that could be missed */
    _Atomic(uint64_t) next_tick_ns;
    _Atomic(uint64_t) refused_ns;    /* when no slot of all that were too many could be purged */
    _Atomic(uint32_t) postponed;     /* huge blocks still to be unmapped, linked by `older`; + 1 */
    _Atomic(uint32_t) dense_samples; /* of huge blocks, in a row in memory: see whole_use.c */
    struct hak_looks dense_looks;    /* at huge blocks while those are not enough, */
    struct hak_looks used_looks;     /* and at freed ones while they are */
    _Atomic(size_t) unproven;        /* superslabs of huge blocks that have huge pages on trust: see
                                      * whole_use.c */
    _Atomic(uint64_t) last_whole; /* of the last huge block: slots that are mapped, << 32, and its
                                   * first superslab + 1; 0: none */
    _Atomic(bool) exact;          /* see hak_whole_be_exact */
    _Atomic(size_t) moved_pieces; /* of huge blocks, about: mappings that do not merge */
    /* Where a slot of this class became EMPTY last: superslab + 1. */
    _Atomic(uint32_t) warm[HAK_POOL_LABELS];
    _Atomic(uint64_t) acquired[HAK_STAGE_COUNT][HAK_POOL_LABELS];
    _Atomic(size_t) in_use[HAK_POOL_LABELS], soft_cap[HAK_POOL_LABELS]; /* slots */
    _Atomic(uint64_t) soft_cap_reclaims;
    _Atomic(size_t) prewarmed, prewarm_due; /* superslabs: ever; at the next growth */
    _Atomic(uint64_t) released, mapped_total, unmapped_total, retired_total, revived_total,
        purged_total, moved_total;
    /* See huge_pages.c: superslabs that get none before the next try, and how many that was last;
     * what those that were dear have cost. */
    _Atomic(size_t) huge_spared, huge_spared_last;
    _Atomic(uint64_t) huge_asked_total, huge_dear_total, huge_paid_ns;
};
extern struct pool hak_pool;

static inline uint32_t pool_busy(uint64_t state)
{
    return (uint32_t)state;
}

static inline uint32_t pool_dirty(uint64_t state)
{
    return (uint32_t)(state >> 32);
}

#define POOL_ALL UINT32_MAX

/* The index of superslabs with room: for each of these numbers of slots a bit a superslab, set
 * where that many adjacent ones may be free. What runs of one length leave of a superslab is always
 * less than the number that they are looked for with, so that superslabs full of them are not
 * found. Behind them, a bit where EMPTY slots may be. */
#define POOL_ROOM_EMPTY (HAK_SPACE_ROOMS - 1)
static inline unsigned pool_room_slots(unsigned room)
{
    /* 1 to 7, 9, 11, 13, 17: none is more than twice the one before */
    return UINT64_C(0x45ab49cc520c41) >> (5 * room) & 0x1f;
}

static inline uint32_t pool_among_empty(uint64_t state)
{
    return ~pool_busy(state) & pool_dirty(state);
}

/* A bit for each room that a superslab in this state has. */
uint32_t hak_pool_rooms(uint64_t state);

/* In which a run of `count` is looked for. */
static inline unsigned pool_room_of(unsigned count)
{
    unsigned room = 0;
    while (room + 1 < POOL_ROOM_EMPTY && pool_room_slots(room + 1) <= count)
        room++;
    return room;
}

/* [looks] In a pool of many GiB nearly all superslabs may have room. So many of them say enough:
 * the first, so that the last ones may become free as a whole. */
#define POOL_LOOKS 256u

/* Retires a superslab in whose `state` no slot is busy. False if one is, or was acquired meanwhile.
 */
bool hak_pool_try_retire(size_t superslab, uint64_t state);
/* Retires every superslab in use of which no slot is in use. */
void hak_pool_retire_free(void);
/* Makes a superslab known as having room (any thread). */
void hak_pool_offer(size_t superslab);

/* --- what is kept: retired superslabs and EMPTY slots --- */

/* `slots` had to come from the system. If as many were given back a moment ago, they are wanted
 * again. */
void hak_kept_regret(size_t slots);
/* `slots` had to go for the limit's sake. */
void hak_kept_evicted(size_t slots);
/* So many slots grew old. */
void hak_kept_wrongly(size_t slots);
/* What may be kept at the moment, both together; how many retired superslabs; and how many of
 * those there are too many. */
size_t hak_kept_budget_slots(void);
size_t hak_kept_room_superslabs(void);
size_t hak_kept_excess_superslabs(void);
/* So little that no limit can be exceeded but one that was configured. */
bool hak_kept_is_little(void);
/* More than may be without experience. */
bool hak_kept_is_learned(void);

/* --- retired superslabs. The caller owns all 32 slots of what it puts in and of what it gets. ---
 */

void hak_retired_put(size_t first, size_t superslabs);
/* What was retired at POOL_NEVER_USED_NS does not grow old. */
#define POOL_NEVER_USED_NS (UINT64_MAX - 1)
void hak_retired_put_at(size_t first, size_t superslabs, uint64_t time_ns);
/* The newest one. */
bool hak_retired_try_take_newest(size_t *superslab);
/* `want` adjacent ones, from the shortest run that is long enough; or, if there is none, the
 * longest run, if it has `least`. Of several that are as long the one whose memory is most like
 * what the caller uses: all slots, but `last_slots` of the last superslab that it wants. Returns
 * how many; 0: none.
 */
size_t hak_retired_take_run(size_t want, unsigned last_slots, size_t least, size_t *first);
/* Below HAKMEM_LIMIT_MB one thread at a time claims retired superslabs to unmap them: whoever is
 * about to be refused waits for that. True: the caller has to unlock hak_pool.leave_lock. */
bool hak_retired_begin_leaving(void);
/* Gives back what is over the limits; called after something was retired or emptied. */
void hak_retired_enforce(void);
/* hak_pool_tick_any for a caller that knows the time. */
void hak_retired_tick(uint64_t now_ns);
/* For a superslab that cannot be unmapped, of which the first `slots` are mapped: gives the pages
 * back if it can, and offers these slots. */
void hak_retired_offer_slots(size_t superslab, unsigned slots);
/* These are no slabs' any more; the caller owns all their slots. Pages of bitmaps go back. */
void hak_retired_forget_slabs(size_t first, size_t superslabs);
/* Tries again what the system refused to unmap. Returns how many bytes went, about. */
size_t hak_whole_unmap_postponed(void);
/* Gives `slots` EMPTY slots of superslabs in use back to the system, or all that were not touched
 * since; then also what huge pages hold for nothing, of what was never used only if the pool does
 * not grow. Returns how many EMPTY ones. */
size_t hak_pool_purge_empty(size_t slots, uint64_t since_ns, bool grows);

/* Takes up to so much off a counter that others may lower too. Returns how much. */
static inline size_t pool_lower(_Atomic(size_t) *counter, size_t by)
{
    size_t now = hak_load_relaxed(counter);
    size_t taken;
    do {
        taken = hak_min(now, by);
    } while (taken != 0 && !hak_cas_relaxed(counter, &now, now - taken));
    return taken;
}

/* Superslabs that are mapped for slots. */
static inline size_t pool_slot_superslabs(void)
{
    return hak_load_relaxed(&hak_pool.mapped_now) - hak_load_relaxed(&hak_pool.whole_now);
}

/* With so many superslabs, huge pages are worth what they waste. */
static inline bool pool_wants_huge_pages(size_t superslabs)
{
    return superslabs * HAK_SUPERSLAB_BYTES >=
           hak_load_relaxed(&hak_pool.config.huge_pages_from_bytes);
}

/* A huge page that is not used up yet is hardly a thing beside what the process has. */
bool hak_pool_is_large(void);

void hak_pool_mark_dense(size_t superslab, bool dense);
/* What a superslab is for from now on: it was mapped just now, or was part of a huge block. */
void hak_pool_set_dense(size_t superslab, bool dense);

/* Asks for huge pages in [at, at + bytes), whatever they cost. */
void hak_pool_ask_for_huge_pages(char *at, size_t bytes);
/* The same, and returns true, unless they have turned out to be dear: then the caller takes that
 * advice back. `page`, the first in there that is to be used, is faulted in: the caller is about to
 * use it. */
bool hak_pool_try_huge_pages(char *at, size_t bytes, char *page);

/* The system may put a huge page together here. */
static inline bool pool_may_be_huge(const struct hak_superslab *s)
{
    return hak_load_relaxed(&s->huge_pages) == HAK_HUGE_ASKED;
}
void hak_pool_forbid_huge_pages(size_t superslab);
/* All its slots are in use: asks for huge pages again, if that is nearly all in memory. */
void hak_pool_permit_huge_pages(size_t superslab);

/* Huge blocks are used from end to end, as far as is known: see whole_use.c. */
#define POOL_DENSE_ENOUGH 4u
static inline bool pool_knows_dense(void)
{
    return hak_load_relaxed(&hak_pool.dense_samples) >= POOL_DENSE_ENOUGH;
}

/* Counts slots that are acquired, or (of `count` less than 0) released. */
static inline void pool_count_in_use(unsigned label, long count)
{
    hak_add_relaxed(&hak_pool.in_use[label], (size_t)count);
    hak_add_relaxed(&hak_pool.in_use_now, (size_t)count);
}

/* Mapped superslabs, but for huge blocks of which it is not known whether they are used. */
static inline size_t pool_used_superslabs(void)
{
    return pool_knows_dense() ? hak_load_relaxed(&hak_pool.mapped_now) : pool_slot_superslabs();
}

static inline size_t pool_whole_superslabs(size_t bytes)
{
    return (bytes + HAK_SUPERSLAB_BYTES - 1) >> HAK_SUPERSLAB_SHIFT;
}

/* --- huge blocks: what is known of how they are used (whole_use.c) --- */

/* The program has got one just now; whether it uses it is looked at when it wants the next. */
void hak_whole_note_last(const struct hak_whole *w);
void hak_whole_learn_of_last(void);
/* The block at this place is the program's no longer, or not as long as it was. */
void hak_whole_forget_last(size_t first);
void hak_whole_learn_of_freed(const struct hak_whole *w);
/* Asks for huge pages from the superslab number `from` of the range on, if they are to be expected
 * to pay for a block of so many bytes. how: as for hak_whole_take. */
void hak_whole_advise(const struct hak_whole *w, size_t bytes, size_t from, unsigned how);
/* Large enough for huge pages without evidence. */
bool hak_whole_is_large(size_t bytes);

/* A huge block of so many bytes is worth keeping. */
static inline bool pool_keeps_huge(size_t bytes)
{
    return bytes <= hak_load_relaxed(&hak_pool_knobs.huge_keep_bytes);
}

/* Counts superslabs that are about to be mapped. With the limit in the way what is retired goes
 * first. Returns 0 or an errno. */
int hak_pool_reserve(size_t superslabs);
/* hak_space_take of superslabs that count as mapped. */
int hak_pool_map(size_t superslabs, size_t align, size_t bytes, bool with_meta, size_t *first);

/* A superslab of which some slots are mapped is completed when more are wanted; unless the pool is
 * growing just now, perhaps in the caller: then it stays as it is. */
void hak_pool_try_add_partial(size_t superslab);
/* Maps memory for at least `count` slots and acquires them. Returns 0 or an errno. */
int hak_pool_grow(unsigned count, unsigned align, bool dense, unsigned label, size_t *slot,
                  bool *zero);
/* Acquires free slots of superslabs in use of the right kind, the fullest of them first. */
bool hak_pool_try_free(unsigned count, unsigned align, bool dense, unsigned label, size_t *slot,
                       bool *zero);
/* Of any kind, when the system gives no more. */
bool hak_pool_try_free_any(unsigned count, unsigned align, unsigned label, size_t *slot,
                           bool *zero);
