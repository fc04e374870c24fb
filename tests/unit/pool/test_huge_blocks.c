/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Unit tests of pool: which huge blocks get huge pages. */
#include "huge_support.h"

#include <sys/mman.h>

static uint32_t samples(void)
{
    return hak_load_relaxed(&hak_pool.dense_samples);
}

static void huge_blocks_get_huge_pages_after_some_that_were_used_up(void **state)
{
    (void)state;
    bool zero;
    start();
    huge_pages_from(2 * HAK_SUPERSLAB_BYTES);
    for (unsigned i = 0; i < 5; i++) { /* of each two pages are looked at */
        struct hak_whole w = take(1, &zero);
        memset(hak_superslab_address(w.first), 1, w.mapped_bytes);
        assert_int_equal(samples(), i < 2 ? 2 * i : 4);
        hak_whole_give(&w);
        hak_pool_trim();
    }
    unsigned unused = 0; /* then one in 4: three looks have found the same */
    while (samples() != 0) {
        struct hak_whole w = take(3, &zero);
        hak_whole_give(&w);
        hak_pool_trim();
        unused++;
    }
    assert_in_range(unused, 2, 4);
}

static void a_huge_block_that_is_written_lets_the_next_have_huge_pages(void **state)
{
    (void)state;
    bool zero;
    start();
    huge_pages_from(4 * HAK_SUPERSLAB_BYTES);
    struct hak_whole first = take(4, &zero);
    memset(hak_superslab_address(first.first), 1, first.mapped_bytes);
    assert_int_equal(samples(), 0);
    assert_false(hak_pool_has_huge_pages());
    take(4, &zero);
    assert_int_equal(samples(), 4);
    assert_true(hak_pool_has_huge_pages()); /* for slabs, too */
}

static void one_that_was_written_and_cut_is_not_taken_for_unused(void **state)
{
    (void)state;
    bool zero;
    start();
    huge_pages_from(4 * HAK_SUPERSLAB_BYTES);
    hak_store_relaxed(&hak_pool.dense_samples, 2u); /* as others have told */
    struct hak_whole w = take(8, &zero);
    memset(hak_superslab_address(w.first), 1, w.mapped_bytes);
    assert_true(hak_whole_try_cut(&w, HAK_SUPERSLAB_BYTES));
    take(4, &zero);
    assert_int_equal(samples(), 2);
}

static uint64_t asked_by_a_block(size_t superslabs, unsigned how)
{
    struct hak_whole w;
    bool zero;
    uint64_t before = stats().huge_asked_total;
    assert_int_equal(hak_whole_take(superslabs * HAK_SUPERSLAB_BYTES, 1, how, &w, &zero), 0);
    return stats().huge_asked_total - before;
}

static void a_large_block_that_will_be_written_before_it_is_read_gets_huge_pages(void **state)
{
    (void)state;
    start();
    huge_pages_from(8 * HAK_SUPERSLAB_BYTES);
    assert_int_equal(asked_by_a_block(4, 0), 0);
    assert_int_equal(asked_by_a_block(3, HAK_WHOLE_WRITTEN), 0);
    assert_int_equal(asked_by_a_block(4, HAK_WHOLE_WRITTEN), 1);
    assert_false(hak_pool_has_huge_pages()); /* nothing is known of what was done with them */
    huge_pages_from(SIZE_MAX);
    assert_int_equal(asked_by_a_block(4, HAK_WHOLE_WRITTEN), 0);
}

static size_t on_trust(void)
{
    return hak_load_relaxed(&hak_pool.unproven);
}

/* Of one that begins with a huge page and does not fill it, the rest is lost if it is not used. */
static void it_has_to_have_as_much_in_whole_superslabs(void **state)
{
    (void)state;
    bool zero;
    struct hak_whole w;
    size_t bytes = 2 * HAK_SUPERSLAB_BYTES;
    start();
    huge_pages_from(4 * HAK_SUPERSLAB_BYTES);
    assert_int_equal(hak_whole_take(bytes - 2 * HAK_SLOT_BYTES, 1, HAK_WHOLE_WRITTEN, &w, &zero),
                     0);
    assert_true(hak_whole_try_extend(&w, bytes - HAK_SLOT_BYTES));
    assert_int_equal(stats().huge_asked_total, 0);
    assert_int_equal(hak_whole_take(bytes, 1, HAK_WHOLE_WRITTEN, &w, &zero), 0);
    assert_int_equal(stats().huge_asked_total, 1);
}

static void without_evidence_not_more_than_two_blocks(void **state)
{
    (void)state;
    start();
    huge_pages_from(4 * HAK_SUPERSLAB_BYTES);
    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(asked_by_a_block(3, HAK_WHOLE_WRITTEN), i < 2);
}

static void without_evidence_not_more_than_a_little_or_than_slabs_have(void **state)
{
    (void)state;
    start();
    huge_pages_from(8 * HAK_SUPERSLAB_BYTES);
    assert_int_equal(asked_by_a_block(17, HAK_WHOLE_WRITTEN), 0); /* not even the first */
    assert_int_equal(asked_by_a_block(7, HAK_WHOLE_WRITTEN), 1);
    assert_int_equal(asked_by_a_block(10, HAK_WHOLE_WRITTEN), 0);
    assert_int_equal(asked_by_a_block(9, HAK_WHOLE_WRITTEN), 1); /* 16 */
    assert_int_equal(asked_by_a_block(4, HAK_WHOLE_WRITTEN), 0);
    for (unsigned i = 0; i < 20 * HAK_SLOTS; i++)
        acquire(1, 1, 3, NULL);
    hak_store_relaxed(&hak_pool.unproven, pool_slot_superslabs() - 4);
    assert_int_equal(asked_by_a_block(5, HAK_WHOLE_WRITTEN), 0);
    assert_int_equal(asked_by_a_block(4, HAK_WHOLE_WRITTEN), 1);
}

static struct hak_whole take_written(size_t superslabs)
{
    bool zero;
    struct hak_whole w = take(superslabs, &zero);
    memset(hak_superslab_address(w.first), 1, w.mapped_bytes);
    return w;
}

/* Of 20 superslabs, so that huge blocks are known to be used. */
static void start_with_a_used_block(void)
{
    start();
    huge_pages_from(8 * HAK_SUPERSLAB_BYTES);
    take_written(20);
    hak_store_relaxed(&hak_pool.dense_samples, 4u);
}

/* What others were used for tells nothing of one that is larger than all of them. */
static void huge_blocks_that_are_used_up_vouch_for_as_much(void **state)
{
    (void)state;
    start_with_a_used_block();
    assert_int_equal(asked_by_a_block(20, HAK_WHOLE_WRITTEN), 1);
    assert_int_equal(on_trust(), 20);
    assert_int_equal(asked_by_a_block(1, 0), 0); /* 20 that are not on trust vouch for no more */
    assert_int_equal(samples(), 4);
}

static void one_that_is_larger_has_small_pages_and_tells(void **state)
{
    (void)state;
    start_with_a_used_block();
    assert_int_equal(asked_by_a_block(21, HAK_WHOLE_WRITTEN), 0);
    assert_int_equal(samples(), 4);
    assert_int_equal(asked_by_a_block(41, HAK_WHOLE_WRITTEN), 0); /* 21 are not used */
    assert_int_equal(samples(), 0);
    assert_int_equal(on_trust(), 0);
}

static void one_with_huge_pages_may_be_used_later(void **state)
{
    (void)state;
    start_with_a_used_block();
    struct hak_whole w;
    bool zero;
    size_t bytes = 8 * HAK_SUPERSLAB_BYTES + HAK_SLOT_BYTES; /* its end can tell */
    assert_int_equal(hak_whole_take(bytes, 1, HAK_WHOLE_WRITTEN, &w, &zero), 0);
    assert_int_equal(asked_by_a_block(8, HAK_WHOLE_WRITTEN), 1);
    assert_int_equal(samples(), 4);
    assert_int_equal(on_trust(), 16);
}

static void what_has_small_pages_and_is_used_up_vouches_for_four_times_as_much(void **state)
{
    (void)state;
    start();
    huge_pages_from(8 * HAK_SUPERSLAB_BYTES);
    hak_store_relaxed(&hak_pool.dense_samples, 4u);
    hak_store_relaxed(&hak_pool.unproven, (size_t)100);
    uint64_t before = stats().huge_asked_total;
    take_written(2);
    take_written(1);
    assert_int_equal(on_trust(), 92);
    take_written(24);
    assert_int_equal(on_trust(), 88);
    assert_int_equal(stats().huge_asked_total, before);
    assert_int_equal(asked_by_a_block(4, 0), 1);
    assert_int_equal(on_trust(), 4);
    assert_int_equal(samples(), 4);
}

static void what_a_used_block_grows_by_is_not_on_trust_but_not_more_than_there_is(void **state)
{
    (void)state;
    bool zero;
    start();
    huge_pages_from(8 * HAK_SUPERSLAB_BYTES);
    hak_store_relaxed(&hak_pool.dense_samples, 4u);
    struct hak_whole w = take(20, &zero);
    uint64_t before = stats().huge_asked_total;
    assert_true(hak_whole_try_extend(&w, 40 * HAK_SUPERSLAB_BYTES));
    assert_int_equal(stats().huge_asked_total, before + 1);
    assert_true(hak_whole_try_extend(&w, 81 * HAK_SUPERSLAB_BYTES));
    assert_int_equal(stats().huge_asked_total, before + 1);
    assert_int_equal(on_trust(), 0);
}

/* All but its end may be in memory because one byte in each 2 MiB is. */
static void the_end_of_a_block_with_huge_pages_tells_whether_it_was_used_up(void **state)
{
    (void)state;
    struct hak_whole w[2];
    bool zero;
    size_t bytes = 4 * HAK_SUPERSLAB_BYTES + HAK_SLOT_BYTES;
    start();
    huge_pages_from(8 * HAK_SUPERSLAB_BYTES);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(hak_whole_take(bytes, 1, HAK_WHOLE_WRITTEN, &w[i], &zero), 0);
        assert_int_equal(stats().huge_asked_total, i + 1);
        memset(hak_superslab_address(w[i].first), 1, 4 * HAK_SUPERSLAB_BYTES);
    }
    hak_store_relaxed(&hak_pool.unproven, (size_t)1000);
    assert_true(hak_whole_try_extend(&w[1], bytes + HAK_SUPERSLAB_BYTES)); /* with small pages */
    assert_int_equal(stats().huge_asked_total, 2);
    hak_whole_give(&w[1]);
    assert_int_equal(samples(), 0);
    hak_superslab_address(w[0].first)[4 * HAK_SUPERSLAB_BYTES] = 1;
    hak_whole_give(&w[0]);
    assert_int_equal(samples(), 4);
}

static void a_block_that_grows_gets_huge_pages_behind_what_it_had(void **state)
{
    (void)state;
    struct hak_whole w;
    bool zero;
    start();
    huge_pages_from(6 * HAK_SUPERSLAB_BYTES);
    assert_int_equal(hak_whole_take(2 * HAK_SUPERSLAB_BYTES, 1, 0, &w, &zero), 0);
    assert_true(hak_whole_try_extend(&w, 3 * HAK_SUPERSLAB_BYTES - HAK_SLOT_BYTES));
    assert_int_equal(w.mapped_bytes, 3 * HAK_SUPERSLAB_BYTES - HAK_SLOT_BYTES); /* no large one */
    assert_int_equal(stats().huge_asked_total, 0);
    assert_true(hak_whole_try_extend(&w, 3 * HAK_SUPERSLAB_BYTES + HAK_SLOT_BYTES));
    assert_int_equal(w.mapped_bytes, 4 * HAK_SUPERSLAB_BYTES); /* room for a huge page */
    assert_int_equal(stats().huge_asked_total, 1);
    struct hak_whole to;
    assert_int_equal(hak_whole_take(8 * HAK_SUPERSLAB_BYTES, 1, HAK_WHOLE_FRESH, &to, &zero), 0);
    assert_int_equal(stats().huge_asked_total, 1); /* pages will be moved in */
    hak_whole_grown(&to, 6);
    assert_int_equal(stats().huge_asked_total, 2);
    hak_whole_grown(&to, 8);
    assert_int_equal(stats().huge_asked_total, 2); /* no room for one */
}

static void blocks_of_less_than_a_superslab_tell_too(void **state)
{
    (void)state;
    enum { BYTES = 20 * HAK_SLOT_BYTES };
    struct hak_whole w;
    bool zero;
    start();
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(hak_whole_take(BYTES, 1, HAK_WHOLE_FRESH, &w, &zero), 0);
        assert_int_equal(samples(), i);
        memset(hak_superslab_address(w.first), 1, BYTES);
    }
}

static void a_huge_block_that_is_hardly_used_does_not(void **state)
{
    (void)state;
    bool zero;
    start();
    struct hak_whole first = take(4, &zero);
    *hak_superslab_address(first.first) = 1;
    hak_store_relaxed(&hak_pool.dense_samples, 3u);
    take(4, &zero);
    assert_int_equal(samples(), 0);
}

/* A look is a system call or more. */
static void huge_blocks_that_are_hardly_used_are_looked_at_less_and_less(void **state)
{
    (void)state;
    struct hak_whole w;
    start();
    uint64_t looks = fake_os_calls(FAKE_RESIDENT);
    for (unsigned i = 0; i < 1000; i++) {
        bool zero;
        assert_int_equal(hak_whole_take(4 * HAK_SUPERSLAB_BYTES, 1, 0, &w, &zero), 0);
        *hak_superslab_address(w.first) = 1;
        hak_whole_unmap(&w);
        hak_whole_take(HAK_SUPERSLAB_BYTES, 1, 0, &w, &zero);
        hak_whole_give(&w);
        hak_pool_trim();
    }
    looks = fake_os_calls(FAKE_RESIDENT) - looks;
    assert_in_range(looks, 1000 / 16, 1000 / 16 + 4);
    unsigned written = 0; /* at most 15 are not looked at before it is noticed that this is over */
    for (; samples() < 4; written++) {
        bool zero;
        assert_int_equal(hak_whole_take(HAK_SUPERSLAB_BYTES, 1, 0, &w, &zero), 0);
        memset(hak_superslab_address(w.first), 1, w.mapped_bytes);
        hak_whole_give(&w);
        hak_pool_trim();
        assert_true(written < 100);
    }
    assert_in_range(written, 2, 17);
    assert_int_equal(hak_load_relaxed(&hak_pool.dense_looks.last), 0); /* so it begins anew */
}

/* In the end one of 128 that are freed, so that it is cheaper than the rest of free; of a block of
 * one superslab two pages. */
static void nor_are_those_that_are_always_used(void **state)
{
    (void)state;
    bool zero;
    start_with_a_used_block();
    uint64_t calls = fake_os_calls(FAKE_RESIDENT);
    for (unsigned i = 0; i < 128 * 16; i++) {
        struct hak_whole w = take_written(1);
        hak_whole_give(&w);
    }
    calls = fake_os_calls(FAKE_RESIDENT) - calls;
    assert_in_range(calls, 2 * 15, 2 * (8 + 16));
    unsigned unused = 0;
    for (; samples() != 0; unused++) {
        struct hak_whole w = take(3, &zero);
        hak_whole_give(&w);
        hak_pool_trim();
        assert_true(unused < 200);
    }
    assert_in_range(unused, 1, 128);
}

static void a_huge_block_that_is_gone_tells_nothing_any_more(void **state)
{
    (void)state;
    bool zero;
    start();
    struct hak_whole first = take(1, &zero);
    hak_whole_unmap(&first);
    hak_store_relaxed(&hak_pool.dense_samples, 3u);
    struct hak_whole second = take(1, &zero);
    hak_whole_moved_away(&second);
    take(1, &zero);
    assert_int_equal(samples(), 3);
}

static void a_huge_block_has_huge_pages_however_dear(void **state)
{
    (void)state;
    bool zero;
    huge_pages_that_cost(TOO_DEAR_NS);
    fill_superslabs(3);
    assert_int_equal(stats().huge_asked_total, 1);
    hak_store_relaxed(&hak_pool.dense_samples, 4u);
    struct hak_whole dear = take(5, &zero);
    assert_int_equal(stats().huge_asked_total, 2);
    assert_false(hak_os_is_resident(hak_superslab_address(dear.first))); /* nor touched for it */
    take(8, &zero);
    assert_int_equal(stats().huge_asked_total, 3);
    assert_int_equal(stats().huge_dear_total, 1);
}

/* A page of it is faulted in that the program is about to write. All of it stays one mapping. */
static void what_a_block_grows_by_has_small_pages_where_huge_ones_are_dear(void **state)
{
    (void)state;
    struct hak_whole w, to;
    bool zero;
    huge_pages_that_cost(TOO_DEAR_NS);
    assert_int_equal(hak_whole_take(4 * HAK_SUPERSLAB_BYTES, 1, HAK_WHOLE_FRESH, &w, &zero), 0);
    assert_true(hak_whole_try_extend(&w, 6 * HAK_SUPERSLAB_BYTES));
    assert_int_equal(stats().huge_asked_total, 1);
    assert_int_equal(stats().huge_dear_total, 1);
    assert_true(hak_os_is_resident(hak_superslab_address(w.first + 4)));
    assert_false(hak_os_is_resident(hak_superslab_address(w.first)));
    for (size_t superslabs = 7; superslabs <= 21; superslabs++) {
        assert_true(hak_whole_try_extend(&w, superslabs * HAK_SUPERSLAB_BYTES));
        assert_false(hak_os_is_resident(hak_superslab_address(w.first + superslabs - 1)));
    }
    assert_int_equal(stats().huge_asked_total, 1);
    size_t larger = w.mapped_bytes + HAK_SUPERSLAB_BYTES; /* such a move needs one on any kernel */
    assert_int_equal(hak_whole_take(larger, 1, HAK_WHOLE_FRESH, &to, &zero), 0);
    void *at = hak_superslab_address(to.first);
    assert_ptr_equal(mremap(hak_superslab_address(w.first), w.mapped_bytes, larger,
                            MREMAP_MAYMOVE | MREMAP_FIXED, at),
                     at);
    fake_os_set_fault_ns(CHEAP_NS);
    assert_true(hak_whole_try_extend(&to, larger + HAK_SUPERSLAB_BYTES));
    assert_true(hak_whole_try_extend(&to, larger + 2 * HAK_SUPERSLAB_BYTES)); /* after 16 */
    assert_int_equal(stats().huge_asked_total, 2);
    assert_int_equal(stats().huge_dear_total, 1);
}

static bool asked_when_grown(size_t from, size_t to, uint64_t *paid_ns)
{
    struct hak_whole w;
    bool zero;
    assert_int_equal(hak_whole_take(from * HAK_SUPERSLAB_BYTES, 1, HAK_WHOLE_FRESH, &w, &zero), 0);
    *paid_ns = hak_load_relaxed(&hak_pool.huge_paid_ns);
    assert_true(hak_whole_try_extend(&w, to * HAK_SUPERSLAB_BYTES));
    *paid_ns = hak_load_relaxed(&hak_pool.huge_paid_ns) - *paid_ns;
    return has_huge_pages(w.first * HAK_SLOTS);
}

/* One tells what all cost: 8 ms are borne, and what a 16th of the processor time is besides. */
static void a_block_that_grows_by_many_pays_for_all_or_for_the_first(void **state)
{
    (void)state;
    uint64_t paid_ns;
    huge_pages_that_cost(2000000u);
    assert_true(asked_when_grown(4, 7, &paid_ns));
    assert_int_equal(paid_ns, 3 * 2000000u);
    huge_pages_that_cost(TOO_DEAR_NS / 1000);
    assert_false(asked_when_grown(4, 1000, &paid_ns));
    assert_int_equal(paid_ns, TOO_DEAR_NS / 1000);
    assert_int_equal(stats().huge_dear_total, 2);
}

static void a_block_of_which_nothing_is_known_has_small_pages_where_huge_ones_are_dear(void **state)
{
    (void)state;
    bool zero;
    struct hak_whole w[2];
    huge_pages_that_cost(TOO_DEAR_NS);
    huge_pages_from(8 * HAK_SUPERSLAB_BYTES);
    for (unsigned i = 0; i < 2; i++) {
        size_t bytes = 5 * HAK_SUPERSLAB_BYTES;
        assert_int_equal(hak_whole_take(bytes, 1, HAK_WHOLE_WRITTEN, &w[i], &zero), 0);
        assert_int_equal(stats().huge_asked_total, 1);
        assert_false(has_huge_pages(w[i].first * HAK_SLOTS));
        assert_int_equal(hak_os_is_resident(hak_superslab_address(w[i].first)), i == 0);
    }
    fake_os_set_fault_ns(CHEAP_NS);
    hak_store_relaxed(&hak_pool.huge_paid_ns, (uint64_t)0);
    assert_int_equal(asked_by_a_block(4, HAK_WHOLE_WRITTEN), 1);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(huge_blocks_get_huge_pages_after_some_that_were_used_up),
    cmocka_unit_test(a_huge_block_that_is_written_lets_the_next_have_huge_pages),
    cmocka_unit_test(one_that_was_written_and_cut_is_not_taken_for_unused),
    cmocka_unit_test(a_large_block_that_will_be_written_before_it_is_read_gets_huge_pages),
    cmocka_unit_test(it_has_to_have_as_much_in_whole_superslabs),
    cmocka_unit_test(without_evidence_not_more_than_two_blocks),
    cmocka_unit_test(without_evidence_not_more_than_a_little_or_than_slabs_have),
    cmocka_unit_test(huge_blocks_that_are_used_up_vouch_for_as_much),
    cmocka_unit_test(one_that_is_larger_has_small_pages_and_tells),
    cmocka_unit_test(one_with_huge_pages_may_be_used_later),
    cmocka_unit_test(what_has_small_pages_and_is_used_up_vouches_for_four_times_as_much),
    cmocka_unit_test(what_a_used_block_grows_by_is_not_on_trust_but_not_more_than_there_is),
    cmocka_unit_test(the_end_of_a_block_with_huge_pages_tells_whether_it_was_used_up),
    cmocka_unit_test(a_block_that_grows_gets_huge_pages_behind_what_it_had),
    cmocka_unit_test(blocks_of_less_than_a_superslab_tell_too),
    cmocka_unit_test(a_huge_block_that_is_hardly_used_does_not),
    cmocka_unit_test(huge_blocks_that_are_hardly_used_are_looked_at_less_and_less),
    cmocka_unit_test(nor_are_those_that_are_always_used),
    cmocka_unit_test(a_huge_block_that_is_gone_tells_nothing_any_more),
    cmocka_unit_test(a_huge_block_has_huge_pages_however_dear),
    cmocka_unit_test(what_a_block_grows_by_has_small_pages_where_huge_ones_are_dear),
    cmocka_unit_test(a_block_that_grows_by_many_pays_for_all_or_for_the_first),
    cmocka_unit_test(a_block_of_which_nothing_is_known_has_small_pages_where_huge_ones_are_dear),
};
UNIT_MAIN(tests)
