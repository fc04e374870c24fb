/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Scheduler of the tests: scenarios of the pool: acquire, release, retire, revive, purge, evict,
 * grow, huge blocks. */
#include "scenarios.h"

#include "pool/pool_internal.h"

static size_t mine[SCHED_THREADS];

static void hold_one_each(unsigned threads)
{
    for (unsigned t = 0; t < threads; t++)
        mine[t] = slots_acquire(1, t % 2);
}

/* A huge block of so many superslabs, for a moment. */
static void take_and_give(size_t superslabs)
{
    struct hak_whole w;
    bool zero = false;
    int error = hak_whole_take(superslabs * HAK_SUPERSLAB_BYTES, 1, 0, &w, &zero);
    SCHED_CHECK(error == 0, "error %d", error);
    size_t slot = w.first * HAK_SLOTS;
    unsigned count = (unsigned)(w.mapped_bytes / HAK_SLOT_BYTES);
    slots_claim(slot, count, zero);
    slots_give_up(slot, count);
    hak_whole_give(&w);
}

/* Two slots of a superslab go round among three threads, the others are in use. */
static void last_slots_setup(void)
{
    slots_start();
    slots_keep_busy(HAK_SLOTS - 3);
    hold_one_each(2);
}

static void last_slots_run(unsigned who)
{
    if (who < 2)
        slots_release(mine[who], 1, who);
    size_t slot = slots_acquire(1, who % 2);
    slots_release(slot, 1, who % 2);
}

/* Slots that were never used: what is said to read as zero does. */
static void clean_setup(void)
{
    slots_start();
    hold_one_each(1);
}

static void clean_run(unsigned who)
{
    for (unsigned i = 0; i < 2; i++) {
        size_t slot = slots_acquire(1 + who % 2, HAK_POOL_LABEL_RUN);
        slots_release(slot, 1 + who % 2, HAK_POOL_LABEL_RUN);
    }
}

/* A superslab that was full, and in no index, is emptied at once; somebody takes a slot by the
 * class's hint. */
static void warm_setup(void)
{
    slots_start();
    mine[0] = slots_acquire(HAK_SLOTS, 1);
}

static void warm_run(unsigned who)
{
    if (who == 0)
        slots_release(mine[0], HAK_SLOTS, 1);
    size_t slot = slots_acquire(1, 1);
    if (who == 2)
        slots_release(slot, 1, 1);
}

static void index_setup(void)
{
    slots_start();
    slots_keep_busy(HAK_SLOTS - 2);
    hold_one_each(2);
}

/* All slots are in use: two are released while a third thread finds the superslab full. */
static void index_run(unsigned who)
{
    if (who < 2) {
        slots_release(mine[who], 1, who);
        return;
    }
    size_t slot;
    bool zero;
    for (unsigned i = 0; i < 2; i++)
        if (hak_pool_try_free(1, 1, false, 0, &slot, &zero)) {
            slots_claim(slot, 1, zero);
            pool_count_in_use(0, 1);
        }
}

static void retire_setup(void)
{
    slots_start();
    hold_one_each(3);
}

static void retire_run(unsigned who)
{
    slots_release(mine[who], 1, who % 2);
    size_t slot = slots_acquire(1 + who % 2, who % 2);
    if (who == 2)
        hak_pool_trim();
    slots_release(slot, 1 + who % 2, who % 2);
}

static void purge_setup(void)
{
    slots_start();
    hold_one_each(3);
    size_t more[3];
    for (unsigned i = 0; i < 3; i++)
        more[i] = slots_acquire(1, i % 2);
    for (unsigned i = 0; i < 3; i++)
        slots_release(more[i], 1, i % 2);
}

static void purge_run(unsigned who)
{
    if (who == 2) {
        hak_pool_purge_empty(SIZE_MAX, UINT64_MAX, true);
        slots_release(mine[2], 1, 0);
        hak_pool_purge_empty(SIZE_MAX, UINT64_MAX, true);
        return;
    }
    size_t slot = slots_acquire(2 - who, who);
    slots_release(mine[who], 1, who);
    slots_release(slot, 2 - who, who);
}

/* Nothing may be kept: what is retired is unmapped at once. */
static void evict_setup(void)
{
    slots_start();
    slots_configure(0, 0);
    hold_one_each(2);
}

static void evict_run(unsigned who)
{
    if (who < 2)
        slots_release(mine[who], 1, who);
    size_t slot = slots_acquire(1, who % 2);
    sim_os_set_time_ns(sim_os_time_ns() + 1000000);
    slots_release(slot, 1, who % 2);
}

static void refused_setup(void)
{
    evict_setup();
    sim_os_refuse(true, false);
}

/* Retired superslabs are taken, two in a row, and one of them comes back. */
static void pop_setup(void)
{
    slots_start();
    slots_keep_busy(HAK_SLOTS);
    mine[0] = slots_acquire(HAK_SLOTS, HAK_POOL_LABEL_RUN);
    mine[1] = slots_acquire(HAK_SLOTS, HAK_POOL_LABEL_RUN);
    slots_release(mine[0], HAK_SLOTS, HAK_POOL_LABEL_RUN);
    slots_release(mine[1], HAK_SLOTS, HAK_POOL_LABEL_RUN);
}

static void pop_run(unsigned who)
{
    size_t slot = slots_acquire(HAK_SLOTS, HAK_POOL_LABEL_RUN);
    if (who != 1)
        return;
    slots_acquire(HAK_SLOTS, HAK_POOL_LABEL_RUN);
    slots_release(slot, HAK_SLOTS, HAK_POOL_LABEL_RUN);
}

/* What a huge block leaves behind is cached; two threads take slots of it, one of them reviving it,
 * while a third still finds it in the index. */
static void revive_setup(void)
{
    slots_start();
    slots_keep_busy(HAK_SLOTS);
}

static void revive_run(unsigned who)
{
    if (who == 0)
        take_and_give(1);
    slots_acquire(1, who);
}

/* While one thread looks for room for nine slots, which 23 in use leave, a superslab is emptied,
 * unmapped, and its place mapped anew. Others still find it in the index from before, full. */
static void again_setup(void)
{
    slots_start();
    slots_configure(0, 0);
    size_t low = slots_acquire(16, HAK_POOL_LABEL_RUN);
    hold_one_each(1);
    slots_release(low, 16, HAK_POOL_LABEL_RUN);
}

static void again_run(unsigned who)
{
    size_t slot;
    bool zero;
    if (who == 0) {
        slots_release(mine[0], 1, 0);
    } else if (who == 1) {
        slots_acquire(23, HAK_POOL_LABEL_RUN);
    } else if (hak_pool_try_free(9, 1, false, 0, &slot, &zero)) {
        slots_claim(slot, 9, zero);
        slots_release(slot, 9, HAK_POOL_LABEL_RUN);
    }
}

/* The same; what is emptied is kept, and revived. */
static void again_kept_setup(void)
{
    again_setup();
    slots_configure(4, UINT64_MAX / 8);
}

/* The only free slot is purged; meanwhile the superslab seems full. */
static void index_purge_setup(void)
{
    slots_start();
    slots_keep_busy(HAK_SLOTS - 1);
    hold_one_each(1);
    slots_release(mine[0], 1, 0);
}

static void look_for_room(unsigned count)
{
    size_t slot;
    bool zero;
    if (hak_pool_try_free(count, 1, false, 0, &slot, &zero))
        slots_claim(slot, count, zero);
}

static void index_purge_run(unsigned who)
{
    if (who == 0)
        hak_pool_purge_empty(SIZE_MAX, UINT64_MAX, true);
    else
        look_for_room(who == 1 ? 1 : 2);
}

/* A superslab that is mapped in part gets full, and more of it is mapped. */
static void index_grow_setup(void)
{
    slots_start_empty();
    slots_keep_busy(7);
}

static void index_grow_run(unsigned who)
{
    if (who == 2)
        look_for_room(2);
    else
        slots_acquire(who == 0 ? 3 : 1, HAK_POOL_LABEL_RUN);
}

static void grow_setup(void)
{
    slots_start_empty();
}

static void grow_run(unsigned who)
{
    static const unsigned counts[] = {3, 12, 24};
    size_t slot = slots_acquire(counts[who], HAK_POOL_LABEL_RUN);
    size_t more = slots_acquire(1, who);
    slots_release(slot, counts[who], HAK_POOL_LABEL_RUN);
    slots_release(more, 1, who);
}

/* Two superslabs at most: runs may be refused, and nothing may be left behind. */
static void limit_setup(void)
{
    slots_start_empty();
    hak_pool_set_limit(2);
}

static void limit_run(unsigned who)
{
    static const unsigned counts[] = {3, 20, 30};
    size_t slot = SIZE_MAX;
    bool zero = false;
    for (unsigned i = 0; i < 2; i++) {
        unsigned count = counts[(who + i) % 3];
        if (hak_pool_acquire_any(count, 1, HAK_POOL_LABEL_RUN, &slot, &zero) != 0)
            continue;
        slots_claim(slot, count, zero);
        slots_release(slot, count, HAK_POOL_LABEL_RUN);
    }
}

/* What is in use and what is asked for is no more than the limit; what is kept lies apart, so that
 * it has to go. */
static void limit_kept_setup(void)
{
    size_t whole[5];
    slots_start_empty();
    hak_pool_configure(&(struct hak_pool_config){
        .retired_max_count = 8, .retired_max_bytes = SIZE_MAX, .retired_max_age_ns = UINT64_MAX});
    hak_pool_set_limit(2 + 3 * 2);
    for (unsigned i = 0; i < 5; i++)
        whole[i] = slots_acquire(HAK_SLOTS, HAK_POOL_LABEL_RUN);
    for (unsigned i = 0; i < 5; i += 2)
        slots_release(whole[i], HAK_SLOTS, HAK_POOL_LABEL_RUN);
}

static void limit_kept_run(unsigned who)
{
    (void)who;
    take_and_give(2);
}

static void huge_setup(void)
{
    slots_start();
    hold_one_each(3);
}

static void huge_run(unsigned who)
{
    slots_release(mine[who], 1, who % 2);
    if (who == 2) {
        size_t slot = slots_acquire(1, 0);
        slots_release(slot, 1, 0);
        return;
    }
    take_and_give(1);
}

static void in_place_setup(void)
{
    slots_start();
    for (unsigned t = 0; t < 3; t++)
        mine[t] = slots_acquire(1, HAK_POOL_LABEL_RUN);
}

/* A run grows into the slot behind it, which somebody releases and somebody else wants. */
static void in_place_run(unsigned who)
{
    bool zero;
    if (who == 0 && hak_pool_try_acquire_at(mine[0] + 1, 1, &zero)) {
        slots_claim(mine[0] + 1, 1, zero);
        slots_release(mine[0], 2, HAK_POOL_LABEL_RUN);
        return;
    }
    slots_release(mine[who], 1, HAK_POOL_LABEL_RUN);
    if (who == 0)
        return;
    size_t slot = slots_acquire(2, HAK_POOL_LABEL_RUN);
    slots_release(slot, 2, HAK_POOL_LABEL_RUN);
}

const struct scenario slots_scenarios[] = {
    {"slots_last", "the last free slots of a superslab go round", 3, last_slots_setup,
     last_slots_run, NULL, slots_verify},
    {"slots_index", "a full superslab leaves the index while slots are released", 3, index_setup,
     index_run, NULL, slots_verify},
    {"slots_clean", "slots that were never used", 3, clean_setup, clean_run, NULL, slots_verify},
    {"slots_warm", "a slot is taken by the class's hint while all are released", 3, warm_setup,
     warm_run, NULL, slots_verify},
    {"slots_retire", "a superslab is emptied, retired, revived and trimmed", 3, retire_setup,
     retire_run, NULL, slots_verify},
    {"slots_purge", "EMPTY slots are purged while others want them", 3, purge_setup, purge_run,
     NULL, slots_verify},
    {"slots_evict", "nothing may be kept: superslabs come and go", 3, evict_setup, evict_run, NULL,
     slots_verify},
    {"slots_refused", "the same; the system refuses to unmap", 3, refused_setup, evict_run, NULL,
     slots_verify},
    {"slots_again", "the place of an unmapped superslab is used again", 3, again_setup, again_run,
     NULL, slots_verify},
    {"slots_again_kept", "a superslab is emptied, retired and revived", 3, again_kept_setup,
     again_run, NULL, slots_verify},
    {"slots_index_purge", "the only free slot is purged", 3, index_purge_setup, index_purge_run,
     NULL, slots_verify},
    {"slots_index_grow", "a superslab gets full, and more of it is mapped", 3, index_grow_setup,
     index_grow_run, NULL, slots_verify},
    {"slots_grow", "three threads make the pool grow", 3, grow_setup, grow_run, NULL, slots_verify},
    {"slots_limit", "the same, with a limit of two superslabs", 3, limit_setup, limit_run, NULL,
     slots_verify},
    {"slots_limit_kept", "nobody is refused while another gives back what was kept", 3,
     limit_kept_setup, limit_kept_run, NULL, slots_verify},
    {"slots_huge", "huge blocks take whole superslabs", 3, huge_setup, huge_run, NULL,
     slots_verify},
    {"slots_pop", "retired superslabs are taken and come back", 3, pop_setup, pop_run, NULL,
     slots_verify},
    {"slots_revive", "what a huge block leaves is revived slot by slot", 3, revive_setup,
     revive_run, NULL, slots_verify},
    {"slots_in_place", "a run grows in place", 3, in_place_setup, in_place_run, NULL, slots_verify},
    {NULL, NULL, 0, NULL, NULL, NULL, NULL},
};
