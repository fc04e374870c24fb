/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Unit tests of slab: blocks freed by threads that do not own the slab. */
#include "../unit.h"

#include "fake_os.h"
#include "slab/slab.h"

#define FREERS 3u

static struct hak_slab *full_slab(unsigned cls)
{
    size_t first;
    bool zero;
    static void *out[64];
    if (hak_load_relaxed(&hak_space.slots) == 0) {
        hak_classes_start();
        assert_int_equal(hak_space_start(), 0);
    }
    assert_int_equal(hak_space_take(1, 1, HAK_SUPERSLAB_BYTES, true, &first), 0);
    struct hak_slab *s = hak_slab_make_owner(first * HAK_SLOTS, cls, true);
    while (hak_slab_take_owner(s, out + 64, 64, &zero) != 0)
        continue;
    memset(s->base, 1, hak_class(cls)->slots * HAK_SLOT_BYTES);
    return s;
}

static void a_remote_free_is_used_until_it_is_collected(void **state)
{
    (void)state;
    struct hak_slab *s = full_slab(0);
    unsigned blocks = hak_class(0)->blocks;
    assert_true(hak_slab_free_remote_any(s, 2, 0xff));
    assert_int_equal(hak_slab_used_blocks(s), blocks);
    assert_int_equal(hak_slab_collect_owner(s), 8);
    assert_int_equal(hak_slab_used_blocks(s), blocks - 8);
    assert_int_equal(hak_slab_collect_owner(s), 0);
    void *out[16];
    bool zero;
    assert_int_equal(hak_slab_take_owner(s, out + 16, 16, &zero), 8);
    assert_ptr_equal(out[15], s->base + 128 * 16);
    assert_false(zero);
}

static void the_first_free_after_a_look_asks_for_the_inbox_and_no_other(void **state)
{
    (void)state;
    struct hak_slab *s = full_slab(3);
    assert_true(hak_slab_free_remote_any(s, 0, 1));
    assert_false(hak_slab_free_remote_any(s, 0, 2));
    assert_false(hak_slab_free_remote_any(s, 1, 1));
    hak_store_relaxed(&s->in_inbox, false);
    assert_true(hak_slab_free_remote_any(s, 1, 2));
    assert_int_equal(hak_slab_collect_owner(s), 4);
}

static void a_collected_block_is_found_below_those_taken_before(void **state)
{
    (void)state;
    static void *out[64];
    bool zero;
    struct hak_slab *s = full_slab(0);
    for (unsigned i = 0; i < 300; i++) /* free and taken again: the search has moved up */
        hak_slab_put_owner(s, hak_class(s->cls), s->base + i * 16u);
    while (hak_slab_take_owner(s, out + 64, 64, &zero) != 0)
        continue;
    hak_slab_free_remote_any(s, 1, 4);
    assert_int_equal(hak_slab_collect_owner(s), 1);
    hak_slab_verify_owner(s);
    assert_int_equal(hak_slab_take_owner(s, out + 64, 64, &zero), 1);
    assert_ptr_equal(out[63], s->base + 66 * 16);
}

/* Threads free every block of a slab, while its owner collects again and again. */
struct freeing {
    struct hak_slab *slab;
    _Atomic(unsigned) wanted, handled; /* inbox pushes asked for, looks taken */
    _Atomic(unsigned) running;
    unsigned collected;
};

static void free_a_share(struct freeing *f, unsigned index)
{
    const struct hak_class *c = hak_class(f->slab->cls);
    struct unit_random r = {index + 1};
    for (unsigned w = 0; w < hak_slab_words(c); w++) {
        uint64_t mine = 0;
        for (unsigned b = w * 64; b < c->blocks && b < w * 64 + 64; b++)
            if (b % FREERS == index)
                mine |= 1ull << (b % 64);
        while (mine != 0) {
            uint64_t some = mine & unit_random(&r);
            some = some != 0 ? some : mine;
            for (uint64_t bits = some; bits != 0; bits &= bits - 1)
                f->slab->base[(size_t)(w * 64 + hak_ctz64(bits)) * c->size_bytes] =
                    (char)(2 + index);
            if (hak_slab_free_remote_any(f->slab, w, some))
                hak_add_relaxed(&f->wanted, 1u);
            mine &= ~some;
        }
    }
}

static void collect_while_others_free(struct freeing *f)
{
    bool last = false;
    for (;;) {
        if (hak_exchange_acq_rel(&f->slab->in_inbox, false))
            hak_add_relaxed(&f->handled, 1u);
        f->collected += hak_slab_collect_owner(f->slab);
        if (last)
            return;
        last = hak_load_acquire(&f->running) == 0;
    }
}

static void free_or_collect(unsigned index, void *argument)
{
    struct freeing *f = argument;
    if (index == FREERS) {
        collect_while_others_free(f);
        return;
    }
    free_a_share(f, index);
    atomic_fetch_sub(&f->running, 1u);
}

static void every_remote_free_is_collected_exactly_once(void **state)
{
    (void)state;
    static const unsigned sizes[] = {16, 48, 80, 640, 1024, 8192, 65536};
    for (unsigned i = 0; i < UNIT_COUNT(sizes); i++) {
        for (int round = 0; round < 5; round++) {
            hak_classes_start();
            unsigned cls = hak_class_of(sizes[i]);
            struct freeing f = {.slab = full_slab(cls), .running = FREERS};
            unit_in_threads(FREERS + 1, free_or_collect, &f);
            CHECK(f.collected == hak_class(cls)->blocks, "class %u: %u", cls, f.collected);
            assert_int_equal(hak_slab_used_blocks(f.slab), 0);
            assert_int_equal(f.wanted, f.handled);
            hak_slab_verify_owner(f.slab);
        }
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_remote_free_is_used_until_it_is_collected),
    cmocka_unit_test(the_first_free_after_a_look_asks_for_the_inbox_and_no_other),
    cmocka_unit_test(a_collected_block_is_found_below_those_taken_before),
    cmocka_unit_test(every_remote_free_is_collected_exactly_once),
};
UNIT_MAIN(tests)
