/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * telemetry: the root, a constant but for what its header says is written later. See root.h. */
#include "telemetry/layout.h"
#include "telemetry/root_internal.h"

#include "hakmem.h"

_Static_assert(sizeof HAK_ROOT_MAGIC - 1 == sizeof(((struct hak_root *)NULL)->magic),
               "no NUL at its end: it is not text");

/* Nothing in the library refers to it, so the linker is told to keep it (--gc-sections). */
__attribute__((used, retain,
               aligned(HAK_ROOT_ALIGN))) struct hak_root hak_root HAK_USED_AT_START = {
    .magic = HAK_ROOT_MAGIC,
    .version = HAK_ROOT_VERSION,
    .bytes = sizeof(struct hak_root),
    .flags = (HAK_HARDENED ? HAK_ROOT_HARDENED : 0) | (HAK_CHECKS ? HAK_ROOT_CHECKS : 0),
    .offsets = HAK_ROOT_OFFSETS,
    .library = HAKMEM_VERSION_MAJOR << 16 | HAKMEM_VERSION_MINOR << 8 | HAKMEM_VERSION_PATCH,
    .sizes = HAK_ROOT_SIZES,
    .at = {[HAK_ROOT_SPACE] = &hak_space,
           [HAK_ROOT_WINDOW] = &hak_window,
           [HAK_ROOT_META] = &hak_meta,
           [HAK_ROOT_FAILURES] = &hak_failures,
           [HAK_ROOT_TABLES] = &hak_tables,
           [HAK_ROOT_POOL] = &hak_pool,
           [HAK_ROOT_LARGE] = &hak_large_counters,
           [HAK_ROOT_REGISTRY] = &hak_registry,
           [HAK_ROOT_ORPHANS] = &hak_orphans,
           [HAK_ROOT_SAMPLES] = &hak_prof,
           [HAK_ROOT_SITES] = hak_sites,
           [HAK_ROOT_LAYOUT] = hak_layout,
           [HAK_ROOT_LIFETIMES] = &hak_lifetimes},
};
