/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * pool: superslabs of 32 slots, shared by all threads and all classes slot by slot.
 *
 *            acquire (CAS sets busy)                     release (clears busy)
 *   UNUSED ---------------------------> ACTIVE <-----------------------------> EMPTY
 *      ^                                                     acquire              |
 *      |        all slots free: CAS claims all 32 at once, then the superslab is  |
 *      +------- RETIRED (cached; purged and unmapped when over a limit) <---------+
 *
 * The state of all 32 slots is one 64-bit word: `busy` in the lower half, `dirty` in the upper. A
 * slot is UNUSED with neither, EMPTY when dirty, ACTIVE when busy. Every transition is one atomic
 * step on that word; whoever set a busy bit owns the slot alone. A superslab is retired by claiming
 * every slot as if to allocate it, so nothing can be acquired from it while it is cached, purged or
 * unmapped.
 *
 * Called by large and cache, from any thread. It never looks into a slot and knows classes only as
 * labels for affinity. */
#pragma once

#include "space/space.h"

#define HAK_POOL_LABELS 89u /* 88 size classes and one label for runs */
#define HAK_POOL_LABEL_RUN 88u
#define HAK_POOL_DENSE 128u /* or-ed to a label: what is acquired will be used up */

enum hak_stage {
    HAK_STAGE_ADOPT,   /* a slab whose owner ended; counted here, found by the cache layer */
    HAK_STAGE_WARM,    /* an EMPTY slot last used by this class */
    HAK_STAGE_EMPTY,   /* an EMPTY slot of any class */
    HAK_STAGE_UNUSED,  /* an UNUSED slot of a superslab in use */
    HAK_STAGE_RETIRED, /* a superslab out of the cache */
    HAK_STAGE_FRESH,   /* memory from the system */
    HAK_STAGE_COUNT
};

/* Huge pages of a superslab: nothing was said of them; to be asked for with its first slot; asked
 * for; small ones asked for, see [huge-unasked]; forbidden, as half of it was given back. */
enum { HAK_HUGE_NONE, HAK_HUGE_DUE, HAK_HUGE_ASKED, HAK_HUGE_SMALL, HAK_HUGE_FORBIDDEN };

/* What lies behind a huge block: nothing is known of it; it stays with the pages that it had
 * before; they have gone, and it reads as zero. */
enum { HAK_SLACK_ANY, HAK_SLACK_STAYS, HAK_SLACK_GONE };

/* One a superslab, HAK_RECORD_BYTES. Any thread; the links under the pool's lock. */
struct hak_superslab {
    _Atomic(uint64_t) state; /* busy | dirty << 32 */
    union {
        _Atomic(uint32_t) missing; /* slots not mapped (yet); their busy bits are set */
        uint32_t newer; /* of a huge block, in the list of those with slack, as `older` */
    };
    uint32_t older; /* in the lists of those begun, of those postponed, and of blocks with slack:
                     * superslab + 1; 0 ends it */
    union {
        _Atomic(uint32_t) retired_order; /* how many had been retired before, modulo 2^32 */
        _Atomic(uint32_t) huge_colour;   /* of a huge block: where in its first page it begins */
    };
    _Atomic(bool) was_purged;      /* since it was mapped */
    _Atomic(uint8_t) huge_pages;   /* HAK_HUGE_* */
    _Atomic(bool) has_bits;        /* slabs were here: the meta has pages in memory */
    _Atomic(uint64_t) released_ns; /* when a slot was released last, or all of it retired, or made a
                                    * block with slack */
    union {
        _Atomic(uint8_t) label[HAK_SLOTS]; /* the class that each slot was last used for: a hint */
        struct {                           /* a huge block begins here; its owner alone */
            size_t mapped_bytes;
            uint32_t superslabs;
            uint16_t slack_slots;   /* the last ones are not the block's: see slack.c */
            _Atomic(uint8_t) slack; /* HAK_SLACK_*: their pages */
            struct hak_note note;
        } huge;
    };
};
_Static_assert(sizeof(struct hak_superslab) == HAK_RECORD_BYTES, "one cache line each");

struct hak_pool_config {
    size_t retired_max_count;     /* superslabs kept in the cache, at most */
    size_t retired_max_bytes;     /* of all that is kept; 0: decide by what is in use, see kept.c */
    uint64_t retired_max_age_ns;  /* what was not used for longer goes back at the next tick */
    size_t huge_pages_from_bytes; /* ask for huge pages once so much is in use and the pool grows
                                   * quickly, or twice as much is mapped; SIZE_MAX: never. See
                                   * [huge-size] in grow.c */
};
#define HAK_POOL_HUGE_PAGES_FROM_MB 8 /* as it stands at the start */

/* What a policy may turn, each a relaxed atomic; as they stand at the start they are the fixed
 * defaults. See docs/learning.md. */
struct hak_pool_knobs {
    _Atomic(uint64_t) keep_percent; /* of the most that was in use: what experience may add to what
                                     * is kept */
    _Atomic(uint64_t) grow_divisor; /* the next step is one part in so many of what is mapped, up to
                                     * 32 MiB; a superslab for slots that may not be used up */
    _Atomic(uint64_t) prefault;     /* what is touched before it is used: HAK_PREFAULT_* */
    _Atomic(uint64_t) huge_keep_bytes; /* larger blocks go straight back to the system */
    _Atomic(uint64_t) give_back;       /* memory is short: HAK_GIVE_BACK_* */
    _Atomic(uint64_t) regretted_slots, aged_slots; /* counted: wrongly given back, wrongly kept */
    _Atomic(bool) behind; /* there is more to give back: hak_pool_tick_any is due at once */
};
enum { HAK_PREFAULT_NONE, HAK_PREFAULT_SLABS };
enum { HAK_GIVE_BACK_NONE, HAK_GIVE_BACK_HALF, HAK_GIVE_BACK_ALL };
extern HAK_HIDDEN struct hak_pool_knobs hak_pool_knobs;
/* Two that the options set too: the last word holds. */
void hak_pool_set_age(uint64_t retired_max_age_ns);
void hak_pool_set_huge_pages_from(size_t bytes);
/* Huge pages are wanted from the first superslab on. */
bool hak_pool_is_huge_early(void);
/* The pool is large enough for huge pages, if it goes on growing. */
bool hak_pool_has_huge_pages(void);
/* Three quarters of the slots are in use, of all superslabs that are mapped for slots. */
bool hak_pool_is_filled(void);
/* Pages have gone back to the system of the superslab of this slot, which stays: no huge page is to
 * bring them back. See [huge-rest] in huge_pages.c. Any thread. */
void hak_pool_pages_went(size_t slot);
/* Superslabs mapped at the moment, those of huge blocks and what is kept included. */
size_t hak_pool_mapped_superslabs(void);
/* Bytes kept, as far as they are in memory; how many slots more may be; for how long. */
size_t hak_pool_kept_bytes(void);
size_t hak_pool_kept_room_slots(void);
uint64_t hak_pool_age_ns(void);

struct hak_pool_stats {
    uint64_t acquired[HAK_STAGE_COUNT];
    uint64_t released;
    uint64_t mapped_superslabs, unmapped_superslabs; /* since the start */
    uint64_t retired_now, retired_total, revived_total;
    uint64_t empty_slots_now, purged_slots_total;
    uint64_t budget_bytes;      /* what may be kept at the moment */
    uint64_t soft_cap_reclaims; /* times that a class was over its cap when it wanted more */
    struct hak_lock_counts grow_lock;
    uint64_t moved_pieces_total; /* of huge blocks put together from retired superslabs */
    uint64_t huge_asked_total, huge_dear_total; /* see huge_pages.c */
};

void hak_pool_configure(const struct hak_pool_config *config);
/* Two of these alone: retired superslabs and their bytes. */
void hak_pool_set_kept(size_t most_count, size_t most_bytes);
/* Superslabs mapped at a time, at most; 0: any number. What is mapped already stays. */
void hak_pool_set_limit(size_t superslabs);
bool hak_pool_has_limit(void);

/* Acquires a run of `count` slots (1..32), beginning at a multiple of `align` (a power of two)
 * slots, for `label`. *zero says that the memory reads as zero. Returns 0 or an errno. */
int hak_pool_acquire_any(unsigned count, unsigned align, unsigned label, size_t *slot, bool *zero);

/* All slots of a superslab that is mapped for the allocator's own use and never given back. But for
 * HAKMEM_LIMIT_MB it counts nowhere: what is kept and how the pool grows stays what it is without.
 * Returns 0 or an errno. */
int hak_pool_acquire_apart(size_t *slot);

/* The stages of hak_pool_acquire_any that take EMPTY slots, of which pages are in memory. */
bool hak_pool_try_empty(unsigned count, unsigned align, unsigned label, size_t *slot, bool *zero);

/* hak_pool_acquire_any without the last stage: nothing is mapped. */
bool hak_pool_try_kept(unsigned count, unsigned align, unsigned label, size_t *slot, bool *zero);

/* Acquires just these slots, if they are in one superslab with their predecessor and free. For
 * growth in place. */
bool hak_pool_try_acquire_at(size_t slot, unsigned count, bool *zero);

/* The caller owns the slots and has cleared their map entries. With `purged` they read as zero
 * (UNUSED again). */
void hak_pool_release_any(size_t slot, unsigned count, unsigned label, bool purged);

void hak_pool_count_adoption(unsigned label);

/* --- soft caps: how many slots a class may use before others are asked to give back first --- */

void hak_pool_set_soft_cap(unsigned label, size_t slots); /* 0: none */
size_t hak_pool_soft_cap(unsigned label);
size_t hak_pool_slots_in_use(unsigned label);
/* With `count` slots more the label would be over its cap. */
bool hak_pool_is_over_cap(unsigned label, unsigned count);
/* The caller has made everybody give back, for the cap's sake. */
void hak_pool_count_reclaim(void);

/* --- memory before it is wanted --- */

/* Maps and touches superslabs and keeps them like retired ones, whose limits grow by as many.
 * Returns how many: fewer when the system refuses. */
size_t hak_pool_prewarm(size_t superslabs);
/* Does so when the pool has to grow for the first time. */
void hak_pool_prewarm_at_growth(size_t superslabs);

/* --- whole superslabs, for huge blocks --- */

/* A range of superslabs that belongs to the caller alone. Its first `mapped_bytes` bytes (a
 * multiple of a slot) are mapped; of the last `clean_slots` of those is known that they read as
 * zero, and hold no memory. */
struct hak_whole {
    size_t first, superslabs, mapped_bytes;
    unsigned clean_slots;
};

/* HAK_WHOLE_FRESH: from the system alone, for pages that will be moved to its beginning, so that no
 * huge pages are asked for. HAK_WHOLE_WRITTEN: whoever reads it will have written it before. */
enum { HAK_WHOLE_FRESH = 1, HAK_WHOLE_WRITTEN = 2 };

/* A range of at least `bytes` (a multiple of a slot), beginning at a multiple of `align`
 * superslabs: retired ones first, best fit, or moved together; then from the system. *zero says
 * that it reads as zero, which it always does with HAK_WHOLE_FRESH. Returns 0 or an errno. */
int hak_whole_take(size_t bytes, size_t align, unsigned how, struct hak_whole *w, bool *zero);
/* The system has refused memory: from now on ranges are as long as they must be, not as they were.
 */
void hak_whole_be_exact(void);
bool hak_whole_is_exact(void);
/* Makes one of a run of `slots` slots that the caller owns, if it begins a superslab of which
 * nothing else is in use. */
bool hak_whole_try_make(size_t slot, unsigned slots, struct hak_whole *w);
/* To the retired superslabs as far as there is room for it, else back to the system. Looks at how
 * much of it was used: see [dense] in whole_use.c. */
void hak_whole_give(const struct hak_whole *w);
/* Straight back to the system: what was never used. */
void hak_whole_unmap(const struct hak_whole *w);
/* After pages were moved in: what lies behind the first `from` superslabs of a block that grows is
 * written before it is read, and may get huge pages. Then its first page is touched: see
 * huge_pages.c. */
void hak_whole_grown(const struct hak_whole *w, size_t from);
/* Makes mapped_bytes larger, in place, for a block that grows: to `bytes`, or to the end of a
 * superslab that may get a huge page. */
bool hak_whole_try_extend(struct hak_whole *w, size_t bytes);
/* Gives the end back to the system. False: refused, nothing has changed. */
bool hak_whole_try_cut(struct hak_whole *w, size_t bytes);
/* The pages have gone elsewhere (mremap): only addresses are given back. */
void hak_whole_moved_away(const struct hak_whole *w);

/* --- keeping and giving back --- */

/* So many slots more (or fewer) are nobody's, though they are in use to the pool: how much is kept
 * depends on the others. */
void hak_pool_count_waiting(ptrdiff_t slots);
bool hak_pool_has_waiting(void); /* any, as far as it was told */

/* Slow paths call it now and then: what has been kept for too long goes back to the system. */
void hak_pool_tick_any(void);
/* Unmaps all superslabs without a slot in use, and purges the EMPTY slots of the others. Returns
 * the bytes given back. */
size_t hak_pool_trim(void);
/* Superslabs that went back to the system since the start. */
uint64_t hak_pool_unmapped(void);
void hak_pool_stats(struct hak_pool_stats *out);
/* Acquires of one stage for one class since the start. */
uint64_t hak_pool_acquired(enum hak_stage stage, unsigned label);
const char *hak_stage_name(enum hak_stage stage);

static inline struct hak_superslab *hak_superslab(size_t superslab)
{
    return (struct hak_superslab *)hak_space_records() + superslab;
}

/* It is for slots that will be used up. */
static inline bool hak_superslab_is_dense(size_t superslab)
{
    return hak_load_relaxed(&hak_space_groups()[superslab / 64].dense) >> superslab % 64 & 1;
}

/* In the child of a fork: gives up what another thread was changing. */
void hak_pool_fork_child(void);
