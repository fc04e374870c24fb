/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Scheduler of the tests: scenarios of slabs and heaps: frees from other threads, owners that run,
 * sleep and end, adoption, slabs that change their class. */
#include "scenarios.h"

/* --- an owner that runs, and two that free its blocks --- */

static void freers_setup(void)
{
    blocks_start(3);
    blocks_give(5, BIG);
}

static void freers_run(unsigned who)
{
    struct hak_heap *heap = blocks_enter(who);
    if (who == 0) {
        blocks_free(heap, blocks_given[4]);
        hak_cache_flush(heap);
        void *p = blocks_allocate(heap, BIG);
        void *q = blocks_allocate(heap, BIG);
        blocks_free(heap, p);
        blocks_free(heap, q);
        hak_cache_flush(heap); /* collects again */
        return;
    }
    for (unsigned i = 0; i < 2; i++) {
        blocks_free(heap, blocks_given[2 * i + who - 1]);
        hak_outbox_flush(heap);
    }
}

/* --- the owner ends meanwhile, and another adopts --- */

static void ends_setup(void)
{
    blocks_start(3);
    blocks_give(3, BIG);
}

static void ends_run(unsigned who)
{
    struct hak_heap *heap = blocks_enter(who);
    if (who == 0) {
        blocks_free(heap, blocks_given[0]);
        blocks_leave_for_good(0);
        return;
    }
    if (who == 1) {
        for (unsigned i = 1; i < 3; i++) {
            blocks_free(heap, blocks_given[i]);
            hak_outbox_flush(heap);
        }
        return;
    }
    void *p = blocks_allocate(heap, BIG);
    blocks_free(heap, p);
    hak_cache_flush(heap);
}

/* --- slabs of an ended thread: two adopt, one frees --- */

static void adopt_setup(void)
{
    blocks_start(4);
    blocks_give(4, BIG);
    blocks_leave_for_good(0);
}

static void adopt_run(unsigned who)
{
    struct hak_heap *heap = blocks_enter(who + 1);
    if (who == 2) {
        for (unsigned i = 0; i < 4; i++) {
            blocks_free(heap, blocks_given[i]);
            if (i % 2 == 1)
                hak_outbox_flush(heap);
        }
        return;
    }
    void *p = blocks_allocate(heap, BIG);
    blocks_free(heap, p);
    if (who == 0)
        hak_cache_flush(heap);
}

/* --- slabs of an ended thread: two free their blocks and collect them, one adopts --- */

/* Two of them are sent at once. */
#define HALF (HAK_CLASS_ALIGNED + 5u)

static void inherit_setup(void)
{
    blocks_start(4);
    blocks_give(8, HALF);
    blocks_leave_for_good(0);
}

static void inherit_run(unsigned who)
{
    struct hak_heap *heap = blocks_enter(who + 1);
    if (who == 2) {
        void *p = blocks_allocate(heap, HALF);
        blocks_free(heap, p);
        hak_cache_flush(heap);
        return;
    }
    for (unsigned i = 0; i < 4; i++)
        blocks_free(heap, blocks_given[2 * i + who]);
    hak_cache_flush(heap);
}

/* --- threads start and adopt; another frees into slabs of heaps that it has not heard of --- */

static void newcomers_setup(void)
{
    blocks_start(3);
    blocks_give(4, BIG);
    blocks_leave_for_good(0);
}

static void newcomers_run(unsigned who)
{
    if (who == 2) {
        struct hak_heap *heap = blocks_enter(2);
        for (unsigned i = 0; i < 4; i++) {
            blocks_free(heap, blocks_given[i]);
            hak_outbox_flush(heap);
        }
        return;
    }
    struct hak_heap *heap = blocks_begin(who == 0 ? 0 : 3);
    void *p = blocks_allocate(heap, BIG);
    blocks_free(heap, p);
}

/* --- a slab is emptied from afar, released, and made anew for another class --- */

static void reuse_setup(void)
{
    blocks_start(3);
    blocks_give(2, BIG);
    hak_cache_flush(blocks_enter(0));
}

static void reuse_run(unsigned who)
{
    struct hak_heap *heap = blocks_enter(who);
    if (who == 0) {
        void *p = blocks_allocate(heap, SMALL);
        blocks_free(heap, p);
        hak_cache_flush(heap);
        return;
    }
    blocks_free(heap, blocks_given[who - 1]);
    hak_outbox_flush(heap);
    void *p = blocks_allocate(heap, SMALL);
    blocks_free(heap, p);
    hak_cache_flush(heap);
}

/* --- a slab is released while somebody sends its last block, made anew, and freed into again ---
 */

static void released_setup(void)
{
    blocks_start(3);
    blocks_give(2, BIG);
    hak_cache_flush(blocks_enter(0));
}

static void released_run(unsigned who)
{
    struct hak_heap *heap = blocks_enter(who);
    if (who == 0) {
        for (unsigned i = 0; i < 2; i++) {
            hak_cache_flush(heap);
            blocks_send(i, blocks_allocate(heap, BIG));
        }
        return;
    }
    blocks_free(heap, blocks_given[who - 1]);
    hak_outbox_flush(heap);
    for (unsigned i = 0; i < 2; i++) {
        void *p = blocks_receive(i);
        if (p != NULL)
            blocks_free(heap, p);
        hak_outbox_flush(heap);
    }
}

/* --- threads without a heap --- */

static void heapless_setup(void)
{
    blocks_start(1);
    blocks_give(2, BIG);
    blocks_leave_for_good(0);
}

static void heapless_run(unsigned who)
{
    if (who == 2) { /* a heap that the others have not heard of */
        struct hak_heap *heap = blocks_begin(1);
        blocks_free(heap, blocks_given[0]);
        hak_outbox_flush(heap);
        void *p = blocks_allocate(heap, BIG);
        blocks_free(heap, p);
        hak_cache_flush(heap);
        return;
    }
    hak_self = &hak_front_shared;
    void *p = blocks_allocate(NULL, BIG);
    if (who == 0)
        blocks_free(NULL, blocks_given[1]);
    blocks_free(NULL, p);
}

/* --- the owner sleeps; a tick collects for it, while it wakes up --- */

static void sleeper_setup(void)
{
    blocks_start(3);
    blocks_give(4, BIG);
    hak_cache_tick_any();
}

static void sleeper_run(unsigned who)
{
    struct hak_heap *heap = blocks_enter(who);
    if (who == 0) {
        void *p = blocks_allocate(heap, BIG);
        blocks_free(heap, p);
        return;
    }
    for (unsigned i = 0; i < 2; i++) {
        blocks_free(heap, blocks_given[2 * i + who - 1]);
        sim_os_set_time_ns(sim_os_time_ns() + HAK_TICK_NS);
        hak_outbox_flush(heap);
    }
}

/* --- the owner takes what others free into its bins, while a tick collects for it --- */

static void mail_setup(void)
{
    blocks_start(3);
    blocks_give(2, BIG);
    blocks_given[2] = blocks_allocate(blocks_enter(0), SMALL);
    blocks_given[3] = blocks_allocate(blocks_enter(0), SMALL);
    hak_cache_tick_any();
}

static void mail_run(unsigned who)
{
    struct hak_heap *heap = blocks_enter(who);
    if (who == 0) {
        for (unsigned i = 0; i < 2; i++) {
            hak_lock(&heap->lock);
            hak_heap_collect_owner_locked(heap);
            hak_unlock(&heap->lock);
            void *p = blocks_allocate(heap, i == 0 ? BIG : SMALL);
            blocks_free(heap, p);
        }
        hak_cache_flush(heap);
        return;
    }
    blocks_free(heap, blocks_given[who - 1]); /* in a message two blocks without a neighbour */
    blocks_free(heap, blocks_given[who + 1]);
    sim_os_set_time_ns(sim_os_time_ns() + HAK_TICK_NS);
    hak_outbox_flush(heap);
}

/* --- threads start and end, others look at all heaps --- */

static void walk_setup(void)
{
    blocks_start(1);
    blocks_give(2, SMALL);
}

static void walk_run(unsigned who)
{
    struct hak_cache_usage usage;
    if (who == 2) {
        struct hak_heap *heap = blocks_enter(0);
        hak_cache_usage(&usage);
        SCHED_CHECK(usage.heaps <= 4, "%zu heaps", usage.heaps);
        blocks_free(heap, blocks_given[0]);
        hak_cache_purge();
        return;
    }
    struct hak_heap *heap = hak_cache_thread_start();
    SCHED_CHECK(heap != NULL, "no heap");
    hak_self = &heap->front;
    void *p = blocks_allocate(heap, who == 0 ? SMALL : BIG);
    blocks_free(heap, p);
    hak_self = &hak_front_shared;
    hak_cache_thread_end(heap);
    hak_registry_give_kept();
}

/* --- a thread ends and another begins with its heap, a third takes a slab of it, and the next one
 * that ends gives up what is kept --- */

static void kept_setup(void)
{
    blocks_start(3);
    blocks_give(4, BIG);
    blocks_leave(0);
}

static void kept_run(unsigned who)
{
    if (who == 0) {
        struct hak_heap *heap = blocks_begin(0);
        blocks_free(heap, blocks_given[0]);
        blocks_free(heap, blocks_allocate(heap, BIG));
        blocks_leave(0);
        return;
    }
    struct hak_heap *heap = blocks_enter(who);
    blocks_free(heap, blocks_given[who]);
    hak_outbox_flush(heap);
    if (who == 1) {
        blocks_free(heap, blocks_allocate(heap, BIG));
        return;
    }
    blocks_leave(2);
    hak_registry_give_kept();
}

/* --- a thread begins with a heap that was kept and uses its bins, another would have its slabs ---
 */

static void begun_setup(void)
{
    blocks_start(2);
    struct hak_heap *heap = blocks_enter(0);
    blocks_free(heap, blocks_allocate(heap, BIG));
    blocks_leave(0);
}

static void begun_run(unsigned who)
{
    struct hak_heap *heap = who == 0 ? blocks_begin(0) : blocks_enter(who);
    for (unsigned i = 0; i < (who == 0 ? 4 : 1); i++)
        blocks_free(heap, blocks_allocate(heap, BIG));
    if (who == 0)
        blocks_leave(0);
}

/* --- free pages of slabs are blocks_given back while blocks come and go --- */

static void pages_setup(void)
{
    blocks_start(2);
    blocks_give(6, BIG);
}

static void pages_run(unsigned who)
{
    struct hak_heap *heap = who < 2 ? blocks_enter(who) : NULL;
    if (who == 0) {
        blocks_free(heap, blocks_given[0]);
        blocks_free(heap, blocks_given[1]);
        hak_cache_flush(heap);
        void *p = blocks_allocate(heap, BIG);
        blocks_free(heap, p);
    } else if (who == 1) {
        blocks_free(heap, blocks_given[2]);
        blocks_free(heap, blocks_given[3]);
        hak_outbox_flush(heap);
    } else {
        hak_self = &hak_front_shared;
        hak_cache_purge();
        hak_cache_purge();
    }
}

/* --- one makes blocks, another frees them --- */

static void pass_setup(void)
{
    blocks_start(3);
}

static void pass_run(unsigned who)
{
    struct hak_heap *heap = blocks_enter(who);
    for (unsigned i = 0; i < 3; i++) {
        if (who == 0) {
            void *p = blocks_allocate(heap, BIG);
            blocks_send(i, p);
            continue;
        }
        void *p = blocks_receive(i);
        if (p != NULL)
            blocks_free(heap, p);
        hak_outbox_flush(heap);
    }
    if (who == 0)
        for (unsigned i = 0; i < 3; i++) {
            void *p = blocks_receive(i);
            if (p != NULL)
                blocks_free(heap, p);
        }
}

/* --- several messages wait in inboxes, which are taken, forwarded and taken again --- */

static void lists_setup(void)
{
    blocks_start(3);
    blocks_give(12, BIG);
}

static void lists_run(unsigned who)
{
    struct hak_heap *heap = blocks_enter(who);
    if (who == 0) {
        blocks_free(heap, blocks_given[11]);
        blocks_leave_for_good(0);
        return;
    }
    for (unsigned i = 0; i < 3; i++) {
        blocks_free(heap, blocks_given[i * 4 + who - 1]);
        hak_outbox_flush(heap);
    }
    void *p = blocks_allocate(heap, BIG);
    blocks_free(heap, p);
}

/* --- the owner does not come by: those that free take its slab over, while it frees too --- */

static void takeover_setup(void)
{
    blocks_start(3);
    blocks_give(8, BIG);
}

static void takeover_run(unsigned who)
{
    struct hak_heap *heap = blocks_enter(who);
    if (who == 0) {
        blocks_free(heap, blocks_given[0]);
        blocks_free(heap, blocks_given[1]);
        hak_cache_flush(heap);
        return;
    }
    for (unsigned i = 0; i < 3; i++)
        blocks_free(heap, blocks_given[i * 2 + who + 1]);
    hak_outbox_flush(heap);
    void *p = blocks_allocate(heap, BIG);
    blocks_free(heap, p);
    hak_cache_flush(heap);
}

const struct scenario blocks_scenarios[] = {
    {"blocks_freers", "two threads free the blocks of a third that runs", 3, freers_setup,
     freers_run, blocks_between, blocks_verify},
    {"blocks_ends", "the same; the owner ends, another thread adopts", 3, ends_setup, ends_run,
     blocks_between, blocks_verify},
    {"blocks_adopt", "two threads adopt slabs into which a third frees", 3, adopt_setup, adopt_run,
     blocks_between, blocks_verify},
    {"blocks_inherit", "two threads free and collect the blocks of an ended one, a third adopts", 3,
     inherit_setup, inherit_run, blocks_between, blocks_verify},
    {"blocks_newcomers", "threads start and adopt while another frees", 3, newcomers_setup,
     newcomers_run, blocks_between, blocks_verify},
    {"blocks_reuse", "a slab is emptied from afar and made anew for another class", 3, reuse_setup,
     reuse_run, blocks_between, blocks_verify},
    {"blocks_released", "a slab is released while its last block is sent, and made anew", 3,
     released_setup, released_run, blocks_between, blocks_verify},
    {"blocks_heapless", "threads without a heap", 3, heapless_setup, heapless_run, blocks_between,
     blocks_verify},
    {"blocks_mail", "the owner takes blocks into its bins, and a tick collects for it", 3,
     mail_setup, mail_run, blocks_between, blocks_verify_by_ticks},
    {"blocks_sleeper", "a tick collects for an owner that sleeps, and wakes up", 3, sleeper_setup,
     sleeper_run, blocks_between, blocks_verify_by_ticks},
    {"blocks_walk", "threads start and end while another looks at all heaps", 3, walk_setup,
     walk_run, blocks_between, blocks_verify},
    {"blocks_kept", "a heap is kept for the next thread, while others free into it", 3, kept_setup,
     kept_run, blocks_between, blocks_verify},
    {"blocks_begun", "a thread begins with a kept heap, another takes a slab of that", 2,
     begun_setup, begun_run, blocks_between, blocks_verify},
    {"blocks_pages", "free pages of slabs are blocks_given back", 3, pages_setup, pages_run,
     blocks_between, blocks_verify},
    {"blocks_pass", "one thread makes blocks, two others free them", 3, pass_setup, pass_run,
     blocks_between, blocks_verify},
    {"blocks_lists", "several messages in inboxes whose owner ends", 3, lists_setup, lists_run,
     blocks_between, blocks_verify},
    {"blocks_takeover", "two threads take over a slab whose owner frees too", 3, takeover_setup,
     takeover_run, blocks_between, blocks_verify},
    {NULL, NULL, 0, NULL, NULL, NULL, NULL},
};
