/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Unit tests of space: taking ranges of the window and giving them back. */
#include "../unit.h"

#include "fake_os.h"
#include "space/space.h"

#include <errno.h>

#define FEW_BYTES HAK_PAGE_BYTES /* ranges need not be mapped whole */

static void start(void)
{
    assert_int_equal(hak_space_start(), 0);
}

static size_t take(size_t count, size_t align, size_t bytes)
{
    size_t first = SIZE_MAX;
    assert_int_equal(hak_space_take(count, align, bytes, false, &first), 0);
    return first;
}

static void give(size_t first, size_t count, size_t bytes)
{
    assert_int_equal(hak_os_unmap(hak_superslab_address(first), bytes), 0);
    hak_space_give(first, count);
}

static bool is_mapped(const char *at)
{
    unsigned char resident;
    return mincore((void *)((uintptr_t)at & ~(HAK_PAGE_BYTES - 1)), HAK_PAGE_BYTES, &resident) == 0;
}

/* Somebody else's mapping, of one page. */
static void put_in_the_way(size_t superslab)
{
    void *at = hak_superslab_address(superslab) + 8 * HAK_PAGE_BYTES;
    void *got = mmap(at, HAK_PAGE_BYTES, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    assert_ptr_equal(got, at);
    memset(got, 0x5a, HAK_PAGE_BYTES);
}

static void just_the_bytes_asked_for_are_mapped(void **state)
{
    (void)state;
    start();
    size_t bytes = HAK_SUPERSLAB_BYTES + 3 * HAK_SLOT_BYTES;
    char *at = hak_superslab_address(take(2, 1, bytes));
    memset(at, 1, bytes);
    assert_false(is_mapped(at + bytes));
    assert_int_equal(fake_os_mapped_bytes() - hak_space_meta_bytes(), bytes);
}

static void ranges_are_taken_first_fit_by_address(void **state)
{
    (void)state;
    start();
    assert_int_equal(take(1, 1, FEW_BYTES), 0);
    assert_int_equal(take(3, 1, FEW_BYTES), 1);
    assert_int_equal(take(1, 1, FEW_BYTES), 4);
    give(0, 1, FEW_BYTES);
    assert_int_equal(take(2, 1, FEW_BYTES), 5);
    assert_int_equal(take(1, 1, FEW_BYTES), 0);
    give(1, 3, FEW_BYTES);
    assert_int_equal(take(2, 1, FEW_BYTES), 1);
    assert_int_equal(take(1, 1, FEW_BYTES), 3);
    assert_int_equal(take(1, 1, FEW_BYTES), 7);
}

static void aligned_ranges_begin_at_multiples(void **state)
{
    (void)state;
    start();
    for (size_t align = 1; align <= 64; align *= 2) {
        char *at = hak_superslab_address(take(1, align, FEW_BYTES));
        CHECK((uintptr_t)at % (align * HAK_SUPERSLAB_BYTES) == 0, "align %zu: %p", align,
              (void *)at);
        at = hak_superslab_address(take(3, align, FEW_BYTES));
        CHECK((uintptr_t)at % (align * HAK_SUPERSLAB_BYTES) == 0, "align %zu: %p", align,
              (void *)at);
    }
}

static void taken_ranges_are_taken_and_given_ones_free(void **state)
{
    (void)state;
    start();
    size_t first = take(3, 1, FEW_BYTES);
    for (size_t s = first; s < first + 3; s++)
        assert_true(hak_space_is_taken(s));
    assert_false(hak_space_is_taken(first + 3));
    give(first, 3, FEW_BYTES);
    for (size_t s = first; s < first + 3; s++)
        assert_false(hak_space_is_taken(s));
}

static void high_water_is_the_end_of_the_last_range_taken(void **state)
{
    (void)state;
    start();
    take(2, 1, FEW_BYTES);
    assert_int_equal(hak_space_high_water(), 2);
    size_t second = take(3, 1, FEW_BYTES);
    assert_int_equal(hak_space_high_water(), 5);
    assert_true(hak_space_try_take_at(5, 200));
    assert_int_equal(hak_space_high_water(), 205);
    give(second, 3, FEW_BYTES);
    assert_int_equal(hak_space_high_water(), 205);
    hak_space_give(15, 190);
    assert_int_equal(hak_space_high_water(), 15);
    hak_space_give(5, 10); /* and what was free already */
    assert_int_equal(hak_space_high_water(), 2);
    give(0, 2, FEW_BYTES);
    assert_int_equal(hak_space_high_water(), 0);
}

static void try_take_at_takes_free_neighbours_and_maps_nothing(void **state)
{
    (void)state;
    start();
    size_t first = take(2, 1, FEW_BYTES);
    size_t window_bytes = fake_os_mapped_bytes() - hak_space_meta_bytes();
    assert_true(hak_space_try_take_at(first + 2, 4));
    assert_int_equal(fake_os_mapped_bytes() - hak_space_meta_bytes(), window_bytes);
    for (size_t s = first; s < first + 6; s++)
        assert_true(hak_space_is_taken(s));
    assert_int_equal(take(1, 1, FEW_BYTES), first + 6);
}

static void try_take_at_refuses_what_is_taken_and_changes_nothing(void **state)
{
    (void)state;
    start();
    take(1, 1, FEW_BYTES);
    size_t middle = take(1, 1, FEW_BYTES);
    size_t last = take(1, 1, FEW_BYTES);
    assert_false(hak_space_try_take_at(middle, 1));
    give(middle, 1, FEW_BYTES);
    assert_false(hak_space_try_take_at(middle, 2));
    assert_false(hak_space_is_taken(middle));
    assert_true(hak_space_try_take_at(middle, 1));
    assert_int_equal(hak_space_high_water(), last + 1);
}

static void the_window_has_an_end(void **state)
{
    (void)state;
    start();
    size_t first;
    assert_int_equal(hak_space_take((size_t)1 << 30, 1, FEW_BYTES, false, &first), ENOMEM);
    assert_false(hak_space_try_take_at((size_t)1 << 30, 1));
    assert_false(hak_space_try_take_at(SIZE_MAX / 2, 1));
    assert_int_equal(hak_space_high_water(), 0);
    assert_int_equal(take(1, 1, FEW_BYTES), 0);
}

static void a_foreign_mapping_in_the_way_is_stepped_over_and_left_alone(void **state)
{
    (void)state;
    start();
    take(1, 1, FEW_BYTES);
    put_in_the_way(1);
    size_t first = take(1, 1, HAK_SUPERSLAB_BYTES);
    assert_true(first > 1);
    assert_false(hak_space_is_taken(1));
    memset(hak_superslab_address(first), 1, HAK_SUPERSLAB_BYTES);
    assert_int_equal(hak_superslab_address(1)[8 * HAK_PAGE_BYTES], 0x5a);
}

static void a_foreign_mapping_amid_a_long_range_is_stepped_over(void **state)
{
    (void)state;
    start();
    put_in_the_way(5);
    size_t first = take(8, 4, 8 * HAK_SUPERSLAB_BYTES);
    assert_true(first > 5);
    assert_int_equal((uintptr_t)hak_superslab_address(first) % (4 * HAK_SUPERSLAB_BYTES), 0);
    for (size_t s = 0; s < 6; s++)
        assert_false(hak_space_is_taken(s));
}

static void a_refusal_leaves_everything_as_it_was(void **state)
{
    (void)state;
    start();
    take(1, 1, FEW_BYTES);
    for (unsigned k = 1; k <= 6; k++) {
        size_t first = 4242;
        size_t window_bytes = fake_os_mapped_bytes() - hak_space_meta_bytes();
        size_t high_water = hak_space_high_water();
        fake_os_fail_from(FAKE_MAP_AT, k, ENOMEM);
        int error = hak_space_take(70, 1, FEW_BYTES, true, &first);
        fake_os_fail_nothing();
        if (error == 0) {
            assert_int_equal(first, high_water);
            continue;
        }
        assert_int_equal(error, ENOMEM);
        CHECK(fake_os_mapped_bytes() - hak_space_meta_bytes() == window_bytes, "refusal %u", k);
        assert_int_equal(hak_space_high_water(), high_water);
        assert_false(hak_space_is_taken(high_water));
    }
    assert_true(hak_space_high_water() > 70);
}

static void growth_of_the_arrays_makes_do_with_less_when_more_is_refused(void **state)
{
    (void)state;
    start();
    for (size_t taken = 0; taken < 300; taken++) {
        fake_os_fail(FAKE_MAP_AT, 1,
                     ENOMEM); /* the wish for more than is needed, if there is growth at all */
        size_t first;
        if (hak_space_take(1, 1, FEW_BYTES, true, &first) != 0)
            assert_int_equal(hak_space_take(1, 1, FEW_BYTES, true, &first), 0);
        fake_os_fail_nothing();
        assert_int_equal(first, taken);
        memset(hak_space_meta() + first * HAK_META_BYTES, 1, HAK_META_BYTES);
        memset((char *)hak_space_records() + first * HAK_RECORD_BYTES, 1, HAK_RECORD_BYTES);
        hak_store_relaxed(hak_map_entry(first * HAK_SLOTS + HAK_SLOTS - 1), 1u);
    }
}

static void meta_can_be_had_later(void **state)
{
    (void)state;
    start();
    size_t first = take(200, 1, FEW_BYTES);
    fake_os_fail_from(FAKE_MAP_AT, 1, ENOMEM);
    assert_int_equal(hak_space_need_meta(first + 200), ENOMEM);
    fake_os_fail_nothing();
    assert_int_equal(hak_space_need_meta(first + 200), 0);
    memset(hak_space_meta() + (first + 199) * HAK_META_BYTES, 1, HAK_META_BYTES);
    size_t bytes = hak_space_meta_bytes();
    assert_int_equal(hak_space_need_meta(first + 200), 0);
    assert_int_equal(hak_space_meta_bytes(), bytes);
}

/* --- against a model: a plain array of what is taken, searched from 0 --- */

#define MODEL_MOST 600u

struct model {
    bool taken[2 * MODEL_MOST];
    size_t first[64], count[64]; /* ranges held; count 0: none */
};

static size_t model_first_fit(const struct model *m, size_t count, size_t align)
{
    size_t base = hak_load_relaxed(&hak_space.base) >> HAK_SUPERSLAB_SHIFT;
    for (size_t at = 0;; at++) {
        size_t free = 0;
        while (free < count && !m->taken[at + free])
            free++;
        if (free == count && (base + at) % align == 0)
            return at;
    }
}

static void model_mark(struct model *m, size_t first, size_t count, bool taken)
{
    for (size_t s = first; s < first + count; s++) {
        assert_true(m->taken[s] != taken);
        m->taken[s] = taken;
        assert_true(hak_space_is_taken(s) == taken);
    }
}

static void model_step(struct model *m, struct unit_random *r)
{
    size_t i = unit_below(r, 64);
    if (m->count[i] != 0) {
        give(m->first[i], m->count[i], FEW_BYTES);
        model_mark(m, m->first[i], m->count[i], false);
        m->count[i] = 0;
        return;
    }
    size_t count = 1 + unit_below(r, unit_below(r, 8) == 0 ? 150 : 4);
    size_t align = (size_t)1 << unit_below(r, 4);
    if (model_first_fit(m, count, align) + count > MODEL_MOST)
        return;
    size_t expected = model_first_fit(m, count, align);
    m->first[i] = take(count, align, FEW_BYTES);
    assert_int_equal(m->first[i], expected);
    m->count[i] = count;
    model_mark(m, m->first[i], count, true);
}

static void a_thousand_takes_and_gives_agree_with_a_model(void **state)
{
    (void)state;
    static struct model m;
    struct unit_random r = {7};
    start();
    for (int i = 0; i < 4000; i++)
        model_step(&m, &r);
    for (size_t i = 0; i < 64; i++)
        if (m.count[i] != 0)
            give(m.first[i], m.count[i], FEW_BYTES);
    assert_int_equal(fake_os_mapped_bytes(), hak_space_meta_bytes());
    for (size_t s = 0; s < hak_space_high_water(); s++)
        assert_false(hak_space_is_taken(s));
}

/* --- threads --- */

static _Atomic(unsigned) owners[4096];

static void take_and_give(unsigned index, void *argument)
{
    (void)argument;
    struct unit_random r = {index + 1};
    for (int i = 0; i < 400; i++) {
        size_t first;
        size_t count = 1 + unit_below(&r, 3);
        MUST(hak_space_take(count, 1, count * HAK_SUPERSLAB_BYTES, false, &first) == 0);
        for (size_t s = first; s < first + count; s++)
            MUST(hak_exchange_relaxed(&owners[s], index + 1) == 0);
        hak_superslab_address(first)[0] = (char)index;
        for (size_t s = first; s < first + count; s++)
            MUST(hak_exchange_relaxed(&owners[s], 0u) == index + 1);
        MUST(hak_os_unmap(hak_superslab_address(first), count * HAK_SUPERSLAB_BYTES) == 0);
        hak_space_give(first, count);
    }
}

static void two_threads_never_hold_the_same_superslab(void **state)
{
    (void)state;
    start();
    unit_in_threads(4, take_and_give, NULL);
    assert_int_equal(fake_os_mapped_bytes(), hak_space_meta_bytes());
}

static void the_child_of_a_fork_works_when_nobody_was_at_it(void **state)
{
    (void)state;
    start();
    size_t first = take(1, 1, FEW_BYTES);
    hak_space_fork_child();
    hak_meta_fork_child();
    assert_int_equal(take(1, 1, FEW_BYTES), first + 1);
    assert_non_null(hak_meta_alloc(64));
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(just_the_bytes_asked_for_are_mapped),
    cmocka_unit_test(ranges_are_taken_first_fit_by_address),
    cmocka_unit_test(aligned_ranges_begin_at_multiples),
    cmocka_unit_test(taken_ranges_are_taken_and_given_ones_free),
    cmocka_unit_test(high_water_is_the_end_of_the_last_range_taken),
    cmocka_unit_test(try_take_at_takes_free_neighbours_and_maps_nothing),
    cmocka_unit_test(try_take_at_refuses_what_is_taken_and_changes_nothing),
    cmocka_unit_test(the_window_has_an_end),
    cmocka_unit_test(a_foreign_mapping_in_the_way_is_stepped_over_and_left_alone),
    cmocka_unit_test(a_foreign_mapping_amid_a_long_range_is_stepped_over),
    cmocka_unit_test(a_refusal_leaves_everything_as_it_was),
    cmocka_unit_test(growth_of_the_arrays_makes_do_with_less_when_more_is_refused),
    cmocka_unit_test(meta_can_be_had_later),
    cmocka_unit_test(a_thousand_takes_and_gives_agree_with_a_model),
    cmocka_unit_test(two_threads_never_hold_the_same_superslab),
    cmocka_unit_test(the_child_of_a_fork_works_when_nobody_was_at_it),
};
UNIT_MAIN(tests)
