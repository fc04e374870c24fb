/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Unit tests of slab: the size classes, every size and every offset. */
#include "../unit.h"

#include "slab/slab.h"
#include <inttypes.h>

/* Up to 1 KiB, two eighths of a doubling are one class unless a thread wants them apart. */
static bool is_narrow(unsigned cls)
{
    size_t size = hak_class(cls)->size_bytes;
    return size > 128 && size <= HAK_TINY_MAX && (size >> (hak_log2_floor(size) - 3)) % 2 == 1;
}

/* The table has steps of a line. */
static size_t looked_up(size_t size)
{
    return size <= HAK_TINY_MAX ? size : hak_round_up(size, HAK_SMALL_STEP);
}

static void every_size_gets_the_smallest_class_that_is_neither_fine_nor_narrow(void **state)
{
    (void)state;
    hak_classes_start();
    for (size_t size = 0; size <= HAK_SMALL_MAX; size++) {
        unsigned cls = hak_class_of(size);
        if (cls >= HAK_CLASSES) {
            fail_msg("size %zu has class %u", size, cls);
            return;
        }
        CHECK(hak_class(cls)->size_bytes >= size, "size %zu, class %u", size, cls);
        unsigned below =
            cls == 0 || (!hak_class(cls - 1)->fine && !is_narrow(cls - 1)) ? cls : cls - 1;
        CHECK(below == 0 || hak_class(below - 1)->size_bytes < looked_up(size),
              "size %zu, class %u", size, cls);
        CHECK(!hak_class(cls)->fine && !is_narrow(cls), "size %zu, class %u", size, cls);
    }
}

static void refined_sizes_get_the_smallest_class_of_all(void **state)
{
    (void)state;
    hak_classes_start();
    for (unsigned cls = 0; cls < HAK_CLASS_ALIGNED; cls++) {
        hak_classes_refine(cls);
        hak_classes_refine(cls); /* nothing is left to do */
    }
    for (size_t size = 0; size <= HAK_SMALL_MAX; size++) {
        unsigned cls = size <= HAK_TINY_MAX ? hak_tables.narrow_kind[(size + 15) / 16] / 2u
                                            : hak_class_of(size);
        CHECK(hak_class(cls)->size_bytes >= size, "size %zu, class %u", size, cls);
        CHECK(cls == 0 || hak_class(cls - 1)->size_bytes < looked_up(size), "size %zu, class %u",
              size, cls);
    }
}

/* Programs put headers before pages and buffers. */
static void a_power_of_two_and_a_header_have_one_class(void **state)
{
    (void)state;
    hak_classes_start();
    for (size_t power = 2048; power <= HAK_SLOT_BYTES; power *= 2)
        assert_int_equal(hak_class_of(power + HAK_CACHE_LINE), hak_class_of(power));
    for (size_t power = 4096; power <= HAK_SLOT_BYTES; power *= 2)
        assert_int_equal(hak_class_of(power + power / 64), hak_class_of(power));
}

static void one_class_may_be_refined_alone(void **state)
{
    (void)state;
    hak_classes_start();
    unsigned cls = hak_class_of(30000);
    hak_classes_refine(cls);
    assert_int_equal(hak_class_of(28928), cls - 1); /* some ninth of 256 KiB */
    assert_int_equal(hak_class_of(28929), cls);
    assert_int_equal(hak_class_of(25984), cls - 2);
    assert_int_equal(hak_class_of(23000), hak_class_of(25984));
}

static void before_the_start_every_size_has_class_0(void **state)
{
    (void)state;
    for (size_t size = 0; size <= HAK_SMALL_MAX; size += 100)
        assert_int_equal(hak_class_of(size), 0);
}

static void classes_ascend_in_multiples_of_the_alignment(void **state)
{
    (void)state;
    hak_classes_start();
    assert_int_equal(hak_class(0)->size_bytes, HAK_ALIGNMENT);
    assert_int_equal(hak_class(HAK_CLASS_ALIGNED - 1)->size_bytes, HAK_SMALL_MAX);
    const size_t only_aligned[] = {1024,  2048,  4096,  6144,  8192,          12288,
                                   16384, 24576, 32768, 49152, HAK_SLOT_BYTES};
    assert_int_equal(HAK_CLASSES - HAK_CLASS_ALIGNED, UNIT_COUNT(only_aligned));
    for (unsigned i = 0; i < UNIT_COUNT(only_aligned); i++)
        assert_int_equal(hak_class(HAK_CLASS_ALIGNED + i)->size_bytes, only_aligned[i]);
    for (unsigned cls = 0; cls < HAK_CLASS_ALIGNED; cls++) {
        CHECK(hak_class(cls)->size_bytes % HAK_ALIGNMENT == 0, "class %u", cls);
        CHECK(cls == 0 || hak_class(cls)->size_bytes > hak_class(cls - 1)->size_bytes, "class %u",
              cls);
    }
}

/* Lines of a page at which blocks of neighbouring slabs begin. */
static unsigned places_of_blocks(const struct hak_class *c, unsigned slabs)
{
    uint64_t lines = 0;
    size_t slab = c->slots * HAK_SLOT_BYTES;
    for (uintptr_t base = 0; base < slabs * slab; base += slab) {
        uintptr_t first = base + hak_class_colour_bytes(c, base);
        for (size_t i = 0; i < c->blocks; i++)
            lines |= 1ull << ((first + i * c->size_bytes) % HAK_PAGE_BYTES / HAK_CACHE_LINE);
    }
    return hak_popcount64(lines);
}

/* The caches have room for eight lines or so that begin at the same place within a page. */
static void blocks_of_large_sizes_begin_at_many_places(void **state)
{
    (void)state;
    hak_classes_start();
    for (unsigned cls = hak_class_of(HAK_TINY_MAX); cls < HAK_CLASS_ALIGNED; cls++) {
        const struct hak_class *c = hak_class(cls);
        unsigned places = places_of_blocks(c, HAK_COLOURS);
        CHECK(places >= 15, "%u bytes: %u places", c->size_bytes, places);
    }
}

/* Where nothing is left in the slab, or what is aligned would not be any more. */
static void colours_leave_room_for_all_blocks_and_keep_them_aligned(void **state)
{
    (void)state;
    hak_classes_start();
    for (unsigned cls = 0; cls < HAK_CLASSES; cls++) {
        const struct hak_class *c = hak_class(cls);
        size_t slab = c->slots * HAK_SLOT_BYTES;
        for (uintptr_t address = 0; address < 2 * HAK_COLOURS * slab; address += slab / 2) {
            size_t colour = hak_class_colour_bytes(c, address);
            CHECK(colour % HAK_CACHE_LINE == 0, "class %u: %zu", cls, colour);
            CHECK(colour + (size_t)c->blocks * c->size_bytes <= slab, "class %u: %zu", cls, colour);
            CHECK(colour == hak_class_colour_bytes(c, address & ~(slab - 1)), "class %u", cls);
            bool never = c->size_bytes <= HAK_TINY_MAX || hak_is_pow2(c->size_bytes);
            CHECK(!never || colour == 0, "class %u: %zu", cls, colour);
        }
    }
}

static bool begin_aligned(unsigned cls, size_t align)
{
    const struct hak_class *c = hak_class(cls);
    size_t slab = c->slots * HAK_SLOT_BYTES;
    for (uintptr_t at = 0; at < HAK_COLOURS * slab; at += slab)
        for (unsigned i = 0; i < hak_min(c->blocks, 4); i++)
            if ((at + hak_class_colour_bytes(c, at) + (size_t)i * c->size_bytes) % align != 0)
                return false;
    return true;
}

static void an_aligned_block_gets_the_smallest_class_whose_blocks_all_are(void **state)
{
    (void)state;
    hak_classes_start();
    for (size_t align = 32; align <= HAK_SLOT_BYTES; align *= 2) {
        for (size_t size = align; size <= HAK_SLOT_BYTES; size += align) {
            unsigned got = hak_class_aligned(align, size);
            size_t bytes = hak_class(got)->size_bytes;
            CHECK(bytes >= size, "%zu aligned to %zu: class %u", size, align, got);
            CHECK(begin_aligned(got, align), "%zu aligned to %zu: class %u", size, align, got);
            for (unsigned cls = hak_class_of(size); hak_class(cls)->size_bytes < bytes; cls++)
                CHECK(!begin_aligned(cls, align), "%zu aligned to %zu: %u, not %u", size, align,
                      cls, got);
            for (unsigned cls = HAK_CLASS_ALIGNED; cls < HAK_CLASSES; cls++)
                CHECK(hak_class(cls)->size_bytes < size || hak_class(cls)->size_bytes >= bytes,
                      "%zu aligned to %zu: %u, not %u", size, align, cls, got);
            CHECK(got >= HAK_CLASS_ALIGNED || hak_class_is_aligned(got, align), "class %u", got);
        }
    }
}

static void a_block_wastes_an_eighth_at_most_or_a_fifth_to_1_kib_or_a_third_above_8(void **state)
{
    (void)state;
    hak_classes_start();
    for (size_t size = 129; size <= HAK_SLOT_BYTES; size++) {
        /* the cache lines at the end of the largest are there for the next one's place */
        size_t block = hak_min(hak_class(hak_class_of(size))->size_bytes, HAK_SLOT_BYTES);
        size_t share = size <= HAK_TINY_MAX ? 5 : size <= 8192 ? 8 : 3;
        /* and the parts leave some for colours, and are rounded */
        CHECK((block - size) * share <= block + 1024, "size %zu in a block of %zu", size, block);
    }
}

static void a_slab_wastes_a_sixteenth_at_most(void **state)
{
    (void)state;
    hak_classes_start();
    for (unsigned cls = 0; cls < HAK_CLASSES; cls++) {
        const struct hak_class *c = hak_class(cls);
        size_t slab = c->slots * HAK_SLOT_BYTES;
        CHECK(hak_is_pow2(c->slots) && c->slots <= 16, "class %u: %u slots", cls, c->slots);
        size_t tail = slab - (size_t)c->blocks * c->size_bytes;
        bool odd = c->size_bytes <= HAK_TINY_MAX; /* is more important there than one more */
        CHECK(!odd || c->blocks % 2 == 1, "class %u: %u blocks", cls, c->blocks);
        CHECK(tail < (odd ? 2 : 1) * c->size_bytes, "class %u: another block fits", cls);
        CHECK(tail * 16 <= slab, "class %u: %zu of %zu bytes wasted", cls, tail, slab);
    }
}

static void the_block_index_is_the_quotient_or_more_than_any_slab_has(void **state)
{
    (void)state;
    hak_classes_start();
    for (unsigned cls = 0; cls < HAK_CLASSES; cls++) {
        const struct hak_class *c = hak_class(cls);
        uint64_t end = c->slots * HAK_SLOT_BYTES; /* and as far on the other side: other slabs */
        for (uint64_t offset = -end; offset != end; offset++) {
            uint64_t index = hak_block_index(c, offset);
            bool exact = offset < end && offset % c->size_bytes == 0;
            if (exact ? index != offset / c->size_bytes : index < c->blocks)
                fail_msg("class %u, offset %" PRId64 ": %" PRIu64, cls, (int64_t)offset, index);
        }
    }
}

/* What a thread begins with: powers of two from 32 on. */
static void coarse_classes_hold_every_tiny_size_in_twice_its_bytes_at_most(void **state)
{
    (void)state;
    hak_classes_start();
    for (size_t size = 0; size <= HAK_TINY_MAX; size++) {
        size_t block = hak_class(hak_tables.coarse_kind[(size + 15) / 16] / 2)->size_bytes;
        CHECK(block >= size && (hak_is_pow2(block) || block == HAK_TINY_MAX),
              "size %zu in a block of %zu", size, block);
        CHECK(block <= 32 || hak_round_down(block, 32) < 2 * size, "size %zu in a block of %zu",
              size, block);
    }
}

static void bits_are_inline_where_they_fit_one_word(void **state)
{
    (void)state;
    hak_classes_start();
    for (unsigned cls = 0; cls < HAK_CLASSES; cls++)
        assert_true(hak_class(cls)->inline_bits == (hak_class(cls)->blocks <= 64));
}

/* A pointer behind the last block, in the tail, has the index `blocks`: its bit must lie in the
 * bitmaps of the slab, not in those of another. */
static void the_index_behind_the_last_block_is_within_the_bitmaps(void **state)
{
    (void)state;
    hak_classes_start();
    for (unsigned cls = 0; cls < HAK_CLASSES; cls++) {
        const struct hak_class *c = hak_class(cls);
        bool has_tail = (size_t)c->blocks * c->size_bytes < c->slots * HAK_SLOT_BYTES;
        CHECK(!has_tail || c->blocks % 64 != 0, "class %u: %u blocks", cls, c->blocks);
    }
}

/* In the hardened build, whose tables are the same: no two slabs' words meet, and they
 * are in the shortest array that has room for them. */
static void a_slab_has_words_for_its_blocks_and_few_more(void **state)
{
    (void)state;
    hak_classes_start();
    for (unsigned cls = 0; cls < HAK_CLASSES; cls++) {
        const struct hak_class *c = hak_class(cls);
        unsigned shift = hak_class_word_shift(c);
        size_t words = c->slots * HAK_SLOT_BYTES >> shift;
        CHECK(c->blocks <= words, "class %u: %u blocks, %zu words", cls, c->blocks, words);
        bool fits_fewer =
            shift != HAK_WORD_FEW && c->blocks <= c->slots * HAK_SLOT_BYTES >> HAK_WORD_FEW;
        fits_fewer |=
            shift == HAK_WORD_MANY && c->blocks <= c->slots * HAK_SLOT_BYTES >> HAK_WORD_SOME;
        CHECK(!fits_fewer, "class %u: %u blocks, shift %u", cls, c->blocks, shift);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(every_size_gets_the_smallest_class_that_is_neither_fine_nor_narrow),
    cmocka_unit_test(refined_sizes_get_the_smallest_class_of_all),
    cmocka_unit_test(a_power_of_two_and_a_header_have_one_class),
    cmocka_unit_test(one_class_may_be_refined_alone),
    cmocka_unit_test(before_the_start_every_size_has_class_0),
    cmocka_unit_test(classes_ascend_in_multiples_of_the_alignment),
    cmocka_unit_test(blocks_of_large_sizes_begin_at_many_places),
    cmocka_unit_test(colours_leave_room_for_all_blocks_and_keep_them_aligned),
    cmocka_unit_test(an_aligned_block_gets_the_smallest_class_whose_blocks_all_are),
    cmocka_unit_test(a_block_wastes_an_eighth_at_most_or_a_fifth_to_1_kib_or_a_third_above_8),
    cmocka_unit_test(a_slab_wastes_a_sixteenth_at_most),
    cmocka_unit_test(the_block_index_is_the_quotient_or_more_than_any_slab_has),
    cmocka_unit_test(coarse_classes_hold_every_tiny_size_in_twice_its_bytes_at_most),
    cmocka_unit_test(a_slab_has_words_for_its_blocks_and_few_more),
    cmocka_unit_test(bits_are_inline_where_they_fit_one_word),
    cmocka_unit_test(the_index_behind_the_last_block_is_within_the_bitmaps),
};
UNIT_MAIN(tests)
