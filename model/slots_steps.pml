/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * model: what the pool does with slots, step by step. Included by slots.pml. Each inline names the
 * C function that it mirrors, if it is called otherwise. */
/* Slots have just been claimed. */
inline claimed(s, slots)
{
    CHECK(not_while_purged, has(mapped, s) && (purging[s] & (slots)) == 0);
    CHECK(slot_has_one_owner, (held[s] & (slots)) == 0);
    held[s] = held[s] | (slots);
    spare = spare & ~bit(s)
}

inline freed(s, slots)
{
    held[s] = held[s] & ~(slots)
}

inline empty_sub(slots)
{
    d_step {
        CHECK(empty_is_counted, empty_now >= count(slots));
        empty_now = empty_now - count(slots)
    }
}

/* --- the index --- */

/* hak_pool_offer, for one of its indexes: that of single slots */
inline offer(s)
{
    if
    :: busy_of(state[s]) == ALL
    :: busy_of(state[s]) != ALL ->
       if
       :: has(avail, s)
       :: !has(avail, s) -> avail = avail | bit(s)
       fi
    fi
}

/* pool_withdraw */
inline withdraw(s)
{
    avail = avail & ~bit(s);
#if BROKEN != withdraw_without_recheck
    if
    :: busy_of(state[s]) != ALL -> avail = avail | bit(s)
    :: busy_of(state[s]) == ALL
    fi
#endif
}

/* --- retired superslabs --- */

/* retired_find: the newest or the oldest, by what their records say; so it may be any. NONE: there
 * is none. */
inline find_retired(s)
{
    if
    :: has(retired, 0) -> s = 0
    :: SUPERS > 1 && has(retired, 1) -> s = 1
    :: SUPERS > 2 && has(retired, 2) -> s = 2
    :: retired == 0 -> s = NONE
    fi
}

/* retired_try_claim; s is NONE when another thread was faster. */
inline claim_retired(s)
{
    d_step {
        if
#if BROKEN == retired_taken_unlocked
        :: s != NONE -> retired = retired & ~bit(s)
#else
        :: s != NONE && has(retired, s) -> retired = retired & ~bit(s)
#endif
        :: else -> s = NONE
        fi
    }
}

/* hak_retired_try_take_newest, which tries until there is none, and hak_retired_take_run of one,
 * which tries once; s is NONE when there is none. */
inline take_retired(s)
{
    do
    :: find_retired(s);
       if
       :: s == NONE -> break
       :: s != NONE ->
           claim_retired(s);
           if
           :: s != NONE -> break
           :: s == NONE
           :: s == NONE -> break
           fi
       fi
    od;
    skip; /* no jump into what follows */
    d_step {
        if :: s != NONE -> CHECK(not_while_purged, has(mapped, s) && purging[s] == 0) :: else fi
    }
}

/* retired_unmap of what retired_take_oldest took. It is over a limit of count, bytes or age, whatever
 * the figures are. */
inline evict(s)
{
    find_retired(s);
#if BROKEN == unmap_before_removal
    if :: s != NONE -> purging[s] = ALL :: else fi;
    claim_retired(s);
#else
    claim_retired(s);
    if :: s != NONE -> purging[s] = ALL :: else fi;
#endif
    if
    :: s == NONE
    :: s != NONE ->
        d_step { purging[s] = 0; nonzero[s] = 0; mapped = mapped & ~bit(s) };
        taken = taken & ~bit(s) /* hak_space_give */
#if FAILS
    :: s != NONE -> /* retired_keep_addresses */
        if
        :: nonzero[s] = 0; w = 0
        :: w = dirty_bits(ALL); empty_now = empty_now + SLOTS
        fi;
        d_step { purging[s] = 0; freed(s, ALL); spare = spare | bit(s); state[s] = w; w = 0 };
        offer(s)
#endif
    fi;
    s = 0
}

/* hak_retired_put, hak_retired_enforce */
inline retire(s)
{
    d_step {
        CHECK(retired_is_claimed, has(mapped, s) && held[s] == ALL && busy_of(state[s]) == ALL);
        CHECK(slot_has_one_owner, !has(retired, s));
        retired = retired | bit(s)
    };
    if
#if EVICT
    :: evict(s)
#endif
    :: s = 0
    fi
}

/* hak_pool_try_retire: claims all slots if the state is still w. Leaves w at NONE if so. */
inline try_claim_all(s)
{
    atomic {
        if
        :: state[s] == w -> state[s] = w | ALL; claimed(s, ALL)
#if BROKEN == retire_cas_may_fail
        :: w = NONE - 1
#else
        :: else -> w = NONE - 1
#endif
        fi
    };
    if
    :: w == NONE - 1
    :: else -> empty_sub(dirty_of(w)); w = NONE
    fi
}

/* --- release --- */

/* The end of hak_pool_release_any, and what the end of purge_superslab has to be too: the slots
 * become free; whoever finds none in use claims them all. */
inline publish(s, slots)
{
    d_step { w = state[s] & ~(slots); state[s] = w; freed(s, slots) };
#if BROKEN == counted_after_release
    empty_now = empty_now + count(slots);
#endif
    if
    :: busy_of(w) == 0 ->
#if BROKEN == retire_by_store
        d_step { state[s] = w | ALL; claimed(s, ALL) };
        empty_sub(dirty_of(w));
        w = NONE;
#else
        try_claim_all(s);
#endif
        if
        :: w == NONE -> w = 0; retire(s)
        :: else ->
#if BROKEN == no_offer_after_lost_claim
            skip
#else
            offer(s)
#endif
        fi
    :: else -> offer(s)
    fi;
    w = 0
}

/* slabs_set_map(s, 0) */
inline map_clear(s, at)
{
    d_step {
        CHECK(class_under_claim, (held[s] & mask) == mask && kind[s * SLOTS + at] == class + 1);
        kind[s * SLOTS + at] = 0;
        if :: class == 1 -> kind[s * SLOTS + at + 1] = 0 :: else fi
    }
}

/* slabs_release_locked, or the end of a run; hak_pool_release_any */
inline release()
{
#if BROKEN != release_before_map
    map_clear(s, at);
#endif
#if WARM
    d_step {
        label[s * SLOTS + at] = class + 1;
        if :: class == 1 -> label[s * SLOTS + at + 1] = class + 1 :: else fi
    };
    warm[class] = s + 1;
#endif
#if BROKEN != counted_after_release
    empty_now = empty_now + count(mask);
#endif
#if BROKEN == release_before_map
    d_step { state[s] = state[s] & ~mask; freed(s, mask) };
    map_clear(s, at);
    offer(s)
#elif BROKEN == offer_before_release
    offer(s);
    d_step { w = state[s] & ~mask; state[s] = w; freed(s, mask) };
    if
    :: busy_of(w) == 0 -> try_claim_all(s); if :: w == NONE -> w = 0; retire(s) :: else fi
    :: else
    fi;
    w = 0
#else
    publish(s, mask)
#endif
}

/* --- acquire --- */

/* Where a run for the class may begin among free slots, and which slots it has. */
#define starts(slots) (class == 0 -> (slots) : ((slots) & ((slots) >> 1) & 5))
#define mask_at(at) ((class == 0 -> 1 : 3) << (at))

/* pool_try_claim: one compare-and-swap; on failure w is what was found. */
inline try_claim(s, at)
{
#if BROKEN == class_before_claim
    d_step {
        CHECK(class_under_claim, (held[s] & mask_at(at)) != 0);
        kind[s * SLOTS + at] = class + 1
    };
#endif
    d_step {
        mask = mask_at(at);
        if
#if BROKEN == acquire_by_or
        :: true ->
#else
        :: state[s] == w ->
#endif
            zero = (dirty_of(w) & mask) == 0;
            state[s] = state[s] | mask | dirty_bits(mask);
            claimed(s, mask);
            got = true
        :: else -> w = state[s]
        fi
    };
    if
    :: got && (dirty_of(w) & mask) != 0 -> empty_sub(dirty_of(w) & mask)
    :: else
    fi
}

/* pool_try_superslab */
#define among(w) (empty_only -> empty_of(w) : ALL & ~busy_of(w))
inline try_superslab()
{
    w = state[s];
    do
    :: got || starts(among(w)) == 0 -> break
    :: else -> at = lowest(starts(among(w))); try_claim(s, at)
    od;
    w = 0
}

/* pool_try_empty: superslabs of the index, lowest first. pool_try_fullest: which one is the fullest
 * may have changed since it was looked at, so any may be first. Either takes full ones out of the
 * index (pool_next_with_room). */
inline try_in_use()
{
    seen = avail;
    do
    :: got || seen == 0 -> seen = 0; break
    :: else ->
        if
        :: s = lowest(seen)
        :: !empty_only && seen & (seen - 1) -> s = lowest(seen & (seen - 1))
        fi;
        seen = seen & ~bit(s);
        if
        :: busy_of(state[s]) == ALL -> withdraw(s)
        :: busy_of(state[s]) != ALL -> try_superslab()
        fi
    od
}

#if WARM
/* pool_try_warm */
inline try_warm()
{
    s = warm[class];
    if
    :: s == 0
    :: else ->
        d_step { s = s - 1; w = state[s]; seen = starts(empty_of(w)) };
        do
        :: got || seen == 0 -> break
        :: else ->
            at = lowest(seen);
            if
            :: label[s * SLOTS + at] == class + 1 -> try_claim(s, at); seen = 0
            :: label[s * SLOTS + at] != class + 1 -> seen = seen & (seen - 1)
            fi
        od;
        atomic { seen = 0; w = 0 };
        if :: got :: else -> warm[class] = 0 fi
    fi
}
#endif

/* pool_try_retired */
inline try_retired()
{
    take_retired(s);
    if
    :: s == NONE -> s = 0
    :: else ->
        d_step {
            at = 0;
            mask = mask_at(0);
            got = true;
            zero = (dirty_of(state[s]) & mask) == 0;
            state[s] = state[s] | dirty_bits(mask);
#if BROKEN == revive_without_claim
            w = dirty_of(state[s])
#else
            w = dirty_of(state[s]) & ~mask
#endif
        };
        empty_now = empty_now + count(w);
        w = 0;
        CHECK(slot_has_one_owner, held[s] == ALL);
#if BROKEN == revive_without_claim
        d_step { state[s] = state[s] & ~ALL; freed(s, ALL) };
        offer(s);
        d_step { state[s] = state[s] | mask; claimed(s, mask) };
        empty_sub(mask)
#else
        d_step { state[s] = state[s] & ~(ALL & ~mask); freed(s, ALL & ~mask) };
        if :: mask != ALL -> offer(s) :: else fi
#endif
    fi
}

/* hak_space_take: mapped and marked under the window's lock */
inline space_take(s)
{
    d_step {
        if
        :: (taken & EVERY) != EVERY ->
            s = lowest(~taken & EVERY);
            assert(!has(mapped, s) && held[s] == ALL);
            taken = taken | bit(s);
            mapped = mapped | bit(s)
        :: else -> s = NONE
        fi
    }
}

/* grow_take_locked, grow_publish */
inline try_fresh()
{
    space_take(s);
    if
    :: s == NONE -> s = 0
    :: else ->
        d_step {
            at = 0;
            mask = mask_at(0);
            got = true;
            zero = true;
            state[s] = mask | dirty_bits(mask);
            held[s] = mask
        };
        if :: mask != ALL -> offer(s) :: else fi
    fi
}

/* hak_pool_acquire_any. Stage 0: WARM and EMPTY slots; 1: any free slots; 2: retired superslabs;
 * 3: once more free slots, under the grow lock (grow_locked); 4: fresh memory. */
inline acquire()
{
#if WARM
    try_warm();
#endif
    do
    :: got || stage == 5 -> break
    :: else ->
        if :: stage == 3 -> atomic { !grow_lock -> grow_lock = true } :: else fi;
        empty_only = (stage == 0);
        if
        :: stage == 2 -> try_retired()
        :: stage == 4 -> try_fresh()
        :: else -> try_in_use()
        fi;
        if :: !got -> stage++ :: else fi
    od;
    if :: stage >= 3 -> grow_lock = false :: else fi;
    atomic { stage = 0; empty_only = false }
}

/* The owner: slabs_set_map, and writes to the memory. */
inline use()
{
    d_step {
        CHECK(class_under_claim, (held[s] & mask) == mask);
        CHECK(zero_means_zero, !zero || (nonzero[s] & mask) == 0);
        zero = false;
        nonzero[s] = nonzero[s] | mask;
        kind[s * SLOTS + at] = class + 1;
        if :: class == 1 -> kind[s * SLOTS + at + 1] = class + 1 :: else fi
    }
}

/* --- purging, by a release over the limit, by the tick, or by a trim --- */

/* purge_superslab */
inline purge(s)
{
    w = state[s];
    do
    :: empty_of(w) == 0 -> mask = 0; break
    :: else ->
        atomic {
            if
            :: state[s] == w -> mask = empty_of(w); state[s] = w | mask; claimed(s, mask); break
            :: else -> w = state[s]
            fi
        }
    od;
    w = 0;
    if
    :: mask == 0
    :: else ->
        purging[s] = purging[s] | mask; /* hak_os_purge begins */
#if BROKEN == publish_before_purge
        publish(s, mask);
#endif
        if
        :: atomic { nonzero[s] = nonzero[s] & ~mask; purging[s] = purging[s] & ~mask };
           state[s] = state[s] & ~dirty_bits(mask);
           empty_sub(mask)
#if FAILS
        :: purging[s] = purging[s] & ~mask;
#if BROKEN == clean_though_refused
           state[s] = state[s] & ~dirty_bits(mask);
           empty_sub(mask)
#endif
#endif
        fi;
#if BROKEN == purge_does_not_retire
        d_step { state[s] = state[s] & ~mask; freed(s, mask) };
        offer(s);
#elif BROKEN != publish_before_purge
        publish(s, mask);
#endif
        mask = 0
    fi
}

/* One superslab of the index: hak_pool_purge_empty, or trim_unused. */
inline purge_or_trim()
{
    seen = avail;
    if
    :: seen == 0
    :: else ->
        if
        :: has(seen, 0) -> s = 0
        :: SUPERS > 1 && has(seen, 1) -> s = 1
        :: SUPERS > 2 && has(seen, 2) -> s = 2
        fi;
        seen = 0;
        if
        :: purge(s)
        :: w = state[s];
           if
           :: busy_of(w) == 0 -> try_claim_all(s); if :: w == NONE -> w = 0; retire(s) :: else fi
           :: else
           fi;
           w = 0
        fi;
        s = 0
    fi
}

/* --- huge blocks: hak_huge_alloc, hak_huge_free of one superslab --- */

#if HUGE
inline huge()
{
    take_retired(s);
    if :: s == NONE -> space_take(s) :: else fi;
    if
    :: s == NONE
    :: else ->
        d_step {
            CHECK(class_under_claim, held[s] == ALL);
            kind[s * SLOTS] = HUGE_KIND;
            nonzero[s] = ALL
        };
        d_step {
            CHECK(class_under_claim, held[s] == ALL && kind[s * SLOTS] == HUGE_KIND);
            kind[s * SLOTS] = 0
        };
#if BROKEN != huge_retired_unclaimed
        state[s] = ALL | dirty_bits(ALL); /* whole_make_slots */
#endif
        retire(s)
    fi;
    s = 0
}
#endif
