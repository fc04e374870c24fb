/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * large: blocks that are no slab's: large ones are runs of slots of one superslab of the shared
 * pool, huge ones runs of whole superslabs. Both are found through the map: the entry of the first
 * slot has the kind, the entries behind it are 0. What is freed goes back to the pool, which keeps
 * it for a while.
 *
 * Any thread, lock-free for large, the pool's lock for huge. Called by the heap layer. It never
 * writes into a block (but for copying nothing: moves are moves of pages). */
#pragma once

#include "pool/pool.h"
#include "slab/slab.h"

#include <limits.h>

#define HAK_LARGE_MAX (HAK_SUPERSLAB_BYTES - HAK_SLOT_BYTES)
#define HAK_RUN_CACHES 8u
/* Above this the arithmetic on sizes is not needed: no machine has it. malloc refuses PTRDIFF_MAX
 * before. */
#define HAK_HUGE_MAX ((size_t)1 << 46)
/* From this size on a block that has to move is moved page by page (mremap) rather than copied. */
#define HAK_MOVE_MIN ((size_t)256 << 10)
/* Up to this size it is copied all the same where it may go into memory that is kept. */
#define HAK_COPY_MOST ((size_t)16 << 20)

/* size > 0, align a power of two (any). *zero says that the block reads as zero. NULL: out of
 * memory. number: of one of the threads that share a cache of runs, any, best one that few threads
 * have; or HAK_NO_RUN_CACHE. how: HAK_WHOLE_WRITTEN or 0, see pool.h. And hak_large_free for such a
 * thread. */
#define HAK_NO_RUN_CACHE UINT_MAX
void *hak_large_alloc_near(unsigned number, size_t size_bytes, size_t align_bytes, unsigned how,
                           bool *zero);
bool hak_large_free_near(unsigned number, void *p, uint32_t entry);
/* What waits in these caches goes back to the pool. Returns the bytes. */
size_t hak_large_flush_any(void);
/* hak_pool_acquire_any that flushes them before it fails. */
bool hak_large_try_acquire_any(unsigned slots, unsigned align_slots, unsigned label, size_t *slot,
                               bool *zero);
/* hak_pool_trim, of what waits in them and of what lies behind huge blocks too. */
size_t hak_large_trim(void);
/* Ticks call it: the same for caches that have not been used since the last one, and for what was
 * kept for long behind huge blocks. */
void hak_large_tick_any(void);
/* How many slots the run has that begins here and waits in a cache; 0: none does. */
unsigned hak_large_cached_slots(size_t slot);

/* A block of a size class that the heap profile has sampled: has a run of slots to itself, but is
 * as large as its class says. NULL: out of memory. */
void *hak_large_alloc_sampled(size_t size_bytes, size_t align_bytes, bool *zero);
/* The same in a slot that the caller owns; size up to half a slot, align up to one. */
void *hak_large_place_sampled(size_t slot, size_t size_bytes, size_t align_bytes);
/* Ends such a block as hak_large_free does, but its slot is the caller's from then on. */
bool hak_large_take_back(void *p, uint32_t entry);
/* A block of `have` bytes that becomes so short is copied to a place of its length, so that its own
 * serves the next one of its length. */
bool hak_large_is_left(const void *p, size_t have, size_t bytes);
/* `entry` is what the map said of p's slot: kind large or huge. What was asked for, and what the
 * block's owner has noted of it. */
struct hak_note *hak_large_note(const void *p, uint32_t entry);

/* `entry` is what the map said of p's slot: kind large or huge. False when p is not the beginning
 * of the block, or the block has been freed meanwhile: nothing was done. */
bool hak_large_free(void *p, uint32_t entry);
/* What may be written from p on; 0 when p is not the beginning of the block. */
size_t hak_large_usable_bytes(const void *p, uint32_t entry);
/* The block that begins in this slot reaches as far as p. For messages. */
bool hak_large_reaches(size_t slot, uint32_t kind, const void *p);

/* Resizes without copying: in place, or by moving pages. NULL: not possible so; nothing was
 * changed. new_bytes > HAK_SMALL_MAX. */
void *hak_large_try_resize(void *p, uint32_t entry, size_t new_bytes);
/* For the hardened build, where the former does not: a huge block that has got the pages of a large
 * one. What is at p stays a block, which is zero now. NULL: as above. */
void *hak_large_try_move_pages(void *p, uint32_t entry, size_t new_bytes);

struct hak_large_stats {
    size_t large_bytes, large_blocks;
    size_t cached_bytes, cached_runs; /* free, in caches of runs */
    uint64_t cached_taken;            /* out of those, since the start */
    size_t huge_bytes, huge_blocks;
    uint64_t huge_reused, huge_fresh; /* allocations served by kept memory, and by the system */
    uint64_t moved_pages_calls;
};
void hak_large_stats(struct hak_large_stats *out);
/* In the child of a fork: gives up what another thread was changing. */
void hak_slack_fork_child(void);
