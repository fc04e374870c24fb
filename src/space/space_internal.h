/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * space: the records that its files keep, each file its own. Here rather than in the files because
 * whoever reads a process from outside has to know their layout (telemetry/root_internal.h). */
#pragma once

#include "space/failure.h"

enum hak_area_name {
    AREA_MAP,
    AREA_GROUPS,
    AREA_RECORDS,
    AREA_META,
    AREA_WORDS, /* hardened build, as the next two: many blocks a slot, some, few */
    AREA_WORDS_SOME,
    AREA_WORDS_FEW,
    AREA_MOST
};

/* One of the arrays: bytes for each group of 64 superslabs, and how many bytes are mapped. */
struct hak_area {
    char *at;
    size_t group_bytes;
    size_t mapped_bytes;
    size_t growing_to_bytes; /* more than mapped_bytes while more is being mapped */
};

struct hak_window {
    struct hak_lock lock;
    struct hak_area areas[AREA_MOST];
    size_t superslabs;  /* the window's size */
    size_t lowest_free; /* no superslab below is free */
    _Atomic(size_t) high_water;
};
extern HAK_HIDDEN struct hak_window hak_window;

#define HAK_META_LISTS 24
#define HAK_META_RANGES 32u

/* Chunks that lie side by side are one range. */
struct hak_meta_range {
    uintptr_t at;
    size_t bytes;
};

struct hak_meta_state {
    struct hak_lock lock;
    struct hak_meta_free *lists[HAK_META_LISTS];
    char *chunk;
    size_t chunk_left_bytes;
    struct hak_meta_range ranges[HAK_META_RANGES]; /* of all chunks; the last: the rest's length */
};
extern HAK_HIDDEN struct hak_meta_state hak_meta;

struct hak_refusal {
    enum hak_failure_reason reason;
    int error; /* ENOSPC: the window is full; 0: nothing was said */
    const char *stage;
};

struct hak_failure {
    struct hak_refusal why;
    size_t size_bytes, align_bytes;
    unsigned kind;
    uint64_t time_ns;
    struct hak_os_limits limits; /* of HAK_FAILURE_MAP */
};

struct hak_failures {
    struct hak_lock lock;
    struct hak_failure ring[HAK_FAILURES_KEPT];
    size_t recorded;
    _Atomic(uint64_t) counts[HAK_FAILURE_COUNT];
    _Atomic(uint64_t) averted;
    struct hak_os_limits limits;
    uint64_t limits_until_ns;
    _Atomic(bool) trace, no_files;
    bool traced[HAK_FAILURE_COUNT];
};
extern HAK_HIDDEN struct hak_failures hak_failures;

/* What one of them was, in plain words, without a quote or a backslash. */
void hak_failure_describe(struct hak_text *text, const struct hak_failure *f, uint64_t now_ns);
