/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * large: blocks that are runs of slots, and the choice between those and huge ones. See large.h.
 *
 * Blocks that all began at the beginning of a slot would all have their first bytes, and those of
 * each of their pages, in the same few sets of the caches: a program that walks along 16 arrays at
 * once misses the cache with each step. So a block that leaves room in its last slot begins
 * somewhere else in the first page (J. Bonwick, "The Slab Allocator", 1994, calls that the colour).
 */
#include "large/large_internal.h"

struct large_counters hak_large_counters;

/* The fraction of which is multiplied with a place's number (multiplicative hashing: D. Knuth,
 * TAOCP 3, 6.4). Of 6,000 odd numbers the one with which the fewest of 32 to 256 blocks of 2 to 16
 * slots, packed into superslabs, get a colour that more than their share of them have: 2.4%, with
 * the golden ratio's 29%. */
#define COLOUR_FACTOR 0x52b55ffbu

#define COLOUR_MOST_ALIGN HAK_CACHE_LINE
#define COLOUR_ROOM_BYTES (HAK_PAGE_BYTES / 2)

uint32_t hak_large_colour(size_t place, size_t align_bytes, size_t room_bytes)
{
    if (align_bytes > COLOUR_MOST_ALIGN)
        return 0;
    uint32_t colour = (uint32_t)place * COLOUR_FACTOR >> 20 & ~(HAK_CACHE_LINE - 1u);
    return colour <= room_bytes ? colour : (uint32_t)hak_round_down(room_bytes, HAK_CACHE_LINE);
}

bool hak_large_lacks_room(size_t align_bytes, size_t room_bytes)
{
    return align_bytes <= COLOUR_MOST_ALIGN && room_bytes < COLOUR_ROOM_BYTES;
}

static unsigned runs_slots(size_t bytes)
{
    return (unsigned)((bytes + HAK_SLOT_BYTES - 1) >> HAK_SLOT_SHIFT);
}

/* Of a block that fills its slots: one slot more, of which at most a page is ever touched, so that
 * it has a colour too. Of longer blocks that would use up too much of the window, until one has a
 * superslab to itself in any case. */
#define COLOUR_MOST_SLOTS 8u

static unsigned runs_slots_coloured(size_t bytes, size_t align_bytes)
{
    unsigned slots = runs_slots(bytes);
    bool full = hak_large_lacks_room(align_bytes, slots * HAK_SLOT_BYTES - bytes);
    bool has_room = slots <= COLOUR_MOST_SLOTS || slots > HAK_SLOTS / 2;
    return full && has_room ? slots + 1 : slots;
}

/* How large the block counts, and how large the program takes it to be. */
static size_t runs_small_bytes(const struct hak_slab *s)
{
    return HAK_HARDENED ? 0 : s->note.small_bytes;
}

static void runs_count_bytes(size_t bytes, size_t blocks) /* modulo 2^64: counts down too */
{
    hak_add_relaxed(&hak_large_counters.large_bytes, bytes * blocks);
    hak_add_relaxed(&hak_large_counters.large_blocks, blocks);
}

static void runs_count(const struct hak_slab *s, size_t blocks)
{
    runs_count_bytes(runs_small_bytes(s) != 0 ? runs_small_bytes(s) : s->large_bytes, blocks);
}

/* What somebody asked for. `small`: the class's size, if that is what the block stands for. */
struct runs_request {
    size_t bytes, align_bytes;
    uint32_t small;
};

/* Makes slots known as a block. */
static void *runs_publish(size_t slot, unsigned slots, const struct runs_request *r)
{
    struct hak_slab *s = hak_slab_record(slot);
    size_t place = slots > HAK_SLOTS / 2 ? hak_huge_place(slot / HAK_SLOTS) : slot;
    s->large_bytes = (uint32_t)(slots * HAK_SLOT_BYTES);
    s->large_colour = hak_large_colour(place, r->align_bytes, slots * HAK_SLOT_BYTES - r->bytes);
    hak_store_relaxed(&s->large_sample, 0u);
    s->note = (struct hak_note){.bytes = r->bytes, .small_bytes = r->small};
    /* ORDER: [large-entry] the record is whole */
    hak_store_release(hak_map_entry(slot), HAK_KIND_LARGE);
    return hak_slot_address(slot) + s->large_colour;
}

static void *runs_publish_counted(size_t slot, unsigned slots, const struct runs_request *r)
{
    void *p = runs_publish(slot, slots, r);
    runs_count(hak_slab_record(slot), 1);
    return p;
}

static void *runs_alloc(const struct runs_request *r, unsigned align_slots, bool *zero)
{
    size_t slot;
    unsigned slots = runs_slots_coloured(r->bytes, r->align_bytes);
    unsigned label = r->small != 0 ? HAK_POOL_LABEL_RUN : hak_runs_label(r->bytes, slots);
    if (!hak_large_try_acquire_any(slots, align_slots, label, &slot, zero))
        return NULL;
    if (*zero && r->small == 0)
        hak_runs_learn(slot, r->bytes);
    return runs_publish_counted(slot, slots, r);
}

void *hak_large_place_sampled(size_t slot, size_t size_bytes, size_t align_bytes)
{
    const struct runs_request r = {size_bytes, align_bytes, (uint32_t)size_bytes};
    return runs_publish_counted(slot, 1, &r);
}

void hak_run_release(size_t slot)
{
    const struct hak_slab *s = hak_slab_record(slot);
    runs_count(s, (size_t)-1);
    hak_pool_release_any(slot, runs_slots(s->large_bytes), HAK_POOL_LABEL_RUN, false);
}

/* Gives back the slots of a block behind the first `keep`. (What nobody uses is zero in the
 * hardened build, also where the system refuses to take pages back.) */
static void runs_cut(size_t slot, struct hak_slab *s, unsigned keep)
{
    size_t kept = keep * HAK_SLOT_BYTES;
    size_t cut = s->large_bytes - kept;
    s->large_bytes = (uint32_t)kept;
    hak_sub_relaxed(&hak_large_counters.large_bytes, cut);
    bool purged = HAK_HARDENED && hak_os_purge(hak_slot_address(slot + keep), cut) == 0;
    if (HAK_HARDENED && !purged)
        hak_os_zero(hak_slot_address(slot + keep), cut);
    hak_pool_release_any(slot + keep, runs_slots(cut), HAK_POOL_LABEL_RUN, purged);
}

static bool runs_try_extend(size_t slot, struct hak_slab *s, unsigned slots)
{
    bool zero;
    unsigned have = runs_slots(s->large_bytes), more = slots - have;
    if (slots > HAK_SLOTS || (!hak_pool_try_acquire_at(slot + have, more, &zero) &&
                              (!hak_run_cache_flush_among(slot + have, more) ||
                               !hak_pool_try_acquire_at(slot + have, more, &zero))))
        return false;
    hak_add_relaxed(&hak_large_counters.large_bytes, (slots - have) * HAK_SLOT_BYTES);
    s->large_bytes = (uint32_t)(slots * HAK_SLOT_BYTES);
    return true;
}

/* A block that outgrows its superslab and has that to itself is a huge one from now on. */
static bool runs_try_become_huge(size_t slot, const struct hak_slab *s)
{
    size_t bytes = s->large_bytes; /* the record may be gone afterwards */
    if (!hak_huge_try_make(slot, bytes, s->large_colour))
        return false;
    runs_count_bytes(bytes, (size_t)-1);
    return true;
}

static bool runs_may_move(size_t slot, const struct hak_slab *s, size_t need_bytes)
{
    return s->large_bytes >= HAK_MOVE_MIN &&
           !hak_large_is_copied(hak_slot_address(slot), s->large_bytes, need_bytes);
}

static void *runs_try_resize(void *p, size_t new_bytes)
{
    size_t slot = hak_slot_of(p);
    struct hak_slab *s = hak_slab_record(slot);
    size_t old_bytes = s->large_bytes;
    size_t need_bytes = new_bytes + s->large_colour;
    unsigned slots = need_bytes <= HAK_SUPERSLAB_BYTES ? runs_slots(need_bytes) : HAK_SLOTS + 1;
    if (slots < runs_slots(old_bytes))
        runs_cut(slot, s, slots);
    if (slots <= runs_slots(old_bytes) || runs_try_extend(slot, s, slots))
        return p;
    /* In the hardened build hard moves the pages itself, and keeps the place they were at. */
    if (HAK_HARDENED || !runs_may_move(slot, s, need_bytes))
        return NULL;
    if (slots > HAK_SLOTS && runs_try_become_huge(slot, s)) {
        void *resized = hak_huge_try_resize(slot / HAK_SLOTS, new_bytes);
        if (resized == NULL)
            (void)hak_huge_leave(slot / HAK_SLOTS, old_bytes); /* its size is as it was */
        return resized;
    }
    /* A block that outgrows its place goes on as a huge one, which has room to grow. */
    void *moved =
        hak_huge_try_adopt_pages(hak_slot_address(slot), old_bytes, s->large_colour, need_bytes);
    if (moved == NULL)
        return NULL;
    hak_store_relaxed(hak_map_entry(slot), 0u);
    runs_count_bytes(old_bytes, (size_t)-1);
    hak_pool_release_any(slot, runs_slots(old_bytes), HAK_POOL_LABEL_RUN, true);
    return moved;
}

static bool runs_may_wait(unsigned slots)
{
    return slots >= HAK_RUN_CACHE_LEAST_SLOTS && slots <= HAK_RUN_CACHE_MOST_SLOTS;
}

void *hak_large_alloc_near(unsigned number, size_t size_bytes, size_t align_bytes, unsigned how,
                           bool *zero)
{
    const struct runs_request r = {size_bytes, align_bytes, 0};
    size_t align_slots = align_bytes <= HAK_SLOT_BYTES ? 1 : align_bytes >> HAK_SLOT_SHIFT;
    if (size_bytes > HAK_LARGE_MAX || align_slots > HAK_SLOTS / 2)
        return hak_huge_alloc(size_bytes, align_bytes, how, zero);
    size_t slot;
    unsigned slots = runs_slots_coloured(size_bytes, align_bytes);
    if (number != HAK_NO_RUN_CACHE && align_slots == 1 && runs_may_wait(slots) &&
        (slots = hak_run_cache_try_take(number, slots, &slot)) != 0) {
        *zero = false;
        return runs_publish(slot, slots, &r);
    }
    return runs_alloc(&r, (unsigned)align_slots, zero);
}

void *hak_large_alloc_sampled(size_t size_bytes, size_t align_bytes, bool *zero)
{
    return runs_alloc(&(struct runs_request){size_bytes, align_bytes, (uint32_t)size_bytes}, 1,
                      zero);
}

struct hak_note *hak_large_note(const void *p, uint32_t entry)
{
    size_t slot = hak_slot_of(p);
    return entry == HAK_KIND_HUGE ? &hak_superslab(slot / HAK_SLOTS)->huge.note
                                  : &hak_slab_record(slot)->note;
}

static bool large_begins(const void *p, uint32_t entry)
{
    if (entry == HAK_KIND_HUGE)
        return ((uintptr_t)p & (HAK_SUPERSLAB_BYTES - 1)) ==
               hak_huge_colour(hak_slot_of(p) / HAK_SLOTS);
    return ((uintptr_t)p & (HAK_SLOT_BYTES - 1)) == hak_slab_record(hak_slot_of(p))->large_colour;
}

static bool large_claim(const void *p, uint32_t entry)
{
    /* ORDER: [large-entry] whoever clears the entry owns the block; of two frees one finds it gone
     */
    return large_begins(p, entry) && hak_cas_acquire(hak_map_entry(hak_slot_of(p)), &entry, 0u);
}

bool hak_large_take_back(void *p, uint32_t entry)
{
    if (!large_claim(p, entry))
        return false;
    runs_count(hak_slab_record(hak_slot_of(p)), (size_t)-1);
    return true;
}

/* The run of a block that has ended waits for the next one. False: it must not, or cannot. */
static bool runs_try_wait(unsigned number, size_t slot)
{
    const struct hak_slab *s = hak_slab_record(slot);
    unsigned slots = runs_slots(s->large_bytes);
    return runs_small_bytes(s) == 0 && runs_may_wait(slots) &&
           hak_run_cache_try_put(number, slot, slots);
}

bool hak_large_free(void *p, uint32_t entry)
{
    return hak_large_free_near(HAK_NO_RUN_CACHE, p, entry);
}

bool hak_large_free_near(unsigned number, void *p, uint32_t entry)
{
    size_t slot = hak_slot_of(p);
    if (!large_claim(p, entry))
        return false;
    if (entry != HAK_KIND_LARGE)
        hak_huge_free(slot / HAK_SLOTS);
    else if (number == HAK_NO_RUN_CACHE || !runs_try_wait(number, slot))
        hak_run_release(slot);
    return true;
}

size_t hak_large_usable_bytes(const void *p, uint32_t entry)
{
    if (!large_begins(p, entry))
        return 0;
    size_t slot = hak_slot_of(p);
    if (entry == HAK_KIND_HUGE)
        return hak_huge_usable_bytes(slot / HAK_SLOTS);
    const struct hak_slab *s = hak_slab_record(slot);
    return runs_small_bytes(s) != 0 ? runs_small_bytes(s) : s->large_bytes - s->large_colour;
}

/* A buffer is made as long as what it may have to hold, filled, and cut to what it does. If that
 * stayed in its place the rest would be too short for the next buffer, which would get fresh
 * memory: page faults that cost more than the copy. Not of so much that two of them do not fit into
 * a superslab, nor where it would touch pages that nobody has. */
#define LEFT_SHARE 4u
#define LEFT_BELOW_BYTES (HAK_SUPERSLAB_BYTES / 2)

bool hak_large_is_left(const void *p, size_t have, size_t bytes)
{
    return !HAK_HARDENED && bytes < LEFT_BELOW_BYTES && bytes < have / LEFT_SHARE &&
           hak_large_is_in_memory(p, bytes);
}

bool hak_large_reaches(size_t slot, uint32_t kind, const void *p)
{
    size_t superslab = slot / HAK_SLOTS;
    size_t bytes = kind == HAK_KIND_HUGE
                       ? hak_huge_usable_bytes(superslab) + hak_huge_colour(superslab)
                       : hak_slab_record(slot)->large_bytes;
    return (size_t)((const char *)p - hak_slot_address(slot)) < bytes;
}

void *hak_large_try_resize(void *p, uint32_t entry, size_t new_bytes)
{
    if (new_bytes > HAK_HUGE_MAX)
        return NULL;
    void *q = entry == HAK_KIND_LARGE ? runs_try_resize(p, new_bytes)
                                      : hak_huge_try_resize(hak_slot_of(p) / HAK_SLOTS, new_bytes);
    if (q != NULL)
        hak_large_note(q, hak_load_relaxed(hak_map_entry(hak_slot_of(q))))->bytes = new_bytes;
    return q;
}

void *hak_large_try_move_pages(void *p, uint32_t entry, size_t new_bytes)
{
    size_t slot = hak_slot_of(p);
    const struct hak_slab *s = hak_slab_record(slot);
    if (entry != HAK_KIND_LARGE || new_bytes > HAK_HUGE_MAX ||
        !runs_may_move(slot, s, new_bytes + s->large_colour))
        return NULL;
    return hak_huge_try_adopt_pages(hak_slot_address(slot), s->large_bytes, s->large_colour,
                                    new_bytes + s->large_colour);
}
