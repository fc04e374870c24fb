/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Unit tests of heap: blocks of call sites in different groups do not share slabs, come back when
 * they are freed, and stay whole when their thread ends or the process forks. */
#include "heap_support.h"

#define BLOCKS 3000u

/* Sites are tokens here: an address would be that of this file's code, which moves. */
static const uintptr_t site_of[HAK_GROUPS] = {HAK_SITE_TOKEN | 1, HAK_SITE_TOKEN | 2,
                                              HAK_SITE_TOKEN | 3};

static void apply_rules(size_t least, size_t most)
{
    release(allocate(1));
    for (unsigned group = 0; group < HAK_GROUPS; group++) {
        struct hak_site_rule rule = {.group = (uint8_t)group,
                                     .offset = site_of[group] & ~HAK_SITE_TOKEN,
                                     .least_bytes = (uint32_t)least,
                                     .most_bytes = (uint32_t)most};
        MUST(hak_sites_add_rule(&rule));
        /* While a thread makes a site's entry, others take the site for short-lived: once. */
        MUST(hak_site_find(site_of[group]) != NULL);
    }
    hak_sites_apply();
}

static char *allocate_from(unsigned group, size_t bytes)
{
    char *p = hak_heap_malloc_from(bytes, site_of[group]);
    MUST(p != NULL);
    return p;
}

static const struct hak_slab *slab_of(const void *p)
{
    unsigned kind = hak_map_lookup(p) & HAK_KIND_MASK;
    MUST(kind < HAK_KIND_CLASSES);
    return hak_slab_of_slot(hak_slot_of(p), hak_class(kind / 2));
}

static unsigned group_of(const void *p)
{
    const struct hak_heap *owner = hak_load_relaxed(&slab_of(p)->owner);
    return hak_load_relaxed(&owner->group);
}

static char *block[BLOCKS];

static void groups_do_not_share_slabs(void **state)
{
    (void)state;
    apply_rules(16, 200);
    for (unsigned i = 0; i < BLOCKS; i++) {
        block[i] = allocate_from(i % HAK_GROUPS, 16 + i % 185);
        fill(block[i], 16 + i % 185, i);
    }
    for (unsigned i = 0; i < BLOCKS; i++) {
        CHECK(group_of(block[i]) == i % HAK_GROUPS, "block %u", i);
        assert_true(is_filled(block[i], 16 + i % 185, 16 + i % 185, i));
    }
    for (unsigned i = 0; i < BLOCKS; i++)
        release(block[i]);
    assert_nothing_is_lost();
}

/* One in a hundred stays, of a group of its own: then it is all that its memory is held for. */
static void long_lived_blocks_pin_little(void **state)
{
    (void)state;
    static char *kept[2000];
    static char *young[100000];
    apply_rules(64, 64);
    for (unsigned round = 0; round < 2; round++) {
        unsigned old = 0;
        for (unsigned i = 0; i < UNIT_COUNT(young); i++) {
            young[i] = allocate_from(HAK_GROUP_SHORT, 64);
            if (i % 100 == 0)
                kept[round * 1000 + old++] = allocate_from(HAK_GROUP_LONG, 64);
        }
        for (unsigned i = 0; i < UNIT_COUNT(young); i++)
            release(young[i]);
    }
    hak_heap_trim();
    struct hak_cache_usage u;
    hak_cache_usage(&u);
    CHECK(u.slab_bytes <= 2000 * 64 * 2, "%zu bytes for 2,000 blocks of 64", u.slab_bytes);
    for (unsigned i = 0; i < UNIT_COUNT(kept); i++)
        release(kept[i]);
}

/* Blocks of a group come back although their thread frees them as another heap's. */
static void what_is_freed_is_used_again(void **state)
{
    (void)state;
    apply_rules(100, 100);
    struct hak_cache_usage u;
    for (unsigned round = 0; round < 50; round++) {
        for (unsigned i = 0; i < BLOCKS; i++)
            block[i] = allocate_from(HAK_GROUP_LONG, 100);
        for (unsigned i = 0; i < BLOCKS; i++)
            release(block[i]);
    }
    hak_cache_usage(&u);
    CHECK(u.slab_bytes < 4 * BLOCKS * 112 + 16 * HAK_SLOT_BYTES, "%zu bytes", u.slab_bytes);
}

static void other_sizes_are_not_concerned(void **state)
{
    (void)state;
    apply_rules(100, 100);
    char *p = allocate_from(HAK_GROUP_LONG, 5000);
    assert_int_equal(group_of(p), HAK_GROUP_SHORT);
    char *q = allocate_from(HAK_GROUP_LONG, 200000);
    char *r = allocate_from(HAK_GROUP_LONG, 5 * MIB);
    release(p);
    release(q);
    release(r);
}

static void fill_and_leave(unsigned index, void *argument)
{
    (void)argument;
    for (unsigned i = index; i < BLOCKS; i += 4) {
        block[i] = allocate_from(i % HAK_GROUPS, 96);
        fill(block[i], 96, i);
    }
}

/* Slabs of ended threads go to heaps of their own group. */
static void ended_threads_leave_whole_blocks(void **state)
{
    (void)state;
    apply_rules(96, 96);
    unit_in_threads(4, fill_and_leave, NULL);
    hak_cache_purge(); /* what is kept for the next thread goes */
    for (unsigned i = 0; i < BLOCKS; i++) {
        assert_true(is_filled(block[i], 96, 96, i));
        assert_ptr_equal(hak_load_relaxed(&slab_of(block[i])->owner),
                         hak_orphans_of_group(i % HAK_GROUPS));
    }
    for (unsigned i = 0; i < 300; i++) {
        unsigned group = i % HAK_GROUPS;
        char *p = allocate_from(group, 96);
        assert_int_equal(group_of(p), group);
    }
    struct hak_pool_stats stats;
    hak_pool_stats(&stats);
    assert_true(stats.acquired[HAK_STAGE_ADOPT] >= HAK_GROUPS);
    for (unsigned i = 0; i < BLOCKS; i++)
        release(block[i]);
}

static void the_child_succeeds(pid_t child)
{
    int status;
    waitpid(child, &status, 0);
    assert_int_equal(status, 0);
}

static void release_every(unsigned step)
{
    for (unsigned i = 0; i < BLOCKS; i += step)
        release(block[i]);
}

/* Many slabs of one group, and one with room of another. */
static void leave_many(unsigned index, void *argument)
{
    (void)argument;
    for (unsigned i = index; i < BLOCKS; i++)
        block[i] = allocate_from(i == 0 ? HAK_GROUP_LONG : HAK_GROUP_SHORT, 1000);
    for (unsigned i = 1; i < BLOCKS; i += 2)
        release(block[i]);
}

static void a_group_finds_its_slab_among_many(void **state)
{
    (void)state;
    apply_rules(1000, 1000);
    unit_in_threads(1, leave_many, NULL);
    hak_cache_purge(); /* what is kept for the next thread goes */
    const struct hak_slab *left = slab_of(block[0]);
    char *p = allocate_from(HAK_GROUP_LONG, 1000);
    assert_ptr_equal(slab_of(p), left);
    assert_ptr_not_equal(hak_load_relaxed(&left->owner), hak_orphans_of_group(HAK_GROUP_LONG));
    release(p);
    release_every(2);
}

/* The heap that has a group's slabs of ended threads was in the midst of something when the process
 * forked: the child makes another. */
static void a_lost_shared_heap_is_replaced(void **state)
{
    (void)state;
    apply_rules(96, 96);
    unit_in_threads(4, fill_and_leave, NULL);
    hak_cache_purge();
    struct hak_heap *orphans = hak_orphans_of_group(HAK_GROUP_LONG);
    assert_non_null(orphans);
    pid_t child = fork();
    if (child == 0) {
        hak_store_relaxed(&orphans->lock.state, 1u); /* another thread had it */
        hak_heap_fork_child();
        MUST(hak_orphans_of_group(HAK_GROUP_LONG) == NULL);
        MUST(hak_orphans_of_group(HAK_GROUP_MEDIUM) != NULL);
        unit_in_threads(4, fill_and_leave, NULL);
        hak_cache_purge();
        struct hak_heap *fresh = hak_orphans_of_group(HAK_GROUP_LONG);
        MUST(fresh != NULL && fresh != orphans);
        char *p = allocate_from(HAK_GROUP_LONG, 96);
        MUST(hak_load_relaxed(&slab_of(p)->owner) != fresh);
        _exit(0);
    }
    the_child_succeeds(child);
    release_every(1);
}

static void the_child_of_a_fork_goes_on(void **state)
{
    (void)state;
    apply_rules(96, 96);
    for (unsigned i = 0; i < BLOCKS; i++)
        fill(block[i] = allocate_from(i % HAK_GROUPS, 96), 96, i);
    pid_t child = fork();
    if (child == 0) {
        hak_heap_fork_child();
        for (unsigned i = 0; i < BLOCKS; i++) {
            MUST(is_filled(block[i], 96, 96, i));
            release(block[i]);
            fill(block[i] = allocate_from(i % HAK_GROUPS, 96), 96, i);
        }
        for (unsigned i = 0; i < BLOCKS; i++)
            MUST(is_filled(block[i], 96, 96, i));
        _exit(0);
    }
    the_child_succeeds(child);
    release_every(1);
}

/* Learning: samples are blocks as others are. */
static void samples_are_like_other_blocks(void **state)
{
    (void)state;
    static char *p[80000];
    hak_sites_learn(true);
    for (unsigned i = 0; i < UNIT_COUNT(p); i++) {
        size_t bytes = 16 + i % 2000;
        p[i] = i % 3 == 0 ? hak_heap_calloc(bytes) : allocate_from(i % HAK_GROUPS, bytes);
        if (i % 3 == 0)
            MUST(is_zero(p[i], bytes));
        fill(p[i], bytes, i);
    }
    uint32_t samples = 0;
    for (unsigned i = 0; i < HAK_SITES; i++)
        samples += hak_load_relaxed(&hak_sites[i].samples);
    CHECK(samples > 3, "%u", samples);
    for (unsigned i = 0; i < UNIT_COUNT(p); i++) {
        size_t bytes = 16 + i % 2000;
        assert_true(is_filled(p[i], bytes, bytes, i));
        assert_true(hak_heap_usable_bytes(p[i]) >= bytes);
        p[i] = heap_realloc(p[i], bytes + 100);
        assert_true(is_filled(p[i], bytes, bytes, i));
        release(p[i]);
    }
    for (unsigned i = 0; i < HAK_SITES; i++)
        assert_int_equal(hak_load_relaxed(&hak_sites[i].live), 0);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(groups_do_not_share_slabs),
    cmocka_unit_test(a_group_finds_its_slab_among_many),
    cmocka_unit_test(a_lost_shared_heap_is_replaced),
    cmocka_unit_test(long_lived_blocks_pin_little),
    cmocka_unit_test(what_is_freed_is_used_again),
    cmocka_unit_test(other_sizes_are_not_concerned),
    cmocka_unit_test(ended_threads_leave_whole_blocks),
    cmocka_unit_test(the_child_of_a_fork_goes_on),
    cmocka_unit_test(samples_are_like_other_blocks),
};
UNIT_MAIN(tests)
