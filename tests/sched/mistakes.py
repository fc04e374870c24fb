"""Mistakes of the kinds that lock-free code is known for, planted in copies of the source; each must be found.

An edit is a text of the source and what takes its place. `seeds` of the scenario are enough to find the mistake.

SPDX-License-Identifier: Apache-2.0 OR MIT
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Mistake:
    """A planted mistake and the scenario that finds it."""

    name: str
    what: str
    file: str
    edits: tuple[tuple[str, str], ...]
    scenario: str
    strong: bool = False  # shown with consistent memory: with weak memory it would be caught as a data race before


MISTAKES = (
    Mistake("counted_after_release", "EMPTY slots are counted after they can be acquired", "pool/acquire.c", ((
        """        hak_and_relaxed(&s->state, ~(mask << 32));
    else
        hak_add_relaxed(&hak_pool.empty_now, count);
""",
        """        hak_and_relaxed(&s->state, ~(mask << 32));
"""), (
        """    if (hak_pool_try_retire(superslab, state))
        return;
    hak_pool_offer(superslab);
    hak_retired_tick(now);
""",
        """    if (!purged && hak_load_relaxed(&hak_pool.empty_now) > HAK_POOL_LABELS * HAK_SLOTS)
        hak_os_die("more EMPTY slots than there are");
    if (!purged)
        hak_add_relaxed(&hak_pool.empty_now, count);
    if (hak_pool_try_retire(superslab, state))
        return;
    hak_pool_offer(superslab);
    hak_retired_tick(now);
""")), "slots_retire"),
    Mistake("publish_before_purge", "EMPTY slots are given up before the purge is over", "pool/empty.c", ((
        """    size_t slots = 0;
    for (uint32_t left = claimed; left != 0;) {""",
        """    size_t slots = 0;
    hak_and_seq_cst(&s->state, ~(uint64_t)claimed);
    for (uint32_t left = claimed; left != 0;) {"""),), "slots_purge"),
    Mistake("purge_does_not_retire", "the end of a purge does not look whether it freed the last slot",
            "pool/empty.c", ((
                "if (slots != hak_popcount64(empty) || !hak_pool_try_retire(superslab, state))",
                "if (slots != hak_popcount64(empty) || state != 0 || slots != 0)"),), "slots_purge"),
    Mistake("unmap_before_removal", "an old superslab is unmapped while its bit is set still", "pool/retired.c", ((
        """               retired_try_claim(last - run))
""",
        """               (hak_load_relaxed(retired_word(last - run)) >> ((last - run) % 64) & 1))
"""), (
        """    hak_sub_relaxed(&hak_pool.mapped_now, superslabs);
""",
        """    for (size_t i = first; i < first + superslabs; i++)
        retired_try_claim(i);
    hak_sub_relaxed(&hak_pool.mapped_now, superslabs);
""")), "slots_evict"),
    Mistake("gone_run_looked_at", "a run of retired superslabs is looked at that has just been taken", "pool/retired.c", ((
        "(run != 0 && run == best &&",
        "(run == best &&"),), "slots_huge"),
    Mistake("retired_taken_unlocked",
            "a retired superslab is found, and its bit cleared without a look at what it was", "pool/retired.c", ((
                """    if (!(hak_and_acquire(retired_word(superslab), ~bit) & bit))
        return false;
""",
                """    hak_and_acquire(retired_word(superslab), ~bit);
"""),), "slots_retire"),
    Mistake("withdraw_without_recheck", "a full superslab leaves the index; its state is not looked at again",
            "pool/acquire.c", ((
                """    if (hak_pool_rooms(hak_load_seq_cst(&hak_superslab(superslab)->state)) >> room & 1)
        hak_or_relaxed(avail, bit);
""", ""),), "slots_index"),
    Mistake("offer_before_release", "a superslab is offered before its slots are free", "pool/acquire.c", ((
        """    uint64_t state = hak_and_seq_cst(&s->state, ~mask) & ~mask;
    if (hak_pool_try_retire(superslab, state))
        return;
    hak_pool_offer(superslab);
""",
        """    hak_pool_offer(superslab);
    uint64_t state = hak_and_seq_cst(&s->state, ~mask) & ~mask;
    if (hak_pool_try_retire(superslab, state))
        return;
"""),), "slots_index"),
    Mistake("no_offer_after_lost_claim", "release loses the claim of all slots and offers nothing", "pool/acquire.c", ((
        """    if (hak_pool_try_retire(superslab, state))
        return;
    hak_pool_offer(superslab);
    hak_retired_tick(now);
""",
        """    if (hak_pool_try_retire(superslab, state) || pool_busy(state) == 0)
        return;
    hak_pool_offer(superslab);
    hak_retired_tick(now);
"""),), "slots_warm"),
    Mistake("retire_by_store", "release finds no slot in use and stores \"all claimed\" instead of CAS",
            "pool/acquire.c", ((
                """        !hak_cas_acquire(&hak_superslab(superslab)->state, &state, state | POOL_ALL))
        return false;
""",
                """        (hak_store_release(&hak_superslab(superslab)->state, state | POOL_ALL), false))
        return false;
"""),), "slots_retire"),
    Mistake("claim_by_or", "busy bits are set by OR, whatever they were", "pool/acquire.c", ((
        """    if (!hak_cas_acquire(&s->state, state, claimed))
        return false;
""",
        """    HAK_FETCH(or, &s->state, claimed & ~*state, acq_rel);
"""),), "slots_last"),
    Mistake("revive_without_claim", "reviving frees all slots, then takes its own", "pool/acquire.c", ((
        """    hak_and_seq_cst(&s->state, ~(uint64_t)others);
""",
        """    hak_and_seq_cst(&s->state, ~(uint64_t)POOL_ALL);
    if (count < HAK_SLOTS)
        hak_pool_offer(superslab);
    HAK_FETCH(or, &s->state, (uint64_t)(POOL_ALL & ~others), acq_rel);
"""),), "slots_retire"),
    Mistake("zero_is_stale", "what reads as zero is decided before the CAS, from an older state", "pool/acquire.c", ((
        """    uint64_t state = hak_load_relaxed(&s->state);
    for (;;) {
        uint32_t starts =""",
        """    uint64_t state = hak_load_relaxed(&s->state);
    uint64_t older = state;
    for (;;) {
        uint32_t starts ="""), (
            """        bool clean = !(pool_dirty(state) & mask);
        if (pool_try_claim(s, &state, mask)) {
            *slot""",
            """        bool clean = !(pool_dirty(older) & mask);
        if (pool_try_claim(s, &state, mask)) {
            *slot""")), "slots_clean"),
    Mistake("cas_never_reloads", "a claim that lost is tried again with the same expectation", "pool/acquire.c", ((
        """        bool clean = !(pool_dirty(state) & mask);
        if (pool_try_claim(s, &state, mask)) {
            *slot""",
        """        bool clean = !(pool_dirty(state) & mask);
        uint64_t same = state;
        if (pool_try_claim(s, &same, mask)) {
            *slot"""),), "slots_last"),
    Mistake("refused_at_once", "a limit refuses without waiting for those who are giving back what was kept",
            "pool/retired.c", ((
                "    if (!hak_pool_has_limit() || hak_lock_is_mine(&hak_pool.leave_lock))\n",
                "    if (!hak_lock_is_mine(&hak_pool.leave_lock))\n"),), "slots_limit_kept"),
    Mistake("map_cleared_late", "the map entries of a slab are cleared after its slots were given back",
            "cache/slabs.c", ((
                """    slabs_set_map(s, 0);
    hak_pool_release_any(hak_slab_slot(s), c->slots, s->cls, false);
""",
                """    hak_pool_release_any(hak_slab_slot(s), c->slots, s->cls, false);
    slabs_set_map(s, 0);
"""),), "blocks_reuse"),
    Mistake("double_adoption", "a slab of an ended thread is adopted without the shared heap's lock",
            "cache/slabs.c", ((
        "hak_load_relaxed(&orphans->slabs) == 0 ||\n        !hak_try_lock(&orphans->lock))",
        "hak_load_relaxed(&orphans->slabs) == 0)"), (
            """    hak_unlock(&orphans->lock);
    return s;
""",
            """    return s;
""")), "blocks_adopt"),
    Mistake("retired_popped_by_cas",
            "retired superslabs are a stack: link read, then the top compared and set; ABA", "pool/retired.c", ((
                """    hak_add_relaxed(&hak_pool.retired_now, (size_t)1); /* first: never less than there are bits */
""",
                """    hak_add_relaxed(&hak_pool.retired_now, (size_t)1);
    uint32_t top = hak_load_relaxed(&hak_pool.dense_samples); /* the stack's, nobody else's here */
    do
        hak_superslab(superslab)->older = top;
    while (!hak_cas_release(&hak_pool.dense_samples, &top, (uint32_t)superslab + 1));
"""), (
                """    do {
        if (!retired_find(true, superslab))
            return false;
    } while (!retired_try_claim(*superslab));
""",
                """    uint32_t top = hak_load_acquire(&hak_pool.dense_samples);
    do {
        if (top == 0)
            return false;
    } while (!hak_cas_acquire(&hak_pool.dense_samples, &top, hak_superslab(top - 1)->older));
    *superslab = top - 1;
    retired_try_claim(*superslab);
""")), "slots_pop", strong=True),
    Mistake("inbox_taken_by_store", "the inbox is loaded, then emptied by a store", "cache/remote.c", ((
        "    return hak_exchange_acq_rel(&heap->inbox, NULL); /* ORDER: [inbox-list] */\n",
        "    struct hak_message *all = hak_load_acquire(&heap->inbox);\n"
        "    hak_store_release(&heap->inbox, NULL);\n"
        "    return all;\n"),), "blocks_freers"),
    Mistake("inbox_pushed_by_store", "a message is pushed by a load and a store", "cache/remote.c", ((
        "    } while (!hak_cas_acq_rel(&heap->inbox, &head, m));\n",
        "        hak_store_release(&heap->inbox, m);\n"
        "    } while (false);\n"),), "blocks_freers"),
    Mistake("linked_after_push", "a message gets its link after it was pushed", "cache/remote.c", ((
        "        hak_store_relaxed(&m->next, head);\n", ""), (
            "    } while (!hak_cas_acq_rel(&heap->inbox, &head, m));\n",
            "    } while (!hak_cas_acq_rel(&heap->inbox, &head, m));\n"
            "    hak_store_relaxed(&m->next, head);\n")), "blocks_lists"),
    Mistake("next_read_late", "the next message of a list is read when this one was sent on", "cache/remote.c", ((
        """        struct hak_message *next = hak_load_relaxed(&m->next);
        remote_send_any(m);
        m = next;
""",
        """        remote_send_any(m);
        m = hak_load_relaxed(&m->next);
"""),), "blocks_lists"),
    Mistake("stale_class", "the class of a slab is read after it may have been released and made anew",
            "cache/remote.c", ((
                "        bytes += put * (size_t)c->size_bytes;\n",
                "        bytes += put * (size_t)hak_class(s->cls)->size_bytes;\n"),), "blocks_reuse"),
    Mistake("lost_empty", "collecting does not look whether a slab became empty", "cache/remote.c", ((
        "        unsigned put = hak_heap_put_locked(heap, s, c, slab_mask, at, end);\n",
        """        unsigned put = 1;
        hak_slab_put_owner(s, c, *at);
        if (hak_slab_used_blocks(s) != 0)
            hak_heap_settle_freed_locked(heap, s);
"""),), "blocks_freers"),
    Mistake("push_without_recheck", "the owner changes while a flush is under way, and the push does not look again",
            "cache/remote.c", ((
                """    if (HAK_UNLIKELY(hak_load_acquire(&s->owner) != owner))
        hak_inbox_forward_any(owner);
""", ""),), "blocks_ends"),
    Mistake("collects_any_owner", "collecting takes blocks whose slab has another owner by now", "cache/remote.c", ((
        "        if (HAK_UNLIKELY((entry ^ kind) != heap->tag)) {\n",
        "        if (HAK_UNLIKELY(entry == 0)) {\n"),), "blocks_ends"),
    Mistake("bins_filled_for_another", "whoever collects for another heap fills that one's bins", "cache/remote.c", ((
        "    inbox_collect_locked(heap, NULL);\n",
        "    inbox_collect_locked(heap, heap);\n"),), "blocks_sleeper"),
    Mistake("others_dropped", "what a message has of another heap's blocks is not sent on", "cache/remote.c", ((
        """        if (HAK_UNLIKELY(remote_collect_locked(heap, m, to_bins) != 0))
            remote_send_any(m);
        else
            remote_done_locked(heap, (void *)m);
""",
        """        remote_collect_locked(heap, m, to_bins);
        remote_done_locked(heap, (void *)m);
"""),), "blocks_ends"),
    Mistake("direct_without_recheck", "a thread without a heap waits for the owner's lock and does not look again",
            "cache/remote.c", ((
                "    bool owned = hak_load_relaxed(&s->owner) == owner;\n",
                "    bool owned = true;\n"),), "blocks_heapless"),
    Mistake("forwarded_before_moved",
            "the inbox of a thread that ends is handed on before its slabs have their new owner", "cache/threads.c", ((
                """    hak_inbox_forward_any(heap); /* what was sent before the slabs had their new owner */
""", ""), (
                    """static void registry_give_heap(struct hak_heap *heap)
{
    hak_cache_flush(heap);
""",
                    """static void registry_give_heap(struct hak_heap *heap)
{
    hak_cache_flush(heap);
    hak_inbox_forward_any(heap);
""")), "blocks_ends"),
    Mistake("kept_given_unlocked", "a kept heap is given up while a thread that starts takes it", "cache/threads.c", ((
        """    hak_lock(&hak_registry.lock);
    struct hak_heap *heap = registry_take_locked(&hak_registry.kept, true);
    if (heap != NULL) /* as in registry_next_dead */
        hak_store_relaxed(&heap->thread, hak_os_this_thread());
    hak_unlock(&hak_registry.lock);
""",
        """    struct hak_heap *heap = registry_take_locked(&hak_registry.kept, true);
"""),), "blocks_kept"),
    Mistake("kept_drained_late", "a bin of a heap that was kept is emptied when a thread may have begun with that",
            "cache/threads.c", ((
                """        if (hak_load_relaxed(&h->slabs) == 0 || !hak_heap_try_lock_whole(h))
            continue;
""",
                """        hak_unlock(&hak_registry.lock);
        bool locked = hak_load_relaxed(&h->slabs) != 0 && hak_heap_try_lock_whole(h);
        hak_lock(&hak_registry.lock);
        if (!locked)
            continue;
"""),), "blocks_begun"),
    Mistake("tick_unlocked", "somebody collects for a heap whose lock is held by another", "cache/remote.c", ((
        """    if (hak_load_relaxed(&heap->inbox) == NULL || !hak_heap_try_lock_whole(heap))
        return false;
    hak_heap_collect_locked(heap);
    hak_unlock(&heap->lock);
""",
        """    if (hak_load_relaxed(&heap->inbox) == NULL)
        return false;
    hak_heap_collect_locked(heap);
"""),), "blocks_sleeper"),
    Mistake("lock_wake_lost", "a thread that waited takes the lock as if nobody else waited", "os/lock_linux.c", ((
        "    while (hak_exchange_acquire(&lock->state, (uint32_t)LOCK_AWAITED) != LOCK_FREE)\n"
        "        lock_sleep(lock, times++);\n",
        "    uint32_t free = LOCK_FREE;\n"
        "    while (!hak_cas_acquire(&lock->state, &free, (uint32_t)LOCK_HELD)) {\n"
        "        if (hak_exchange_acquire(&lock->state, (uint32_t)LOCK_AWAITED) == LOCK_FREE)\n"
        "            break;\n"
        "        lock_sleep(lock, times++);\n"
        "        free = LOCK_FREE;\n"
        "    }\n"),), "other_lock"),
    Mistake("locks_in_two_orders", "the tick waits for the next heap's lock while it holds one", "cache/threads.c", ((
        """    hak_lock(&heap->lock);
    hak_lock(&orphans->lock);
    hak_heap_move_slabs_locked(heap, orphans);
""",
        """    hak_lock(&orphans->lock);
    hak_lock(&heap->lock);
    hak_heap_move_slabs_locked(heap, orphans);
"""), (
            """        threads_add_usage_locked(h, out, class_bin_blocks);
        hak_unlock(&home->lock);
""",
            """        threads_add_usage_locked(h, out, class_bin_blocks);
        if (h != hak_orphans) {
            hak_lock(&hak_orphans->lock);
            hak_unlock(&hak_orphans->lock);
        }
        hak_unlock(&home->lock);
""")), "blocks_walk"),
    Mistake("taken_over_behind_its_back", "a slab is taken over without the lock of its owner", "cache/slabs.c", ((
        """    hak_heap_collect_locked(from);
    struct hak_slab *s = hak_load_relaxed(&from->group)""",
        """    hak_heap_collect_locked(from);
    hak_unlock(&from->lock);
    struct hak_slab *s = hak_load_relaxed(&from->group)"""), (
            """        slabs_adopt_locked(heap, from, s);
    hak_unlock(&from->lock);
""",
            """        slabs_adopt_locked(heap, from, s);
""")), "blocks_takeover"),
    Mistake("drain_of_another's", "a bin's blocks of a slab that was taken over return as if it were the owner's",
            "cache/bins.c", ((
                "        if (HAK_UNLIKELY(hak_load_relaxed(&map[slot]) != entry)) {\n",
                "        if (HAK_UNLIKELY(hak_load_relaxed(&map[slot]) == 0 && entry != 0)) {\n"),),
            "blocks_takeover"),
    Mistake("home_changed_behind_backs", "a thread becomes a guest while somebody looks at its bins", "cache/homes.c", ((
        """    hak_lock(&heap->lock);
    hak_heap_place_quarters_locked(heap);
    homes_change_locked(heap, home);
    hak_unlock(&heap->lock);
""", """    hak_heap_place_quarters_locked(heap);
    homes_change_locked(heap, home);
"""),), "blocks_visits"),
    Mistake("merged_inbox_stays", "what was sent to a home before it became a part of another is not sent on", "cache/homes.c", ((
        "    if (merged)\n        hak_inbox_forward_any(from);", "    if (!merged)\n        hak_inbox_forward_any(from);"),),
            "blocks_merge"),
    Mistake("merged_behind_backs", "slabs move to another home without its lock", "cache/homes.c", ((
        """    if (!hak_heap_lock_whole(to))
        return false;
    bool merged = false;
""", """    bool merged = false;
"""), ("    hak_unlock(&to->lock);\n    if (merged)", "    if (merged)")), "blocks_merge"),
    Mistake("merged_in_two_orders", "with a home's lock a thread waits for that of another, its own first", "cache/homes.c", ((
        "    if (!hak_heap_lock_whole(to))\n        return false;\n    bool merged = false;\n    if (hak_heap_try_lock_whole(from)) {",
        "    if (!hak_heap_lock_whole(a))\n        return false;\n    bool merged = false;\n    if (hak_heap_lock_whole(b)) {"),),
            "blocks_cross"),
    Mistake("followers_forgotten", "a home that has moved is used again although threads are to follow", "cache/homes.c", ((
        "    heap->vacant = hak_load_relaxed(&heap->guests) != 0;\n    if (heap->vacant) {",
        "    heap->vacant = hak_load_relaxed(&heap->guests) != 0;\n    if (home != heap)\n        heap->vacant = false;\n    if (heap->vacant) {"),),
            "blocks_follow"),
    Mistake("purged_under_its_own_lock", "whoever gives pages back looks at a guest's classes under the guest's own lock",
            "cache/purge.c", ((
                "    if (hak_load_relaxed(&heap->slabs) == 0)\n        return 0;",
                "    if (heap == NULL)\n        return 0;"),), "blocks_visits"),
    Mistake("filled_under_its_own_lock", "a guest fills its bins under its own lock, not its home's", "cache/bins.c", ((
        "    hak_registry_bury();\n    struct hak_heap *home = hak_heap_lock_owner(heap);\n",
        "    hak_registry_bury();\n    struct hak_heap *home = heap;\n    hak_lock(&home->lock);\n"),), "blocks_guests"),
    Mistake("home_waits_in_two_lists", "a home whose last guest leaves waits for a thread in two lists", "cache/homes.c", ((
        "    homes_forget_vacant_locked(home);\n    homes_remove_locked(home);\n    home->vacant = false;\n",
        "    homes_remove_locked(home);\n    home->vacant = false;\n"),), "blocks_homes"),
    Mistake("started_twice", "the first calls of two threads both start the process", "heap/start.c", ((
        "    bool done = hak_load_relaxed(&start.done);\n",
        "    bool done = false;\n"),), "other_start"),
    Mistake("freed_without_claim", "a large block's map entry is tested, then cleared", "large/runs.c", ((
        "    return large_begins(p, entry) && hak_cas_acquire(hak_map_entry(hak_slot_of(p)), &entry, 0u);\n",
        "    if (!large_begins(p, entry) || hak_load_acquire(hak_map_entry(hak_slot_of(p))) == 0)\n"
        "        return false;\n"
        "    hak_store_relaxed(hak_map_entry(hak_slot_of(p)), 0u);\n    return true;\n"),), "other_large"),
    Mistake("run_put_on_another", "a run is put where another thread has just put one", "large/run_cache.c", ((
        "        if (run == 0 &&\n            hak_cas_release(place, &run, (uint64_t)slots << HAK_RUN_SLOTS_SHIFT | (slot + 1))) {\n",
        "        if (run == 0) {\n"
        "            hak_store_release(place, (uint64_t)slots << HAK_RUN_SLOTS_SHIFT | (slot + 1));\n"),), "other_runs"),
    Mistake("run_taken_twice", "a run is taken without looking whether it is still there", "large/run_cache.c", ((
        "    return hak_cas_acquire(place, &run, UINT64_C(0));\n",
        "    hak_store_release(place, run & 0);\n    return true;\n"),), "other_runs"),
    Mistake("freed_with_pages_behind", "a huge block is freed while what lies behind it is given back", "large/huge.c", ((
        "    if (hak_slack_forget(superslab))\n        w.clean_slots = huge_record(superslab)->huge.slack_slots;\n    if (HAK_HARDENED)",
        "    if (HAK_HARDENED)"),), "other_slack"),
)
