/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * api: all figures of one moment, and their names. Also part of the hakmem command, which fills a
 * snapshot with what it reads in another process. Pure functions. */
#pragma once

#include "cache/cache.h"
#include "large/large.h"
#include "policy/policy.h"
#include "space/failure.h"

/* The locks, those of all heaps as one. */
enum hak_lock_name {
    HAK_LOCK_POOL_GROW,
    HAK_LOCK_WINDOW,
    HAK_LOCK_RECORDS,
    HAK_LOCK_REGISTRY,
    HAK_LOCK_HEAPS,
    HAK_LOCK_COUNT
};
extern HAK_HIDDEN const char *const hak_lock_names[HAK_LOCK_COUNT];

/* Everything that can be read by name, but for single classes. */
struct hak_snapshot {
    struct hak_cache_usage cache;
    struct hak_large_stats large;
    struct hak_pool_stats pool;
    size_t live_bytes, live_blocks; /* what the program holds, in blocks as they are given out */
    uint64_t failures[HAK_FAILURE_COUNT], failures_averted;
    struct hak_lock_counts locks[HAK_LOCK_COUNT];
    struct hak_policy_summary policy;
    size_t held_bytes; /* of the window: slabs, large and huge blocks, caches */
};

/* The figures that are made of others. */
void hak_snapshot_sum(struct hak_snapshot *s);

/* NULL behind the last. */
const char *hak_control_name(unsigned index);
uint64_t hak_control_value(const struct hak_snapshot *s, unsigned index);
