/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * The hakmem command: what of the slabs, blocks and records is in memory, see survey.h. Pages are
 * counted once: whatever is left in the end is not the allocator's. */
#include "survey.h"

#include "util.h"

#include "hard/hard_internal.h"

#include <stdlib.h>
#include <string.h>

#define SLAB_MOST_BLOCKS 4096u
#define SLAB_MOST_SLOTS 16u
#define SLAB_MOST_BYTES (SLAB_MOST_SLOTS * HAK_SLOT_BYTES)
#define MASK_PAGES 64u
#define SLAB_MOST_MASKS (SLAB_MOST_BYTES / HAK_PAGE_BYTES / MASK_PAGES)

struct count {
    struct hak_survey *survey;
    struct hak_remote *remote;
    uint64_t base;
    bool hardened;
    uint64_t words[HAK_WORD_SHIFTS];  /* addresses of hak_space.words */
    uint32_t *word;                   /* of the slab that is looked at */
    uint32_t slack_left[HAK_CLASSES]; /* of a byte, from the blocks before */
};

static uint64_t count_take(struct count *c, enum hak_line line, uint64_t from, uint64_t bytes)
{
    uint64_t resident = hak_remote_take(c->remote, from, from + bytes);
    c->survey->lines[line].resident_bytes += resident;
    c->survey->lines[line].virtual_bytes += bytes;
    return resident;
}

/* The bytes of [from, to) in pages of the masks, both counted from the first page of those. */
static uint64_t count_overlap(const uint64_t *masks, uint64_t from, uint64_t to)
{
    uint64_t bytes = 0;
    while (from < to) {
        uint64_t page = from / HAK_PAGE_BYTES;
        uint64_t end = (page + 1) * HAK_PAGE_BYTES;
        end = end < to ? end : to;
        if (masks[page / MASK_PAGES] >> page % MASK_PAGES & 1)
            bytes += end - from;
        from = end;
    }
    return bytes;
}

/* The bytes of [from, to) that are in memory and not counted yet. */
static uint64_t count_seen(struct count *c, uint64_t from, uint64_t to)
{
    const uint64_t step = MASK_PAGES * HAK_PAGE_BYTES;
    uint64_t bytes = 0;
    while (from < to) {
        uint64_t first = hak_round_down(from, HAK_PAGE_BYTES);
        uint64_t mask = hak_remote_resident_mask(c->remote, first, MASK_PAGES);
        uint64_t end = hak_min(first + step, to);
        bytes += count_overlap(&mask, from - first, end - first);
        from = end;
    }
    return bytes;
}

/* A live block that has the range [at, end) to itself, from `from` on; so much of it from `begin`
 * on was asked for. Behind `block_end` the range is nobody's. Returns what is in memory. */
struct alone {
    uint64_t at, from, begin, asked, block_end, end;
};

static uint64_t count_alone(struct count *c, struct alone a)
{
    struct hak_amount *lines = c->survey->lines;
    a.begin = hak_min(a.begin, a.block_end);
    uint64_t asked_end = a.begin + hak_min(a.asked, a.block_end - a.begin);
    uint64_t live = count_seen(c, a.begin, asked_end);
    uint64_t slack = count_seen(c, a.from, a.begin) + count_seen(c, asked_end, a.block_end);
    uint64_t resident = hak_remote_take(c->remote, a.at, a.end);
    lines[HAK_LINE_LIVE].resident_bytes += live;
    lines[HAK_LINE_LIVE].virtual_bytes += asked_end - a.begin;
    lines[HAK_LINE_SLACK].resident_bytes += slack;
    lines[HAK_LINE_SLACK].virtual_bytes += a.block_end - a.from - (asked_end - a.begin);
    lines[HAK_LINE_FREE_IN_SLABS].resident_bytes += resident - live - slack;
    lines[HAK_LINE_FREE_IN_SLABS].virtual_bytes += a.end - a.block_end + (a.from - a.at);
    return resident;
}

/* --- slabs --- */

static bool count_bit(const uint64_t *bits, unsigned block)
{
    return bits[block / 64] >> (block % 64) & 1;
}

static enum hak_block_state count_state(struct count *c, const struct hak_slab_seen *s,
                                        unsigned block, uint64_t *asked_bytes)
{
    const struct hak_class *k = hak_class(s->cls);
    unsigned words = hak_slab_words(k);
    *asked_bytes = k->size_bytes;
    if (block >= s->carved)
        return HAK_BLOCK_FRESH;
    if (count_bit(s->bits, block))
        return HAK_BLOCK_FREE;
    if (count_bit(s->bits + (size_t)HAK_SEEN_WAITING * words, block))
        return HAK_BLOCK_WAITING;
    if (count_bit(s->bits + (size_t)HAK_SEEN_IN_BIN * words, block))
        return HAK_BLOCK_BIN;
    if (c->word == NULL) { /* on average it is what the sampled blocks have */
        uint32_t parts = c->slack_left[s->cls] + c->survey->slack_parts[s->cls];
        *asked_bytes = k->size_bytes - (parts >> HAK_SLACK_SHIFT);
        c->slack_left[s->cls] = parts & ((1u << HAK_SLACK_SHIFT) - 1);
        return HAK_BLOCK_LIVE;
    }
    uint32_t word = c->word[block];
    *asked_bytes = (word & HARD_LIVE) != 0 && (word & HARD_SIZE_MASK) < k->size_bytes
                       ? word & HARD_SIZE_MASK
                       : k->size_bytes;
    return (word & HARD_FREED) != 0 ? HAK_BLOCK_QUARANTINE : HAK_BLOCK_LIVE;
}

static enum hak_line count_line_of(enum hak_block_state state)
{
    switch (state) {
    case HAK_BLOCK_LIVE:
        return HAK_LINE_LIVE;
    case HAK_BLOCK_BIN:
    case HAK_BLOCK_WAITING:
        return HAK_LINE_THREAD_CACHES;
    case HAK_BLOCK_QUARANTINE:
        return HAK_LINE_IN_TRANSITION;
    default:
        return HAK_LINE_FREE_IN_SLABS;
    }
}

/* The hardened library keeps a word for each block, with its size. */
static void count_read_words(struct count *c, const struct hak_slab_seen *s)
{
    static uint32_t words[SLAB_MOST_BYTES >> HAK_WORD_MANY];
    unsigned shift = hak_class_word_shift(hak_class(s->cls));
    uint64_t at = c->words[shift - HAK_WORD_MANY] + (s->first_slot << HAK_SLOT_SHIFT >> shift << 2);
    bool read = c->hardened && s->slots <= SLAB_MOST_SLOTS &&
                hak_remote_read(c->remote, at, words, s->slots * HAK_SLOT_BYTES >> shift << 2);
    c->word = read ? words : NULL;
}

static void count_blocks(struct count *c, struct hak_slab_seen *s, const uint64_t *masks)
{
    const struct hak_class *k = hak_class(s->cls);
    struct hak_amount *lines = c->survey->lines;
    uint64_t counted = 0;
    count_read_words(c, s);
    for (unsigned block = 0; block < k->blocks; block++) {
        uint64_t asked;
        uint64_t from = s->colour_bytes + (uint64_t)block * k->size_bytes;
        uint64_t to = from + k->size_bytes;
        enum hak_block_state state = count_state(c, s, block, &asked);
        enum hak_line line = count_line_of(state);
        uint64_t resident = count_overlap(masks, from, to);
        s->blocks[state]++;
        counted += resident;
        if (state == HAK_BLOCK_LIVE) {
            uint64_t slack = count_overlap(masks, from + asked, to);
            s->live_resident_bytes += resident;
            lines[HAK_LINE_SLACK].resident_bytes += slack;
            lines[HAK_LINE_SLACK].virtual_bytes += k->size_bytes - asked;
            lines[line].resident_bytes += resident - slack;
            lines[line].virtual_bytes += asked;
        } else {
            lines[line].resident_bytes += resident;
            lines[line].virtual_bytes += k->size_bytes;
        }
    }
    uint64_t blocks = (uint64_t)k->blocks * k->size_bytes; /* the rest is before and behind them */
    lines[HAK_LINE_FREE_IN_SLABS].resident_bytes += s->resident_bytes - counted;
    lines[HAK_LINE_FREE_IN_SLABS].virtual_bytes += s->slots * HAK_SLOT_BYTES - blocks;
}

static void count_class(struct count *c, const struct hak_slab_seen *s)
{
    struct hak_class_seen *k = &c->survey->classes[s->cls];
    k->slabs++;
    k->slots += s->slots;
    k->resident_bytes += s->resident_bytes;
    k->live_resident_bytes += s->live_resident_bytes;
    for (unsigned i = 0; i < HAK_BLOCK_STATES; i++)
        k->blocks[i] += s->blocks[i];
    if (s->heap >= c->survey->heap_count)
        return;
    struct hak_heap_seen *h = &c->survey->heaps[s->heap];
    uint64_t size = hak_class(s->cls)->size_bytes;
    h->slabs++;
    h->slab_bytes += s->slots * HAK_SLOT_BYTES;
    h->resident_bytes += s->resident_bytes;
    h->live_blocks += s->blocks[HAK_BLOCK_LIVE];
    h->live_bytes += s->blocks[HAK_BLOCK_LIVE] * size;
    h->free_bytes += s->blocks[HAK_BLOCK_FREE] * size;
}

static void count_slab(struct count *c, struct hak_slab_seen *s)
{
    uint64_t at = c->base + (s->first_slot << HAK_SLOT_SHIFT);
    uint64_t bytes = s->slots * HAK_SLOT_BYTES;
    if (s->cls < HAK_CLASSES && s->bits != NULL) {
        uint64_t masks[SLAB_MOST_MASKS] = {0};
        uint64_t pages = hak_min(bytes, SLAB_MOST_BYTES) / HAK_PAGE_BYTES;
        for (uint64_t page = 0; page < pages; page += MASK_PAGES)
            masks[page / MASK_PAGES] = hak_remote_resident_mask(
                c->remote, at + page * HAK_PAGE_BYTES, (unsigned)hak_min(pages - page, MASK_PAGES));
        s->resident_bytes = hak_remote_take(c->remote, at, at + bytes);
        count_blocks(c, s, masks);
        count_class(c, s);
        return;
    }
    if (s->cls != HAK_CLASSES || s->blocks[HAK_BLOCK_LIVE] == 0) {
        s->resident_bytes = count_take(c, HAK_LINE_IN_TRANSITION, at, bytes);
        return;
    }
    uint64_t begin = at + s->front_bytes;
    bool small = s->small_bytes != 0; /* the rest of its slots is nobody's, and not in memory */
    s->resident_bytes =
        count_alone(c, (struct alone){.at = at,
                                      .from = small ? begin : at,
                                      .begin = begin,
                                      .asked = s->asked_bytes,
                                      .block_end = small ? begin + s->small_bytes : at + bytes,
                                      .end = at + bytes});
    bytes = small ? s->small_bytes : bytes;
    c->survey->large.resident_bytes += s->resident_bytes;
    c->survey->large.virtual_bytes += bytes;
    c->survey->large_blocks++;
}

/* --- superslabs --- */

static void count_slots(struct count *c, struct hak_superslab_seen *s)
{
    uint64_t at = c->base + s->number * HAK_SUPERSLAB_BYTES;
    for (unsigned i = 0; i < HAK_SLOTS; i++)
        s->slot_resident_bytes[i] =
            hak_popcount64(hak_remote_resident_mask(c->remote, at + i * HAK_SLOT_BYTES,
                                                    HAK_SLOT_BYTES / HAK_PAGE_BYTES)) *
            (uint32_t)HAK_PAGE_BYTES;
    for (unsigned i = 0; i < HAK_SLOTS; i++) {
        s->resident_bytes += s->slot_resident_bytes[i];
        if (s->slot_state[i] == HAK_SLOT_EMPTY || s->slot_state[i] == HAK_SLOT_UNUSED)
            count_take(c, HAK_LINE_EMPTY_SLOTS, at + i * HAK_SLOT_BYTES, HAK_SLOT_BYTES);
        else if (s->slot_state[i] == HAK_SLOT_TRANSITION)
            count_take(c, HAK_LINE_IN_TRANSITION, at + i * HAK_SLOT_BYTES, HAK_SLOT_BYTES);
        else if (s->slot_state[i] == HAK_SLOT_RETIRED)
            count_take(c, HAK_LINE_RETIRED, at + i * HAK_SLOT_BYTES, HAK_SLOT_BYTES);
    }
}

static void count_superslab(struct count *c, struct hak_superslab_seen *s)
{
    uint64_t at = c->base + s->number * HAK_SUPERSLAB_BYTES;
    struct hak_survey *survey = c->survey;
    if (s->state == HAK_SUPERSLAB_HUGE) {
        uint64_t end = at + s->mapped_bytes;
        if (s->quarantine) {
            s->resident_bytes = count_take(c, HAK_LINE_IN_TRANSITION, at, s->mapped_bytes);
            return;
        }
        s->resident_bytes =
            count_alone(c, (struct alone){at, at, at + s->front_bytes, s->asked_bytes, end, end});
        survey->huge.resident_bytes += s->resident_bytes;
        survey->huge.virtual_bytes += s->mapped_bytes;
        survey->huge_blocks++;
    } else if (s->state == HAK_SUPERSLAB_WAITING) {
        s->resident_bytes = count_take(c, HAK_LINE_HUGE_CACHE, at, s->mapped_bytes);
        survey->waiting.resident_bytes += s->resident_bytes;
        survey->waiting.virtual_bytes += s->mapped_bytes;
    } else {
        count_slots(c, s);
    }
}

/* --- the records, the library, and everything else --- */

static void count_metadata(struct count *c)
{
    const struct hak_image *image = c->survey->image;
    for (unsigned a = 0; a < AREA_MOST; a++)
        count_take(c, HAK_LINE_METADATA, (uint64_t)(uintptr_t)image->window.areas[a].at,
                   image->window.areas[a].mapped_bytes);
    for (unsigned i = 0; i < HAK_META_RANGES; i++) {
        const struct hak_meta_range *r = &image->meta.ranges[i];
        if (r->at != 0)
            count_take(c, HAK_LINE_METADATA, r->at, r->bytes);
        else if (r->bytes != 0)
            c->survey->complete = false; /* there are more ranges than were noted */
    }
}

/* The file's mappings, and behind them its data without a file, as far as it is known. */
static void count_library(struct count *c)
{
    const struct hak_image *image = c->survey->image;
    const struct hak_mapping *own = hak_remote_find(c->remote, image->root_at);
    if (!image->in_library || own == NULL)
        return;
    uint64_t end = 0;
    for (unsigned i = 0; i < HAK_ROOT_PARTS; i++) {
        uint64_t at = (uint64_t)(uintptr_t)image->root.at[i];
        if (at != 0 && at + image->root.sizes[i] > end)
            end = hak_round_up(at + image->root.sizes[i], HAK_PAGE_BYTES);
    }
    for (size_t i = 0; i < c->remote->count; i++) {
        const struct hak_mapping *m = &c->remote->mappings[i];
        if (strcmp(m->name, own->name) == 0)
            count_take(c, HAK_LINE_LIBRARY, m->start, m->end - m->start);
        else if (i > 0 && m->name[0] == '\0' && m->start == m[-1].end && m->start < end &&
                 strcmp(m[-1].name, own->name) == 0)
            count_take(c, HAK_LINE_LIBRARY, m->start, hak_min(m->end, end) - m->start);
    }
}

static uint64_t count_left(const struct hak_mapping *m)
{
    uint64_t pages = 0;
    size_t words = m->resident == NULL ? 0 : (m->end - m->start) / HAK_PAGE_BYTES / 64 + 1;
    for (size_t i = 0; i < words; i++)
        pages += hak_popcount64(m->resident[i]);
    return pages * HAK_PAGE_BYTES;
}

static bool count_is_shared_memory(const struct hak_mapping *m)
{
    return m->shared && (m->name[0] == '\0' || hak_starts_with(m->name, "/dev/zero") ||
                         hak_starts_with(m->name, "/memfd:") || hak_starts_with(m->name, "/SYSV") ||
                         hak_starts_with(m->name, "/dev/shm/"));
}

static void count_rest(struct count *c)
{
    struct hak_survey *survey = c->survey;
    uint64_t virtual_bytes = 0;
    for (size_t i = 0; i < c->remote->count; i++) {
        const struct hak_mapping *m = &c->remote->mappings[i];
        uint64_t left = count_left(m);
        virtual_bytes += m->end - m->start;
        survey->lines[HAK_LINE_NOT_OURS].resident_bytes += left;
        if (count_is_shared_memory(m))
            survey->shared_bytes += left;
        else if (m->name[0] == '/' || hak_starts_with(m->name, "[v"))
            survey->files_bytes += left;
        else if (hak_starts_with(m->name, "[stack"))
            survey->stacks_bytes += left;
        else
            survey->anonymous_bytes += left;
    }
    for (unsigned line = 0; line < HAK_LINE_NOT_OURS; line++)
        virtual_bytes -= hak_min(virtual_bytes, survey->lines[line].virtual_bytes);
    survey->lines[HAK_LINE_NOT_OURS].virtual_bytes = virtual_bytes;
    survey->rss_bytes = c->remote->resident_pages * HAK_PAGE_BYTES;
}

void hak_survey_count_pages(struct hak_survey *survey)
{
    const struct hak_image *image = survey->image;
    struct count c = {
        .survey = survey, .remote = image->remote, .base = hak_load_relaxed(&image->space.base)};
    c.hardened = (image->root.flags & HAK_ROOT_HARDENED) != 0;
    for (size_t i = 0; i < HAK_WORD_SHIFTS; i++)
        c.words[i] = (uint64_t)(uintptr_t)hak_load_relaxed(&image->space.words[i]);
    if (c.hardened)
        survey->slack_basis = HAK_SLACK_EXACT;
    for (size_t i = 0; i < survey->superslab_count; i++)
        count_superslab(&c, &survey->superslabs[i]);
    for (size_t i = 0; i < survey->slab_count; i++)
        count_slab(&c, &survey->slabs[i]);
    /* Taken or given while the records were read. */
    survey->lines[HAK_LINE_IN_TRANSITION].resident_bytes +=
        hak_remote_take(c.remote, c.base, c.base + image->window.superslabs * HAK_SUPERSLAB_BYTES);
    count_metadata(&c);
    count_library(&c);
    count_rest(&c);
}
