/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * large: what its files share. */
#pragma once

#include "large/large.h"

struct large_counters {
    _Atomic(size_t) large_bytes, large_blocks, huge_bytes, huge_blocks;
    _Atomic(size_t) slack_slots;            /* of all huge blocks */
    _Atomic(uint64_t) reused, fresh, moves; /* huge blocks by where they came from; pages moved */
};
extern struct large_counters hak_large_counters;

void *hak_huge_alloc(size_t size_bytes, size_t align_bytes, bool *zero);
/* The caller has taken the map entry away and so owns the block. */
void hak_huge_free(size_t superslab);
void *hak_huge_try_resize(size_t superslab, size_t new_bytes);
/* A huge block of new_bytes to which the pages of [from, from + from_bytes) have been moved; NULL:
 * not possible. The source stays mapped, zero. */
void *hak_huge_try_adopt_pages(void *from, size_t from_bytes, size_t new_bytes);
