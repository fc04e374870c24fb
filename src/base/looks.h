/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * base: looks that cost something, and are of less and less use where they find the same again:
 * after one that did the next one is left out, after the next such one three, and so on up to what
 * the caller bears. Any thread; of threads at the same time one may leave out one look more or
 * less. */
#pragma once

#include "base/atomics.h"
#include "base/bits.h"

struct hak_looks {
    _Atomic(uint32_t) left_out; /* before the next one */
    _Atomic(uint32_t) last;     /* how many that was the last time */
};

/* Counts one that is left out. */
static inline bool hak_look_is_due(struct hak_looks *looks)
{
    uint32_t left_out = hak_load_relaxed(&looks->left_out);
    hak_store_relaxed(&looks->left_out, left_out - (left_out != 0));
    return left_out == 0;
}

/* It has found the same again. `most`: 2^k - 1. */
static inline void hak_look_less(struct hak_looks *looks, uint32_t most)
{
    uint32_t next = (hak_load_relaxed(&looks->last) * 2 + 1) & most;
    hak_store_relaxed(&looks->last, next);
    hak_store_relaxed(&looks->left_out, next);
}

/* It has found something else. */
static inline void hak_look_anew(struct hak_looks *looks)
{
    hak_store_relaxed(&looks->last, 0u);
}
