/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * model: what threads do with slabs, messages and inboxes, step by step. Included by remote.pml.
 * Each inline names the C function that it mirrors. */
/* --- inboxes --- */

/* The list goes on the stack. */
inline take_inbox(h)
{
#if BROKEN == inbox_taken_in_two_steps
    todo[depth] = inbox[h];
    d_step { if :: todo[depth] != 0 -> inbox[h] = 0; depth++ :: else fi }
#else
    d_step {
        if
        :: inbox[h] != 0 -> todo[depth] = inbox[h]; depth++; inbox[h] = 0
        :: else
        fi
    }
#endif
}

/* No other message on its way has a block of m. */
inline check_blocks(m)
{
    CHECK(block_in_one_message, first[m] != 0 && first[m] != second[m]);
    head = 0;
    do
    :: head < MESSAGES ->
        CHECK(block_in_one_message,
              head == m || (first[head] != first[m] && second[head] != first[m]));
        CHECK(block_in_one_message,
              head == m || second[m] == 0 ||
                  (first[head] != second[m] && second[head] != second[m]));
        head++
    :: else -> head = 0; break
    od;
    skip
}

/* inbox_link_any */
inline inbox_link(h, m)
{
    d_step { CHECK(message_in_one_list, !linked[m] && !has(memory, m)); check_blocks(m) };
    do
    :: head = inbox[h];
#if BROKEN != next_written_after_push
       message_next[m] = head;
#endif
       atomic {
           if
           :: inbox[h] == head ->
               inbox[h] = m + 1;
               linked[m] = true;
               break
           :: else
           fi
       }
    od;
#if BROKEN == next_written_after_push
    message_next[m] = head;
#endif
    head = 0
}

/* remote_send_any. What it takes out of the inbox of a former owner goes on the stack. */
inline send(m)
{
    d_step {
        t = slab(first[m]);
        own = owner[t];
        CHECK(released_is_free, own != 0)
    };
    inbox_link(own - 1, m);
#if BROKEN == next_read_after_send
    next_of_list(m);
#endif
#if BROKEN != push_without_recheck
    if
    :: owner[t] != own -> take_inbox(own - 1)
    :: owner[t] == own
    fi;
#endif
    t = 0
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
        CHECK(released_is_free, live[s] == 0 && away[s] == 0);
        pool = pool | bit(s)
    }
}

/* hak_heap_settle_locked, as far as it matters here. */
inline settle(h, s)
{
    if
#if BROKEN == released_with_blocks_away
    :: count(free[s]) + count(away[s]) == BLOCKS -> release(h, s)
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
#if BROKEN != adoption_unlocked && BROKEN != take_over_unlocked
        CHECK(owner_holds_lock, lock[to] == ME && (from == NONE || lock[from] == ME));
#endif
        CHECK(slab_has_one_owner, list[x] == 0);
        list[x] = to + 1
    }
}

/* hak_slab_put_owner, and hak_heap_settle_freed_locked after it. */
inline put(h, b)
{
    d_step {
        t = slab(b);
        CHECK(owner_holds_lock, lock[h] == ME && owner[t] == h + 1 && list[t] == h + 1);
        CHECK(none_twice, (place(b) & (free[t] | live[t])) == 0 && (place(b) & away[t]) != 0);
        free[t] = free[t] | place(b);
        away[t] = away[t] & ~place(b);
        free_blocks[t] = free_blocks[t] + 1;
        b = 0
    };
#if BROKEN == empty_lost_in_collection
    if
    :: mine
    :: !mine -> settle(h, t)
    fi;
#else
    settle(h, t);
#endif
    t = 0
}

/* --- collecting and forwarding --- */

#if BROKEN == collects_any_owner
#define is_of(h, b) true
#else
#define is_of(h, b) (entry[slab(b)] == h + 1)
#endif

/* remote_collect_locked: what is left in the message is not of this heap. */
inline collect_message(h, m)
{
    if
    :: second[m] == 0 -> was = false
#if BROKEN == judged_by_first_block
    :: second[m] != 0 -> was = is_of(h, first[m])
#else
    :: second[m] != 0 -> was = is_of(h, second[m])
#endif
    fi;
    if
#if BROKEN == sent_on_whole
    :: is_of(h, first[m]) && second[m] != 0 && !was -> block = first[m]; put(h, block)
#endif
    :: is_of(h, first[m]) -> put(h, first[m])
    :: else
    fi;
    if
    :: was -> was = false; put(h, second[m])
    :: else
    fi;
    d_step {
#if BROKEN == others_dropped
        first[m] = 0;
        second[m] = 0;
#endif
        if
        :: first[m] == 0 -> first[m] = second[m]; second[m] = 0
        :: else
        fi
    }
}

/* The list that is worked off goes on behind m. */
inline next_of_list(m)
{
    d_step {
        if
        :: depth != 0 ->
            todo[depth - 1] = message_next[m];
            if
            :: todo[depth - 1] == 0 ->
                depth--;
                if
                :: depth == 0 -> collecting = false
                :: else
                fi
            :: else
            fi
        :: else
        fi
    }
}

/* Works off the lists on the stack. While `collecting` the lowest is the inbox of h, whose lock is
 * held: hak_heap_collect_locked. All others are sent anew: hak_inbox_forward_any. */
inline work(h)
{
    do
    :: depth == 0 -> break
    :: else ->
        d_step {
            mine = collecting && depth == 1;
            m = todo[depth - 1] - 1;
            CHECK(message_in_one_list, linked[m] && !has(memory, m));
            linked[m] = false;
#if BROKEN != next_read_after_send
            next_of_list(m);
            message_next[m] = 0
#endif
        };
        if
        :: mine -> collect_message(h, m)
        :: else
        fi;
        mine = false;
        if
        :: first[m] != 0 -> send(m)
        :: else ->
            memory = memory | bit(m);
#if BROKEN == next_read_after_send
            next_of_list(m)
#endif
        fi;
        own = 0
    od;
    m = 0
}

/* hak_heap_collect_locked */
inline collect(h)
{
    if
    :: inbox[h] == 0
    :: inbox[h] != 0 ->
#if BROKEN == inbox_taken_in_two_steps
        take_inbox(h);
        collecting = (depth != 0);
#else
        d_step { take_inbox(h); collecting = (depth != 0) };
#endif
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

/* The heaps to look at when no lock is held: hak_cache_collect_orphans, the end of outbox_send,
 * hak_cache_tick_any. The shared one last. */
inline visits()
{
    do
    :: visit == 0 -> break
    :: else ->
        d_step { own = highest(visit); visit = visit & ~bit(own); i = own; own = 0 };
        try_collect(i)
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

/* slabs_try_take_over_locked: from the first other heap that has something in its inbox. */
#define waits_at(x, h) (HEAPS > x && h != x && inbox[x % HEAPS] != 0)

inline try_take_over(h)
{
    d_step {
        if
        :: waits_at(1, h) -> i = 1
        :: !waits_at(1, h) && waits_at(2, h) -> i = 2
        :: !waits_at(1, h) && !waits_at(2, h) && waits_at(3, h) -> i = 3
        :: else -> i = 0
        fi
    };
    if
    :: i == 0
    :: i != 0 ->
#if BROKEN == take_over_unlocked
        pick(i);
        if
        :: s != NONE -> move(s, i, h)
        :: else
        fi
#else
        try_lock(i);
        if
        :: was ->
            was = false;
            collect(i);
            pick(i);
            if
            :: s != NONE -> move(s, i, h)
            :: else
            fi;
            unlock(i);
#if BROKEN != take_over_not_forwarded
            if
            :: s != NONE -> take_inbox(i); work(NONE)
            :: else
            fi
#endif
        :: else
        fi
#endif
    fi;
    i = 0
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
            CHECK(released_is_free, live[s] == 0 && away[s] == 0)
        :: else -> s = NONE
        fi
    };
    if
    :: s != NONE ->
        d_step { free[s] = ALL; free_blocks[s] = BLOCKS };
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
#if TAKE_OVER
    if
    :: s == NONE -> try_take_over(h)
    :: else
    fi;
#endif
    if
    :: s == NONE -> try_pool(h)
    :: else
    fi;
    d_step {
        if
        :: s != NONE ->
            CHECK(owner_holds_lock, lock[h] == ME && owner[s] == h + 1);
            m = bit(lowest(free[s]));
            CHECK(none_twice, (free[s] & m) != 0 && ((live[s] | away[s]) & m) == 0);
            free[s] = free[s] & ~m;
            free_blocks[s] = free_blocks[s] - 1;
            live[s] = live[s] | m;
            m = 0
        :: else
        fi;
        s = 0
    };
    unlock(h)
}

/* One live block, and what the map says of it. */
inline choose_live()
{
    if
    :: live[0] != 0 -> s = 0
    :: SLABS > 1 && live[1 % SLABS] != 0 -> s = 1
    :: SLABS > 2 && live[2 % SLABS] != 0 -> s = 2
    fi;
    take_chosen()
}

inline take_chosen()
{
    d_step {
        block = block_of(s, lowest(live[s]));
        live[s] = live[s] & ~place(block);
        away[s] = away[s] | place(block);
        tag = entry[s];
        s = 0
    }
}

/* A thread that ends may have a block of its own in a bin. */
inline choose_in_bin(h)
{
    if
    :: frees > 0 && live[0] != 0 && entry[0] == h + 1 -> frees--; s = 0; take_chosen()
    :: frees > 0 && live[SLABS - 1] != 0 && entry[SLABS - 1] == h + 1 ->
        frees--;
        s = SLABS - 1;
        take_chosen()
    :: true
    fi
}

/* outbox_send */
inline send_outbox()
{
    d_step { m = outbox - 1; outbox = 0; outbox_tag = 0 };
    send(m);
    if /* when enough messages wait, whatever the number is */
    :: visit = visit | bit(own - 1)
    :: true
    fi;
    own = 0;
    work(NONE)
}

/* hak_outbox_flush without the tick. Nobody does it for a thread that has ended. */
inline flush(h)
{
    if
    :: outbox != 0 && mode != 0 && !(mode == SLEEP && has(ended, h)) ->
        send_outbox();
        visit = visit | 1
    :: else
    fi
}

#if BROKEN == flushed_before_drained
#define flush_before_drain(h) flush(h)
#define flush_after_drain(h) skip
#else
#define flush_before_drain(h) skip
#define flush_after_drain(h) flush(h)
#endif

/* hak_outbox_try_add. The block is left where there is no memory for a message. */
inline gather()
{
    if
    :: outbox != 0 && (second[outbox - 1] != 0 || outbox_tag != tag) -> send_outbox()
    :: else
    fi;
    d_step {
        if
        :: outbox == 0 && memory != 0 ->
            m = lowest(memory);
            CHECK(message_in_one_list, !linked[m]);
            memory = memory & ~bit(m);
            outbox = m + 1;
            outbox_tag = tag;
            first[m] = block;
            block = 0;
            m = 0
        :: outbox != 0 -> second[outbox - 1] = block; block = 0
        :: else
        fi
    }
}

/* Where there is no memory for a message, or no heap: hak_cache_free_direct. */
inline return_directly()
{
    do
    :: own = owner[slab(block)];
       CHECK(released_is_free, own != 0);
       acquire_lock(own - 1);
       if
#if BROKEN == returned_without_recheck
       :: true ->
#else
       :: owner[slab(block)] == own ->
#endif
           put(own - 1, block);
           unlock(own - 1);
           break
#if BROKEN != returned_without_recheck
       :: else -> unlock(own - 1)
#endif
       fi
    od;
    own = 0
}

/* A block that the map says is this heap's goes to its slab when the bin is drained, under the
 * lock: hak_heap_drain_locked. By then the slab may have another owner. */
inline free_chosen(h)
{
    if
    :: block != 0 && h != 0 && tag == h + 1 ->
        acquire_lock(h);
        locked = true;
#if BROKEN != drained_unseen
        tag = entry[slab(block)];
#endif
        if
        :: tag == h + 1 -> put(h, block)
        :: else
        fi
    :: else
    fi;
    if
    :: block != 0 && h != 0 -> gather()
    :: else
    fi;
    if
    :: locked -> unlock(h); locked = false
    :: else
    fi;
    if
    :: block != 0 -> return_directly()
    :: else
    fi;
    tag = 0
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
    work(NONE);
#endif
    atomic { visit = 1; ended = ended | bit(h) }
}
