/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * The hakmem command: walks the allocator's records in another process: heaps, superslabs, slots,
 * slabs, and which blocks wait in bins or on their way. See survey.h. Reads copies only; what a
 * pointer over there may be used for is checked before. */
#include "survey.h"

#include "util.h"

#include <stdlib.h>
#include <string.h>

struct walk {
    struct hak_slab slab_records[HAK_SLOTS]; /* of the superslab that is looked at, if read */
    struct hak_survey *survey;
    struct hak_remote *remote;
    const struct hak_image *image;
    size_t superslabs; /* from 0 to below this */
    struct hak_space_group *groups;
    struct hak_superslab *records;
    uint32_t *map;          /* an entry a slot */
    uint32_t *slab_of_slot; /* index + 1 */
    uint32_t *heap_of_number;
    uint32_t most_number;
    bool have_records;
    uint8_t *waiting; /* by superslab: a freed huge block begins here */
};

/* --- heaps --- */

static void walk_heaps(struct walk *w)
{
    struct hak_survey *survey = w->survey;
    uint64_t at = (uint64_t)(uintptr_t)hak_load_relaxed(&w->image->registry.all);
    uint32_t last = w->image->registry.last_tag;
    w->most_number = (uint32_t)hak_min(last, UINT32_MAX >> HAK_TAG_SHIFT) + 1; /* one may begin */
    w->heap_of_number = hak_grow(NULL, w->most_number + 1, sizeof *w->heap_of_number);
    memset(w->heap_of_number, 0xff, (w->most_number + 1) * sizeof *w->heap_of_number);
    while (at != 0 && survey->heap_count <= w->most_number) {
        if (survey->heap_count % 64 == 0)
            survey->heaps = hak_grow(survey->heaps, survey->heap_count + 64, sizeof *survey->heaps);
        struct hak_heap_seen *h = &survey->heaps[survey->heap_count];
        memset(h, 0, sizeof *h);
        h->address = at;
        if (!hak_remote_read(w->remote, at, &h->heap, offsetof(struct hak_heap, stack_arena))) {
            survey->complete = false;
            break;
        }
        h->number = h->heap.tag >> HAK_TAG_SHIFT;
        if (h->number <= w->most_number)
            w->heap_of_number[h->number] = (uint32_t)survey->heap_count;
        survey->heap_count++;
        at = (uint64_t)(uintptr_t)h->heap.next_heap;
    }
}

/* --- superslabs and slots --- */

#define WALK_MOST_SUPERSLABS ((size_t)1 << 21) /* the window has 4 TiB at most */

static bool walk_read_arrays(struct walk *w)
{
    const struct hak_image *image = w->image;
    size_t n = hak_load_relaxed(&image->window.high_water);
    if (n > WALK_MOST_SUPERSLABS || n > image->window.superslabs ||
        n * HAK_SLOTS * sizeof(uint32_t) > image->window.areas[AREA_MAP].mapped_bytes)
        return false;
    size_t groups = n / 64 + 1;
    w->superslabs = n;
    w->groups = hak_grow(NULL, groups, sizeof *w->groups);
    w->records = hak_grow(NULL, n + 1, sizeof *w->records);
    w->map = hak_grow(NULL, n * HAK_SLOTS + 1, sizeof *w->map);
    w->slab_of_slot = calloc(n * HAK_SLOTS + 1, sizeof *w->slab_of_slot);
    w->waiting = calloc(n + 1, 1);
    if (w->slab_of_slot == NULL || w->waiting == NULL)
        hak_die(HAK_EXIT_FAILED, "out of memory");
    size_t known = image->window.areas[AREA_GROUPS].mapped_bytes / sizeof *w->groups;
    memset(w->groups, 0, groups * sizeof *w->groups);
    uint64_t at = (uint64_t)(uintptr_t)hak_load_relaxed(&image->space.groups);
    if (!hak_remote_read(w->remote, at, w->groups, hak_min(groups, known) * sizeof *w->groups))
        return false;
    at = (uint64_t)(uintptr_t)hak_load_relaxed(&image->space.records);
    if (n * HAK_RECORD_BYTES > image->window.areas[AREA_RECORDS].mapped_bytes ||
        !hak_remote_read(w->remote, at, w->records, n * sizeof *w->records))
        return false;
    at = (uint64_t)(uintptr_t)hak_load_relaxed(&image->space.map);
    return hak_remote_read(w->remote, at, w->map, n * HAK_SLOTS * sizeof *w->map);
}

static void walk_find_waiting(struct walk *w)
{
    uint32_t link = hak_load_relaxed(&hak_pool.postponed);
    for (size_t i = 0; link != 0 && link <= w->superslabs && i < w->superslabs; i++) {
        w->waiting[link - 1] = 1;
        link = w->records[link - 1].older;
    }
}

static struct hak_superslab_seen *walk_add_superslab(struct walk *w, size_t number)
{
    struct hak_survey *survey = w->survey;
    if (survey->superslab_count % 64 == 0)
        survey->superslabs =
            hak_grow(survey->superslabs, survey->superslab_count + 64, sizeof *survey->superslabs);
    struct hak_superslab_seen *s = &survey->superslabs[survey->superslab_count++];
    memset(s, 0, sizeof *s);
    s->number = number;
    s->superslabs = 1;
    s->mapped_bytes = HAK_SUPERSLAB_BYTES;
    s->released_ns = hak_load_relaxed(&w->records[number].released_ns);
    s->huge_pages = hak_load_relaxed(&w->records[number].huge_pages) == HAK_HUGE_ASKED;
    return s;
}

static struct hak_slab_seen *walk_add_slab(struct walk *w, uint64_t slot, unsigned slots,
                                           unsigned cls)
{
    struct hak_survey *survey = w->survey;
    if (survey->slab_count % 256 == 0)
        survey->slabs = hak_grow(survey->slabs, survey->slab_count + 256, sizeof *survey->slabs);
    struct hak_slab_seen *s = &survey->slabs[survey->slab_count++];
    *s = (struct hak_slab_seen){.first_slot = slot, .slots = slots, .cls = cls, .heap = UINT32_MAX};
    for (unsigned i = 0; i < slots; i++)
        w->slab_of_slot[slot + i] = (uint32_t)survey->slab_count;
    return s;
}

/* Where blocks of 64 and more to a slab have their bits; must lie in the meta of the superslab. */
static bool walk_read_words(struct walk *w, uint64_t slot, const void *there, uint64_t *out,
                            unsigned words)
{
    uint64_t at = (uint64_t)(uintptr_t)there;
    uint64_t meta = (uint64_t)(uintptr_t)hak_load_relaxed(&w->image->space.meta) +
                    slot / HAK_SLOTS * HAK_META_BYTES;
    return at >= meta && at + words * sizeof *out <= meta + HAK_META_BYTES &&
           hak_remote_read(w->remote, at, out, words * sizeof *out);
}

static struct hak_slab *walk_record(struct walk *w, uint64_t slot)
{
    uint64_t meta = (uint64_t)(uintptr_t)hak_load_relaxed(&w->image->space.meta);
    uint64_t at = meta + slot / HAK_SLOTS * HAK_META_BYTES;
    if ((slot / HAK_SLOTS + 1) * HAK_META_BYTES > w->image->window.areas[AREA_META].mapped_bytes)
        return NULL;
    if (!w->have_records &&
        !hak_remote_read(w->remote, at, w->slab_records, sizeof w->slab_records))
        return NULL;
    w->have_records = true;
    return &w->slab_records[slot % HAK_SLOTS];
}

/* The free bits of a slab. Behind them there is room for those of the blocks in bins, and on their
 * way from other threads. */
static bool walk_read_bits(struct walk *w, struct hak_slab_seen *seen, const struct hak_slab *s)
{
    const struct hak_class *c = hak_class(seen->cls);
    unsigned words = hak_slab_words(c);
    seen->bits = calloc((size_t)HAK_SEEN_BITMAPS * words, sizeof *seen->bits);
    if (seen->bits == NULL)
        hak_die(HAK_EXIT_FAILED, "out of memory");
    if (c->inline_bits) {
        seen->bits[0] = hak_load_relaxed(&s->free_word);
        return true;
    }
    return walk_read_words(w, seen->first_slot, (const void *)s->free_bits, seen->bits, words);
}

/* A slab of a class begins at `slot`, all of whose slots have the same entry. */
static bool walk_slab(struct walk *w, uint64_t slot, uint32_t entry)
{
    unsigned cls = (entry & HAK_KIND_MASK) / 2;
    const struct hak_class *c = hak_class(cls);
    if (slot % c->slots != 0)
        return false;
    for (unsigned i = 1; i < c->slots; i++)
        if (w->map[slot + i] != entry)
            return false;
    const struct hak_slab *s = walk_record(w, slot);
    if (s == NULL || s->cls != cls || hak_load_relaxed(&s->carved) > c->blocks)
        return false;
    uint64_t slab = hak_load_relaxed(&w->image->space.base) + (slot << HAK_SLOT_SHIFT);
    uint64_t colour = (uint64_t)(uintptr_t)s->base - slab;
    if (colour > c->slots * HAK_SLOT_BYTES - (uint64_t)c->blocks * c->size_bytes)
        return false;
    struct hak_slab_seen *seen = walk_add_slab(w, slot, c->slots, cls);
    seen->colour_bytes = (uint32_t)colour;
    uint32_t number = entry >> HAK_TAG_SHIFT;
    seen->heap = number <= w->most_number ? w->heap_of_number[number] : UINT32_MAX;
    seen->carved = hak_load_relaxed(&s->carved);
    if (!walk_read_bits(w, seen, s))
        w->survey->complete = false;
    return true;
}

/* The hardened library has other things in the same places. */
static bool walk_has_samples(const struct walk *w)
{
    return (w->image->root.flags & HAK_ROOT_HARDENED) == 0;
}

/* The slots of a large block, whose first is `slot`; 0: it does not fit. */
static unsigned walk_large(struct walk *w, uint64_t slot, uint32_t entry)
{
    const struct hak_slab *s = walk_record(w, slot);
    unsigned slots =
        s == NULL ? 0 : (unsigned)((s->large_bytes + HAK_SLOT_BYTES - 1) >> HAK_SLOT_SHIFT);
    if (slots == 0 || slots > HAK_SLOTS - slot % HAK_SLOTS)
        return 0;
    struct hak_slab_seen *seen = walk_add_slab(w, slot, slots, HAK_CLASSES);
    seen->carved = 1;
    seen->colour_bytes = s->large_colour;
    seen->front_bytes = s->large_colour;
    seen->asked_bytes = s->note.bytes;
    seen->lifetime_sample = hak_load_relaxed(&s->large_sample);
    if (walk_has_samples(w)) {
        uint64_t bytes = s->note.small_bytes;
        seen->small_bytes = s->note.small_bytes;
        bytes =
            bytes != 0 ? bytes : slots * HAK_SLOT_BYTES - hak_min(s->large_colour, HAK_SLOT_BYTES);
        seen->sample = (struct hak_sample_seen){bytes, s->note.bytes, s->note.how};
    } else {
        seen->front_bytes += s->note.front_bytes;
    }
    seen->blocks[(entry & HAK_KIND_KEPT) != 0 ? HAK_BLOCK_QUARANTINE : HAK_BLOCK_LIVE] = 1;
    return slots;
}

static bool walk_is_large(uint32_t entry, uint32_t kind)
{
    return (entry & HAK_KIND_MASK & ~HAK_KIND_KEPT) == kind;
}

static void walk_slots(struct walk *w, struct hak_superslab_seen *seen)
{
    const struct hak_superslab *record = &w->records[seen->number];
    uint64_t state = hak_load_relaxed(&record->state);
    uint32_t missing = hak_load_relaxed(&record->missing);
    uint64_t first = seen->number * HAK_SLOTS;
    w->have_records = false;
    seen->mapped_bytes -= hak_popcount64(missing) * HAK_SLOT_BYTES;
    for (unsigned i = 0; i < HAK_SLOTS;) {
        uint32_t entry = w->map[first + i];
        unsigned slots = 1;
        bool busy = state >> i & 1;
        unsigned cached = busy && entry == 0 ? hak_large_cached_slots(first + i) : 0;
        uint8_t kind = busy                   ? HAK_SLOT_TRANSITION
                       : state >> 32 >> i & 1 ? HAK_SLOT_EMPTY
                                              : HAK_SLOT_UNUSED;
        seen->slot_label[i] = hak_load_relaxed(&record->label[i]);
        if (missing >> i & 1) {
            kind = HAK_SLOT_UNMAPPED;
        } else if (busy && entry != 0 && (entry & HAK_KIND_MASK) < 2 * HAK_CLASSES) {
            bool found = walk_slab(w, first + i, entry);
            kind = found ? HAK_SLOT_SLAB : HAK_SLOT_TRANSITION;
            slots = found ? hak_class((entry & HAK_KIND_MASK) / 2)->slots : 1;
            w->survey->complete &= found;
        } else if (cached != 0) {
            kind = HAK_SLOT_EMPTY; /* a run that waits for the next request */
            slots = cached;
        } else if (busy && walk_is_large(entry, HAK_KIND_LARGE)) {
            slots = walk_large(w, first + i, entry);
            kind = slots != 0 ? HAK_SLOT_SLAB : HAK_SLOT_TRANSITION;
            w->survey->complete &= slots != 0;
            slots = slots != 0 ? slots : 1;
        }
        for (unsigned end = i + slots; i < end; i++) {
            seen->slot_state[i] = kind;
            seen->slot_slab[i] = w->slab_of_slot[first + i];
            seen->slot_label[i] = hak_load_relaxed(&record->label[i]);
        }
    }
}

/* A huge block, or one that waits to be unmapped: how many superslabs; 0: it does not fit. */
static size_t walk_whole(struct walk *w, size_t number, enum hak_superslab_state state)
{
    const struct hak_superslab *record = &w->records[number];
    size_t superslabs = record->huge.superslabs;
    size_t bytes = record->huge.mapped_bytes;
    if (superslabs == 0 || superslabs > w->superslabs - number ||
        bytes > superslabs * HAK_SUPERSLAB_BYTES)
        return 0;
    struct hak_superslab_seen *seen = walk_add_superslab(w, number);
    seen->state = state;
    seen->superslabs = superslabs;
    seen->mapped_bytes = bytes;
    seen->released_ns = 0;
    const struct hak_note *note = &record->huge.note;
    seen->asked_bytes = note->bytes;
    if (state == HAK_SUPERSLAB_HUGE)
        seen->front_bytes = hak_load_relaxed(&record->huge_colour);
    if (state == HAK_SUPERSLAB_HUGE && walk_has_samples(w))
        seen->sample = (struct hak_sample_seen){bytes - seen->front_bytes, note->bytes, note->how};
    else
        seen->front_bytes += note->front_bytes;
    seen->quarantine =
        (w->map[number * HAK_SLOTS] & HAK_KIND_MASK) == (HAK_KIND_HUGE | HAK_KIND_KEPT);
    return superslabs;
}

static size_t walk_superslab(struct walk *w, size_t number)
{
    if ((hak_load_relaxed(&w->groups[number / 64].taken) >> number % 64 & 1) == 0)
        return 1;
    if (hak_load_relaxed(&w->groups[number / 64].retired) >> number % 64 & 1) {
        struct hak_superslab_seen *seen = walk_add_superslab(w, number);
        seen->state = HAK_SUPERSLAB_RETIRED;
        memset(seen->slot_state, HAK_SLOT_RETIRED, sizeof seen->slot_state);
        for (unsigned i = 0; i < HAK_SLOTS; i++)
            seen->slot_label[i] = HAK_POOL_LABEL_RUN;
        return 1;
    }
    size_t superslabs = 0;
    if (w->waiting[number])
        superslabs = walk_whole(w, number, HAK_SUPERSLAB_WAITING);
    else if (walk_is_large(w->map[number * HAK_SLOTS], HAK_KIND_HUGE))
        superslabs = walk_whole(w, number, HAK_SUPERSLAB_HUGE);
    if (superslabs != 0)
        return superslabs;
    walk_slots(w, walk_add_superslab(w, number));
    return 1;
}

/* --- blocks that are on their way --- */

static struct hak_slab_seen *walk_slab_at(struct walk *w, uint64_t address)
{
    uint64_t slot = (address - hak_load_relaxed(&w->image->space.base)) >> HAK_SLOT_SHIFT;
    if (slot >= w->superslabs * HAK_SLOTS || w->slab_of_slot[slot] == 0)
        return NULL;
    struct hak_slab_seen *s = &w->survey->slabs[w->slab_of_slot[slot] - 1];
    return s->cls < HAK_CLASSES && s->bits != NULL ? s : NULL;
}

static uint64_t walk_first_block(const struct walk *w, const struct hak_slab_seen *s)
{
    uint64_t base = hak_load_relaxed(&w->image->space.base);
    return base + (s->first_slot << HAK_SLOT_SHIFT) + s->colour_bytes;
}

/* Marks the block at this address in one of the slab's bitmaps. False: it was never carved. */
static bool walk_mark(const struct walk *w, struct hak_slab_seen *s, uint64_t at,
                      enum hak_seen_bits which)
{
    const struct hak_class *c = hak_class(s->cls);
    uint64_t block = (at - walk_first_block(w, s)) / c->size_bytes;
    if (block >= s->carved)
        return false;
    s->bits[(size_t)which * hak_slab_words(c) + block / 64] |= UINT64_C(1) << (block % 64);
    return true;
}

/* The blocks on a stack of the heap's, from behind `stack` to `top`, are free, whosever slabs they
 * are of. */
static void walk_stack(struct walk *w, struct hak_heap_seen *h, unsigned cls, uint64_t stack,
                       uint64_t top, uint64_t most)
{
    uint64_t blocks[4096];
    uint64_t count = (top - stack) / sizeof *blocks;
    if (count == 0)
        return;
    if (top < stack || count > most || count > sizeof blocks / sizeof *blocks ||
        !hak_remote_read(w->remote, stack + sizeof *blocks, blocks, count * sizeof *blocks)) {
        w->survey->complete = false;
        return;
    }
    for (uint64_t i = 0; i < count; i++) {
        struct hak_slab_seen *s = walk_slab_at(w, blocks[i]);
        if (s == NULL || s->cls != cls) /* taken meanwhile */
            continue;
        walk_mark(w, s, blocks[i], HAK_SEEN_IN_BIN);
        h->bin_blocks++;
        h->bin_bytes += hak_class(cls)->size_bytes;
    }
}

/* The bin of a class, and the one that counts for the heap profile. */
static void walk_bins(struct walk *w, struct hak_heap_seen *h, unsigned cls)
{
    const struct hak_front *front = &h->heap.front;
    uint64_t stack = (uint64_t)(uintptr_t)h->heap.classes[cls].stack;
    uint64_t top = (uint64_t)(uintptr_t)hak_load_relaxed(&front->bins[cls].top);
    if (stack != 0)
        walk_stack(w, h, cls, stack, top, h->heap.classes[cls].capacity);
    if (front->meter == NULL || cls >= HAK_METERED_CLASSES)
        return;
    stack = (uint64_t)(uintptr_t)hak_metered_stack(front->meter, cls);
    top = (uint64_t)(uintptr_t)hak_load_relaxed(&front->bins[HAK_KIND_METERED / 2 + cls].top);
    if (top - stack <= sizeof front->meter->stacks[0]) /* closed, it is not there at all */
        walk_stack(w, h, cls, stack, top, HAK_METER_BLOCKS);
}

/* Marks what a message has from blocks[free] on; returns how many blocks, and adds their bytes. */
static unsigned walk_message(struct walk *w, const struct hak_message *m, uint32_t free,
                             uint64_t *bytes)
{
    unsigned blocks = 0;
    for (unsigned i = free; i < HAK_MESSAGE_BLOCKS; i++) {
        uint64_t at = (uint64_t)(uintptr_t)m->blocks[i];
        struct hak_slab_seen *s = walk_slab_at(w, at);
        if (s == NULL || !walk_mark(w, s, at, HAK_SEEN_WAITING))
            continue;
        *bytes += hak_class(s->cls)->size_bytes;
        blocks++;
    }
    return blocks;
}

static void walk_outbox(struct walk *w, struct hak_heap_seen *h)
{
    for (unsigned i = 0; i < HAK_OUTBOXES; i++) {
        const struct hak_outbox *o = &h->heap.outbox[i];
        struct hak_message m;
        if (o->message == NULL)
            continue;
        if (hak_remote_read(w->remote, (uint64_t)(uintptr_t)o->message, &m, sizeof m))
            h->outbox_blocks += walk_message(w, &m, o->free, &h->outbox_bytes);
        else
            w->survey->complete = false;
    }
}

#define WALK_MOST_MESSAGES 100000u /* of a heap; more, and somebody changes them meanwhile */

static void walk_inbox(struct walk *w, struct hak_heap_seen *h)
{
    uint64_t at = (uint64_t)(uintptr_t)hak_load_relaxed(&h->heap.inbox);
    for (unsigned i = 0; at != 0 && i < WALK_MOST_MESSAGES; i++) {
        struct hak_message m;
        if (!hak_remote_read(w->remote, at, &m, sizeof m)) {
            w->survey->complete = false;
            return;
        }
        h->inbox_blocks += walk_message(w, &m, m.free, &h->inbox_bytes);
        at = (uint64_t)(uintptr_t)hak_load_relaxed(&m.next);
    }
}

static void walk_free(struct walk *w)
{
    free(w->groups);
    free(w->records);
    free(w->map);
    free(w->slab_of_slot);
    free(w->heap_of_number);
    free(w->waiting);
}

void hak_survey_walk(struct hak_survey *survey)
{
    struct walk w = {.survey = survey, .remote = survey->image->remote, .image = survey->image};
    walk_heaps(&w);
    if (walk_read_arrays(&w)) {
        walk_find_waiting(&w);
        for (size_t s = 0; s < w.superslabs;)
            s += walk_superslab(&w, s);
        for (size_t h = 0; h < survey->heap_count; h++) {
            for (unsigned cls = 0; cls < HAK_CLASSES; cls++)
                walk_bins(&w, &survey->heaps[h], cls);
            walk_outbox(&w, &survey->heaps[h]);
            walk_inbox(&w, &survey->heaps[h]);
        }
    } else {
        survey->complete = false;
    }
    walk_free(&w);
}
