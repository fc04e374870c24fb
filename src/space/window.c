/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * space: choosing the window, taking and giving ranges of it, growing the arrays beside it. One
 * lock, taken when memory is mapped or unmapped, never on the way of a block. See space.h. */
#include "os/trace.h"
#include "space/space_internal.h"

#include <errno.h>

/* Superslabs in the window: 4 TiB. Where the system chooses the place, the largest power of two
 * that it finds room for. */
#define WINDOW_SUPERSLABS ((size_t)1 << 21)
#define WINDOW_SUPERSLABS_MIN ((size_t)1 << 8)
/* The base is chosen in [48 TiB, 80 TiB): above where mmap grows up from in the legacy layout (a
 * third of the address space), below where Linux loads programs (two thirds, 0x5555...) and
 * libraries (0x7f...). */
#define WINDOW_LOWEST ((uintptr_t)48 << 40)
#define WINDOW_SPREAD_SUPERSLABS ((uint64_t)1 << 24)
#define WINDOW_TRIES 4
#define META_CHUNK_SUPERSLABS ((size_t)64)

#define AREA_COUNT (HAK_HARDENED ? AREA_MOST : AREA_WORDS)

struct hak_space hak_space;

struct hak_window hak_window = {
    .areas = {[AREA_MAP] = {.group_bytes = 64 * HAK_SLOTS * sizeof(uint32_t)},
              [AREA_GROUPS] = {.group_bytes = sizeof(struct hak_space_group)},
              [AREA_RECORDS] = {.group_bytes = 64 * HAK_RECORD_BYTES},
              [AREA_META] = {.group_bytes = 64 * HAK_META_BYTES},
              [AREA_WORDS] = {.group_bytes = 64 * HAK_WORDS_BYTES(HAK_WORD_MANY)},
              [AREA_WORDS_SOME] = {.group_bytes = 64 * HAK_WORDS_BYTES(HAK_WORD_SOME)},
              [AREA_WORDS_FEW] = {.group_bytes = 64 * HAK_WORDS_BYTES(HAK_WORD_FEW)}},
};

size_t hak_space_high_water(void)
{
    return hak_load_acquire(
        &hak_window.high_water); /* ORDER: [high-water] arrays below it are usable */
}

size_t hak_space_meta_bytes(void)
{
    size_t bytes = 0;
    for (int a = 0; a < AREA_COUNT; a++)
        bytes += hak_window.areas[a].mapped_bytes;
    return bytes;
}

/* Maps an array up to the superslab before `limit`. What is mapped at a time grows with the array.
 */
static int window_grow_area_locked(enum hak_area_name name, size_t limit)
{
    struct hak_area *area = &hak_window.areas[name];
    size_t page_bytes = hak_os_page_bytes();
    size_t need = hak_round_up((area->group_bytes * limit + 63) / 64, page_bytes);
    if (need <= area->mapped_bytes)
        return 0;
    size_t most = area->group_bytes * hak_window.superslabs / 64;
    size_t ahead = hak_min(area->mapped_bytes, META_CHUNK_SUPERSLABS * HAK_META_BYTES);
    size_t want = hak_round_up(hak_max(need, area->mapped_bytes + ahead), page_bytes);
    want = hak_min(want, hak_round_up(most, page_bytes));
    area->growing_to_bytes = want;
    int error = hak_os_map_at(area->at + area->mapped_bytes, want - area->mapped_bytes);
    if (error != 0 && want > need) {
        want = need;
        error = hak_os_map_at(area->at + area->mapped_bytes, want - area->mapped_bytes);
    }
    if (error == 0)
        area->mapped_bytes = want;
    area->growing_to_bytes = 0;
    return error;
}

/* The superslabs before `limit` may have slabs. */
static int window_grow_meta_locked(size_t limit)
{
    int error = 0;
    for (int a = AREA_COUNT - 1; a >= AREA_META && error == 0; a--)
        error = window_grow_area_locked((enum hak_area_name)a, limit);
    return error;
}

static int window_cover_locked(size_t limit, bool with_meta)
{
    if (limit > hak_window.superslabs)
        return ENOMEM;
    for (enum hak_area_name a = AREA_MAP; a <= AREA_RECORDS; a++) {
        int error = window_grow_area_locked(a, limit);
        if (error != 0)
            return error;
    }
    size_t slots = hak_min(hak_window.areas[AREA_MAP].mapped_bytes / sizeof(uint32_t),
                           hak_window.superslabs * HAK_SLOTS);
    hak_store_relaxed(&hak_space.slots, slots);
    return with_meta ? window_grow_meta_locked(limit) : 0;
}

static unsigned window_word_shift(int area)
{
    return area == AREA_WORDS        ? HAK_WORD_MANY
           : area == AREA_WORDS_SOME ? HAK_WORD_SOME
                                     : HAK_WORD_FEW;
}

/* Lays the arrays and the window out from `base` on for `superslabs`; returns the bytes that this
 * spans. */
static size_t window_lay_out(uintptr_t base, size_t superslabs)
{
    uintptr_t at = hak_round_up(base, HAK_SUPERSLAB_BYTES);
    for (int a = 0; a < AREA_COUNT; a++) {
        hak_window.areas[a].at =
            (char *)at; /* NOLINT(performance-no-int-to-ptr): the window is defined by numbers */
        hak_window.areas[a].mapped_bytes = 0;
        at = hak_round_up(at + hak_window.areas[a].group_bytes * (superslabs / 64),
                          HAK_SUPERSLAB_BYTES);
    }
    hak_window.superslabs = superslabs;
    hak_store_relaxed(&hak_space.base, at);
    hak_store_relaxed(&hak_space.map, (_Atomic(uint32_t) *)(void *)hak_window.areas[AREA_MAP].at);
    hak_store_relaxed(&hak_space.groups,
                      (struct hak_space_group *)(void *)hak_window.areas[AREA_GROUPS].at);
    hak_store_relaxed(&hak_space.records, hak_window.areas[AREA_RECORDS].at);
    hak_store_relaxed(&hak_space.meta, hak_window.areas[AREA_META].at);
    for (int a = AREA_WORDS; a < AREA_COUNT; a++)
        hak_store_relaxed(&hak_space.words[window_word_shift(a) - HAK_WORD_MANY],
                          (_Atomic(uint32_t) *)(void *)hak_window.areas[a].at);
    return at + (superslabs << HAK_SUPERSLAB_SHIFT) - base;
}

static int window_try(uintptr_t base, size_t superslabs)
{
    window_lay_out(base, superslabs);
    int error = window_cover_locked(1, true);
    for (int a = 0; a < AREA_COUNT && error != 0; a++)
        if (hak_window.areas[a].mapped_bytes != 0)
            hak_os_unmap(hak_window.areas[a].at, hak_window.areas[a].mapped_bytes);
    return error;
}

/* Where the system finds room for so much. With a limit on addresses it finds none for more than
 * that, though little of the window is ever mapped: then what ends where it finds room for a page,
 * and what others have in there is stepped over. */
static int window_find_place(size_t span, uintptr_t *out)
{
    if (hak_os_address_space_limit() == UINT64_MAX)
        return hak_os_find_hole(span, out);
    uintptr_t end = 0;
    int error = hak_os_find_hole(hak_os_page_bytes(), &end);
    if (error == 0 && end <= span)
        error = ENOMEM;
    *out = end - span;
    return error;
}

int hak_space_start(void)
{
    int error = EEXIST;
    for (int i = 0; i < WINDOW_TRIES && !hak_os_addresses_restricted(); i++) {
        uint64_t at = hak_os_random() % WINDOW_SPREAD_SUPERSLABS;
        error = window_try(WINDOW_LOWEST + (at << HAK_SUPERSLAB_SHIFT), WINDOW_SUPERSLABS);
        if (error == 0)
            return 0;
    }
    /* Valgrind, sanitizers, small address spaces: ask for a place. Twice the size leaves room for
     * alignment. */
    for (size_t n = WINDOW_SUPERSLABS; n >= WINDOW_SUPERSLABS_MIN; n /= 2) {
        uintptr_t hole;
        size_t span = window_lay_out(0, n) + (n << HAK_SUPERSLAB_SHIFT);
        error = window_find_place(span, &hole);
        if (error == 0)
            error = window_try(hole, n);
        if (error == 0)
            return 0;
    }
    hak_store_relaxed(&hak_space.slots, (size_t)0);
    return hak_refused(HAK_FAILURE_MAP, error, "start");
}

bool hak_space_is_taken(size_t superslab)
{
    return (hak_load_relaxed(&hak_space_groups()[superslab / 64].taken) >> (superslab % 64)) & 1;
}

static void window_mark_locked(size_t first, size_t count, bool taken)
{
    HAK_TRACE(HAK_TRACE_REGISTRY, "event", taken ? "take" : "give", {"superslab", first},
              {"count", count});
    for (size_t s = first; s < first + count; s++) {
        _Atomic(uint64_t) *word = &hak_space_groups()[s / 64].taken;
        uint64_t bit = 1ull << (s % 64);
        hak_store_relaxed(word,
                          taken ? hak_load_relaxed(word) | bit : hak_load_relaxed(word) & ~bit);
    }
}

/* The array of groups may end before the range does: what lies beyond has never been taken. */
static uint64_t window_free_locked(size_t group)
{
    return (group + 1) * sizeof(struct hak_space_group) <=
                   hak_window.areas[AREA_GROUPS].mapped_bytes
               ? ~hak_load_relaxed(&hak_space_groups()[group].taken)
               : UINT64_MAX;
}

/* Where in a group `count` free superslabs begin, up to 64 of them, which may go on in the next. */
static uint64_t window_starts_locked(size_t group, size_t count)
{
    uint64_t set = window_free_locked(group);
    uint64_t next = window_free_locked(group + 1);
    for (size_t have = 1, step; have < count && set != 0; have += step) {
        step = hak_min(have, count - have);
        set &= set >> step | next << (64 - step);
        next &= next >> step;
    }
    return set;
}

/* The first superslab at or after `from` whose address is a multiple of `align` superslabs. */
static size_t window_align(size_t from, size_t align)
{
    size_t base = hak_load_relaxed(&hak_space.base) >> HAK_SUPERSLAB_SHIFT;
    return hak_round_up(base + from, align) - base;
}

/* The first place at or after `from` for `count` free superslabs; SIZE_MAX if there is none. First
 * fit by address, 64 of them at a time. */
static size_t window_find_locked(size_t from, size_t count, size_t align)
{
    size_t at = window_align(from, align), done = 0;
    while (at + count <= hak_window.superslabs) {
        size_t next = at + done, step = hak_min(count - done, 64);
        uint64_t starts = window_starts_locked(next / 64, step) >> next % 64;
        if (starts & 1) {
            done += step;
            if (done == count)
                return at;
        } else {
            next += starts != 0 ? hak_ctz64(starts) : 64 - next % 64;
            at = window_align(next, align);
            done = 0;
        }
    }
    return SIZE_MAX;
}

static int window_take_locked(size_t count, size_t align, size_t bytes, bool with_meta,
                              size_t *first)
{
    size_t from = hak_window.lowest_free;
    for (size_t skip = 1;; skip *= 2) {
        size_t at = window_find_locked(from, count, align);
        if (at == SIZE_MAX) {
            hak_refused(HAK_FAILURE_EXHAUSTION, ENOSPC, "fresh");
            return ENOMEM;
        }
        int error = window_cover_locked(at + count, with_meta);
        if (error == 0)
            error = hak_os_map_at(hak_superslab_address(at), bytes);
        if (error == 0) {
            *first = at;
            return 0;
        }
        if (error != EEXIST)
            return hak_refused(HAK_FAILURE_MAP, error, "fresh");
        from =
            at + skip; /* somebody else's mapping is in the way: step over it, further each time */
    }
}

bool hak_space_has_place(size_t count, size_t align)
{
    return window_align(0, align) + count <= hak_window.superslabs;
}

int hak_space_take(size_t count, size_t align, size_t bytes, bool with_meta, size_t *first)
{
    if (!hak_space_has_place(count, align)) {
        hak_refused(HAK_FAILURE_EXHAUSTION, ENOSPC, "fresh");
        return ENOMEM;
    }
    hak_lock(&hak_window.lock);
    int error = window_take_locked(count, align, bytes, with_meta, first);
    if (error == 0) {
        window_mark_locked(*first, count, true);
        if (*first == hak_window.lowest_free)
            hak_window.lowest_free += count;
        if (*first + count > hak_load_relaxed(&hak_window.high_water))
            hak_store_release(&hak_window.high_water, *first + count); /* ORDER: [high-water] */
    }
    hak_unlock(&hak_window.lock);
    return error;
}

bool hak_space_try_take_at(size_t first, size_t count)
{
    hak_lock(&hak_window.lock);
    bool free = first + count <= hak_window.superslabs &&
                window_find_locked(first, count, 1) == first &&
                window_cover_locked(first + count, false) == 0;
    if (free) {
        window_mark_locked(first, count, true);
        if (first + count > hak_load_relaxed(&hak_window.high_water))
            hak_store_release(&hak_window.high_water, first + count); /* ORDER: [high-water] */
    }
    hak_unlock(&hak_window.lock);
    return free;
}

/* The words of blocks that are not there any more. What the system refuses stays: they say freed,
 * and so a block is looked at before it is handed out again. */
static void window_forget_words_locked(size_t first, size_t count)
{
    for (int a = AREA_WORDS; a < AREA_COUNT; a++) {
        const struct hak_area *area = &hak_window.areas[a];
        size_t words_bytes = HAK_WORDS_BYTES(window_word_shift(a));
        size_t from = hak_min(first * words_bytes, area->mapped_bytes);
        size_t to = hak_min((first + count) * words_bytes, area->mapped_bytes);
        if (from < to)
            hak_os_purge(area->at + from, to - from);
    }
}

/* Walks end where the last taken superslab does, or one block at a far place would make all later
 * ones long. Whoever knows a superslab finds it below the mark as long as it is taken: the mark
 * changes under the lock alone, and never to less than what is taken then. Who still goes by a
 * higher one reads arrays that stay mapped, of superslabs that are nobody's. */
static void window_lower_locked(size_t first)
{
    size_t end = first;
    while (end != 0 && !hak_space_is_taken(end - 1)) {
        bool none = end % 64 == 0 && hak_load_relaxed(&hak_space_groups()[end / 64 - 1].taken) == 0;
        end -= none ? 64 : 1;
    }
    hak_store_release(&hak_window.high_water, end); /* ORDER: [high-water] */
}

void hak_space_give(size_t first, size_t count)
{
    hak_lock(&hak_window.lock);
    if (HAK_HARDENED)
        window_forget_words_locked(first, count);
    window_mark_locked(first, count, false);
    if (first + count == hak_load_relaxed(&hak_window.high_water))
        window_lower_locked(first);
    hak_window.lowest_free = hak_min(hak_window.lowest_free, first);
    hak_unlock(&hak_window.lock);
}

int hak_space_need_meta(size_t limit)
{
    hak_lock(&hak_window.lock);
    int error = window_grow_meta_locked(limit);
    hak_unlock(&hak_window.lock);
    return error;
}

bool hak_space_try_forget_meta(size_t superslab)
{
    return hak_os_purge(hak_space_meta() + superslab * HAK_META_BYTES, HAK_META_BYTES) == 0;
}

void hak_space_add_lock_counts(struct hak_lock_counts *sum)
{
    hak_lock_add_counts(&hak_window.lock, sum);
}

void hak_space_fork_child(void)
{
    if (!hak_lock_recover(&hak_window.lock))
        return;
    /* An array may have been growing: nobody uses what was mapped and not counted yet. Superslabs
     * that were mapped and not marked are stepped over as if they were a stranger's. */
    for (int a = 0; a < AREA_COUNT; a++) {
        struct hak_area *area = &hak_window.areas[a];
        if (area->growing_to_bytes > area->mapped_bytes)
            hak_os_unmap(area->at + area->mapped_bytes,
                         area->growing_to_bytes - area->mapped_bytes);
        area->growing_to_bytes = 0;
    }
}
