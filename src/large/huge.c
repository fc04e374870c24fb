/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * large: huge blocks: runs of whole superslabs of the window, of which only what is needed is
 * mapped. Growing maps more behind the block, shrinking leaves what it had there for a while, or
 * unmaps it, moving moves pages. Freed ones are retired superslabs of the pool, for whoever needs
 * them next. See large.h. */
#include "large/large_internal.h"
#include "space/failure.h"

#include <errno.h>
#include <string.h>

/* A block's memory of before may be larger by this part of it: that is part of the block. */
#define OWN_SHARE 4u

/* The record of a huge block: its owner's alone. */
static struct hak_superslab *huge_record(size_t superslab)
{
    return hak_superslab(superslab);
}

static struct hak_whole huge_whole(size_t superslab)
{
    const struct hak_superslab *r = huge_record(superslab);
    return (struct hak_whole){superslab, r->huge.superslabs, r->huge.mapped_bytes, 0};
}

static void huge_count(size_t bytes, size_t blocks) /* modulo 2^64: counts down too */
{
    hak_add_relaxed(&hak_large_counters.huge_bytes, bytes);
    hak_add_relaxed(&hak_large_counters.huge_blocks, blocks);
}

uint32_t hak_huge_colour(size_t superslab)
{
    return hak_load_relaxed(&hak_superslab(superslab)->huge_colour);
}

size_t hak_huge_usable_bytes(size_t superslab)
{
    const struct hak_superslab *r = huge_record(superslab);
    return r->huge.mapped_bytes - r->huge.slack_slots * HAK_SLOT_BYTES - hak_huge_colour(superslab);
}

/* Where something begins that has a superslab to itself: colours that are fractions of a product
 * grow by the same from each of a row of equal blocks to the next, and so do the addresses of the
 * blocks: a load that walks along 16 of them side by side is a stride to a prefetcher, and what
 * that fetches is of no use (side_by_side takes 2.3 times as long on a Zen 5; blocks in one
 * superslab are too close to each other for that). So bits of the product are mixed in. Of 60,000
 * factors and shifts those with which 16 blocks in a row of 1 to 64 superslabs always have ten
 * colours and ten distances, and the most colours on average. */
size_t hak_huge_place(size_t superslab)
{
    uint32_t product = (uint32_t)superslab * 0xd8254fb9u;
    return product ^ product >> 10;
}

static void *huge_address(size_t superslab)
{
    return hak_superslab_address(superslab) + hak_huge_colour(superslab);
}

/* Makes a range known as a block, of which the last slots are not the program's: see slack.c. */
static void *huge_publish(const struct hak_whole *w, uint32_t colour, size_t asked_bytes,
                          size_t slack_slots)
{
    struct hak_superslab *r = huge_record(w->first);
    hak_store_relaxed(&r->huge_colour, colour);
    r->huge.mapped_bytes = w->mapped_bytes;
    r->huge.superslabs = (uint32_t)w->superslabs;
    r->huge.slack_slots = (uint16_t)slack_slots;
    r->huge.note = (struct hak_note){.bytes = asked_bytes};
    hak_slack_keep_or_purge(w->first, w->clean_slots);
    huge_count(w->mapped_bytes, 1);
    hak_store_release(hak_map_entry(w->first * HAK_SLOTS),
                      HAK_KIND_HUGE); /* ORDER: [large-entry] */
    return huge_address(w->first);
}

/* What has to be mapped for a block. One that leaves no room for a colour gets a slot more, of
 * which a page at most is ever touched; not where memory is short, and not if that slot would be
 * the first of a superslab, unless the block has many: once it is freed all of it counts as kept.
 */
#define SUPERSLAB_MORE_FROM_BYTES (4 * HAK_SUPERSLAB_BYTES)

static size_t huge_bytes(size_t size_bytes, size_t align_bytes)
{
    size_t bytes = hak_round_up(size_bytes, HAK_SLOT_BYTES);
    bool full = hak_large_lacks_room(align_bytes, bytes - size_bytes);
    bool may_grow = bytes % HAK_SUPERSLAB_BYTES != 0 || bytes >= SUPERSLAB_MORE_FROM_BYTES;
    bool is_counted = hak_whole_is_exact() || hak_pool_has_limit();
    return full && may_grow && !is_counted ? bytes + HAK_SLOT_BYTES : bytes;
}

/* A range of at least `bytes` at a place of its own. If it is not to be had, with all that was kept
 * given back; but what can never be had costs those that can nothing. Nor does the limit make
 * blocks exact: it counts superslabs. */
static bool huge_try_take(size_t bytes, size_t align, unsigned how, struct hak_whole *w, bool *zero)
{
    size_t align_superslabs = align <= HAK_SUPERSLAB_BYTES ? 1 : align >> HAK_SUPERSLAB_SHIFT;
    bytes = hak_round_up(bytes, HAK_SLOT_BYTES);
    if (!hak_space_has_place((bytes + HAK_SUPERSLAB_BYTES - 1) >> HAK_SUPERSLAB_SHIFT,
                             align_superslabs)) {
        hak_refused(HAK_FAILURE_EXHAUSTION, ENOSPC, "fresh");
        return false;
    }
    if (hak_whole_take(bytes, align_superslabs, how, w, zero) == 0)
        return true;
    if (hak_refused_why() == HAK_FAILURE_MAP)
        hak_whole_be_exact();
    hak_large_trim();
    return hak_whole_take(bytes, align_superslabs, how, w, zero) == 0;
}

void *hak_huge_alloc(size_t size_bytes, size_t align_bytes, unsigned how, bool *zero)
{
    struct hak_whole w;
    if (size_bytes > HAK_HUGE_MAX || align_bytes > HAK_HUGE_MAX)
        return NULL;
    size_t bytes = huge_bytes(size_bytes, align_bytes);
    if (!huge_try_take(bytes, align_bytes, how, &w, zero)) /* memory is short from now on */
        return huge_bytes(size_bytes, align_bytes) < bytes
                   ? hak_huge_alloc(size_bytes, align_bytes, how, zero)
                   : NULL;
    hak_add_relaxed(*zero ? &hak_large_counters.fresh : &hak_large_counters.reused, 1u);
    size_t rest = w.mapped_bytes - bytes;
    if (rest != 0 && hak_whole_is_exact() && hak_whole_try_cut(&w, bytes))
        rest = 0;
    size_t slack = !*zero && rest > bytes / OWN_SHARE ? rest : 0;
    uint32_t colour = hak_large_colour(hak_huge_place(w.first), align_bytes, bytes - size_bytes);
    return huge_publish(&w, colour, size_bytes, slack / HAK_SLOT_BYTES);
}

void hak_huge_free(size_t superslab)
{
    struct hak_whole w = huge_whole(superslab);
    huge_count(-w.mapped_bytes, (size_t)-1);
    if (hak_slack_forget(superslab))
        w.clean_slots = huge_record(superslab)->huge.slack_slots;
    if (HAK_HARDENED) /* its pages are gone, and guards have left mappings that cannot be moved */
        hak_whole_unmap(&w);
    else
        hak_whole_give(&w);
}

/* The block is as large as `w` says from now on. */
static void huge_resized(const struct hak_whole *w)
{
    struct hak_superslab *r = huge_record(w->first);
    huge_count(w->mapped_bytes - r->huge.mapped_bytes, 0);
    r->huge.mapped_bytes = w->mapped_bytes;
    r->huge.superslabs = (uint32_t)w->superslabs;
    r->huge.slack_slots = 0; /* cut off, or part of the block */
}

/* Where there is memory for it that is kept: pages that move to fresh addresses would be missed
 * where they were, while those that are kept find no use and go. But pages that nobody has written
 * to would all be touched. */
bool hak_large_is_copied(const char *place, size_t have, size_t bytes)
{
    return have <= HAK_COPY_MOST && hak_pool_kept_bytes() >= bytes &&
           hak_large_is_in_memory(place, have);
}

/* False: refused, and nothing has changed but that not all of the new place may be mapped. Of
 * several mappings the first ones may have been moved all the same: then the rest is copied. */
static bool huge_try_move_pages(const struct hak_whole *from, const struct hak_whole *to)
{
    char *source = hak_superslab_address(from->first), *place = hak_superslab_address(to->first);
    if (hak_os_move(source, place, from->mapped_bytes, false) == 0)
        return true;
    size_t moved = hak_os_moved_bytes(source, from->mapped_bytes);
    size_t rest = to->mapped_bytes - moved;
    if (moved == 0)
        return false;
    if (hak_os_unmap(place + moved, rest) != 0 || hak_os_map_at(place + moved, rest) != 0)
        hak_os_die("the system has moved a part of a block, and refuses memory for the rest");
    memcpy(place + moved, source + moved, from->mapped_bytes - moved);
    hak_os_unmap(source, from->mapped_bytes);
    return true;
}

/* Moves a huge block's pages to a place with room for `bytes`. It begins where it did in the first
 * of them. */
static void *huge_try_move(const struct hak_whole *from, size_t bytes)
{
    struct hak_whole to;
    bool zero;
    if (hak_large_is_copied(hak_superslab_address(from->first), from->mapped_bytes, bytes))
        return NULL;
    uint32_t colour = hak_huge_colour(from->first); /* before the place is somebody else's */
    if (!huge_try_take(bytes, 1, HAK_WHOLE_FRESH, &to, &zero))
        return NULL;
    if (!huge_try_move_pages(from, &to)) {
        hak_whole_unmap(&to);
        return NULL;
    }
    hak_add_relaxed(&hak_large_counters.moves, 1u);
    hak_store_relaxed(hak_map_entry(from->first * HAK_SLOTS), 0u);
    huge_count(-from->mapped_bytes, (size_t)-1);
    hak_whole_moved_away(from);
    hak_whole_grown(&to, from->superslabs);
    return huge_publish(&to, colour, bytes, 0);
}

/* More than was asked for last, and what is mapped suffices. (In the hardened build the last page
 * is a guard.) */
static bool huge_grows_into_its_own(size_t superslab, size_t new_bytes, size_t need_bytes)
{
    const struct hak_superslab *r = huge_record(superslab);
    return !HAK_HARDENED && new_bytes >= r->huge.note.bytes && need_bytes < r->huge.mapped_bytes;
}

bool hak_huge_leave(size_t superslab, size_t bytes)
{
    struct hak_superslab *r = huge_record(superslab);
    r->huge.slack_slots = (uint16_t)((r->huge.mapped_bytes - bytes) / HAK_SLOT_BYTES);
    hak_store_relaxed(&r->huge.slack, (uint8_t)HAK_SLACK_ANY);
    return hak_slack_try_keep(superslab);
}

/* A block that becomes smaller, but not by more than half, may keep behind it what it had. */
static bool huge_try_leave(size_t superslab, size_t bytes)
{
    const struct hak_superslab *r = huge_record(superslab);
    size_t rest = (r->huge.mapped_bytes - bytes) / HAK_SLOT_BYTES;
    if (HAK_HARDENED || bytes < r->huge.mapped_bytes / 2 || rest > UINT16_MAX ||
        hak_whole_is_exact() || hak_pool_has_limit())
        return false;
    return hak_huge_leave(superslab, bytes); /* huge_resized sets it again if they do not stay */
}

void *hak_huge_try_resize(size_t superslab, size_t new_bytes)
{
    size_t bytes = hak_round_up(new_bytes + hak_huge_colour(superslab), HAK_SLOT_BYTES);
    hak_slack_forget(superslab);
    if (huge_grows_into_its_own(superslab, new_bytes, bytes)) {
        huge_record(superslab)->huge.slack_slots = 0;
        return huge_address(superslab);
    }
    struct hak_whole w = huge_whole(superslab);
    bool in_place = bytes == w.mapped_bytes;
    if (bytes < w.mapped_bytes) {
        if (huge_try_leave(superslab, bytes))
            return huge_address(superslab);
        hak_whole_try_cut(&w, bytes); /* refused: the block stays as large as it was */
        in_place = true;
    } else if (!in_place) {
        in_place = hak_whole_try_extend(&w, bytes);
    }
    if (!in_place)
        return huge_try_move(&w, bytes);
    huge_resized(&w);
    return huge_address(superslab);
}

static bool huge_is_zero(const char *at, size_t bytes)
{
    return at[0] == 0 && memcmp(at, at + 1, bytes - 1) == 0;
}

/* What a refused move has moved of a source that was kept, to a place that was zero. */
static void huge_take_back(char *from, const char *place, size_t bytes)
{
    unsigned char in_memory = 0;
    size_t page_bytes = hak_os_page_bytes();
    for (size_t at = 0; at < bytes; at += page_bytes)
        if (hak_os_list_resident((char *)place + at, page_bytes, &in_memory) && /* it is mapped */
            !huge_is_zero(place + at, page_bytes))
            memcpy(from + at, place + at, page_bytes);
}

/* hak_os_move to a fresh place that keeps the source. The system then takes the lock (mlock) off
 * all of the mapping that the source lies in, with other blocks. So where all that is mapped is
 * locked (mlockall), which shows in that nothing is taken back of the place, the pages are copied.
 */
static int huge_move_from_slots(char *from, char *place, size_t bytes)
{
    if (hak_os_purge(place, hak_os_page_bytes()) != 0) {
        memcpy(place, from, bytes);
        memset(from, 0, bytes);
        return 0;
    }
    return hak_os_move(from, place, bytes, true);
}

void *hak_huge_try_adopt_pages(void *from, size_t from_bytes, uint32_t colour, size_t new_bytes)
{
    struct hak_whole to;
    bool zero;
    if (!huge_try_take(new_bytes, 1, HAK_WHOLE_FRESH, &to, &zero))
        return NULL;
    int error = huge_move_from_slots(from, hak_superslab_address(to.first), from_bytes);
    if (error != 0) {
        if (error != EINVAL) /* before Linux 5.7 no source can be kept */
            huge_take_back(from, hak_superslab_address(to.first), from_bytes);
        hak_whole_unmap(&to);
        return NULL;
    }
    hak_add_relaxed(&hak_large_counters.moves, 1u);
    hak_whole_grown(&to, 1); /* a large block is shorter than a superslab */
    return huge_publish(&to, colour, new_bytes, 0);
}

bool hak_huge_try_make(size_t slot, size_t mapped_bytes, uint32_t colour)
{
    struct hak_whole w;
    const struct hak_note note = hak_slab_record(slot)->note;
    if (HAK_HARDENED || !hak_whole_try_make(slot, (unsigned)(mapped_bytes / HAK_SLOT_BYTES), &w))
        return false;
    huge_publish(&w, colour, note.bytes, 0);
    huge_record(w.first)->huge.note = note;
    return true;
}

static void stats_add_cached(size_t slot, unsigned slots, void *arg)
{
    struct hak_large_stats *out = arg;
    (void)slot;
    out->cached_bytes += slots * HAK_SLOT_BYTES;
    out->cached_runs++;
}

void hak_large_stats(struct hak_large_stats *out)
{
    struct large_counters *c = &hak_large_counters;
    out->cached_bytes = out->cached_runs = out->cached_taken = 0;
    for (unsigned i = 0; i < HAK_RUN_CACHES; i++)
        out->cached_taken += hak_load_relaxed(&c->caches[i].taken);
    hak_run_cache_each(stats_add_cached, out);
    out->large_bytes = hak_load_relaxed(&c->large_bytes);
    out->large_blocks = hak_load_relaxed(&c->large_blocks);
    out->large_bytes -= hak_min(out->large_bytes, out->cached_bytes); /* others go on meanwhile */
    out->large_blocks -= hak_min(out->large_blocks, out->cached_runs);
    out->huge_bytes = hak_load_relaxed(&c->huge_bytes);
    out->huge_blocks = hak_load_relaxed(&c->huge_blocks);
    out->huge_reused = hak_load_relaxed(&c->reused);
    out->huge_fresh = hak_load_relaxed(&c->fresh);
    out->moved_pages_calls = hak_load_relaxed(&c->moves);
}
