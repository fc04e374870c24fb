/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * slab: making slabs, taking blocks, giving free pages back. See slab.h. */
#include "slab/slab.h"

#define BITS_SMALL_BYTES 128u /* of up to 1,024 blocks */
#define BITS_LARGE_BYTES 512u
#define BITS_SMALL_AT ((size_t)HAK_SLOTS * sizeof(struct hak_slab))
#define BITS_LARGE_AT (BITS_SMALL_AT + (size_t)HAK_SLOTS * BITS_SMALL_BYTES)
_Static_assert(BITS_LARGE_AT + (size_t)HAK_SLOTS * BITS_LARGE_BYTES == HAK_META_BYTES,
               "the meta is just these areas");

static _Atomic(uint64_t) *slab_bits(struct hak_slab *s, size_t slot, const struct hak_class *c)
{
    if (c->inline_bits)
        return &s->free_word;
    bool small = c->blocks <= BITS_SMALL_BYTES * 8;
    char *meta = hak_space_meta() + slot / HAK_SLOTS * HAK_META_BYTES;
    char *bits = meta + (small ? BITS_SMALL_AT + slot % HAK_SLOTS * BITS_SMALL_BYTES
                               : BITS_LARGE_AT + slot % HAK_SLOTS * BITS_LARGE_BYTES);
    return (_Atomic(uint64_t) *)(void *)bits;
}

/* Hardened build: all blocks of a slab of few are there from the beginning, to be chosen among. */
static void slab_carve_all(struct hak_slab *s, const struct hak_class *c)
{
    hak_store_relaxed(&s->free_word, UINT64_MAX >> (64 - c->blocks));
    hak_store_relaxed(&s->carved, c->blocks);
    hak_store_relaxed(&s->free_blocks, c->blocks);
}

struct hak_slab *hak_slab_make_owner(size_t slot, unsigned cls, bool zero)
{
    const struct hak_class *c = hak_class(cls);
    struct hak_slab *s = hak_slab_record(slot);
    s->next = s->prev = NULL;
    char *slab = hak_slot_address(slot);
    s->base = slab + hak_class_colour_bytes(c, (uintptr_t)slab);
    s->cls = (uint8_t)cls;
    s->first_word = 0;
    s->zero = zero;
    s->list = 0;
    s->purged_free_blocks = s->seen_free_blocks = 0;
    hak_store_relaxed(&s->carved, (uint16_t)0);
    hak_store_relaxed(&s->free_blocks, (uint16_t)0);
    s->free_bits = slab_bits(s, slot, c);
    for (unsigned w = 0; w < hak_slab_words(c); w++)
        hak_store_relaxed(&s->free_bits[w], (uint64_t)0);
    if (HAK_HARDENED && c->inline_bits && c->size_bytes > HAK_TINY_MAX)
        slab_carve_all(s, c);
    return s;
}

#define RUN_BLOCKS 8u /* side by side: from so many on it pays to handle them together */

/* One of the free blocks of a word: the lowest, or in the hardened build the first at or after
 * `from`. */
static unsigned slab_choose(uint64_t bits, unsigned from)
{
    return HAK_HARDENED ? (from + hak_ctz64(hak_rotate_right64(bits, from))) & 63 : hak_ctz64(bits);
}

/* So many blocks, side by side, in front of `out`. */
static void slab_list_blocks(void **out, char *first, unsigned count, size_t size)
{
#pragma GCC unroll 4
    for (unsigned i = 0; i < count; i++, first += size)
        *--out = first;
}

/* How many bits are set, if those are one behind the other; otherwise 0. bits != 0. */
static unsigned slab_whole_run(uint64_t bits)
{
    return (bits & (bits + (bits & -bits))) == 0 ? hak_popcount64(bits) : 0;
}

static unsigned slab_take_free(struct hak_slab *s, const struct hak_class *c, void **out,
                               unsigned most)
{
    unsigned left = hak_load_relaxed(&s->free_blocks);
    unsigned want = most < left ? most : left;
    unsigned got = 0;
    unsigned w = s->first_word;
    while (got < want) {
        uint64_t bits = hak_load_relaxed(&s->free_bits[w]);
        if (bits == 0) {
            w++;
            continue;
        }
        char *word_base = s->base + (size_t)w * 64 * c->size_bytes;
        unsigned run = HAK_HARDENED ? 0 : slab_whole_run(bits);
        if (run >= RUN_BLOCKS) {
            unsigned bit = hak_ctz64(bits);
            run = (unsigned)hak_min(run, want - got);
            slab_list_blocks(out, word_base + (size_t)bit * c->size_bytes, run, c->size_bytes);
            out -= run;
            got += run;
            bits &= ~(~UINT64_C(0) >> (64 - run) << bit);
            hak_store_relaxed(&s->free_bits[w], bits);
            continue;
        }
        unsigned from = HAK_HARDENED ? hak_os_random_below(64) : 0;
        while (bits != 0 && got < want) {
            unsigned bit = slab_choose(bits, from);
            if (HAK_HARDENED && c->size_bytes > HAK_TINY_MAX) /* few: each by itself */
                from = hak_os_random_below(64);
            *--out = word_base + (size_t)bit * c->size_bytes, got++;
            bits &= HAK_HARDENED ? ~(1ull << bit) : bits - 1;
        }
        hak_store_relaxed(&s->free_bits[w], bits);
    }
    s->first_word = (uint8_t)w;
    s->purged_free_blocks = 0;
    hak_store_relaxed(&s->free_blocks, (uint16_t)(left - got));
    return got;
}

/* Who takes no more than so many blocks at a time may not need all of them. */
#define CARVE_BY_PAGES 16u

static unsigned slab_take_fresh(struct hak_slab *s, const struct hak_class *c, void **out,
                                unsigned most)
{
    unsigned carved = hak_load_relaxed(&s->carved);
    if (carved >= c->blocks || most == 0)
        return 0;
    unsigned end = (unsigned)hak_min(carved + most, c->blocks);
    if (s->zero &&
        most <= CARVE_BY_PAGES) { /* the block that reaches into the next page is the last */
        size_t colour = (uintptr_t)s->base & c->offset_mask;
        size_t begin = colour + (size_t)carved * c->size_bytes;
        size_t page_end = hak_round_up(begin + 1, HAK_PAGE_BYTES);
        end = (unsigned)hak_min(end, (page_end - 1 - colour) / c->size_bytes + 1);
    }
    slab_list_blocks(out, s->base + (size_t)carved * c->size_bytes, end - carved, c->size_bytes);
    hak_store_relaxed(&s->carved, (uint16_t)end);
    s->settle_free = (uint16_t)(s->settle_free + end - carved); /* as many more are in use */
    return end - carved;
}

unsigned hak_slab_take_owner(struct hak_slab *s, void **out, unsigned most, bool *fresh_zero)
{
    const struct hak_class *c = hak_class(s->cls);
    unsigned got = slab_take_free(s, c, out, most);
    *fresh_zero = got == 0 && s->zero;
    if (got == 0)
        got = slab_take_fresh(s, c, out, most);
    if (HAK_CHECKS)
        hak_slab_verify_owner(s);
    return got;
}

/* The second of two blocks lies right behind or before the first. */
static bool slab_beside(void *const *blocks, uintptr_t size)
{
    uintptr_t step = (uintptr_t)blocks[1] - (uintptr_t)blocks[0];
    return step == size || step == -size;
}

/* Returns the first of at least RUN_BLOCKS blocks, the one with this index, and those that lie side
 * by side with it, each behind or each before the last: how many; 0, and nothing was done, if they
 * are fewer than RUN_BLOCKS. Not inline: the loop that calls it needs all registers. */
static HAK_NOINLINE unsigned slab_try_put_run(struct hak_slab *s, const struct hak_class *c,
                                              void *const *blocks, unsigned count, uint64_t index)
{
    uintptr_t step = (uintptr_t)blocks[1] - (uintptr_t)blocks[0];
    unsigned n = 2;
    while (n < count && (uintptr_t)blocks[n] - (uintptr_t)blocks[n - 1] == step)
        n++;
    if (n < RUN_BLOCKS)
        return 0;
    bool up = step == c->size_bytes; /* what lies beside may be another slab's */
    n = (unsigned)hak_min(n, up ? hak_load_relaxed(&s->carved) - index : index + 1);
    uint64_t first = up ? index : index + 1 - n;
    uint64_t end = first + n;
    for (uint64_t at = first, next; at < end; at = next) {
        next = hak_min(hak_round_up(at + 1, 64), end);
        uint64_t mask = ~UINT64_C(0) >> (64 - (next - at)) << (at % 64);
        uint64_t free = hak_load_relaxed(&s->free_bits[at / 64]);
        if (HAK_UNLIKELY(free & mask))
            hak_misuse(HAK_DOUBLE_FREE,
                       s->base + ((at & ~UINT64_C(63)) + hak_ctz64(free & mask)) * c->size_bytes,
                       s->cls);
        hak_store_relaxed(&s->free_bits[at / 64], free | mask);
    }
    s->first_word = (uint8_t)hak_min(first / 64, s->first_word);
    return n;
}

unsigned hak_slab_put_streak_owner(struct hak_slab *s, const struct hak_class *c,
                                   void *const *blocks, unsigned count)
{
    _Atomic(uint64_t) *bits = s->free_bits; /* copies: the stores below change none of these */
    uint64_t inverse = c->inverse;
    unsigned even_bits = c->even_bits;
    uintptr_t base = (uintptr_t)s->base;
    uint64_t carved = hak_load_relaxed(&s->carved);
    uint64_t lowest = s->first_word;
    uint64_t word = lowest; /* the one that `free` is a copy of */
    uint64_t free = hak_load_relaxed(&bits[word]);
    void *const *end = blocks + count;
    void *const *look = blocks; /* for a run, there */
    void *const *at = blocks;
    while (at < end) {
        uint64_t index = hak_rotate_right64(((uintptr_t)*at - base) * inverse, even_bits);
        if (index >= carved)
            break;
        if (HAK_UNLIKELY(at >= look)) {
            look = at + RUN_BLOCKS;
            if (look <= end && slab_beside(at, c->size_bytes)) {
                hak_store_relaxed(&bits[word], free);
                unsigned run = slab_try_put_run(s, c, at, (unsigned)(end - at), index);
                free = hak_load_relaxed(&bits[word]);
                if (run != 0) {
                    look = at += run;
                    continue;
                }
            }
        }
        /* Neighbours in the bin are neighbours in memory more often. */
        if (HAK_UNLIKELY(index / 64 != word)) {
            hak_store_relaxed(&bits[word], free);
            word = index / 64;
            free = hak_load_relaxed(&bits[word]);
            lowest = word < lowest ? word : lowest;
        }
        if (HAK_UNLIKELY(hak_test_and_set64(&free, index)))
            hak_misuse(HAK_DOUBLE_FREE, *at, s->cls);
        at++;
    }
    hak_store_relaxed(&bits[word], free);
    s->first_word = (uint8_t)hak_min(lowest, s->first_word);
    unsigned put = (unsigned)(at - blocks);
    hak_count_owner(&s->free_blocks, (uint16_t)put);
    return put;
}

/* The first block at or after `from` whose free bit is `free`; `carved` if there is none. */
static unsigned slab_next(const struct hak_slab *s, unsigned from, unsigned carved, bool free)
{
    while (from < carved) {
        uint64_t bits = hak_load_relaxed(&s->free_bits[from / 64]);
        bits = (free ? bits : ~bits) >> (from % 64);
        if (bits != 0)
            return (unsigned)hak_min(from + hak_ctz64(bits), carved);
        from += 64 - from % 64;
    }
    return carved;
}

size_t hak_slab_purge_owner(struct hak_slab *s, unsigned least_pages)
{
    const struct hak_class *c = hak_class(s->cls);
    unsigned carved = hak_load_relaxed(&s->carved);
    unsigned free = hak_load_relaxed(&s->free_blocks);
    size_t page_bytes = hak_os_page_bytes();
    size_t least = least_pages * HAK_PAGE_BYTES;
    size_t purged = 0;
    char *slab = hak_slot_address(hak_slab_slot(s));
    size_t colour = (size_t)(s->base - slab);
    if ((free == s->purged_free_blocks && least_pages >= s->purged_least_pages) ||
        (size_t)free * c->size_bytes < least)
        return 0;
    for (unsigned at = slab_next(s, 0, carved, true); at < carved;) {
        unsigned end = slab_next(s, at, carved, false);
        /* Before the first block is nobody's, and behind the last that was carved. */
        size_t from = at == 0 ? 0 : hak_round_up(colour + (size_t)at * c->size_bytes, page_bytes);
        size_t to = end == carved
                        ? c->slots * HAK_SLOT_BYTES
                        : hak_round_down(colour + (size_t)end * c->size_bytes, page_bytes);
        if (from + least <= to && hak_os_purge(slab + from, to - from) == 0)
            purged += to - from;
        at = slab_next(s, end, carved, true);
    }
    s->purged_free_blocks = (uint16_t)free;
    s->purged_least_pages = (uint8_t)least_pages;
    return purged;
}

_Noreturn void hak_misuse(enum hak_misuse what, const void *p, unsigned cls)
{
    static const char *const reasons[] = {
        [HAK_DOUBLE_FREE] = "",
        [HAK_INTERIOR_FREE] = "points into a block, not at its beginning; ",
        [HAK_NEVER_ALLOCATED] = "never allocated; ",
    };
    char line[160];
    struct hak_text text;
    hak_text_begin(&text, line, sizeof line);
    hak_text_string(&text, what == HAK_DOUBLE_FREE ? "double free of " : "invalid free of ");
    hak_text_hex(&text, (uintptr_t)p);
    hak_text_string(&text, " (");
    hak_text_string(&text, reasons[what]);
    if (cls < HAK_CLASSES) {
        hak_text_string(&text, "size class ");
        hak_text_decimal(&text, cls);
        hak_text_string(&text, ", ");
        hak_text_decimal(&text, hak_class(cls)->size_bytes);
        hak_text_string(&text, " bytes)");
    } else {
        hak_text_string(&text, "all of its slab was free)");
    }
    hak_os_die(line);
}

void hak_slab_no_block(unsigned cls, const void *p)
{
    const struct hak_class *c = hak_class(cls);
    size_t offset = ((uintptr_t)p & c->offset_mask) - hak_class_colour_bytes(c, (uintptr_t)p);
    bool inside = offset < (size_t)c->blocks * c->size_bytes && offset % c->size_bytes != 0;
    hak_misuse(inside ? HAK_INTERIOR_FREE : HAK_NEVER_ALLOCATED, p, cls);
}

/* slab-counts: free_blocks is the number of free bits; carved is within the slab.
 * slab-bits: no free bit beyond carved, none before first_word. */
void hak_slab_verify_owner(const struct hak_slab *s)
{
    const struct hak_class *c = hak_class(s->cls);
    unsigned carved = hak_load_relaxed(&s->carved);
    unsigned bits = 0;
    bool in_place = carved <= c->blocks;
    for (unsigned w = 0; w < hak_slab_words(c); w++) {
        uint64_t word = hak_load_relaxed(&s->free_bits[w]);
        bits += hak_popcount64(word);
        if (word != 0)
            in_place = in_place && w >= s->first_word && w * 64 + hak_log2_floor(word) < carved;
    }
    if (!in_place || bits != hak_load_relaxed(&s->free_blocks))
        hak_os_die("slab-counts or slab-bits does not hold: this is a bug in hakmem");
}
