/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * The hakmem command: a plan, what `hakmem replay` makes of a trace before it is repeated: for each
 * thread a list of words, in which blocks are places of a table instead of addresses. It lies in
 * one file in memory, which each of the processes that repeat it maps.
 *
 * A place is used for one block after another only where one thread allocates and releases all of
 * them; a block that another thread releases has a place to itself, so that this thread can tell by
 * the place whether the block is there yet. */
#pragma once

#include "trace.h"

#include <stdbool.h>
#include <stdint.h>

/* Evenly over the events, and one where most bytes are live. */
#define HAK_PLAN_SAMPLES 256
#define HAK_PLAN_MOST_PLACES ((uint32_t)1 << 29)

/* A word: three bits of what, 29 of the place, 32 of the size in bytes. */
enum hak_plan_what {
    HAK_PLAN_MALLOC,
    HAK_PLAN_CALLOC,
    HAK_PLAN_ALIGNED, /* a word follows: the alignment */
    HAK_PLAN_FREE,    /* the size is 1, or 0 for a block without a byte to read */
    HAK_PLAN_REALLOC, /* a word follows: the place of the new block */
    HAK_PLAN_TURN,    /* a word follows: the number of the thread's next event */
    HAK_PLAN_SAMPLE,  /* look at the memory; the size is which sample */
};
#define HAK_PLAN_WHAT_BITS 3
#define HAK_PLAN_SIZE_SHIFT 32
/* The size is a word that follows, before any other. */
#define HAK_PLAN_SIZE_FOLLOWS UINT32_MAX

struct hak_plan_thread {
    uint64_t first_word, words; /* of the plan's words */
    uint64_t first_event;       /* events are numbered over all threads */
};

struct hak_plan {
    uint64_t events; /* allocations, releases, and each realloc twice */
    uint64_t allocations, frees, reallocs;
    uint64_t unknown_frees; /* of blocks from before the recording; left out */
    uint64_t unseen_frees;  /* of blocks whose address came a second time */
    uint64_t window;        /* by how many events a thread may be ahead; 0: none */
    uint64_t most_live_bytes, most_live_blocks, end_live_bytes;
    uint64_t recorded_us;
    uint32_t threads, places;
    uint64_t words;
    /* The last one is where most bytes are live. */
    uint64_t sample_live_bytes[HAK_PLAN_SAMPLES + 1];
    uint64_t sample_us[HAK_PLAN_SAMPLES + 1];
    /* Then: struct hak_plan_thread [threads], uint64_t [words]. */
};

/* Makes a plan of a trace: an open file, which the caller closes. -1: `*problem` says why. A trace
 * that ends within an event has what comes before. */
int hak_plan_make(const struct hak_trace *trace, uint64_t window, const char **problem);

static inline const struct hak_plan_thread *hak_plan_threads(const struct hak_plan *plan)
{
    return (const struct hak_plan_thread *)(plan + 1);
}

static inline const uint64_t *hak_plan_words(const struct hak_plan *plan)
{
    return (const uint64_t *)(hak_plan_threads(plan) + plan->threads);
}
