/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * large: what its files share. */
#pragma once

#include "large/large.h"

#define HAK_RUN_CACHE_LEAST_SLOTS 2u
/* Longer ones are worth the pool's few hundred nanoseconds, and would hold much. */
#define HAK_RUN_CACHE_MOST_SLOTS 16u
#define HAK_RUN_CACHE_RUNS 8u
/* A run that waits is a word, from below: the first slot + 1 (4 bytes), how many slots (one), and
 * in the highest bit whether there was a tick since it was put there. 0: none. */
#define HAK_RUN_SLOTS_SHIFT 32u
_Static_assert(HAK_RUN_CACHE_MOST_SLOTS < 31, "a bit for each length");

/* See run_cache.c. Any thread. What follows the runs are hints: of two threads at once one's may
 * get lost. */
struct run_cache {
    _Atomic(uint64_t) runs[HAK_RUN_CACHE_RUNS];
    _Atomic(uint64_t) taken;  /* runs, since the start */
    _Atomic(uint32_t) newest; /* modulo the places: where a run was put last */
    _Atomic(uint32_t) held;   /* slots */
    _Atomic(uint32_t) told;   /* of those, counted by hak_pool_count_waiting */
    _Atomic(uint32_t) wanted; /* a bit for each length that was asked for since the last tick */
} __attribute__((aligned(HAK_CACHE_LINE)));

struct large_counters {
    _Atomic(size_t) large_bytes, large_blocks, huge_bytes, huge_blocks;
    _Atomic(size_t) slack_slots;            /* with pages, behind huge blocks: see slack.c */
    _Atomic(uint64_t) reused, fresh, moves; /* huge blocks by where they came from; pages moved */
    struct run_cache caches[HAK_RUN_CACHES];
};
extern struct large_counters hak_large_counters;

/* Where in its first page a block begins: a multiple of a cache line, below a page, at most
 * `room_bytes`; 0 with a larger alignment. It depends on the place alone, the slot's number or one
 * made of it: who frees a block and gets the next one at its place finds in the caches what it has
 * touched there. */
uint32_t hak_large_colour(size_t place, size_t align_bytes, size_t room_bytes);
/* The place's number of a block that has superslabs to itself, or most of one. */
size_t hak_huge_place(size_t superslab);
/* The block could have a colour, but for the room. */
bool hak_large_lacks_room(size_t align_bytes, size_t room_bytes);

/* Three pages of [place, place + bytes), 16 KiB at least, are in memory: it is used from end to
 * end, as far as that tells. `place` is a page's. */
bool hak_large_is_in_memory(const char *place, size_t bytes);
/* A block of `have` bytes that has to move because it becomes `bytes` long is copied rather than
 * moved by pages. */
bool hak_large_is_copied(const char *place, size_t have, size_t bytes);

/* how: as for hak_whole_take. */
void *hak_huge_alloc(size_t size_bytes, size_t align_bytes, unsigned how, bool *zero);
/* The caller has taken the map entry away and so owns the block. */
void hak_huge_free(size_t superslab);
void *hak_huge_try_resize(size_t superslab, size_t new_bytes);
/* A huge block of new_bytes to which the pages of [from, from + from_bytes) have been moved, and
 * which begins `colour` bytes behind the first of them; NULL: not possible. The source stays
 * mapped, zero. */
void *hak_huge_try_adopt_pages(void *from, size_t from_bytes, uint32_t colour, size_t new_bytes);
/* Makes a huge block, of the same address and note, of a large one that its record describes, if
 * all of its superslab can be had. */
bool hak_huge_try_make(size_t slot, size_t mapped_bytes, uint32_t colour);
/* Only so many bytes of its memory are the block's. False: the pages behind them may not stay, and
 * are given back with the block. */
bool hak_huge_leave(size_t superslab, size_t bytes);
/* Where in the superslab the block begins; what may be written from there on. */
uint32_t hak_huge_colour(size_t superslab);
size_t hak_huge_usable_bytes(size_t superslab);

/* The block that begins here, whose record is whole, may have pages behind it that it does not
 * need: they stay for a while, or go. The last `clean_slots` have none. */
void hak_slack_keep_or_purge(size_t superslab, unsigned clean_slots);
/* They stay for a while, if as many may: otherwise false, and nothing was done. */
bool hak_slack_try_keep(size_t superslab);
/* They stay what they are, and nothing is given back behind the block any more: its owner resizes
 * or frees it. True: they have gone, and what lies there reads as zero. */
bool hak_slack_forget(size_t superslab);
/* Gives back those of blocks that were made before. Returns the bytes. */
size_t hak_slack_give_back(uint64_t before_ns);

/* With which label slots for a block of so many bytes are acquired: see dense.c. */
unsigned hak_runs_label(size_t bytes, unsigned slots);
/* Such slots have come, and nobody has touched them. */
void hak_runs_learn(size_t slot, size_t bytes);

/* Takes a run of `slots` slots, or of a quarter more, out of a cache: its length; 0: there is none.
 * It counts as a block. HAK_RUN_CACHE_LEAST_SLOTS <= slots <= HAK_RUN_CACHE_MOST_SLOTS. */
unsigned hak_run_cache_try_take(unsigned number, unsigned slots, size_t *slot);
/* The caller owns the run, has cleared its map entry, and leaves it counted as a block. False:
 * there is no room. */
bool hak_run_cache_try_put(unsigned number, size_t slot, unsigned slots);
/* Back to the pool with what waits and begins at one of these slots. False: nothing did. */
bool hak_run_cache_flush_among(size_t slot, unsigned slots);
/* Back to the pool with a run that its record describes and that counts as a block. */
void hak_run_release(size_t slot);
/* All that wait; others may come and go meanwhile. */
void hak_run_cache_each(void (*visit)(size_t slot, unsigned slots, void *arg), void *arg);
