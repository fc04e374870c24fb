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

#define HAK_POOL_LABELS 81u /* 80 size classes and one label for runs */
#define HAK_POOL_LABEL_RUN 80u

enum hak_stage {
    HAK_STAGE_ADOPT,   /* a slab whose owner ended; counted here, found by the cache layer */
    HAK_STAGE_WARM,    /* an EMPTY slot last used by this class */
    HAK_STAGE_EMPTY,   /* an EMPTY slot of any class */
    HAK_STAGE_UNUSED,  /* an UNUSED slot of a superslab in use */
    HAK_STAGE_RETIRED, /* a superslab out of the cache */
    HAK_STAGE_FRESH,   /* memory from the system */
    HAK_STAGE_COUNT
};

/* One a superslab, HAK_RECORD_BYTES. Any thread; the links under the pool's lock. */
struct hak_superslab {
    _Atomic(uint64_t) state;   /* busy | dirty << 32 */
    _Atomic(uint32_t) missing; /* slots not mapped (yet); their busy bits are set */
    uint32_t newer,
        older; /* in the retired list (older also: of those begun): superslab + 1, 0 ends it */
    uint32_t unused;
    uint64_t retired_ns;
    union {
        _Atomic(uint8_t) label[HAK_SLOTS]; /* the class that each slot was last used for: a hint */
        struct {                           /* a huge block begins here; its owner alone */
            size_t mapped_bytes;
            size_t superslabs;
        } huge;
    };
};
_Static_assert(sizeof(struct hak_superslab) == HAK_RECORD_BYTES, "one cache line each");

struct hak_pool_config {
    size_t retired_max_count;    /* superslabs kept in the cache, at most */
    size_t retired_max_bytes;    /* 0: decide by what is in use (an eighth of it, at least 8 MiB) */
    uint64_t retired_max_age_ns; /* older ones are unmapped at the next release or trim */
};

struct hak_pool_stats {
    uint64_t acquired[HAK_STAGE_COUNT];
    uint64_t released;
    uint64_t mapped_superslabs, unmapped_superslabs;
    uint64_t retired_now, retired_total, revived_total;
};

void hak_pool_configure(const struct hak_pool_config *config);

/* Acquires a run of `count` slots (1..32), beginning at a multiple of `align` (a power of two)
 * slots, for `label`. *zero says that the memory reads as zero. Returns 0 or an errno. */
int hak_pool_acquire_any(unsigned count, unsigned align, unsigned label, size_t *slot, bool *zero);

/* Acquires just these slots, if they are in one superslab with their predecessor and free. For
 * growth in place. */
bool hak_pool_try_acquire_at(size_t slot, unsigned count, bool *zero);

/* The caller owns the slots and has cleared their map entries. With `purged` they read as zero
 * (UNUSED again). */
void hak_pool_release_any(size_t slot, unsigned count, unsigned label, bool purged);

void hak_pool_count_adoption(unsigned label);
/* Unmaps all superslabs without a slot in use, and purges the EMPTY slots of the others. Returns
 * the bytes given back. */
size_t hak_pool_trim(void);
void hak_pool_stats(struct hak_pool_stats *out);
/* Acquires of one stage for one class since the start. */
uint64_t hak_pool_acquired(enum hak_stage stage, unsigned label);
const char *hak_stage_name(enum hak_stage stage);

/* The busy mask of a superslab of slots, for walks. */
static inline struct hak_superslab *hak_superslab(size_t superslab)
{
    return (struct hak_superslab *)hak_space_records() + superslab;
}

/* In the child of a fork: gives up what another thread was changing. */
void hak_pool_fork_child(void);
