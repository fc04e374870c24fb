"""For each order that is stronger than relaxed, and each weaker form: the scenario that finds it, or why none does.

The keys are those of weaken.py: file, function, operation, which of several, and the weaker order.

SPDX-License-Identifier: Apache-2.0 OR MIT
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Order:
    """What becomes of one weaker form."""

    scenario: str = ""
    reason: str = ""  # why no scenario finds it


def by(scenario: str) -> Order:
    """Found by a scenario."""
    return Order(scenario=scenario)


def kept(reason: str) -> Order:
    """Not found; kept for a reason."""
    return Order(reason=reason)


HARDENED = kept("not run: the scheduler runs the default library; as in large/, with a note in the record")
SECRET = kept("not run: the scheduler runs the default library; the thread sanitizer finds it in "
              "stress.hardened_prefixed")
KEPT_RANGE = kept("not run: the scheduler runs the default library; a range passes from the thread that freed it to the one that "
                  "takes it, as a run does in large/run_cache.c")
OWNER_AGAIN = kept("not needed by itself: the change of the inbox or of the flag just before acquires what is looked "
                   "for; kept so that whoever reads an owner acquires it")
DIRECT = kept("not found: the lock that is taken next acquires what its last holder left; a heap's first is its maker's, so only "
              "one that was never locked before could be met half made; kept so that whoever reads an owner acquires it")
MAPPED = kept("the number comes after the system has mapped the arrays; the system's mappings are not simulated")
LARGE_RECORD = kept("a correct program orders the allocation before the free; kept so that the record is whole for one "
                    "that does not")
SAMPLE_SLOT = kept("not run: no scenario samples lifetimes; the slot's content passes from the thread that frees a "
                   "sample to the one that gets the next, as a block does through its slab")
GROUP_ORPHANS = kept("not run: no scenario routes by call site; whoever reads the pointer takes the heap's lock next, but the first to do so "
                     "may meet one that nobody held before, half made")
SITE_RULES = kept("not run: rules are read before the program begins; kept for who adds them later")
METERED = kept("not run: no scenario profiles; one thread writes, and who comes later reads a copy of its memory (a fork) "
               "or takes the heap's lock; the order keeps a block from being in two bins")
FORKED = kept("not run: the simulated system has no page that a fork wipes; the child's threads meet at one word, whose "
              "release and acquire hand on what one of them has made good")
FORK_PAGE = kept("not run: the simulated system has no page that a fork wipes; who finds the page reads it through the pointer that "
                 "was found, which all machines but the Alpha keep in order")
POSTPONED = kept("not run: no scenario refuses both to unmap a huge block and the records for its slots; its length passes from "
                 "the thread that freed it to the one that tries again")
PROFILE = kept("not run: no scenario profiles; a site or a table is made whole before its number or the period is seen, "
               "by plain release and acquire")
BACKGROUND = kept("not run: the simulated system starts no thread of the library's own; any thread of a fork's child may start it "
                  "on its slow path, and the main thread reads at its end which one that is")

ORDERS = {
    "api/background.c background_main_ends load_acquire -> relaxed": BACKGROUND,
    "api/background.c background_start store_release -> relaxed": BACKGROUND,
    "cache/cache.h hak_orphans_of_group load_acquire -> relaxed": GROUP_ORPHANS,
    "cache/threads.c registry_make_group_orphans store_release -> relaxed": GROUP_ORPHANS,
    "cache/homes.c homes_is_still_home load_acquire -> relaxed": by("blocks_visits"),
    "cache/homes.c homes_change_locked store_release -> relaxed": by("blocks_visits"),
    "cache/remote.c hak_cache_free_remote load_acquire -> relaxed": DIRECT,
    "cache/meter.c hak_metered_blocks load_acquire -> relaxed": METERED,
    "cache/meter.c hak_cache_meter_take store_release -> relaxed": METERED,
    "cache/meter.c hak_heap_unmeter_owner store_release -> relaxed": METERED,
    "cache/remote.c inbox_link_any cas_acq_rel -> acquire": by("blocks_lists"),
    "cache/remote.c inbox_link_any cas_acq_rel -> release": by("blocks_ends"),
    "cache/remote.c remote_send_any load_acquire -> relaxed": by("blocks_newcomers"),
    "cache/remote.c remote_send_any load_acquire 2 -> relaxed": OWNER_AGAIN,
    "cache/remote.c inbox_take_any exchange_acq_rel -> acquire": by("blocks_ends"),
    "cache/remote.c inbox_take_any exchange_acq_rel -> release": by("blocks_lists"),
    "cache/remote.c hak_cache_free_direct load_acquire -> relaxed": DIRECT,
    "cache/slabs.c hak_heap_own_locked store_release -> relaxed": by("blocks_newcomers"),
    "cache/slabs.c slabs_release_locked store_release -> relaxed":
        kept("nobody follows NULL; kept so that every store of an owner releases"),
    "cache/threads.c hak_registry_new_heap_locked store_release -> relaxed": by("blocks_walk"),
    "cache/threads.c hak_cache_first_heap load_acquire -> relaxed": by("blocks_walk"),
    "hard/blocks.c hak_hard_start_slow load_acquire -> relaxed": SECRET,
    "hard/blocks.c hak_hard_start_slow store_release -> relaxed": SECRET,
    "hard/kept.c kept_try_place cas_release -> relaxed": KEPT_RANGE,
    "hard/kept.c kept_drop cas_acquire -> relaxed": KEPT_RANGE,
    "hard/kept.c hak_hard_kept_take cas_acquire -> relaxed": KEPT_RANGE,
    "hard/kept.c kept_try_evict cas_acquire -> relaxed": KEPT_RANGE,
    "hard/large.c large_put_refused cas_release -> relaxed": KEPT_RANGE,
    "hard/large.c hak_hard_large_retry exchange_acquire -> relaxed": KEPT_RANGE,
    "hard/large.c large_revive store_release -> relaxed": HARDENED,
    "hard/large.c hak_hard_large_free cas_acquire -> relaxed": HARDENED,
    "hard/large.c large_leave cas_acquire -> relaxed": HARDENED,
    "heap/heap.h hak_heap_notice_fork load_acquire -> relaxed": FORKED,
    "heap/start.c hak_heap_fork_child cas_acquire -> relaxed": FORKED,
    "heap/start.c hak_heap_fork_child store_release -> relaxed": FORKED,
    "heap/start.c hak_heap_fork_child load_acquire -> relaxed": FORKED,
    "heap/start.c hak_heap_started load_acquire -> relaxed": by("other_start"),
    "heap/start.c start_process store_release -> relaxed": by("other_start"),
    "heap/start.c start_try_watch_for_forks cas_release -> relaxed": FORK_PAGE,
    "large/huge.c huge_publish store_release -> relaxed": LARGE_RECORD,
    "large/slack.c hak_slack_forget load_acquire -> relaxed": by("other_slack"),
    "large/slack.c slack_uncount_locked store_release -> relaxed": by("other_slack"),
    "large/run_cache.c run_try_take cas_acquire -> relaxed": by("other_runs"),
    "large/run_cache.c run_cache_try_fill cas_release -> relaxed": by("other_runs"),
    "large/runs.c runs_publish store_release -> relaxed": LARGE_RECORD,
    "large/runs.c large_claim cas_acquire -> relaxed": LARGE_RECORD,
    "os/lock_linux.c hak_try_lock cas_acquire -> relaxed": by("other_lock"),
    "os/lock_linux.c lock_wait_slow exchange_acquire -> relaxed": by("other_lock"),
    "os/lock_linux.c hak_unlock exchange_release -> relaxed": by("other_lock"),
    "pool/acquire.c hak_pool_offer load_seq_cst -> acquire": by("slots_index"),
    "pool/acquire.c hak_pool_offer load_seq_cst -> relaxed": by("slots_index"),
    "pool/acquire.c pool_withdraw and_seq_cst -> acq_rel": by("slots_index"),
    "pool/acquire.c pool_withdraw and_seq_cst -> relaxed": by("slots_index"),
    "pool/acquire.c pool_withdraw load_seq_cst -> acquire": by("slots_index"),
    "pool/acquire.c pool_withdraw load_seq_cst -> relaxed": by("slots_index"),
    "pool/acquire.c pool_try_claim cas_acquire -> relaxed": by("slots_clean"),
    "pool/acquire.c pool_try_retired and_seq_cst -> acq_rel": by("slots_again_kept"),
    "pool/acquire.c pool_try_retired and_seq_cst -> relaxed": by("slots_revive"),
    "pool/acquire.c hak_pool_try_retire cas_acquire -> relaxed": by("slots_limit"),
    "pool/acquire.c hak_pool_release_any and_seq_cst -> acq_rel": by("slots_index"),
    "pool/acquire.c hak_pool_release_any and_seq_cst -> relaxed": by("slots_clean"),
    "pool/grow.c grow_publish store_seq_cst -> release":
        kept("found by `slots_again`, but only under one in 100,000 seeds: `make soak`"),
    "pool/grow.c grow_publish store_seq_cst -> relaxed": by("slots_evict"),
    "pool/grow.c grow_map_to_locked and_seq_cst -> acq_rel": by("slots_index_grow"),
    "pool/grow.c grow_map_to_locked and_seq_cst -> relaxed": by("slots_index_grow"),
    "pool/retired.c retired_set or_release -> relaxed": by("slots_evict"),
    "pool/retired.c retired_try_claim and_acquire -> relaxed": by("slots_evict"),
    "pool/whole.c whole_postpone cas_release -> relaxed": POSTPONED,
    "pool/whole.c hak_whole_unmap_postponed exchange_acquire -> relaxed": POSTPONED,
    "pool/retired.c hak_retired_offer_slots store_seq_cst -> release": by("slots_refused"),
    "pool/retired.c hak_retired_offer_slots store_seq_cst -> relaxed": by("slots_refused"),
    "pool/empty.c purge_superslab cas_acquire -> relaxed": by("slots_purge"),
    "pool/empty.c purge_superslab and_seq_cst -> acq_rel": by("slots_index_purge"),
    "pool/empty.c purge_superslab and_seq_cst -> relaxed": by("slots_purge"),
    "space/window.c hak_space_high_water load_acquire -> relaxed": MAPPED,
    "space/window.c window_lower_locked store_release -> relaxed": MAPPED,
    "space/window.c hak_space_take store_release -> relaxed": MAPPED,
    "space/window.c hak_space_try_take_at store_release -> relaxed": MAPPED,
    "telemetry/lifetimes.c sample_try_slot cas_acquire -> relaxed": SAMPLE_SLOT,
    "telemetry/lifetimes.c sample_keep_slot cas_acq_rel -> acquire": SAMPLE_SLOT,
    "telemetry/lifetimes.c sample_keep_slot cas_acq_rel -> release": kept(
        "not needed: there is no name for a change that only releases"),
    "telemetry/prof.c hak_prof_start store_release -> relaxed": PROFILE,
    "telemetry/prof.c prof_site_of load_acquire -> relaxed": PROFILE,
    "telemetry/prof.c prof_site_of load_acquire 2 -> relaxed": PROFILE,
    "telemetry/prof.c prof_site_of cas_acq_rel -> acquire": PROFILE,
    "telemetry/prof.c prof_site_of cas_acq_rel -> release": PROFILE,
    "telemetry/prof.h hak_prof_period load_acquire -> relaxed": PROFILE,
    "telemetry/prof_text.c prof_site load_acquire -> relaxed": PROFILE,
    "telemetry/rules.c hak_site_rule_group load_acquire -> relaxed": SITE_RULES,
    "telemetry/rules.c hak_sites_apply store_release -> relaxed": SITE_RULES,
}
