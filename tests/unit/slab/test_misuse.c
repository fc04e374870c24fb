/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Unit tests of slab: bad frees are reported with their reason, broken invariants are found. */
#include "slab_support.h"

struct call {
    struct hak_slab *slab;
    const void *p;
};

static void call_put(void *argument)
{
    struct call *c = argument;
    hak_slab_put_owner(c->slab, hak_class(c->slab->cls), (void *)c->p);
}

static void call_verify(void *argument)
{
    hak_slab_verify_owner(((struct call *)argument)->slab);
}

/* `words` is a part of the report; the address and the size class must stand in it too. */
static void assert_dies(void (*f)(void *), struct call *c, const char *words)
{
    const char *said = fake_os_last_words(f, c);
    CHECK(said != NULL, "no \"%s\" for %p", words, c->p);
    CHECK(strstr(said, words) != NULL, "%s instead of %s", said, words);
    char address[32], class_text[32];
    snprintf(address, sizeof address, " of %p ", c->p);
    snprintf(class_text, sizeof class_text, "size class %u, %u bytes", c->slab->cls,
             hak_class(c->slab->cls)->size_bytes);
    CHECK(strstr(said, class_text) != NULL, "%s lacks %s", said, class_text);
    CHECK(c->p == NULL || strstr(said, address) != NULL, "%s lacks %s", said, address);
}

static char *block(struct hak_slab *s, size_t index)
{
    return s->base + index * hak_class(s->cls)->size_bytes;
}

/* A slab of which the first `taken` blocks are in use, or all if it has fewer. */
static struct hak_slab *slab_of(unsigned cls, unsigned taken)
{
    void *out[64];
    bool zero;
    if (hak_load_relaxed(&hak_space.slots) == 0)
        start();
    struct hak_slab *s = new_slab(cls, true);
    taken = (unsigned)hak_min(taken, hak_class(cls)->blocks);
    for (unsigned got = 0; got < taken;)
        got += hak_slab_take_owner(s, out + 64, taken - got, &zero);
    return s;
}

static void a_second_put_is_a_double_free(void **state)
{
    (void)state;
    for (unsigned cls = 0; cls < HAK_CLASSES; cls++) {
        struct hak_slab *s = slab_of(cls, 8);
        struct call c = {.slab = s, .p = block(s, hak_class(cls)->blocks > 3 ? 3 : 0)};
        assert_null(fake_os_last_words(call_put, &c));
        assert_dies(call_put, &c, "double free of");
        hak_slab_verify_owner(s);
    }
}

static void call_put_streak(void *argument)
{
    struct call *c = argument;
    void *blocks[32];
    for (unsigned i = 0; i < 32; i++)
        blocks[i] = block(c->slab, i);
    hak_slab_put_streak_owner(c->slab, hak_class(c->slab->cls), blocks, 32);
}

static void a_second_put_in_a_run_names_the_block(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 32; i += 7) {
        struct hak_slab *s = slab_of(2, 40);
        struct call c = {.slab = s, .p = block(s, i)};
        assert_null(fake_os_last_words(call_put, &c));
        assert_dies(call_put_streak, &c, "double free of");
    }
}

static void a_pointer_into_a_block_is_refused_at_every_offset(void **state)
{
    (void)state;
    for (unsigned cls = 0; cls < HAK_CLASSES; cls += 5) {
        struct hak_slab *s = slab_of(cls, 8);
        for (size_t offset = 1; offset < hak_class(cls)->size_bytes; offset += 1 + cls * 13) {
            struct call c = {.slab = s, .p = block(s, 0) + offset};
            assert_dies(call_put, &c, "invalid free of");
            assert_dies(call_put, &c, "points into a block");
        }
        assert_int_equal(hak_slab_used_blocks(s), hak_min(8, hak_class(cls)->blocks));
    }
}

static void a_block_that_was_never_given_out_is_refused(void **state)
{
    (void)state;
    for (unsigned cls = 0; hak_class(cls)->blocks > 5; cls++) {
        struct hak_slab *s = slab_of(cls, 5);
        struct call c = {.slab = s, .p = block(s, 5)};
        assert_dies(call_put, &c, "never allocated");
        c.p = block(s, hak_class(cls)->blocks - 1u);
        assert_dies(call_put, &c, "never allocated");
    }
}

static void what_lies_behind_the_last_block_is_refused(void **state)
{
    (void)state;
    for (unsigned cls = 0; cls < HAK_CLASSES; cls++) {
        struct hak_slab *s = slab_of(cls, 8);
        const struct hak_class *k = hak_class(cls);
        if ((size_t)k->blocks * k->size_bytes == k->slots * HAK_SLOT_BYTES)
            continue;
        struct call c = {.slab = s, .p = block(s, k->blocks)};
        assert_dies(call_put, &c, "invalid free of");
    }
}

static void call_checked_index(void *argument)
{
    struct call *c = argument;
    hak_block_checked_index(c->slab->cls, c->p);
}

static void what_lies_before_the_first_block_is_refused(void **state)
{
    (void)state;
    for (unsigned cls = 0; cls < HAK_CLASSES; cls++) {
        struct hak_slab *s = slab_of(cls, 8);
        char *slab = hak_slot_address(hak_slab_slot(s));
        for (char *p = slab; p < s->base; p += HAK_CACHE_LINE) {
            struct call c = {.slab = s, .p = p};
            assert_dies(call_put, &c, "never allocated");
            assert_dies(call_checked_index, &c, "never allocated");
        }
        struct call c = {.slab = s, .p = s->base};
        assert_null(fake_os_last_words(call_checked_index, &c));
    }
}

static void verify_accepts_what_is_sound(void **state)
{
    (void)state;
    struct call c = {.slab = slab_of(0, 40)};
    assert_null(fake_os_last_words(call_verify, &c));
    c.p = block(c.slab, 39);
    call_put(&c);
    assert_null(fake_os_last_words(call_verify, &c));
}

static void verify_finds_each_broken_invariant(void **state)
{
    (void)state;
    struct call c = {.slab = slab_of(0, 40)};
    struct hak_slab *s = c.slab;
    c.p = block(s, 3);
    call_put(&c);
    c.p = NULL;

    hak_store_relaxed(&s->free_blocks, (uint16_t)2);
    assert_non_null(fake_os_last_words(call_verify, &c));
    hak_store_relaxed(&s->free_blocks, (uint16_t)1);
    assert_null(fake_os_last_words(call_verify, &c));

    hak_store_relaxed(&s->carved, (uint16_t)3); /* block 3 is free, but beyond */
    assert_non_null(fake_os_last_words(call_verify, &c));
    hak_store_relaxed(&s->carved, (uint16_t)4097);
    assert_non_null(fake_os_last_words(call_verify, &c));
    hak_store_relaxed(&s->carved, (uint16_t)40);
    assert_null(fake_os_last_words(call_verify, &c));

    s->first_word = 1;
    assert_non_null(fake_os_last_words(call_verify, &c));
    s->first_word = 0;
    hak_store_relaxed(&s->free_bits[0], (uint64_t)0);
    assert_non_null(fake_os_last_words(call_verify, &c));
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_second_put_is_a_double_free),
    cmocka_unit_test(a_second_put_in_a_run_names_the_block),
    cmocka_unit_test(a_pointer_into_a_block_is_refused_at_every_offset),
    cmocka_unit_test(a_block_that_was_never_given_out_is_refused),
    cmocka_unit_test(what_lies_behind_the_last_block_is_refused),
    cmocka_unit_test(what_lies_before_the_first_block_is_refused),
    cmocka_unit_test(verify_accepts_what_is_sound),
    cmocka_unit_test(verify_finds_each_broken_invariant),
};
UNIT_MAIN(tests)
