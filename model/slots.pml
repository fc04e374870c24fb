/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * model: the slots of superslabs (src/pool): acquire in stages, release, retire, revive, evict,
 * purging of EMPTY slots, whole superslabs for huge blocks, and the index of superslabs with room.
 * Run by run.py.
 *
 * SUPERS superslabs of SLOTS slots. WORKERS threads do ROUNDS rounds each: acquire (one slot for
 * class 0, two for class 1) and release or keep, purge, trim, evict, or a huge block. ENDLESS:
 * rounds without end, for the formulas. HELD: workers that begin with a slot of superslab 0 and do
 * HELD_ROUNDS rounds after it. PURGE, EVICT, WARM, HUGE: with or without that. FAILS: munmap and
 * madvise may be refused. */
#include "common.pml"

#ifndef SUPERS
#define SUPERS 2
#endif
#ifndef SLOTS
#define SLOTS 2
#endif
#ifndef WORKERS
#define WORKERS 2
#endif
#ifndef ROUNDS
#define ROUNDS 1
#endif
#ifndef CLASSES
#define CLASSES 2
#endif
#ifndef HELD
#define HELD 2
#endif
#ifndef HELD_ROUNDS
#define HELD_ROUNDS ROUNDS
#endif
#ifndef PURGE
#define PURGE 1
#endif
#ifndef EVICT
#define EVICT 1
#endif
#ifndef WARM
#define WARM 0
#endif
#ifndef HUGE
#define HUGE 0
#endif
#ifndef FAILS
#define FAILS 0
#endif
#ifndef ENDLESS
#define ENDLESS 0
#endif

/* The mistakes; run.py says what each is. */
#define retire_by_store 1
#define withdraw_without_recheck 2
#define publish_before_purge 3
#define clean_though_refused 4
#define release_before_map 5
#define class_before_claim 6
#define revive_without_claim 7
#define retired_taken_unlocked 8
#define unmap_before_removal 9
#define purge_does_not_retire 10
#define no_offer_after_lost_claim 11
#define retire_cas_may_fail 12
#define acquire_by_or 13
#define huge_retired_unclaimed 14
#define offer_before_release 15
#define counted_after_release 16

/* The properties. */
hidden byte slot_has_one_owner;   /* whoever claims a slot finds it free */
hidden byte not_while_purged;     /* nothing is acquired that is being purged or unmapped, or is */
hidden byte class_under_claim;    /* kind and map entry of a slot change only while it is claimed */
hidden byte zero_means_zero;      /* what is said to read as zero does */
hidden byte retired_is_claimed;   /* all slots of what is retired are */
hidden byte empty_is_counted;     /* empty_now never falls below 0 and is right at the end */
hidden byte emptied_is_retired;   /* at the end: no superslab is in use without a slot in use */
hidden byte room_is_indexed;      /* at the end: a superslab with a free slot is in the index */

#define ALL (bit(SLOTS) - 1)
#define EVERY (bit(SUPERS) - 1)
#define busy_of(w) ((w) & ALL)
#define dirty_of(w) ((w) >> SLOTS)
#define dirty_bits(slots) ((slots) << SLOTS)
#define empty_of(w) (~busy_of(w) & dirty_of(w))
#define NONE 255

/* As in the code. */
byte state[SUPERS];         /* struct hak_superslab.state: busy | dirty << SLOTS */
byte avail;                 /* struct hak_space_group.avail[0] */
byte taken;                 /* struct hak_space_group.taken, under the window's lock */
byte kind[SUPERS * SLOTS];  /* map entries: 0, class + 1, or HUGE_KIND */
byte retired;               /* struct hak_space_group.retired */
byte empty_now;             /* struct pool.empty_now */
bool grow_lock;
#if WARM
byte label[SUPERS * SLOTS]; /* class + 1 */
byte warm[CLASSES];         /* superslab + 1 */
#endif
#define HUGE_KIND 9

/* What is true, for the properties; no step depends on it. */
byte held[SUPERS];          /* slots that a thread, the list or the window owns */
byte purging[SUPERS];       /* slots being purged or unmapped at this moment */
byte nonzero[SUPERS];       /* slots that were written to */
byte mapped;                /* superslabs */
byte spare;                 /* superslabs that could not be unmapped and wait for their next use */
byte done;                  /* workers */

#include "slots_steps.pml"

/* --- threads --- */

proctype worker(bool got; byte at, rounds)
{
    byte s, w, seen, class, stage;
    byte mask = (got -> bit(at) : 0);
    bool zero, empty_only;
    do
    :: got ->
        if
        :: release(); atomic { s = 0; at = 0; mask = 0; class = 0; got = false }
        :: break /* keeps it for good */
        fi
    :: !got && rounds > 0 ->
        if
        :: if :: class = 0 :: CLASSES > 1 -> class = 1 fi;
           acquire();
           if :: got -> use() :: else -> atomic { s = 0; at = 0; mask = 0; class = 0 } fi
#if PURGE
        :: purge_or_trim()
#endif
#if HUGE
        :: huge()
#endif
#if EVICT
        :: evict(s)
#endif
        fi;
        if :: !ENDLESS -> rounds-- :: else fi
    :: !got && rounds == 0 -> break
    od;
    atomic { s = 0; at = 0; mask = 0; class = 0; got = false; rounds = 0; done++ }
}

init
{
    byte i, empty_slots;
    atomic {
        do :: i < SUPERS -> held[i] = ALL; i++ :: else -> i = 0; break od;
#if HELD > 0
        taken = 1;
        mapped = 1;
        held[0] = bit(HELD) - 1;
        nonzero[0] = bit(HELD) - 1;
        state[0] = held[0] | dirty_bits(held[0]);
        avail = 1;
#endif
        do
        :: i < WORKERS ->
            if :: i < HELD -> kind[i] = 1 :: else fi;
            run worker(i < HELD, i, (i < HELD -> HELD_ROUNDS : ROUNDS));
            i++
        :: else -> i = 0; break
        od
    };
    done == WORKERS;
    d_step { /* nobody runs any more */
        do
        :: i < SUPERS ->
            if
            :: has(mapped, i) ->
                assert(busy_of(state[i]) == held[i]);
                CHECK(emptied_is_retired, busy_of(state[i]) != 0 || has(spare, i));
                CHECK(room_is_indexed, busy_of(state[i]) == ALL || has(avail, i));
                empty_slots = empty_slots + count(empty_of(state[i]))
            :: else
            fi;
            i++
        :: else -> break
        od;
        CHECK(empty_is_counted, empty_now == empty_slots)
    }
}

ltl ends { <> (done == WORKERS) }

#define is_emptied (has(mapped, 0) && busy_of(state[0]) == 0 && !has(spare, 0))
#define is_not_indexed (has(mapped, 0) && busy_of(state[0]) != ALL && !has(avail, 0))
ltl retired_at_last { [] (is_emptied -> <> !is_emptied) }
ltl indexed_at_last { [] (is_not_indexed -> <> !is_not_indexed) }
