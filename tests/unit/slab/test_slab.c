/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Unit tests of slab: taking blocks and returning them, by the owner. */
#include "slab_support.h"

#define MOST_BLOCKS 4096u

/* Takes up to `most` blocks; blocks[0] is the first that a stack would give out. */
static unsigned take(struct hak_slab *s, char **blocks, unsigned most, bool *fresh_zero)
{
    static void *stack[MOST_BLOCKS];
    unsigned n = hak_slab_take_owner(s, stack + MOST_BLOCKS, most, fresh_zero);
    for (unsigned i = 0; i < n; i++)
        blocks[i] = stack[MOST_BLOCKS - 1 - i];
    return n;
}

static unsigned take_all(struct hak_slab *s, char **blocks)
{
    bool zero;
    unsigned n = 0;
    unsigned got;
    while ((got = take(s, blocks + n, MOST_BLOCKS - n, &zero)) != 0)
        n += got;
    return n;
}

static void put(struct hak_slab *s, void *p)
{
    hak_slab_put_owner(s, hak_class(s->cls), p);
}

static void a_slab_gives_every_block_once_in_ascending_order(void **state)
{
    (void)state;
    start();
    for (unsigned cls = 0; cls < HAK_CLASSES; cls++) {
        static char *blocks[MOST_BLOCKS];
        const struct hak_class *c = hak_class(cls);
        struct hak_slab *s = new_slab(cls, true);
        assert_int_equal(hak_slab_room_blocks(s), c->blocks);
        CHECK(take_all(s, blocks) == c->blocks, "class %u", cls);
        for (unsigned i = 0; i < c->blocks; i++)
            CHECK(blocks[i] == s->base + (size_t)i * c->size_bytes, "class %u, block %u", cls, i);
        assert_int_equal(hak_slab_used_blocks(s), c->blocks);
        assert_int_equal(hak_slab_room_blocks(s), 0);
        hak_slab_verify_owner(s);
    }
}

static void a_few_fresh_blocks_come_from_one_page_at_a_time(void **state)
{
    (void)state;
    start();
    for (unsigned cls = 0; cls < HAK_CLASSES; cls++) {
        static char *blocks[MOST_BLOCKS];
        struct hak_slab *s = new_slab(cls, true);
        size_t size = hak_class(cls)->size_bytes;
        bool zero;
        unsigned n;
        size_t carved = 0;
        while ((n = take(s, blocks, 16, &zero)) != 0) {
            uintptr_t page = hak_round_down((uintptr_t)blocks[0], HAK_PAGE_BYTES);
            CHECK(blocks[0] == s->base + carved * size, "class %u", cls);
            CHECK((uintptr_t)blocks[n - 1] < page + HAK_PAGE_BYTES, "class %u: %u blocks", cls, n);
            carved += n;
        }
    }
}

static void no_more_is_taken_than_was_asked_for(void **state)
{
    (void)state;
    start();
    char *blocks[64];
    bool zero;
    assert_int_equal(take(new_slab(hak_class_of(1024), true), blocks, 17, &zero), 17);
    struct hak_slab *s = new_slab(0, true);
    assert_int_equal(take(s, blocks, 0, &zero), 0);
    assert_int_equal(take(s, blocks, 5, &zero), 5);
    for (unsigned i = 0; i < 5; i++)
        put(s, blocks[i]);
    assert_int_equal(take(s, blocks, 3, &zero), 3);
    assert_int_equal(hak_slab_used_blocks(s), 3);
}

static void freed_blocks_are_given_before_fresh_ones(void **state)
{
    (void)state;
    start();
    char *first[10], *again[10];
    bool zero;
    struct hak_slab *s = new_slab(2, true);
    assert_int_equal(take(s, first, 10, &zero), 10);
    put(s, first[7]);
    put(s, first[2]);
    put(s, first[4]);
    assert_int_equal(take(s, again, 10, &zero), 3);
    assert_ptr_equal(again[0], first[2]);
    assert_ptr_equal(again[1], first[4]);
    assert_ptr_equal(again[2], first[7]);
    assert_true(take(s, again, 10, &zero) > 0);
    assert_true(again[0] > first[9]);
}

static void only_fresh_blocks_of_a_zeroed_slab_count_as_zero(void **state)
{
    (void)state;
    start();
    for (unsigned cls = 0; cls < HAK_CLASSES; cls += 9) {
        char *blocks[MOST_BLOCKS];
        bool zero;
        struct hak_slab *s = new_slab(cls, true);
        take(s, blocks, 1, &zero);
        assert_true(zero);
        put(s, blocks[0]);
        take(s, blocks, 1, &zero);
        assert_false(zero);
        take(s, blocks, 1, &zero);
        assert_true(zero);
        s = new_slab(cls, false);
        take(s, blocks, 1, &zero);
        assert_false(zero);
    }
}

static void nothing_is_written_into_blocks(void **state)
{
    (void)state;
    start();
    static char *blocks[MOST_BLOCKS];
    struct hak_slab *s = new_slab(5, true);
    unsigned n = take_all(s, blocks);
    memset(s->base, 0x77, HAK_SLOT_BYTES);
    for (unsigned i = 0; i < n; i += 2)
        put(s, blocks[i]);
    take_all(s, blocks);
    for (size_t b = 0; b < HAK_SLOT_BYTES; b++)
        assert_int_equal(s->base[b], 0x77);
}

/* --- against a shadow --- */

struct shadow {
    bool live[MOST_BLOCKS];
    unsigned live_count;
};

static void shadow_take(struct hak_slab *s, struct shadow *sh, unsigned most)
{
    static char *blocks[MOST_BLOCKS];
    bool zero;
    unsigned n = take(s, blocks, most, &zero);
    CHECK((n == 0) == (sh->live_count == hak_class(s->cls)->blocks || most == 0),
          "class %u gave %u", s->cls, n);
    for (unsigned i = 0; i < n; i++) {
        size_t offset = (size_t)(blocks[i] - s->base);
        size_t index = offset / hak_class(s->cls)->size_bytes;
        CHECK(offset % hak_class(s->cls)->size_bytes == 0 && index < hak_class(s->cls)->blocks,
              "offset %zu", offset);
        CHECK(!sh->live[index], "class %u gave block %zu twice", s->cls, index);
        CHECK(i == 0 || blocks[i] > blocks[i - 1], "class %u: not ascending", s->cls);
        sh->live[index] = true;
    }
    sh->live_count += n;
}

static void shadow_put(struct hak_slab *s, struct shadow *sh, size_t index)
{
    unsigned blocks = hak_class(s->cls)->blocks;
    for (unsigned i = 0; i < blocks; i++, index = (index + 1) % blocks) {
        if (sh->live[index]) {
            put(s, s->base + index * hak_class(s->cls)->size_bytes);
            sh->live[index] = false;
            sh->live_count--;
            return;
        }
    }
}

static void takes_and_puts_in_any_order_agree_with_a_shadow(void **state)
{
    (void)state;
    start();
    struct unit_random r = {11};
    for (unsigned cls = 0; cls < HAK_CLASSES; cls++) {
        struct shadow sh = {0};
        struct hak_slab *s = new_slab(cls, true);
        for (int i = 0; i < 120; i++) {
            if (unit_below(&r, 2) == 0)
                shadow_take(s, &sh, (unsigned)unit_below(&r, 100));
            for (size_t n = unit_below(&r, 60); n > 0; n--)
                shadow_put(s, &sh, unit_below(&r, hak_class(cls)->blocks));
            assert_int_equal(hak_slab_used_blocks(s), sh.live_count);
        }
        hak_slab_verify_owner(s);
        while (sh.live_count > 0)
            shadow_put(s, &sh, 0);
        assert_int_equal(hak_slab_used_blocks(s), 0);
        assert_int_equal(hak_slab_room_blocks(s), hak_class(cls)->blocks);
        hak_slab_verify_owner(s);
    }
}

static void slabs_in_one_superslab_keep_their_bits_apart(void **state)
{
    (void)state;
    start();
    size_t first;
    static char *blocks[MOST_BLOCKS];
    struct hak_slab *slabs[HAK_SLOTS];
    assert_int_equal(hak_space_take(1, 1, HAK_SUPERSLAB_BYTES, true, &first), 0);
    for (unsigned i = 0; i < HAK_SLOTS; i++) /* classes with bits in each of the three places */
        slabs[i] = hak_slab_make_owner(first * HAK_SLOTS + i,
                                       hak_class_of((size_t[]){16, 64, 500, 4096}[i % 4]), true);
    for (unsigned i = 0; i < HAK_SLOTS; i++) {
        unsigned n = take_all(slabs[i], blocks);
        for (unsigned b = 0; b < n; b += 1 + i)
            put(slabs[i], blocks[b]);
    }
    for (unsigned i = 0; i < HAK_SLOTS; i++) {
        unsigned blocks_of = hak_class(slabs[i]->cls)->blocks;
        hak_slab_verify_owner(slabs[i]);
        assert_int_equal(hak_slab_room_blocks(slabs[i]), (blocks_of + i) / (1 + i));
    }
}

static void a_streak_ends_at_the_first_block_of_another_slab(void **state)
{
    (void)state;
    start();
    for (unsigned cls = 0; cls < HAK_CLASSES; cls += 5) {
        static char *blocks[MOST_BLOCKS], *others[MOST_BLOCKS];
        const struct hak_class *c = hak_class(cls);
        struct hak_slab *s = new_slab(cls, true), *other = new_slab(cls, true);
        unsigned n = take_all(s, blocks);
        take_all(other, others);
        void *mixed[] = {blocks[n - 1], blocks[0], others[0], blocks[n / 2]};
        if (n < 3)
            continue;
        assert_int_equal(hak_slab_put_streak_owner(s, c, mixed, 4), 2);
        assert_int_equal(hak_slab_used_blocks(s), n - 2);
        assert_int_equal(hak_slab_put_streak_owner(s, c, mixed + 2, 2), 0);
        assert_int_equal(hak_slab_put_streak_owner(other, c, mixed + 2, 2), 1);
        put(s, mixed[3]);
        hak_slab_verify_owner(s);
        hak_slab_verify_owner(other);
        assert_int_equal(take_all(s, blocks), 3);
        assert_ptr_equal(blocks[1], mixed[3]);
    }
}

/* Half of a slab's blocks in a streak, from `from` on by `step`, and what is left of the other. */
static void put_half(struct hak_slab *s, char *const *blocks, unsigned n, bool up)
{
    static void *streak[MOST_BLOCKS];
    for (unsigned i = 0; i < n / 2; i++)
        streak[i] = blocks[up ? n / 4 + i : n / 4 + n / 2 - 1 - i];
    CHECK(hak_slab_put_streak_owner(s, hak_class(s->cls), streak, n / 2) == n / 2, "class %u",
          s->cls);
    hak_slab_verify_owner(s);
    assert_int_equal(hak_slab_used_blocks(s), n - n / 2);
}

static void blocks_side_by_side_return_in_either_direction(void **state)
{
    (void)state;
    start();
    for (unsigned cls = 0; cls < HAK_CLASSES; cls++) {
        static char *blocks[MOST_BLOCKS], *again[MOST_BLOCKS];
        struct hak_slab *s = new_slab(cls, true);
        unsigned n = take_all(s, blocks);
        for (int up = 0; up < 2; up++) {
            char *lowest = blocks[n / 4];
            put_half(s, blocks, n, up);
            assert_int_equal(take_all(s, again), n / 2);
            if (n >= 2)
                assert_ptr_equal(again[0], lowest);
        }
    }
}

/* In portions that begin and end within words of the bitmap, over blocks in use between them. */
static void blocks_side_by_side_are_taken_in_ascending_order(void **state)
{
    (void)state;
    start();
    static char *blocks[MOST_BLOCKS], *again[MOST_BLOCKS];
    struct hak_slab *s = new_slab(hak_class_of(32), true);
    unsigned n = take_all(s, blocks);
    static const unsigned used[] = {5, 64, 70, 300};
    static const unsigned portions[] = {3, 40, 1, 64, 90, 1};
    unsigned skip = 0, taken = 0, expected = 0;
    bool zero;
    for (unsigned i = 0; i < n; i++)
        if (skip < sizeof used / sizeof *used && i == used[skip])
            skip++;
        else
            put(s, blocks[i]);
    for (size_t i = 0; i < sizeof portions / sizeof *portions; i++, hak_slab_verify_owner(s))
        taken += take(s, again + taken, portions[i], &zero);
    assert_int_equal(taken, 3 + 40 + 1 + 64 + 90 + 1);
    taken += take_all(s, again + taken);
    assert_int_equal(taken, n - skip);
    for (unsigned i = 0; i < taken; i++, expected++) {
        while (expected == used[0] || expected == used[1] || expected == used[2] ||
               expected == used[3])
            expected++;
        CHECK(again[i] == blocks[expected], "block %u", expected);
    }
}

static void a_run_ends_where_its_slab_ends(void **state)
{
    (void)state;
    start();
    enum { ALIGNED = HAK_CLASS_ALIGNED + 1, RUN = 12 }; /* a class that fills its slabs */
    static char *low[MOST_BLOCKS], *high[MOST_BLOCKS];
    const struct hak_class *c = hak_class(ALIGNED);
    struct hak_slab *first = new_slab(ALIGNED, true);
    struct hak_slab *second = hak_slab_make_owner(hak_slab_slot(first) + 1, ALIGNED, true);
    unsigned n = take_all(first, low);
    take_all(second, high);
    assert_ptr_equal(low[n - 1] + c->size_bytes, high[0]);
    void *up[2 * RUN], *down[2 * RUN];
    for (unsigned i = 0; i < RUN; i++) {
        up[i] = low[n - RUN + i];
        up[RUN + i] = high[i];
        down[i] = high[2 * RUN - 1 - i];
        down[RUN + i] = low[n - RUN - 1 - i];
    }
    assert_int_equal(hak_slab_put_streak_owner(first, c, up, 2 * RUN), RUN);
    assert_int_equal(hak_slab_put_streak_owner(second, c, up + RUN, RUN), RUN);
    assert_int_equal(hak_slab_put_streak_owner(second, c, down, 2 * RUN), RUN);
    assert_int_equal(hak_slab_put_streak_owner(first, c, down + RUN, RUN), RUN);
    hak_slab_verify_owner(first);
    hak_slab_verify_owner(second);
    assert_int_equal(hak_slab_used_blocks(first), n - 2 * RUN);
    assert_int_equal(hak_slab_used_blocks(second), n - 2 * RUN);
}

static void a_page_alone_is_given_back_only_when_asked_for(void **state)
{
    (void)state;
    start();
    static char *blocks[MOST_BLOCKS];
    struct hak_slab *s = new_slab(0, true);
    unsigned a_page = (unsigned)(HAK_PAGE_BYTES / hak_class(0)->size_bytes);
    take_all(s, blocks);
    for (unsigned i = 0; i < a_page; i++) {
        put(s, blocks[a_page + i]); /* page 1; and pages 4 and 5 */
        put(s, blocks[4 * a_page + i]);
        put(s, blocks[5 * a_page + i]);
    }
    assert_int_equal(hak_slab_purge_owner(s, 2), 2 * HAK_PAGE_BYTES);
    assert_int_equal(hak_slab_purge_owner(s, 2), 0); /* nothing has changed */
    assert_int_equal(hak_slab_purge_owner(s, 1), 3 * HAK_PAGE_BYTES);
    assert_int_equal(hak_slab_purge_owner(s, 1), 0);
    assert_int_equal(hak_slab_purge_owner(s, 2), 0);
}

/* With the first and the last block also what lies before and behind them. */
static void all_pages_but_those_of_the_block_in_use_are_given_back(void **state)
{
    (void)state;
    start();
    for (unsigned cls = 0; cls < HAK_CLASSES; cls++) {
        static char *blocks[MOST_BLOCKS];
        struct hak_slab *s = new_slab(cls, true);
        const char *slab = hak_slot_address(hak_slab_slot(s));
        size_t size = hak_class(cls)->size_bytes;
        unsigned n = take_all(s, blocks);
        if (n < 3)
            continue;
        for (unsigned kept = 0; kept < n; kept += n / 2) {
            for (unsigned i = 0; i < n; i++)
                memset(blocks[i], 0x5a, size);
            for (unsigned i = 0; i < n; i++)
                if (i != kept)
                    put(s, blocks[i]);
            size_t slab_bytes = hak_class(cls)->slots * HAK_SLOT_BYTES;
            size_t begin = (size_t)(blocks[kept] - slab);
            begin = kept == 0 ? 0 : hak_round_down(begin, HAK_PAGE_BYTES);
            size_t end = (size_t)(blocks[kept] + size - slab);
            end = kept == n - 1 ? slab_bytes : hak_round_up(end, HAK_PAGE_BYTES);
            size_t bytes = slab_bytes - (end - begin);
            CHECK(hak_slab_purge_owner(s, 1) == bytes, "class %u, block %u", cls, kept);
            for (size_t b = 0; b < size; b++)
                CHECK(blocks[kept][b] == 0x5a, "class %u, block %u, byte %zu", cls, kept, b);
            put(s, blocks[kept]);
            assert_int_equal(take_all(s, blocks), n);
        }
    }
}

static void a_new_slab_forgets_the_old_one_in_its_place(void **state)
{
    (void)state;
    start();
    static char *blocks[MOST_BLOCKS];
    struct hak_slab *s = new_slab(0, true);
    unsigned n = take_all(s, blocks);
    for (unsigned i = 0; i < n; i += 3)
        put(s, blocks[i]);
    for (unsigned cls = 0; cls < HAK_CLASSES; cls += 7) {
        assert_ptr_equal(hak_slab_make_owner(hak_slab_slot(s), cls, false), s);
        hak_slab_verify_owner(s);
        assert_int_equal(take_all(s, blocks), hak_class(cls)->blocks);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_slab_gives_every_block_once_in_ascending_order),
    cmocka_unit_test(a_few_fresh_blocks_come_from_one_page_at_a_time),
    cmocka_unit_test(no_more_is_taken_than_was_asked_for),
    cmocka_unit_test(freed_blocks_are_given_before_fresh_ones),
    cmocka_unit_test(only_fresh_blocks_of_a_zeroed_slab_count_as_zero),
    cmocka_unit_test(nothing_is_written_into_blocks),
    cmocka_unit_test(takes_and_puts_in_any_order_agree_with_a_shadow),
    cmocka_unit_test(slabs_in_one_superslab_keep_their_bits_apart),
    cmocka_unit_test(a_streak_ends_at_the_first_block_of_another_slab),
    cmocka_unit_test(blocks_side_by_side_return_in_either_direction),
    cmocka_unit_test(blocks_side_by_side_are_taken_in_ascending_order),
    cmocka_unit_test(a_run_ends_where_its_slab_ends),
    cmocka_unit_test(a_page_alone_is_given_back_only_when_asked_for),
    cmocka_unit_test(all_pages_but_those_of_the_block_in_use_are_given_back),
    cmocka_unit_test(a_new_slab_forgets_the_old_one_in_its_place),
};
UNIT_MAIN(tests)
