"""The cases that run.py checks: models that must hold, and mistakes that must be caught by the right property.

SPDX-License-Identifier: Apache-2.0 OR MIT
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Case:
    """One run of the verifier: a model, its size, what is checked and what has to come out."""

    model: str
    name: str  # of the scenario, or of the mistake (BROKEN=name)
    size: str  # macros, as NAME=value
    what: str
    expect: str = ""  # the property that catches the mistake; "": everything holds
    formula: str = ""  # an LTL formula under weak fairness; "": assertions and end states
    full: bool = False  # only in the full run

    @property
    def broken(self) -> bool:
        """Whether a mistake is built in."""
        return self.expect != ""

    @property
    def macros(self) -> list[str]:
        """What the model is made with."""
        return self.size.split() + ([f"BROKEN={self.name}"] if self.broken else [])


SMALL = "SUPERS=1"
ALL_OF_IT = "HUGE=1 FAILS=1 WARM=1"
NO_PURGE = "SUPERS=1 PURGE=0 EVICT=0"
THREE = "SUPERS=1 WORKERS=3 CLASSES=1 PURGE=0 EVICT=0 HELD_ROUNDS=0"
FOR_EVER = "SUPERS=1 ENDLESS=1"
THREE_FOR_EVER = f"{THREE} ENDLESS=1"

SLOTS = (
    Case("slots", "two_threads", f"{SMALL} FAILS=1 WARM=1", "two threads on a superslab; the system may refuse"),
    Case("slots", "two_superslabs", "HUGE=1", "the same on two superslabs, with huge blocks; nothing is refused"),
    Case("slots", "third_thread", THREE, "a third thread scans while two release: the index"),
    Case("slots", "ends", SMALL, "no thread goes round for ever", formula="ends"),
    Case("slots", "retired_at_last", FOR_EVER, "an emptied superslab is retired or used, always",
         formula="retired_at_last"),
    Case("slots", "indexed_at_last", THREE_FOR_EVER, "a superslab with a free slot gets into the index, always",
         formula="indexed_at_last"),
    Case("slots", "indexed_with_purge", FOR_EVER, "the same, with purging and evicting",
         formula="indexed_at_last", full=True),
    Case("slots", "everything", ALL_OF_IT, "two superslabs with everything", full=True),
    Case("slots", "three_threads", "SUPERS=1 WORKERS=3 CLASSES=1", "three threads that do everything", full=True),
    Case("slots", "three_by_three", "SUPERS=1 SLOTS=3 WORKERS=3 CLASSES=1", "the same with three slots", full=True),
    Case("slots", "three_slots", f"SLOTS=3 {ALL_OF_IT}", "superslabs of three slots, runs of two", full=True),
    Case("slots", "two_rounds", "ROUNDS=2 HUGE=1 FAILS=1", "two rounds a thread", full=True),
    Case("slots", "three_superslabs", "SUPERS=3 ROUNDS=2 HUGE=1", "three superslabs", full=True),
    Case("slots", "three_ends", f"{THREE}", "no thread of three goes round for ever", formula="ends", full=True),
    Case("slots", "three_retired", f"{FOR_EVER} WORKERS=3 CLASSES=1 HELD_ROUNDS=0",
         "as retired_at_last, with three threads",
         formula="retired_at_last", full=True),
    Case("slots", "three_indexed", f"{FOR_EVER} WORKERS=3 CLASSES=1 HELD_ROUNDS=0",
         "as indexed_at_last, with three threads",
         formula="indexed_at_last", full=True),
    Case("slots", "retire_by_store", SMALL, "release finds no slot in use and stores \"all claimed\" instead of CAS",
         "slot_has_one_owner"),
    Case("slots", "withdraw_without_recheck", SMALL,
         "a full superslab leaves the index; the state is not looked at again",
         "room_is_indexed"),
    Case("slots", "withdraw_without_recheck", THREE_FOR_EVER, "the same, by the formula", "indexed_at_last",
         "indexed_at_last"),
    Case("slots", "publish_before_purge", SMALL, "EMPTY slots are given up before the purge is over",
         "not_while_purged"),
    Case("slots", "clean_though_refused", f"{SMALL} FAILS=1",
         "the system refuses a purge and the slots become UNUSED all the same",
         "zero_means_zero"),
    Case("slots", "release_before_map", SMALL, "the busy bit is cleared before the map entry", "class_under_claim"),
    Case("slots", "class_before_claim", SMALL, "the class of a slot is set before the slot is claimed",
         "class_under_claim"),
    Case("slots", "revive_without_claim", NO_PURGE, "reviving frees all slots, then takes its own",
         "slot_has_one_owner"),
    Case("slots", "retired_taken_unlocked", NO_PURGE,
         "a retired superslab is found, and its bit cleared without a look at what it was",
         "slot_has_one_owner"),
    Case("slots", "unmap_before_removal", SMALL, "an old superslab is unmapped while its bit is set still",
         "not_while_purged"),
    Case("slots", "purge_does_not_retire", SMALL, "the end of a purge does not look whether it freed the last slot",
         "emptied_is_retired"),
    Case("slots", "purge_does_not_retire", FOR_EVER, "the same, by the formula", "retired_at_last", "retired_at_last"),
    Case("slots", "no_offer_after_lost_claim", SMALL, "release loses the claim of all slots and offers nothing",
         "room_is_indexed"),
    Case("slots", "retire_cas_may_fail", SMALL, "the CAS that retires may fail without a reason and is not repeated",
         "emptied_is_retired"),
    Case("slots", "acquire_by_or", NO_PURGE, "busy bits are set by OR, whatever they were", "slot_has_one_owner"),
    Case("slots", "huge_retired_unclaimed", "HUGE=1", "a huge block is retired and its slots are not claimed",
         "retired_is_claimed"),
    Case("slots", "offer_before_release", THREE, "the superslab is offered before the slots are free",
         "room_is_indexed"),
    Case("slots", "counted_after_release", SMALL, "EMPTY slots are counted after they can be acquired",
         "empty_is_counted"),
)

ENDS = "W0=1,1,0,1,0 W1=2,1,1,0,0"
ADOPT = "OWNER=0 W0=1,1,0,0,0 W1=2,1,0,0,0 W2=0,0,1,0,0"
FEW = "BLOCKS=1 OWNER=0 W0=1,1,0,0,0 W1=2,0,1,0,0 ENDLESS=1"
MOVES = "BLOCKS=1 W0=1,0,0,1,0 W1=2,1,1,0,0 ENDLESS=1"
MIXED = "OWNED=2 ROOM=1 OWNER=0 W0=1,1,0,0,0 W1=2,0,2,0,0"
MIXED_ENDS = "OWNED=2 ROOM=1 W0=1,0,0,1,0 W1=2,1,2,0,0"
TAKEN = "SLABS=1 TAKE_OVER=1 HEAPS=4 W0=3,0,1,0,0 W1=2,1,1,0,0"
IN_BIN = "SLABS=1 TAKE_OVER=1 BLOCKS=3 W0=1,0,1,1,0 W1=2,1,1,0,0"
HEAPLESS = "W0=1,0,0,1,0 W1=0,0,1,0,0"

REMOTE = (
    Case("remote", "owner_ends", ENDS, "the owner ends and starts anew while another frees and adopts"),
    Case("remote", "no_ticks", f"{ENDS} TICKS=0", "the same; nobody ticks, but the threads run on"),
    Case("remote", "adoption", ADOPT, "two threads adopt a slab that a third, without a heap, frees into"),
    Case("remote", "owner_sleeps", "W0=1,0,0,0,0 W1=2,0,1,0,1 W2=0,0,1,0,0",
         "two threads free and collect for a sleeper"),
    Case("remote", "mixed", MIXED, "a message has blocks of two slabs, of which one is adopted"),
    Case("remote", "mixed_ends", MIXED_ENDS, "the same while the owner of both ends"),
    Case("remote", "no_memory", f"MESSAGES=1 {MIXED_ENDS}",
         "the same with memory for one message: what finds none returns at once"),
    Case("remote", "taken_over", f"{TAKEN} TICKS=0 ASLEEP=2", "a sleeper's slab is taken over while two free into it"),
    Case("remote", "in_bin", IN_BIN, "the same while its owner has a block of it in a bin and ends"),
    Case("remote", "ends", "BLOCKS=1 OWNER=0 W0=1,1,0,0,0 W1=2,1,1,0,0", "no thread goes round for ever",
         formula="ends"),
    Case("remote", "usable", FEW, "what was freed becomes usable, always", formula="usable"),
    Case("remote", "two_freers", "HEAPS=4 SLABS=1 W0=1,0,0,1,0 W1=2,1,1,0,0 W2=3,0,1,0,0",
         "two threads free while the owner ends", full=True),
    Case("remote", "ticker", "W0=1,1,0,0,0 W1=2,1,1,0,0 W2=0,0,1,0,1",
         "an owner that runs, a tick, a thread without a heap", full=True),
    Case("remote", "longer_lists", "OWNED=2 MESSAGES=3 W0=1,1,0,0,0 W1=2,0,3,0,1",
         "two slabs of one heap: inboxes longer than one", full=True),
    Case("remote", "three_heaps", "HEAPS=4 W0=1,1,0,1,0 W1=2,1,1,0,0 W2=3,1,0,0,0", "three heaps and the shared one",
         full=True),
    Case("remote", "owner_frees_ends", "W0=1,1,1,1,0 W1=2,1,1,0,0", "as owner_ends; the owner frees as well",
         full=True),
    Case("remote", "two_owners_end", "OWNED=2 BLOCKS=1 W0=1,0,1,1,0 W1=2,1,1,1,0", "both threads end", full=True),
    Case("remote", "mixed_end_one_frees", "OWNED=2 ROOM=1 MESSAGES=1 W0=1,0,0,1,0 W1=2,0,2,0,0 W2=0,0,1,0,0",
         "as mixed_ends, beside a thread without a heap that frees", full=True),
    Case("remote", "mixed_taken_over", "OWNED=2 ROOM=1 TAKE_OVER=1 W0=1,0,0,1,1 W1=2,1,3,0,0",
         "a message has blocks of two slabs, of which one is taken over", full=True),
    Case("remote", "taken_both_ways", "TAKE_OVER=1 W0=1,1,1,0,0 W1=2,1,2,0,0", "two heaps take over from each other",
         full=True),
    Case("remote", "three_slabs", "SLABS=3 BLOCKS=1 OWNED=3 W0=1,0,0,1,0 W1=2,0,3,0,0", "three slabs", full=True),
    Case("remote", "owner_ends_usable", f"{MOVES}", "what was freed becomes usable although its owner ends",
         formula="usable", full=True),
    Case("remote", "no_ticks_usable", f"{MOVES} TICKS=0", "the same without ticks", formula="usable", full=True),
    Case("remote", "all_end", ENDS, "no thread goes round for ever", formula="ends", full=True),
    Case("remote", "push_without_recheck", f"{ENDS} TICKS=0", "a push does not look whether the owner has changed",
         "usable_at_the_end"),
    Case("remote", "push_without_recheck", f"{TAKEN} TICKS=0 ASLEEP=2", "the same where a slab is taken over",
         "usable_at_the_end"),
    Case("remote", "push_without_recheck", f"{MOVES} TICKS=0", "the same, by the formula", "usable", "usable",
         full=True),
    Case("remote", "inbox_never_forwarded", f"{ENDS} TICKS=0", "the inbox of a thread that ends is not sent anew",
         "usable_at_the_end"),
    Case("remote", "forwarded_before_moved", f"{ENDS} TICKS=0", "it is sent before its slabs have their new owner",
         "usable_at_the_end"),
    Case("remote", "take_over_not_forwarded", f"{TAKEN} TICKS=0 ASLEEP=2",
         "a slab is taken over and its former owner's inbox not sent anew", "usable_at_the_end"),
    Case("remote", "inbox_taken_in_two_steps", ENDS, "an inbox is taken by a load and a store", "message_in_one_list"),
    Case("remote", "next_read_after_send", MIXED_ENDS, "the next message of a list is read after this one was sent",
         "usable_at_the_end"),
    Case("remote", "next_written_after_push", MIXED_ENDS, "the link to the next message is written after the push",
         "usable_at_the_end"),
    Case("remote", "collects_any_owner", ENDS, "collecting returns blocks of slabs that have another owner by now",
         "owner_holds_lock"),
    Case("remote", "judged_by_first_block", MIXED, "a message is collected, or not, by its first block",
         "owner_holds_lock"),
    Case("remote", "others_dropped", MIXED, "collecting forgets the blocks that are of another heap's slabs",
         "usable_at_the_end"),
    Case("remote", "sent_on_whole", MIXED, "a message is sent on with the blocks that were collected", "none_twice"),
    Case("remote", "empty_lost_in_collection", ENDS, "collecting does not look whether a slab became empty",
         "emptied_is_released"),
    Case("remote", "released_with_blocks_away", "W0=1,0,1,0,0 W1=2,0,1,0,0", "blocks in messages count as free",
         "released_is_free"),
    Case("remote", "adoption_unlocked", ADOPT, "a slab is adopted without the shared heap's lock",
         "slab_has_one_owner"),
    Case("remote", "take_over_unlocked", IN_BIN, "a slab is taken over without its owner's lock",
         "slab_has_one_owner"),
    Case("remote", "tick_unlocked", ENDS, "the tick collects for a heap whose lock it did not get", "owner_holds_lock"),
    Case("remote", "tick_passes_orphans_by", ENDS, "the tick collects for all heaps but the shared one",
         "usable_at_the_end"),
    Case("remote", "tick_passes_orphans_by", FEW, "the same, by the formula", "usable", "usable"),
    Case("remote", "nobody_ticks", ENDS, "nobody collects for owners that sleep", "usable_at_the_end"),
    Case("remote", "returned_without_recheck", HEAPLESS,
         "a thread without a heap has the lock and does not ask again whose the slab is", "owner_holds_lock"),
    Case("remote", "flushed_before_drained", IN_BIN, "a thread that ends sends its outbox, then drains its bins",
         "usable_at_the_end"),
    Case("remote", "drained_unseen", IN_BIN, "draining does not ask whether the slab was taken over",
         "owner_holds_lock"),
)

CASES = SLOTS + REMOTE
