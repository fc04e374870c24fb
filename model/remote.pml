/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * model: frees by threads that do not own the slab (src/cache/remote.c, slabs.c, threads.c and
 * src/slab/slab.c): outbox, remote bits, inboxes, collection, and slabs that change their owner or
 * are released meanwhile.
 *
 * HEAPS heaps, of which 0 is the shared one (`orphans`); SLABS slabs of BLOCKS blocks, one bitmap
 * word each; the first OWNED slabs begin with all blocks in use, owned by heap OWNER. WORKERS
 * threads, W0, W1 and so on: heap,allocs,frees,ends,ticks: how often each may do what; heap 0
 * means a thread without a heap. Any thread may free any block. A thread whose heap was given up
 * goes on as another one with the same heap.
 *
 * When all threads sleep or have ended, nothing may be left after two more ticks
 * (hak_cache_tick_any), or, without TICKS, after the next refill of each thread that still runs
 * and a flush before and after it. ENDLESS: that goes on for ever, beside the threads, for the
 * formula. */
#include "common.pml"

#ifndef HEAPS
#define HEAPS 3
#endif
#ifndef SLABS
#define SLABS 2
#endif
#ifndef BLOCKS
#define BLOCKS 2
#endif
#ifndef OWNER
#define OWNER 1
#endif
#ifndef OWNED
#define OWNED 1
#endif
#ifndef TICKS
#define TICKS 1
#endif
#ifndef ENDLESS
#define ENDLESS 0
#endif
#ifndef W0
#define W0 1,1,0,0,0
#endif
#ifndef W1
#define W1 2,1,1,0,0
#endif

#ifdef W2
#define WORKERS 3
#else
#define WORKERS 2
#endif

/* The mistakes. Each is explained in run.py. */
#define flag_cleared_after_scan 1
#define push_without_recheck 2
#define inbox_never_forwarded 3
#define bits_not_atomic 4
#define bits_cleared_by_store 5
#define flag_not_atomic 6
#define count_before_exchange 7
#define empty_lost_in_collection 8
#define adoption_unlocked 9
#define collects_any_owner 10
#define flag_left_when_released 11
#define tick_unlocked 12
#define tick_passes_orphans_by 13
#define forwarded_before_moved 14
#define pushed_before_bits 15
#define link_read_after_flag 16
#define released_with_remote_bits 17
#define handed_on_without_flag 18
#define nobody_ticks 19

/* The properties. */
hidden byte none_twice;             /* no block is freed, collected or handed out twice */
hidden byte all_accounted_for;     /* live + free = all blocks, and the counter agrees: at the end */
hidden byte usable_at_the_end;      /* no remote bit is left uncollected */
hidden byte flag_means_linked;      /* at the end: in an inbox if and only if the flag is set */
hidden byte in_one_inbox;           /* a slab is in one list of slabs to collect at most */
hidden byte owner_holds_lock;       /* free bits and lists change under the owner's lock only */
hidden byte slab_has_one_owner;     /* a slab is in the lists of one heap, the one it names */
hidden byte released_is_free;       /* no block of a slab that goes back to the pool is in use */
hidden byte emptied_is_released;    /* no slab without a block in use is left with a heap */

#define ALL (bit(BLOCKS) - 1)
#define NONE 255
#define ME (_pid + 1)

/* Shared, as in the code. Heaps and slabs are numbered from 1 where 0 is NULL. */
byte owner[SLABS];       /* struct hak_slab.owner */
bool in_inbox[SLABS];
byte inbox_next[SLABS];
byte remote[SLABS];      /* the word of remote bits */
byte entry[SLABS];       /* the map: the owner's tag */
byte inbox[HEAPS];       /* struct hak_heap.inbox */
byte lock[HEAPS];        /* its holder; 0: nobody */
byte pool;               /* slabs whose slots nobody owns */
/* Under the owner's lock. */
byte free[SLABS];
byte free_blocks[SLABS];
byte list[SLABS];        /* the heap in whose lists it is */

/* Ghosts. */
byte live[SLABS];        /* blocks that the program has, or that lie in a bin */
bool linked[SLABS];      /* in an inbox, or in a list that was taken out of one */
byte ended;              /* heaps without a thread */
byte done;               /* workers */

/* What a thread has of its own: lists that were taken out of inboxes and are worked off, the last
 * first: the recursion of hak_inbox_push_any and hak_inbox_forward_any, as a stack. */
#define LOCALS \
    byte s, t, own, head, bits, i, v, visit, depth; \
    byte todo[SLABS + 1]; \
    bool collecting, mine, was

/* hak_cache_tick_any looks at all heaps. */
#if BROKEN == tick_passes_orphans_by
#define TICK ((bit(HEAPS) - 1) & ~1)
#elif BROKEN == nobody_ticks
#define TICK 0
#else
#define TICK (bit(HEAPS) - 1)
#endif

#include "remote_steps.pml"

#define any_live (live[0] != 0 || live[SLABS - 1] != 0 || live[(SLABS - 1) / 2] != 0)

proctype worker(byte h, allocs, frees, ends, ticks)
{
    LOCALS;
    do
    :: true ->
        if
        :: allocs > 0 -> atomic { allocs--; ended = ended & ~bit(h) }; alloc(h)
        :: atomic { frees > 0 && any_live -> frees--; choose_live() };
           free_chosen(h)
        :: ends > 0 -> ends--; abandon(h)
        :: ticks > 0 -> ticks--; visit = TICK
        :: true -> break /* sleeps from here on */
        fi;
        work(NONE); /* what is to be handed on */
        visits()
    od;
    atomic { allocs = 0; frees = 0; ends = 0; ticks = 0; done++ }
}

/* When nobody runs any more. */
inline final_checks()
{
    d_step {
        s = 0;
        do
        :: s < SLABS ->
            CHECK(slab_has_one_owner, owner[s] == list[s] && entry[s] == list[s]);
            if
            :: owner[s] != 0 ->
                CHECK(usable_at_the_end, remote[s] == 0);
                CHECK(all_accounted_for, (live[s] | free[s]) == ALL && (live[s] & free[s]) == 0 &&
                                             count(free[s]) == free_blocks[s]);
                CHECK(emptied_is_released, live[s] != 0)
            :: else
            fi;
            CHECK(flag_means_linked, in_inbox[s] == linked[s]);
            s++
        :: else -> break
        od;
        s = 0
    }
}

/* What goes on when the workers sleep: somebody ticks; or, without TICKS, one sends an outbox and
 * those that have a heap refill a bin, which is the same for the inboxes. */
#if TICKS
#define RUN_ON TICK
#else
#define RUN_ON ((bit(HEAPS) - 1) & ~ended)
#endif

init
{
    LOCALS;
    byte k;
    atomic {
        pool = (bit(SLABS) - 1) & ~(bit(OWNED) - 1);
        do
        :: s < OWNED ->
            live[s] = ALL;
            owner[s] = OWNER + 1;
            entry[s] = OWNER + 1;
            list[s] = OWNER + 1;
            s++
        :: else -> s = 0; break
        od;
        run worker(W0);
        run worker(W1);
#if WORKERS > 2
        run worker(W2)
#endif
    };
#if ENDLESS
    do :: visit = RUN_ON; visits() od
#else
    done == WORKERS;
    do
    :: k == 2 -> k = 0; break
    :: else -> visit = (k == 0 && !TICKS -> 1 : RUN_ON); k++; visits()
    od;
    final_checks()
#endif
}

#define at_rest(s) (remote[s] == 0 && (owner[s] == 0 || live[s] != 0))

ltl ends { <> (done == WORKERS) }
ltl usable { <> [] (at_rest(0) && at_rest(SLABS - 1)) }
