/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * model: frees by threads that do not own the slab (src/cache/remote.c, slabs.c, threads.c and
 * bins.c): outbox, messages, inboxes, collection, and slabs that change their owner or are released
 * meanwhile.
 *
 * HEAPS heaps, of which 0 is the shared one (`orphans`); SLABS slabs of BLOCKS blocks; the first
 * OWNED slabs begin with all blocks in use, but for those of ROOM in the first one, owned by heap
 * OWNER. There is memory for MESSAGES messages of two blocks. WORKERS threads, W0, W1 and so on:
 * heap,allocs,frees,ends,ticks: how often each may do what; heap 0 means a thread without a heap.
 * Any thread may free any block. A thread whose heap was given up goes on as another one with the
 * same heap. It has one outbox, so that owners displace each other there, and sends it before it
 * sleeps. With TAKE_OVER a thread may take slabs from a heap that has something in its inbox.
 *
 * When all threads sleep or have ended, nothing may be left after ROUNDS more ticks
 * (hak_cache_tick_any), or, without TICKS, after a flush and the next refill of each thread that
 * still runs and another flush; the heaps in ASLEEP never refill, and what is theirs may be left.
 * ENDLESS: that goes on for ever, beside the threads, for the formula. */
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
#ifndef MESSAGES
#define MESSAGES 2
#endif
#ifndef OWNER
#define OWNER 1
#endif
#ifndef OWNED
#define OWNED 1
#endif
#ifndef ROOM
#define ROOM 0
#endif
#ifndef TAKE_OVER
#define TAKE_OVER 0
#endif
#ifndef TICKS
#define TICKS 1
#endif
#ifndef ASLEEP
#define ASLEEP 0
#endif
#ifndef ROUNDS
#define ROUNDS 2
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

/* The mistakes. Each is explained in cases.py. */
#define push_without_recheck 1
#define inbox_never_forwarded 2
#define forwarded_before_moved 3
#define inbox_taken_in_two_steps 4
#define next_read_after_send 5
#define next_written_after_push 6
#define collects_any_owner 7
#define judged_by_first_block 8
#define others_dropped 9
#define sent_on_whole 10
#define empty_lost_in_collection 11
#define released_with_blocks_away 12
#define adoption_unlocked 13
#define tick_unlocked 14
#define tick_passes_orphans_by 15
#define nobody_ticks 16
#define take_over_not_forwarded 17
#define take_over_unlocked 18
#define returned_without_recheck 19
#define flushed_before_drained 20
#define drained_unseen 21

/* The properties. */
hidden byte none_twice;             /* no block is freed, returned or handed out twice */
hidden byte all_accounted_for;     /* live + free = all blocks, and the counter agrees: at the end */
hidden byte usable_at_the_end;      /* no block is left in a message */
hidden byte message_in_one_list;    /* a message is in one outbox, inbox or list at most */
hidden byte block_in_one_message;   /* and no other message has its blocks, nor itself twice */
hidden byte owner_holds_lock;       /* free bits and lists change under the owner's lock only */
hidden byte slab_has_one_owner;     /* a slab is in the lists of one heap, the one it names */
hidden byte released_is_free;       /* all blocks of a slab that goes back to the pool are free */
hidden byte emptied_is_released;    /* no slab without a block in use is left with a heap */

#define ALL (bit(BLOCKS) - 1)
#define NONE 255
#define ME (_pid + 1)

/* Shared, as in the code. Heaps, slabs, messages and blocks are numbered from 1 where 0 is NULL. */
byte owner[SLABS];          /* struct hak_slab.owner */
byte entry[SLABS];          /* the map: the owner's tag */
byte inbox[HEAPS];          /* struct hak_heap.inbox */
byte lock[HEAPS];           /* its holder; 0: nobody */
byte pool;                  /* slabs whose slots nobody owns */
byte memory;                /* messages that nobody has */
byte message_next[MESSAGES];
/* Of the thread that has the message. */
byte first[MESSAGES];       /* a block; whose slab's owner gets the message */
byte second[MESSAGES];
/* Under the owner's lock. */
byte free[SLABS];
byte free_blocks[SLABS];
byte list[SLABS];           /* the heap in whose lists it is */

/* Ghosts. */
byte live[SLABS];           /* blocks that the program has */
byte away[SLABS];           /* blocks that were freed and are not back yet */
bool linked[MESSAGES];      /* in an inbox, or in a list that was taken out of one */
byte ended;                 /* heaps without a thread */
byte done;                  /* workers */

#define block_of(s, i) ((s) * BLOCKS + (i) + 1)
#define slab(block) (((block) - 1) / BLOCKS)
#define place(block) bit(((block) - 1) % BLOCKS)

/* What a thread has of its own: a block on its way and its map entry; the outbox; lists that were
 * taken out of inboxes and are worked off, the last first: the recursion of remote_send_any and
 * hak_inbox_forward_any, as a stack. */
#define LOCALS \
    byte block, tag, outbox, outbox_tag, s, t, m, own, head, i, visit, mode, depth; \
    byte todo[MESSAGES + 1]; \
    bool collecting, mine, was, locked

/* hak_cache_tick_any looks at all heaps. */
#if BROKEN == tick_passes_orphans_by
#define TICK ((bit(HEAPS) - 1) & ~1)
#elif BROKEN == nobody_ticks
#define TICK 0
#else
#define TICK (bit(HEAPS) - 1)
#endif

/* What ends a round of a worker. */
#define FLUSH 1
#define END 2
#define SLEEP 3

#include "remote_steps.pml"

#define any_live (live[0] != 0 || live[SLABS - 1] != 0 || live[(SLABS - 1) / 2] != 0)

proctype worker(byte h, allocs, frees, ends, ticks)
{
    LOCALS;
    do
    :: true ->
        if
        :: allocs > 0 -> atomic { allocs--; ended = ended & ~bit(h) }; alloc(h)
        :: atomic {
               frees > 0 && any_live -> frees--; ended = ended & ~bit(h); choose_live()
           }
        :: outbox != 0 -> mode = FLUSH
        :: atomic { ends > 0 -> ends--; mode = END; choose_in_bin(h) }
        :: ticks > 0 -> ticks--; visit = TICK
        :: true -> mode = SLEEP /* from here on */
        fi;
        flush_before_drain(h);
        free_chosen(h);
        flush_after_drain(h);
        if
        :: mode == END -> abandon(h)
        :: else
        fi;
        visits();
        if
        :: mode == SLEEP -> break
        :: else -> mode = 0
        fi
    od;
    atomic { mode = 0; allocs = 0; frees = 0; ends = 0; ticks = 0; done++ }
}

/* When nobody runs any more. */
inline final_checks()
{
    d_step {
        s = 0;
        do
        :: s < SLABS ->
            CHECK(slab_has_one_owner, owner[s] == list[s] && entry[s] == list[s]);
            CHECK(usable_at_the_end, away[s] == 0 || has(ASLEEP << 1, owner[s]));
            if
            :: owner[s] != 0 ->
                CHECK(all_accounted_for,
                      (live[s] | away[s] | free[s]) == ALL && (live[s] & free[s]) == 0 &&
                          count(free[s]) == free_blocks[s]);
                CHECK(emptied_is_released, (live[s] | away[s]) != 0)
            :: else
            fi;
            s++
        :: else -> break
        od;
        s = 0;
        CHECK(message_in_one_list, ASLEEP != 0 || memory == bit(MESSAGES) - 1)
    }
}

/* What goes on when the workers sleep: somebody ticks; or, without TICKS, one sends an outbox and
 * those that have a heap refill a bin, which is the same for the inboxes. */
#if TICKS
#define RUN_ON TICK
#else
#define RUN_ON ((bit(HEAPS) - 1) & ~(ended | ASLEEP))
#endif

init
{
    LOCALS;
    byte k;
    atomic {
        pool = (bit(SLABS) - 1) & ~(bit(OWNED) - 1);
        memory = bit(MESSAGES) - 1;
        do
        :: s < OWNED ->
            live[s] = ALL;
            owner[s] = OWNER + 1;
            entry[s] = OWNER + 1;
            list[s] = OWNER + 1;
            s++
        :: else -> s = 0; break
        od;
        live[0] = ALL & ~ROOM;
        free[0] = ROOM;
        free_blocks[0] = count(ROOM);
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
    :: k == ROUNDS -> k = 0; break
    :: else -> visit = (k == 0 && !TICKS -> 1 : RUN_ON); k++; visits()
    od;
    final_checks()
#endif
}

#define at_rest(s) (away[s] == 0 && (owner[s] == 0 || live[s] != 0))

ltl ends { <> (done == WORKERS) }
ltl usable { <> [] (at_rest(0) && at_rest(SLABS - 1)) }
