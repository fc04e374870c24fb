/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * telemetry: how the allocator's structures are laid out, as data in the library. A debugger or
 * another tool that was not built from this source reads the table and needs no debug information,
 * which a library as it is installed does not have. The root structure (root.h) points to it.
 *
 * A line names a member as the source does, "hak_slab.carved", with its offset and length in bytes;
 * "hak_slab" alone with the structure's size; or a constant, "HAK_CLASSES", with its value as the
 * offset and length 0. The table ends with an empty name. It is constant; nothing in the library
 * reads it. */
#pragma once

#include "base/base.h"

struct hak_layout_line {
    char name[36]; /* ends with 0 */
    uint16_t offset;
    uint16_t bytes;
};
_Static_assert(sizeof(struct hak_layout_line) == 40, "readers count on it");

extern HAK_HIDDEN const struct hak_layout_line hak_layout[];
