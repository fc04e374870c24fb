/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Shared by the unit tests of slab: slabs in fresh memory. */
#pragma once

#include "../unit.h"

#include "fake_os.h"
#include "slab/slab.h"

static inline void start(void)
{
    hak_classes_start();
    assert_int_equal(hak_space_start(), 0);
}

/* In a superslab of its own, at a place where the first block does not begin with the slab if the
 * class has colours. */
static inline struct hak_slab *new_slab(unsigned cls, bool zero)
{
    size_t first;
    assert_int_equal(hak_space_take(1, 1, HAK_SUPERSLAB_BYTES, true, &first), 0);
    size_t place = hak_round_down(HAK_SLOTS / 2 + 1, hak_class(cls)->slots);
    return hak_slab_make_owner(first * HAK_SLOTS + place, cls, zero);
}
