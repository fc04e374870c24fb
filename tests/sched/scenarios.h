/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Scheduler of the tests: what scenarios share: slots and blocks that the program holds, and what
 * must hold of the pool and of the heaps when nobody runs. */
#pragma once

#include "sched.h"

#include "cache/cache_internal.h"

/* --- slots that the program holds: one owner at a time, and never while the system takes them ---
 */

/* What may be kept: superslabs, and for how long. */
void slots_configure(size_t max_count, uint64_t max_age_ns);
/* With no superslab, or with one that was never used. */
void slots_start_empty(void);
void slots_start(void);
void slots_claim(size_t slot, unsigned count, bool zero);
void slots_give_up(size_t slot, unsigned count);
size_t slots_acquire(unsigned count, unsigned label);
void slots_release(size_t slot, unsigned count, unsigned label);
/* Claims `count` slots as if somebody who never comes back had them. */
void slots_keep_busy(unsigned count);
/* Nobody runs: counters and index agree with the slots; what is empty is retired or gone. */
void slots_verify(void);
/* The same of the pool alone: `in_use` slots have an owner. */
void pool_verify(size_t in_use);

/* --- blocks that the program holds --- */

/* Eight blocks in a slab, one carved at a time; and sixteen. */
#define BIG (HAK_CLASS_ALIGNED + 3u)
#define SMALL (HAK_CLASS_ALIGNED + 2u)

void blocks_start(unsigned count);
/* Blocks of heap 0, which nobody runs yet. */
void blocks_give(unsigned count, unsigned cls);
extern void *blocks_given[16];
/* The heap of the logical thread `who`; becomes the calling thread's. */
struct hak_heap *blocks_enter(unsigned who);
/* A heap for a thread that starts. */
struct hak_heap *blocks_begin(unsigned who);
/* The heap of a thread that ends; and then nothing is kept for the next thread. */
void blocks_leave(unsigned who);
void blocks_leave_for_good(unsigned who);
void *blocks_allocate(struct hak_heap *heap, unsigned cls);
/* heap NULL: a thread without one. */
void blocks_free(struct hak_heap *heap, void *p);
/* Passes a block to whoever takes it out of the box; NULL: the box is empty. */
void blocks_send(unsigned box, void *p);
void *blocks_receive(unsigned box);
/* After each switch: no block is live and free. */
void blocks_between(void);
/* Nobody runs: what was freed becomes usable when those who still run flush; when all is freed,
 * nothing is held. */
void blocks_verify(void);
/* The same when they sleep, and somebody ticks. */
void blocks_verify_by_ticks(void);

extern const struct scenario slots_scenarios[], blocks_scenarios[], homes_scenarios[],
    other_scenarios[]; /* end with a name of NULL */
