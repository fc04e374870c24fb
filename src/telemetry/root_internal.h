/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * telemetry: the layout of everything that the root points to. The one header that includes the
 * internal headers of other layers: for root.c, and for readers outside. */
#pragma once

#include "cache/cache_internal.h"
#include "large/large_internal.h"
#include "pool/pool_internal.h"
#include "space/space_internal.h"
#include "telemetry/prof.h"
#include "telemetry/root.h"
#include "telemetry/sites.h"

#define HAK_ROOT_SIZES                                                                             \
    {                                                                                              \
        [HAK_ROOT_SPACE] = sizeof(struct hak_space),                                               \
        [HAK_ROOT_WINDOW] = sizeof(struct hak_window),                                             \
        [HAK_ROOT_META] = sizeof(struct hak_meta_state),                                           \
        [HAK_ROOT_FAILURES] = sizeof(struct hak_failures),                                         \
        [HAK_ROOT_TABLES] = sizeof(struct hak_class_tables),                                       \
        [HAK_ROOT_POOL] = sizeof(struct pool),                                                     \
        [HAK_ROOT_LARGE] = sizeof(struct large_counters),                                          \
        [HAK_ROOT_REGISTRY] = sizeof(struct hak_registry),                                         \
        [HAK_ROOT_ORPHANS] = sizeof(struct hak_heap *),                                            \
        [HAK_ROOT_HEAP] = sizeof(struct hak_heap),                                                 \
        [HAK_ROOT_SLAB] = sizeof(struct hak_slab),                                                 \
        [HAK_ROOT_RECORD] = sizeof(struct hak_superslab),                                          \
        [HAK_ROOT_SAMPLES] = sizeof(struct hak_prof),                                              \
        [HAK_ROOT_SITES] = sizeof(hak_sites),                                                      \
        [HAK_ROOT_LIFETIMES] = sizeof(struct hak_lifetimes),                                       \
    }

/* Members that readers use change places more often than structures change sizes. Each has another
 * odd factor, so that two that swap their places are seen. */
#define ROOT_AT(n, type, member)                                                                   \
    ((uint32_t)offsetof(struct type, member) * ((n) * 2654435761u | 1u))
#define HAK_ROOT_OFFSETS                                                                           \
    (ROOT_AT(1, hak_space, slots) + ROOT_AT(2, hak_space, records) + ROOT_AT(3, hak_space, meta) + \
     ROOT_AT(4, hak_window, areas) + ROOT_AT(5, hak_window, high_water) +                          \
     ROOT_AT(6, hak_meta_state, ranges) + ROOT_AT(7, hak_failures, ring) +                         \
     ROOT_AT(8, hak_failures, recorded) + ROOT_AT(9, hak_failure, kind) +                          \
     ROOT_AT(10, hak_failure, limits) + ROOT_AT(11, hak_class_tables, classes) +                   \
     ROOT_AT(12, hak_class, slots) + ROOT_AT(13, pool, limit_superslabs) +                         \
     ROOT_AT(14, pool, mapped_now) + ROOT_AT(15, pool, empty_now) + ROOT_AT(16, pool, levels) +    \
     ROOT_AT(17, pool, postponed) + ROOT_AT(18, pool, acquired) + ROOT_AT(19, pool, in_use) +      \
     ROOT_AT(20, pool, soft_cap) + ROOT_AT(21, pool, prewarmed) + ROOT_AT(22, pool, released) +    \
     ROOT_AT(23, large_counters, huge_bytes) + ROOT_AT(24, hak_registry, all) +                    \
     ROOT_AT(25, hak_heap, lock) + ROOT_AT(26, hak_heap, next_heap) +                              \
     ROOT_AT(27, hak_heap, thread) + ROOT_AT(28, hak_heap, outbox) +                               \
     ROOT_AT(29, hak_heap, stats) + ROOT_AT(30, hak_heap, classes) +                               \
     ROOT_AT(31, hak_class_heap, lists) + ROOT_AT(32, hak_front, tag) +                            \
     ROOT_AT(33, hak_slab, free_word) + ROOT_AT(34, hak_slab, carved) +                            \
     ROOT_AT(35, hak_slab, large_bytes) + ROOT_AT(36, hak_slab, owner) +                           \
     ROOT_AT(37, hak_superslab, missing) + ROOT_AT(38, hak_superslab, released_ns) +               \
     ROOT_AT(39, hak_superslab, label) + ROOT_AT(40, hak_front, map) +                             \
     ROOT_AT(41, hak_heap, inbox_messages) + ROOT_AT(42, hak_heap, free_bytes) +                   \
     ROOT_AT(43, hak_meter, stacks) + ROOT_AT(44, hak_note, small_bytes) +                         \
     ROOT_AT(45, hak_front, meter) + ROOT_AT(46, hak_heap, group) +                                \
     ROOT_AT(47, hak_slab, large_sample) + ROOT_AT(48, hak_site, samples) +                        \
     ROOT_AT(49, hak_site, life_kib) + ROOT_AT(50, hak_lifetimes, clock_kib) +                     \
     ROOT_AT(51, large_counters, caches) + ROOT_AT(52, hak_superslab, huge_colour))
