/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * model: what threads do with slabs, inboxes and remote bits, step by step. Included by
 * remote.pml. Each inline names the C function that it mirrors. */
/* --- inboxes --- */

inline take_inbox(h)
{
    d_step {
        if
        :: inbox[h] != 0 -> todo[depth] = inbox[h]; depth++; inbox[h] = 0
        :: else
        fi
    }
}

/* inbox_link_any */
inline inbox_link(h, s)
{
    do
    :: d_step { head = inbox[h]; inbox_next[s] = head }; /* only who set the flag writes the link */
       atomic {
           if
           :: inbox[h] == head ->
               CHECK(in_one_inbox, !linked[s]);
               inbox[h] = s + 1;
               linked[s] = true;
               head = 0;
               break
           :: else
           fi
       }
    od
}

/* hak_inbox_push_any. What it takes out of the inbox of a former owner goes on the stack. */
inline push(s)
{
    do
    :: own = owner[s];
       if
       :: own != 0 ->
           inbox_link(own - 1, s);
#if BROKEN != push_without_recheck
           if
           :: owner[s] != own -> take_inbox(own - 1)
           :: owner[s] == own
           fi;
#endif
           break
       :: else -> /* released: all blocks have been collected already */
#if BROKEN == flag_left_when_released
           break
#else
           in_inbox[s] = false;
           if
           :: owner[s] == 0 -> break
           :: owner[s] != 0 ->
               d_step { was = in_inbox[s]; in_inbox[s] = true };
               if
               :: was -> was = false; break
               :: else
               fi
           fi
#endif
       fi
    od;
    own = 0
}

/* inbox_hand_on */
inline hand_on(s)
{
    if
    :: owner[s] == 0
    :: owner[s] != 0 ->
#if BROKEN == handed_on_without_flag
        push(s)
#else
        d_step { was = in_inbox[s]; in_inbox[s] = true };
        if
        :: was -> was = false
        :: else -> push(s)
        fi
#endif
    fi
}

/* --- slabs: slabs.c --- */

/* slabs_release_locked: the slots go back to the pool. */
inline release(h, s)
{
    d_step {
        CHECK(owner_holds_lock, lock[h] == ME);
        CHECK(slab_has_one_owner, list[s] == h + 1 && owner[s] == h + 1);
        list[s] = 0;
        owner[s] = 0
    };
    entry[s] = 0;
    d_step {
        CHECK(released_is_free, live[s] == 0 && remote[s] == 0);
        pool = pool | bit(s)
    }
}

/* hak_heap_settle_locked, as far as it matters here. */
inline settle(h, s)
{
    if
#if BROKEN == released_with_remote_bits
    :: count(free[s]) + count(remote[s]) == BLOCKS -> release(h, s)
#else
    :: free_blocks[s] == BLOCKS -> release(h, s)
#endif
    :: else
    fi
}

/* hak_heap_disown_locked, hak_heap_own_locked: `from` is a heap whose lock is held, or NONE. */
inline move(x, from, to)
{
    d_step {
        CHECK(slab_has_one_owner, list[x] == (from == NONE -> 0 : from + 1));
        list[x] = 0
    };
    entry[x] = to + 1;
    owner[x] = to + 1;
    d_step {
#if BROKEN != adoption_unlocked
        CHECK(owner_holds_lock, lock[to] == ME && (from == NONE || lock[from] == ME));
#endif
        CHECK(slab_has_one_owner, list[x] == 0);
        list[x] = to + 1
    }
}

/* hak_slab_collect_owner, and what hak_heap_collect_locked does after it. */
inline collect_slab(h, s)
{
    if
    :: remote[s] == 0
    :: remote[s] != 0 ->
#if BROKEN == count_before_exchange
        v = count(remote[s]);
        d_step { bits = remote[s]; remote[s] = 0 };
#elif BROKEN == bits_cleared_by_store
        bits = remote[s];
        d_step { remote[s] = 0; v = count(bits) };
#else
        d_step { bits = remote[s]; remote[s] = 0; v = count(bits) };
#endif
        d_step {
            CHECK(owner_holds_lock, lock[h] == ME && owner[s] == h + 1);
            CHECK(none_twice, (bits & (free[s] | live[s])) == 0);
            free[s] = free[s] | bits;
            free_blocks[s] = free_blocks[s] + v;
            bits = 0;
            v = 0
        };
#if BROKEN == flag_cleared_after_scan
        d_step { in_inbox[s] = false; linked[s] = false };
#endif
#if BROKEN != empty_lost_in_collection
        settle(h, s)
#endif
    fi
}

/* --- collecting and forwarding --- */

/* Works off the lists on the stack. While `collecting` the lowest is the inbox of h, whose lock is
 * held: hak_heap_collect_locked. All others are handed on: hak_inbox_forward_any. */
inline work(h)
{
    do
    :: depth == 0 -> break
    :: else ->
        d_step {
            mine = collecting && depth == 1;
            t = todo[depth - 1] - 1;
#if BROKEN != link_read_after_flag
            todo[depth - 1] = inbox_next[t];
#endif
#if BROKEN == flag_cleared_after_scan
            if
            :: !mine || owner[t] != h + 1 || remote[t] == 0 ->
                in_inbox[t] = false;
                linked[t] = false
            :: else
            fi
#else
            in_inbox[t] = false;
            linked[t] = false
#endif
        };
        d_step {
#if BROKEN == link_read_after_flag
            todo[depth - 1] = inbox_next[t];
#endif
            if
            :: todo[depth - 1] == 0 ->
                depth--;
                if
                :: depth == 0 -> collecting = false
                :: else
                fi
            :: else
            fi
        };
        if
#if BROKEN == collects_any_owner
        :: mine && owner[t] != 0 -> collect_slab(h, t)
        :: !mine || owner[t] == 0 -> hand_on(t)
#else
        :: mine && owner[t] == h + 1 -> collect_slab(h, t)
        :: !mine || owner[t] != h + 1 -> hand_on(t)
#endif
        fi;
        mine = false
    od;
    t = 0
}

/* hak_heap_collect_locked */
inline collect(h)
{
    if
    :: inbox[h] == 0
    :: inbox[h] != 0 ->
        d_step { take_inbox(h); collecting = true };
        work(h)
    fi
}

#define unlock(h) lock[h] = 0

inline try_lock(h)
{
    d_step { was = (lock[h] == 0); if :: was -> lock[h] = ME :: else fi }
}

/* hak_heap_try_collect_any */
inline try_collect(h)
{
    if
    :: inbox[h] == 0
    :: inbox[h] != 0 ->
        try_lock(h);
        if
        :: was -> was = false; collect(h); unlock(h)
#if BROKEN == tick_unlocked
        :: else -> collect(h)
#else
        :: else
#endif
        fi
    fi
}

/* The heaps to look at when no lock is held: hak_cache_collect_orphans, outbox_collect_for_owner,
 * hak_cache_tick_any. The shared one last. */
inline visits()
{
    do
    :: visit == 0 -> break
    :: else -> d_step { i = highest(visit); visit = visit & ~bit(i) }; try_collect(i)
    od;
    i = 0
}

inline acquire_lock(h)
{
    atomic { lock[h] == 0 -> lock[h] = ME }
}

/* --- what threads do --- */

/* hak_heap_pick_locked: a slab of this heap with room; NONE if there is none. */
inline pick(h)
{
    d_step {
        s = 0;
        do
        :: s < SLABS && !(list[s] == h + 1 && free_blocks[s] > 0) -> s++
        :: s < SLABS && list[s] == h + 1 && free_blocks[s] > 0 -> break
        :: s == SLABS -> s = NONE; break
        od;
        skip
    }
}

#define owns(h, s) (list[s] == h + 1)
#define has_slabs(h) (owns(h, 0) || owns(h, SLABS - 1) || owns(h, (SLABS - 1) / 2))

/* slabs_try_adopt_locked */
inline try_adopt(h)
{
    if
    :: !has_slabs(0)
    :: has_slabs(0) ->
#if BROKEN == adoption_unlocked
        pick(0);
        if
        :: s != NONE -> move(s, 0, h)
        :: else
        fi
#else
        try_lock(0);
        if
        :: was ->
            was = false;
            collect(0);
            pick(0);
            if
            :: s != NONE -> move(s, 0, h)
            :: else
            fi;
            unlock(0)
        :: else
        fi
#endif
    fi
}

/* hak_pool_acquire_any, hak_slab_make_owner, hak_heap_own_locked */
inline try_pool(h)
{
    d_step {
        if
        :: pool != 0 ->
            s = lowest(pool);
            pool = pool & ~bit(s);
            CHECK(slab_has_one_owner, owner[s] == 0 && list[s] == 0 && entry[s] == 0);
            CHECK(released_is_free, live[s] == 0 && remote[s] == 0)
        :: else -> s = NONE
        fi
    };
    if
    :: s != NONE ->
        d_step { free[s] = ALL; free_blocks[s] = BLOCKS };
        remote[s] = 0;
        move(s, NONE, h)
    :: else
    fi
}

/* hak_cache_refill, or hak_cache_shared_alloc: one block. */
inline alloc(h)
{
    acquire_lock(h);
    collect(h);
    pick(h);
    if
    :: s == NONE && h != 0 -> try_adopt(h)
    :: else
    fi;
    if
    :: s == NONE -> try_pool(h)
    :: else
    fi;
    d_step {
        if
        :: s != NONE ->
            CHECK(owner_holds_lock, lock[h] == ME && owner[s] == h + 1);
            bits = bit(lowest(free[s]));
            CHECK(none_twice, (free[s] & bits) != 0 && (live[s] & bits) == 0);
            free[s] = free[s] & ~bits;
            free_blocks[s] = free_blocks[s] - 1;
            live[s] = live[s] | bits;
            bits = 0
        :: else
        fi;
        s = 0
    };
    unlock(h)
}

/* A block that this thread's heap owns: hak_slab_put_owner at a drain. */
inline free_own(h)
{
    acquire_lock(h);
    d_step {
        CHECK(owner_holds_lock, owner[s] == h + 1 && list[s] == h + 1);
        CHECK(none_twice, (free[s] & bits) == 0);
        free[s] = free[s] | bits;
        free_blocks[s] = free_blocks[s] + count(bits);
        bits = 0
    };
    settle(h, s);
    s = 0;
    unlock(h)
}

/* outbox_send of one group: hak_slab_free_remote_any, and the push. */
inline free_remote()
{
#if BROKEN == pushed_before_bits
    d_step { was = in_inbox[s]; in_inbox[s] = true };
    if
    :: was -> was = false
    :: else -> push(s)
    fi;
    d_step { CHECK(none_twice, (remote[s] & bits) == 0); remote[s] = remote[s] | bits };
    d_step { bits = 0; s = 0 };
#else
#if BROKEN == bits_not_atomic
    head = remote[s];
    d_step { remote[s] = head | bits; head = 0; bits = 0 };
#else
    d_step { CHECK(none_twice, (remote[s] & bits) == 0); remote[s] = remote[s] | bits; bits = 0 };
#endif
#if BROKEN == flag_not_atomic
    was = in_inbox[s];
    in_inbox[s] = true;
#else
    d_step { was = in_inbox[s]; in_inbox[s] = true };
#endif
    if
    :: was -> was = false
    :: else ->
        push(s);
        i = owner[s]; /* outbox_collect_for_owner: when enough slabs wait, whatever the number is */
        if
        :: i != 0 -> visit = bit(i - 1)
        :: true
        fi;
        i = 0
    fi;
    s = 0;
#endif
    visit = visit | 1 /* hak_cache_collect_orphans */
}

/* One live block, or all live blocks of a slab at once (a full group of the outbox). */
inline choose_live()
{
    if
    :: live[0] != 0 -> s = 0
    :: SLABS > 1 && live[1 % SLABS] != 0 -> s = 1
    :: SLABS > 2 && live[2 % SLABS] != 0 -> s = 2
    fi;
    if
    :: bits = bit(lowest(live[s]))
    :: count(live[s]) > 1 -> bits = live[s]
    fi;
    live[s] = live[s] & ~bits
}

/* free: the map says whether the slab is this thread's. */
inline free_chosen(h)
{
    if
    :: h != 0 && entry[s] == h + 1 -> free_own(h)
    :: h == 0 || entry[s] != h + 1 -> free_remote()
    fi
}

/* hak_heap_abandon; the bins and the outbox are empty here. */
inline abandon(h)
{
#if BROKEN == forwarded_before_moved
    take_inbox(h);
    work(NONE);
#endif
    acquire_lock(h);
    acquire_lock(0);
    do
    :: s == SLABS -> s = 0; break
    :: s < SLABS && list[s] == h + 1 -> move(s, h, 0); s++
    :: s < SLABS && list[s] != h + 1 -> s++
    od;
    unlock(0);
    unlock(h);
#if BROKEN != inbox_never_forwarded && BROKEN != forwarded_before_moved
    take_inbox(h);
#endif
    atomic { visit = 1; ended = ended | bit(h) }
}
