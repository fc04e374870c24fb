/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * pool: what its files share. */
#pragma once

#include "pool/pool.h"

struct pool {
    struct hak_lock grow_lock;    /* one thread at a time asks the system for memory */
    struct hak_lock retired_lock; /* the list below; inside grow_lock where both are held */
    uint32_t newest, oldest;      /* superslab + 1 */
    _Atomic(size_t) retired_now;
    _Atomic(size_t) mapped_now; /* superslabs of slots that are mapped, wholly or in part */
    uint32_t
        partial; /* superslabs that are mapped in part, linked by `older`; + 1; under grow_lock */
    struct hak_pool_config config;
    _Atomic(uint32_t)
        warm[HAK_POOL_LABELS]; /* where a slot of this class became EMPTY last: superslab + 1 */
    _Atomic(uint64_t) acquired[HAK_STAGE_COUNT][HAK_POOL_LABELS];
    _Atomic(uint64_t) released, mapped_total, unmapped_total, retired_total, revived_total;
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

/* Makes a superslab known as having room (any thread). */
void hak_pool_offer(size_t superslab);

/* Retired superslabs. The caller owns all 32 slots of what it retires and of what it gets. */
void hak_pool_retire(size_t superslab);
bool hak_pool_try_revive(size_t *superslab);

/* Maps memory for at least `count` slots and acquires them. Returns 0 or an errno. */
int hak_pool_grow(unsigned count, unsigned align, size_t *slot, bool *zero);
/* Acquires from superslabs in use: EMPTY slots only, or any free ones. */
bool hak_pool_try_in_use(unsigned count, unsigned align, bool empty_only, size_t *slot, bool *zero);
