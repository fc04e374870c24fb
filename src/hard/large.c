/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * hard: large and huge blocks. Each lies in a range of heap's, between pages that cannot be
 * accessed:
 *
 *   range: | guard | slack | what was asked for | canary | guard ... |
 *                          ^ front_bytes from the range's beginning
 *
 * The block ends where the guard begins, as closely as its alignment allows, and the slack before
 * it stays zero. A block aligned to more than a page begins its range and has no guard in front.
 *
 * A freed block is inaccessible as a whole while it waits (kept.c). Then a block that is not much
 * shorter may be made of its range, whose guards stay where they are: the new block ends where they
 * begin, and the slack is longer. All its pages are in memory then, and it is "warm": from then on
 * it is made zero when it is freed and looked at when it is used again, as a small one, which takes
 * no call of the system (and less time than to make it inaccessible and accessible again, a tenth
 * of a microsecond a page each). One that was hardly used goes back to the system instead of being
 * read. The map's entry says whether a block is live or kept; whoever changes it owns the block.
 * Each guard costs the process a mapping: beyond GUARDED_MOST blocks there are canaries only (a
 * process has 65,530 mappings), and no quarantine.
 */
#include "hard/hard_internal.h"

#include <string.h>

#define GUARDED_MOST 8192u
/* More of the pages that a block leaves inaccessible of its range than its own divided by this are
 * given back. */
#define KEPT_REST_SHARE 2u
/* Below that its pages are soon in memory all the same, and reading takes less than three calls. */
#define SPARSE_LEAST_PAGES 96u
#define SPARSE_SHARE 4u /* of its pages less than this part is in memory */
#define SPARSE_LOOK_PAGES 512u
static _Atomic(uint32_t) large_guarded;
static _Atomic(bool) large_data_is_limited;

static uint32_t large_entry(const void *range)
{
    return hak_load_relaxed(hak_map_entry(hak_slot_of(range)));
}

static struct hak_note *large_note(size_t slot, uint32_t entry)
{
    return entry == HAK_KIND_HUGE ? &hak_superslab(slot / HAK_SLOTS)->huge.note
                                  : &hak_slab_record(slot)->note;
}

struct hak_note *hak_hard_large_note(const void *range, bool *huge)
{
    uint32_t kind = large_entry(range) & ~HAK_KIND_KEPT;
    *huge = kind == HAK_KIND_HUGE;
    return large_note(hak_slot_of(range), kind);
}

size_t hak_hard_large_range_bytes(const void *range)
{
    return hak_large_usable_bytes(range, large_entry(range) & ~HAK_KIND_KEPT);
}

/* --- guards, canary, zeros --- */

/* What is inaccessible does not count for RLIMIT_DATA. Others use up what runs of slots leave of
 * it; at the limit the runs cannot be made accessible again, and keep their superslabs, of which
 * the rest counts, from being unmapped, until nothing is left. So where there is such a limit runs
 * have canaries only. (Huge blocks are unmapped, whatever may be accessed of them.) */
static bool large_may_seal(const char *range)
{
    return !hak_load_relaxed(&large_data_is_limited) ||
           (large_entry(range) & ~HAK_KIND_KEPT) == HAK_KIND_HUGE;
}

void hak_hard_large_look_at_limit(void)
{
    hak_store_relaxed(&large_data_is_limited, hak_os_data_limit() != UINT64_MAX);
}

static void large_seal(char *range, struct hak_note *note)
{
    size_t end = hard_large_end(note);
    size_t room = end - note->front_bytes - note->bytes;
    memset(range + end - room, 0, room);
    if (room != 0)
        hard_canary_put(range + note->front_bytes, note->bytes, note->bytes + room);
    if (!large_may_seal(range))
        return;
    if (hak_add_relaxed(&large_guarded, 1u) >= GUARDED_MOST) {
        hak_sub_relaxed(&large_guarded, 1u);
        return;
    }
    size_t range_bytes = hak_hard_large_range_bytes(range);
    if (hak_os_protect(range + end, range_bytes - end, false) == 0)
        note->how |= HARD_GUARD_BACK;
    if (note->front_bytes != 0 && hak_os_protect(range, HAK_PAGE_BYTES, false) == 0)
        note->how |= HARD_GUARD_FRONT;
    if (!(note->how & (HARD_GUARD_FRONT | HARD_GUARD_BACK)))
        hak_sub_relaxed(&large_guarded, 1u);
}

/* The range has no guards any more, and is nobody's. */
static void large_forget_guards(struct hak_note *note)
{
    if (note->how & (HARD_GUARD_FRONT | HARD_GUARD_BACK))
        hak_sub_relaxed(&large_guarded, 1u);
    note->how &=
        ~(HARD_GUARD_FRONT | HARD_GUARD_BACK | HARD_SEALED | HARD_PURGED | HARD_WARM | HARD_ZEROED);
}

/* Makes all of a range accessible. False: the system refuses. */
static bool large_unseal(char *range, struct hak_note *note)
{
    if (!(note->how & (HARD_GUARD_FRONT | HARD_GUARD_BACK | HARD_SEALED | HARD_PURGED)))
        return true;
    if (hak_os_protect(range, hak_hard_large_range_bytes(range), true) != 0)
        return false;
    large_forget_guards(note);
    return true;
}

/* Nobody has written to the page that is a guard where the system and GUARDED_MOST allow one: most
 * lengths leave no room for a canary before it. (To read it takes no memory.) */
static bool large_guard_holds(const char *page, uint32_t is_guard)
{
    return is_guard || hak_hard_is_zero(page, HAK_PAGE_BYTES);
}

static void large_check(const char *range, const struct hak_note *note)
{
    const char *p = range + note->front_bytes;
    size_t end = hard_large_end(note), room = end - note->front_bytes - note->bytes;
    if ((room != 0 && !hard_canary_holds(p, note->bytes, note->bytes + room)) ||
        !large_guard_holds(range + end, note->how & HARD_GUARD_BACK))
        hak_hard_overflow(p, HARD_LARGE, note->bytes);
    if (note->front_bytes > HAK_PAGE_BYTES &&
        !hak_hard_is_zero(range + HAK_PAGE_BYTES, note->front_bytes - HAK_PAGE_BYTES))
        hak_hard_underflow(p, note->bytes);
    if (note->front_bytes != 0 && !large_guard_holds(range, note->how & HARD_GUARD_FRONT))
        hak_hard_underflow(p, note->bytes);
}

/* The same for a freed block that has stayed accessible: it is zero from end to end. */
static void large_check_zeroed(const char *range, const struct hak_note *note)
{
    const char *p = range + note->front_bytes;
    size_t guard_bytes = note->front_bytes == 0 ? 0 : HAK_PAGE_BYTES;
    if (hak_hard_is_zero(range + guard_bytes, hard_large_end(note) - guard_bytes))
        return;
    if (note->front_bytes > HAK_PAGE_BYTES &&
        !hak_hard_is_zero(range + HAK_PAGE_BYTES, note->front_bytes - HAK_PAGE_BYTES))
        hak_hard_underflow(p, note->bytes);
    hak_hard_written_after_free(p, HARD_LARGE, hard_large_end(note) - note->front_bytes);
}

static size_t large_pages(size_t size_bytes)
{
    return (hak_max(size_bytes, 1) + HAK_PAGE_BYTES - 1) / HAK_PAGE_BYTES;
}

/* Where a block begins that ends at `end`. */
static size_t large_front(size_t end, size_t size_bytes, size_t align)
{
    return end - hak_round_up(hak_max(size_bytes, 1), hak_max(align, HAK_ALIGNMENT));
}

/* The system gives zeros back. What it refuses (it does for memory that the program has locked) is
 * cleared: all of it can be accessed. */
static void large_make_zero(char *at, size_t bytes)
{
    if (hak_os_purge(at, bytes) != 0)
        hak_hard_zero_written(at, bytes);
}

/* --- ranges that are used again --- */

/* What the system refuses to make accessible waits until it does not: a stack of ranges, each
 * linked to the next by the bytes of its note. */
static _Atomic(uint32_t) large_refused; /* the first one's slot + 1 */

/* Back to heap. False: the system refuses. */
static bool large_try_release(char *range)
{
    _Atomic(uint32_t) *entry = hak_map_entry(hak_slot_of(range));
    uint32_t kind = hak_load_relaxed(entry) & ~HAK_KIND_KEPT;
    struct hak_note *note = large_note(hak_slot_of(range), kind);
    size_t range_bytes = hak_hard_large_range_bytes(range);
    bool purged = (note->how & HARD_PURGED) || hak_os_purge(range, range_bytes) == 0;
    if (kind == HAK_KIND_HUGE && purged) {
        large_forget_guards(note);
    } else if (!large_unseal(range, note)) {
        hak_hard_large_look_at_limit();
        note->how &= ~(HARD_ZEROED | HARD_PURGED); /* some of it may be accessible by now */
        return false;
    }
    if (!purged)
        hak_hard_zero_written(range, range_bytes);
    hak_store_relaxed(entry, kind);
    hak_large_free(range, kind);
    return true;
}

static void large_put_refused(char *range)
{
    size_t slot = hak_slot_of(range);
    struct hak_note *note = large_note(slot, large_entry(range) & ~HAK_KIND_KEPT);
    uint32_t next = hak_load_relaxed(&large_refused);
    do
        note->bytes = next;
    /* ORDER: [hard-refused] the note */
    while (!hak_cas_release(&large_refused, &next, (uint32_t)slot + 1));
}

void hak_hard_large_retry(void)
{
    if (hak_load_relaxed(&large_refused) == 0)
        return;
    uint32_t link = hak_exchange_acquire(&large_refused, 0u); /* ORDER: [hard-refused] */
    for (bool refused = false; link != 0;) {
        char *range = hak_slot_address(link - 1);
        link = (uint32_t)large_note(link - 1, large_entry(range) & ~HAK_KIND_KEPT)->bytes;
        refused = refused || !large_try_release(range);
        if (refused)
            large_put_refused(range);
    }
}

void hak_hard_large_release(char *range)
{
    struct hak_note *note = large_note(hak_slot_of(range), large_entry(range) & ~HAK_KIND_KEPT);
    if (note->how & HARD_ZEROED)
        large_check_zeroed(range, note);
    if (large_try_release(range))
        hak_hard_large_retry();
    else
        large_put_refused(range);
}

/* Where the pages end that a block in a kept range can access: where they did, if it may. */
static size_t large_new_end(const struct hak_note *note, size_t pages)
{
    if (!(note->how & HARD_PURGED) && hard_large_room_fits(hard_large_room_pages(note), pages))
        return hard_large_end(note);
    return (pages + 1) * HAK_PAGE_BYTES;
}

/* What a block that ends at `end` leaves of the pages of a longer one: none of it can be accessed,
 * and it is zero, so that nothing depends on the system. */
static void large_purge_rest(char *range, size_t end, size_t before)
{
    if (end < before && before - end > end / KEPT_REST_SHARE)
        hak_os_purge(range + end, before - end);
}

/* A freed block that is zero is to end at `end`: the guard behind it moves. What is behind it is
 * zero too. */
static bool large_move_guard(char *range, const struct hak_note *note, size_t end)
{
    size_t before = hard_large_end(note);
    large_check_zeroed(range, note);
    if (end > before)
        return hak_os_protect(range + before, end - before, true) == 0;
    if (end < before && hak_os_protect(range + end, before - end, false) != 0)
        return false;
    large_purge_rest(range, end, before);
    return true;
}

/* What can be accessed of a sealed range is zero, and ends at `end`. */
static bool large_unseal_zero(char *range, const struct hak_note *note, size_t end)
{
    size_t before = note->how & HARD_PURGED ? 0 : hard_large_end(note);
    if (hak_os_protect(range + HAK_PAGE_BYTES, end - HAK_PAGE_BYTES, true) != 0 ||
        (end < before && hak_os_purge(range + end, before - end) != 0))
        return false;
    if (before != 0)
        hak_hard_zero_written(range + HAK_PAGE_BYTES, hak_min(end, before) - HAK_PAGE_BYTES);
    return true;
}

/* Makes a block of a kept range. NULL: the system refuses. */
static char *large_revive(char *range, size_t size_bytes, size_t align, uint32_t how)
{
    _Atomic(uint32_t) *entry = hak_map_entry(hak_slot_of(range));
    uint32_t kind = hak_load_relaxed(entry) & ~HAK_KIND_KEPT;
    struct hak_note *note = large_note(hak_slot_of(range), kind);
    size_t end = large_new_end(note, large_pages(size_bytes));
    bool done = note->how & HARD_ZEROED ? large_move_guard(range, note, end)
                                        : large_unseal_zero(range, note, end);
    if (!done)
        return NULL;
    how |= HARD_GUARD_FRONT | HARD_GUARD_BACK | (note->how & HARD_PURGED ? 0 : HARD_WARM);
    size_t front = large_front(end, size_bytes, align);
    *note = (struct hak_note){.bytes = size_bytes, .front_bytes = (uint32_t)front, .how = how};
    size_t room = end - front - size_bytes;
    if (room != 0)
        hard_canary_put(range + front, size_bytes, size_bytes + room);
    hak_store_release(entry, kind); /* ORDER: [large-entry] the note is whole */
    return range + front;
}

static void *large_new(size_t size_bytes, size_t front, size_t end, size_t align, uint32_t how)
{
    bool zero;
    char *range = hak_heap_large(end + HAK_PAGE_BYTES, hak_max(align, HAK_PAGE_BYTES), 0, &zero);
    if (range == NULL)
        return NULL;
    if (!zero) /* freed blocks are, unless somebody wrote to one since */
        large_make_zero(range, hak_hard_large_range_bytes(range));
    struct hak_note *note = large_note(hak_slot_of(range), large_entry(range));
    *note = (struct hak_note){.bytes = size_bytes, .front_bytes = (uint32_t)front, .how = how};
    large_seal(range, note);
    return range + front;
}

void *hak_hard_large_alloc(size_t size_bytes, uint32_t how)
{
    size_t align = (size_t)1 << ((how & HARD_ALIGN_MASK) >> HARD_ALIGN_SHIFT);
    if (size_bytes > HAK_HUGE_MAX) {
        bool zero;
        return hak_heap_large(size_bytes, align, 0, &zero); /* which refuses it, and says why */
    }
    size_t pages = large_pages(size_bytes);
    if (align > HAK_PAGE_BYTES) /* no guard in front */
        return large_new(size_bytes, 0, pages * HAK_PAGE_BYTES, align, how);
    char *range = hak_hard_kept_take(pages);
    if (range != NULL) {
        char *p = large_revive(range, size_bytes, align, how);
        if (p != NULL)
            return p;
        hak_hard_large_release(range);
    }
    size_t end = (pages + 1) * HAK_PAGE_BYTES;
    return large_new(size_bytes, large_front(end, size_bytes, align), end, align, how);
}

/* --- the way back --- */

/* The range of the block that begins at p; NULL if none does. `kind` is large or huge. */
static char *large_range(const void *p, uint32_t kind, struct hak_note **note)
{
    if (kind != HAK_KIND_LARGE && kind != HAK_KIND_HUGE)
        return NULL;
    size_t slot = hak_slot_of(p);
    char *range = hak_slot_address(slot);
    *note = large_note(slot, kind);
    return range + (*note)->front_bytes == (const char *)p ? range : NULL;
}

/* The same for a live block that a function other than free was given; checked. */
static char *large_live(const void *p, uint32_t entry, struct hak_note **note)
{
    char *range = large_range(p, entry & ~HAK_KIND_KEPT, note);
    if (range != NULL && (entry & HAK_KIND_KEPT))
        hak_hard_double_free(p, HARD_LARGE);
    return range;
}

/* Most of the pages were never used. To read those, so that what was written is cleared, would be a
 * page fault each; a short block has few. (What the system does not hold in memory may have been
 * used all the same and be swapped out, so this only says which way of clearing is cheaper.) */
static bool large_is_sparse(char *range, size_t range_bytes)
{
    unsigned char resident[SPARSE_LOOK_PAGES];
    size_t pages = range_bytes / HAK_PAGE_BYTES, used = 0;
    if (pages < SPARSE_LEAST_PAGES)
        return false;
    for (size_t i = 0; i < pages && used * SPARSE_SHARE < pages; i += SPARSE_LOOK_PAGES) {
        size_t now = hak_min(pages - i, SPARSE_LOOK_PAGES);
        if (!hak_os_list_resident(range + i * HAK_PAGE_BYTES, now * HAK_PAGE_BYTES, resident))
            return false;
        for (size_t j = 0; j < now; j++)
            used += resident[j];
    }
    return used * SPARSE_SHARE < pages;
}

/* Makes a freed block such that nobody can use it, or at least not without being seen: that is what
 * is done with warm ones, and with others where the system refuses. One of no bytes, with an
 * alignment that made it large, is all guard. */
static void large_put_away(char *range, struct hak_note *note, size_t range_bytes, size_t most)
{
    bool is_long = note->bytes > most / (HARD_LARGE_WAIT + 1); /* so that more than wait fit */
    bool goes = is_long || hak_hard_kept_is_full(most);        /* its pages; the addresses wait */
    bool is_warm = note->how & HARD_WARM;
    bool seals = (goes || !is_warm) && large_may_seal(range);
    bool purges = goes || (!is_warm && large_is_sparse(range, range_bytes));
    size_t bytes = hard_large_end(note) - note->front_bytes;
    if (bytes == 0 || (seals && hak_os_protect(range, range_bytes, false) == 0)) {
        note->how |= HARD_SEALED;
        if (purges && hak_os_purge(range, range_bytes) == 0)
            note->how |= HARD_PURGED;
        return;
    }
    hak_hard_zero_written(range + note->front_bytes, bytes);
    note->how |= HARD_WARM | HARD_ZEROED;
}

/* The block goes to quarantine, if it has a guard and fits. */
static void large_keep(char *range, struct hak_note *note)
{
    struct hard_thread *t = hak_hard_self;
    size_t range_bytes = hak_hard_large_range_bytes(range);
    size_t most = hak_hard_kept_most();
    if (hard_is_busy(t))
        t = hak_hard_quarantine_slow();
    if (t == NULL || !(note->how & HARD_GUARD_BACK) || range_bytes > hak_hard.kept_most_bytes) {
        hak_hard_large_release(range);
        return;
    }
    large_put_away(range, note, range_bytes, most);
    hak_hard_kept_put(t, range, most);
}

bool hak_hard_large_free(void *p, uint32_t entry, const struct hard_claim *claim)
{
    struct hak_note *note;
    char *range = large_live(p, entry, &note);
    if (range == NULL)
        return false;
    hak_heap_notice_fork();
    size_t bytes = note->bytes;
    /* ORDER: [large-entry] as in hak_large_free: of two frees one finds it gone */
    if (!hak_cas_acquire(hak_map_entry(hak_slot_of(p)), &entry, entry | HAK_KIND_KEPT))
        hak_hard_double_free(p, HARD_LARGE);
    struct hard_claim other = *claim; /* but for the size, of which the word has nothing */
    other.mask &= ~HARD_SIZE_MASK;
    bool sized = claim->mask & HARD_SIZE_MASK;
    if (!hard_fits(note->how, &other) || (sized && claim->size_bytes != bytes))
        hak_hard_mismatch(p, HARD_LARGE, note->how, bytes, claim);
    large_check(range, note);
    large_keep(range, note);
    return true;
}

/* --- resizing --- */

/* Within the pages that the block has. */
static void large_resize(char *range, struct hak_note *note, size_t bytes)
{
    size_t from = note->front_bytes + hak_min(note->bytes, bytes);
    memset(range + from, 0, hard_large_end(note) - from);
    note->bytes = bytes;
    size_t room = hard_large_end(note) - note->front_bytes - bytes;
    if (room != 0)
        hard_canary_put(range + note->front_bytes, bytes, bytes + room);
}

/* The pages of a live block without guards have been moved: its place, which is zero, is freed. */
static void large_leave(char *range, uint32_t entry, struct hak_note *note)
{
    large_seal(range, note);
    /* ORDER: [large-entry] as in hak_large_free */
    if (!hak_cas_acquire(hak_map_entry(hak_slot_of(range)), &entry, entry | HAK_KIND_KEPT))
        hak_hard_double_free(range + note->front_bytes, HARD_LARGE);
    large_keep(range, note);
}

static void *large_try_resize(char *range, uint32_t entry, struct hak_note *note, size_t bytes)
{
    struct hak_note now = *note;
    now.bytes = bytes;
    if (!large_unseal(range, note))
        return NULL;
    now.how = note->how;
    /* The canary is in the midst of a block that grows. */
    size_t behind = note->front_bytes + note->bytes;
    memset(range + behind, 0, hard_large_end(note) - behind);
    size_t end = hak_min(hard_large_end(note), hard_large_end(&now));
    size_t need_bytes = hard_large_end(&now) + HAK_PAGE_BYTES;
    char *q = hak_large_try_resize(range, entry, need_bytes);
    bool leaves = q == NULL && (q = hak_large_try_move_pages(range, entry, need_bytes)) != NULL;
    if (q == NULL) {
        large_seal(range, note);
        return NULL;
    }
    /* What is behind the block reads as zero, whatever it was before. */
    large_make_zero(q + end, hak_hard_large_range_bytes(q) - end);
    struct hak_note *moved = large_note(hak_slot_of(q), large_entry(q));
    *moved = now;
    large_seal(q, moved);
    if (leaves)
        large_leave(range, entry, note);
    return q + now.front_bytes;
}

bool hak_hard_large_realloc(void *p, uint32_t entry, size_t size_bytes, void **out)
{
    struct hak_note *note;
    char *range = large_live(p, entry, &note);
    if (range == NULL)
        return false;
    const struct hard_claim claim = hard_claim_of_free();
    hak_heap_notice_fork();
    if ((note->how ^ claim.word) & claim.mask)
        hak_hard_mismatch(p, HARD_LARGE, note->how, note->bytes, &claim);
    large_check(range, note);
    struct hak_note now = *note;
    now.bytes = size_bytes;
    *out = NULL;
    if (size_bytes <= HAK_SMALL_MAX - HARD_CANARY_BYTES || size_bytes > HAK_HUGE_MAX)
        return true;
    if (hard_large_end(&now) == hard_large_end(note)) {
        large_resize(range, note, size_bytes);
        *out = p;
    } else {
        *out = large_try_resize(range, entry, note, size_bytes);
    }
    return true;
}

/* The guard behind it grows by the pages that the block leaves, which are zero from then on. */
bool hak_hard_large_try_shrink(void *p, uint32_t entry, size_t size_bytes)
{
    struct hak_note *note;
    char *range = large_range(p, entry, &note);
    if (range == NULL)
        return false;
    size_t before = hard_large_end(note);
    struct hak_note now = *note;
    now.bytes = size_bytes;
    size_t end = hard_large_end(&now);
    bool has_guard = note->how & HARD_GUARD_BACK;
    if (end < before) {
        if (has_guard && hak_os_protect(range + end, before - end, false) != 0)
            return false;
        if (hak_os_purge(range + end, before - end) != 0) {
            if (has_guard)
                hak_os_protect(range + end, before - end, true);
            return false;
        }
        note->bytes = hak_min(note->bytes, end - note->front_bytes);
    }
    large_resize(range, note, size_bytes);
    return true;
}

size_t hak_hard_large_usable_bytes(const void *p, uint32_t entry)
{
    struct hak_note *note;
    return large_range(p, entry, &note) == NULL ? 0 : note->bytes;
}
