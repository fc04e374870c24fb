/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Scheduler of the tests: scenarios of heaps of which several threads use the slabs. */
#include "scenarios.h"

/* --- among many threads some are guests of another's slabs: heap 2 of heap 0's --- */

static void homes_start(unsigned count)
{
    sim_os_set_processors(1);
    blocks_start(count);
}

static void homes_setup(void)
{
    homes_start(3);
    blocks_give(4, BIG);
}

static void guests_run(unsigned who)
{
    struct hak_heap *heap = blocks_enter(who);
    if (who == 1) {
        struct hak_cache_usage usage;
        blocks_free(heap, blocks_given[0]);
        blocks_free(heap, blocks_given[1]);
        hak_outbox_flush(heap);
        hak_cache_usage(&usage);
        blocks_free(heap, blocks_allocate(heap, BIG));
        return;
    }
    blocks_free(heap, blocks_given[2 + who / 2]);
    hak_cache_flush(heap);
    void *p = blocks_allocate(heap, BIG);
    blocks_free(heap, blocks_allocate(heap, SMALL));
    blocks_free(heap, p);
    if (who == 2)
        hak_cache_flush(heap);
}

/* --- a home's thread ends and so does its guest, and others begin meanwhile --- */

static void homes_run(unsigned who)
{
    if (who == 1) {
        struct hak_heap *heap = blocks_enter(1);
        blocks_free(heap, blocks_given[0]);
        hak_outbox_flush(heap);
        heap = blocks_begin(3);
        blocks_free(heap, blocks_given[1]);
        blocks_free(heap, blocks_allocate(heap, BIG));
        return;
    }
    struct hak_heap *heap = blocks_enter(who);
    blocks_free(heap, blocks_given[2 + who / 2]);
    if (who == 2)
        blocks_free(heap, blocks_allocate(heap, BIG));
    blocks_leave_for_good(who);
    heap = blocks_begin(who);
    blocks_free(heap, blocks_allocate(heap, BIG));
}

/* --- a guest comes and goes, while its home's thread works and another looks at all heaps --- */

static void visits_setup(void)
{
    homes_start(2);
    blocks_give(3, BIG);
}

static void visits_run(unsigned who)
{
    if (who == 0) {
        struct hak_heap *heap = blocks_enter(0);
        blocks_free(heap, blocks_given[0]);
        hak_cache_flush(heap);
        blocks_free(heap, blocks_allocate(heap, BIG));
    } else if (who == 1) {
        struct hak_heap *heap = blocks_begin(2);
        blocks_free(heap, blocks_given[1]);
        blocks_free(heap, blocks_allocate(heap, BIG));
        blocks_leave_for_good(2);
    } else {
        struct hak_cache_usage usage;
        struct hak_heap *heap = blocks_enter(1);
        blocks_free(heap, blocks_given[2]);
        hak_cache_usage(&usage);
        hak_cache_watch(HAK_WATCHER_SITES, (struct hak_class_set){{0}});
        hak_cache_purge();
        hak_outbox_flush(heap);
    }
}

/* --- two homes become one: heap 1 and its guest, heap 3, come to heap 0 and its guest, heap 2 ---
 */

static struct hak_heap *first, *second;

static void merge(struct hak_heap *heap, struct hak_heap *other)
{
    heap->exchanged_blocks = UINT16_MAX;
    hak_homes_weigh_owner(heap, other);
}

static void merge_setup(void)
{
    homes_setup();
    blocks_given[4] = blocks_allocate(blocks_enter(1), BIG);
    blocks_given[5] = blocks_allocate(blocks_enter(1), BIG);
    second = blocks_enter(1);
    first = blocks_enter(0);
}

static void merge_run(unsigned who)
{
    struct hak_heap *heap = blocks_enter(who);
    if (who == 1) {
        blocks_free(heap, blocks_given[0]);
        hak_outbox_flush(heap);
        merge(heap, first);
        blocks_free(heap, blocks_given[1]);
        blocks_free(heap, blocks_allocate(heap, BIG));
        hak_cache_flush(heap);
        return;
    }
    blocks_free(heap, blocks_given[2 + who / 2]);
    blocks_free(heap, blocks_given[4 + who / 2]);
    hak_outbox_flush(heap);
    blocks_free(heap, blocks_allocate(heap, BIG));
    if (who == 2)
        blocks_leave_for_good(2);
}

static void follow_setup(void)
{
    homes_start(4);
    blocks_give(2, BIG);
    blocks_given[2] = blocks_allocate(blocks_enter(1), BIG);
    blocks_given[3] = blocks_allocate(blocks_enter(3), BIG);
    blocks_given[4] = blocks_allocate(blocks_enter(3), BIG);
    blocks_leave_for_good(2);
    first = blocks_enter(0);
}

static void follow_run(unsigned who)
{
    static const unsigned heap_of[] = {0, 1, 3};
    struct hak_heap *heap = blocks_enter(heap_of[who]);
    if (who == 1)
        merge(heap, first);
    blocks_free(heap, blocks_given[who]);
    if (who != 2)
        blocks_free(heap, blocks_given[3 + who]);
    if (who != 0)
        blocks_free(heap, blocks_allocate(heap, BIG));
    blocks_leave_for_good(heap_of[who]);
    if (who != 2)
        return;
    heap = blocks_begin(2);
    blocks_free(heap, blocks_allocate(heap, BIG));
}

/* Both at once. */
static void cross_run(unsigned who)
{
    struct hak_heap *heap = blocks_enter(who);
    blocks_free(heap, blocks_given[who == 0 ? 4 : who]);
    hak_outbox_flush(heap);
    if (who != 2)
        merge(heap, who == 0 ? second : first);
    blocks_free(heap, blocks_allocate(heap, BIG));
    hak_cache_flush(heap);
}

const struct scenario homes_scenarios[] = {
    {"blocks_guests", "two threads share a heap's slabs, a third frees into them", 3, homes_setup,
     guests_run, blocks_between, blocks_verify},
    {"blocks_homes", "a home's thread and its guest end, another begins", 3, homes_setup, homes_run,
     blocks_between, blocks_verify},
    {"blocks_merge", "two homes become one while others free into both", 3, merge_setup, merge_run,
     blocks_between, blocks_verify},
    {"blocks_cross", "both homes are found to be better off as one at once", 3, merge_setup,
     cross_run, blocks_between, blocks_verify},
    {"blocks_follow", "the same; threads of both end, and one begins", 3, follow_setup, follow_run,
     blocks_between, blocks_verify},
    {"blocks_visits", "a guest comes and goes while another looks at all heaps", 3, visits_setup,
     visits_run, blocks_between, blocks_verify},
    {NULL, NULL, 0, NULL, NULL, NULL, NULL},
};
