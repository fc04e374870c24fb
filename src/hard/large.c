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
 * A freed block is inaccessible as a whole while it is in its thread's quarantine. A block of the
 * same size may be made of the oldest there; all its pages are in memory then, and it is "warm":
 * from then on it is made zero when it is freed and looked at when it leaves the quarantine, as a
 * small one, which takes no call of the system (and less time than to make it inaccessible and
 * accessible again, a tenth of a microsecond a page each). The map's entry says whether a block is
 * live or kept; whoever changes it owns the block. Each guard costs the process a mapping: beyond
 * GUARDED_MOST blocks there are canaries only (a process has 65,530 mappings), and no quarantine.
 */
#include "hard/hard_internal.h"

#include <string.h>

#define GUARDED_MOST 8192u
/* In a quarantine: blocks that wait at least, so that none is used again at once; addresses, and
 * their share of RLIMIT_AS; pages in memory: of what is larger than its part of that, the pages go
 * at once. */
#define KEPT_LEAST 4u
#define KEPT_MOST_BYTES ((uint64_t)256 << 20)
#define KEPT_SHARE_OF_LIMIT 64u
/* A block is made of a kept range of at most so many times its length; of the pages that it leaves
 * inaccessible more than its own divided by this are given back. */
#define KEPT_LENGTHS_MOST 2u
#define KEPT_REST_SHARE 2u
#define RESIDENT_BYTES ((size_t)4 << 20)      /* of a thread in any case */
#define RESIDENT_ALL_BYTES ((size_t)10 << 20) /* of all threads together, or, if that is more, */
#define RESIDENT_SHARE 4u                     /* this part of all large blocks */

static _Atomic(uint32_t) large_guarded;
/* In all quarantines. */
static _Atomic(size_t) large_kept_bytes[2], large_kept_blocks[2]; /* large, huge */
static _Atomic(size_t) large_kept_resident_bytes;

static uint32_t large_entry(const void *range)
{
    return hak_load_relaxed(hak_map_entry(hak_slot_of(range)));
}

static struct hak_note *large_note(size_t slot, uint32_t entry)
{
    return entry == HAK_KIND_HUGE ? &hak_superslab(slot / HAK_SLOTS)->huge.note
                                  : &hak_slab_record(slot)->note;
}

static size_t large_range_bytes(const void *range)
{
    return hak_large_usable_bytes(range, large_entry(range) & ~HAK_KIND_KEPT);
}

/* --- guards, canary, zeros --- */

static size_t large_end(const struct hak_note *note) /* of the pages that can be accessed */
{
    return hak_round_up(note->front_bytes + note->bytes, HAK_PAGE_BYTES);
}

static void large_seal(char *range, struct hak_note *note)
{
    size_t end = large_end(note);
    size_t room = end - note->front_bytes - note->bytes;
    memset(range + end - room, 0, room);
    if (room != 0)
        hard_canary_put(range + note->front_bytes, note->bytes, note->bytes + room);
    if (hak_add_relaxed(&large_guarded, 1u) >= GUARDED_MOST) {
        hak_sub_relaxed(&large_guarded, 1u);
        return;
    }
    size_t range_bytes = large_range_bytes(range);
    if (hak_os_protect(range + end, range_bytes - end, false) == 0)
        note->how |= HARD_GUARD_BACK;
    if (note->front_bytes != 0 && hak_os_protect(range, HAK_PAGE_BYTES, false) == 0)
        note->how |= HARD_GUARD_FRONT;
    if (!(note->how & (HARD_GUARD_FRONT | HARD_GUARD_BACK)))
        hak_sub_relaxed(&large_guarded, 1u);
}

/* Makes all of a range accessible. False: the system refuses. */
static bool large_unseal(char *range, struct hak_note *note)
{
    const uint32_t all =
        HARD_GUARD_FRONT | HARD_GUARD_BACK | HARD_SEALED | HARD_PURGED | HARD_WARM | HARD_ZEROED;
    if (!(note->how & (all & ~(HARD_WARM | HARD_ZEROED))))
        return true;
    if (hak_os_protect(range, large_range_bytes(range), true) != 0)
        return false;
    if (note->how & (HARD_GUARD_FRONT | HARD_GUARD_BACK))
        hak_sub_relaxed(&large_guarded, 1u);
    note->how &= ~all;
    return true;
}

static void large_check(const char *range, const struct hak_note *note)
{
    const char *p = range + note->front_bytes;
    size_t room = large_end(note) - note->front_bytes - note->bytes;
    if (room != 0 && !hard_canary_holds(p, note->bytes, note->bytes + room))
        hak_hard_overflow(p, HARD_LARGE, note->bytes);
    if (note->front_bytes > HAK_PAGE_BYTES &&
        !hak_hard_is_zero(range + HAK_PAGE_BYTES, note->front_bytes - HAK_PAGE_BYTES))
        hak_hard_underflow(p, note->bytes);
}

/* The same for a freed block that has stayed accessible: it is zero from end to end. */
static void large_check_zeroed(const char *range, const struct hak_note *note)
{
    const char *p = range + note->front_bytes;
    if (hak_hard_is_zero(range + HAK_PAGE_BYTES, large_end(note) - HAK_PAGE_BYTES))
        return;
    if (note->front_bytes > HAK_PAGE_BYTES &&
        !hak_hard_is_zero(range + HAK_PAGE_BYTES, note->front_bytes - HAK_PAGE_BYTES))
        hak_hard_underflow(p, note->bytes);
    hak_hard_written_after_free(p, HARD_LARGE, large_end(note) - note->front_bytes);
}

/* --- what a thread keeps --- */

void hak_hard_large_start(void)
{
    uint64_t share = hak_os_address_space_limit() / KEPT_SHARE_OF_LIMIT;
    hak_hard.kept_most_bytes = share < KEPT_MOST_BYTES ? share : KEPT_MOST_BYTES;
}

static size_t large_resident_bytes(const struct hak_note *note)
{
    return note->how & HARD_PURGED ? 0 : note->bytes;
}

/* A range goes into a quarantine (1) or leaves it (-1). */
static void large_count(struct hard_thread *t, const char *range, const struct hak_note *note,
                        size_t sign)
{
    size_t range_bytes = large_range_bytes(range);
    bool huge = (large_entry(range) & ~HAK_KIND_KEPT) == HAK_KIND_HUGE;
    t->large_bytes += sign * range_bytes;
    t->large_resident_bytes += sign * large_resident_bytes(note);
    hak_add_relaxed(&large_kept_resident_bytes, sign * large_resident_bytes(note));
    hak_add_relaxed(&large_kept_bytes[huge], sign * range_bytes);
    hak_add_relaxed(&large_kept_blocks[huge], sign);
}

void hak_hard_kept(struct hak_large_stats *kept)
{
    kept->large_bytes = hak_load_relaxed(&large_kept_bytes[false]);
    kept->large_blocks = hak_load_relaxed(&large_kept_blocks[false]);
    kept->huge_bytes = hak_load_relaxed(&large_kept_bytes[true]);
    kept->huge_blocks = hak_load_relaxed(&large_kept_blocks[true]);
}

/* Which kept range is best for a block: the one that is the least too long. HARD_LARGE_KEPT: none
 * is of use. */
static unsigned large_find_kept(const struct hard_thread *t, size_t bytes)
{
    unsigned found = HARD_LARGE_KEPT;
    size_t found_bytes = bytes * KEPT_LENGTHS_MOST + 1;
    for (unsigned i = 0; i + KEPT_LEAST < t->large_count; i++) {
        const char *range = t->large[i];
        size_t range_bytes = large_range_bytes(range);
        const struct hak_note *note =
            large_note(hak_slot_of(range), large_entry(range) & ~HAK_KIND_KEPT);
        if (range_bytes >= bytes && range_bytes < found_bytes && note->front_bytes != 0) {
            found = i;
            found_bytes = range_bytes;
        }
    }
    return found;
}

/* Takes a range out of quarantine that has `bytes`, and not many times as much; NULL if there is
 * none. It stays as it is. */
static char *large_try_kept(size_t bytes)
{
    struct hard_thread *t = hak_hard_self;
    if (hak_load_relaxed(&t->busy))
        return NULL;
    unsigned i = large_find_kept(t, bytes);
    if (i == HARD_LARGE_KEPT)
        return NULL;
    char *range = t->large[i];
    hak_store_relaxed(&t->busy, true);
    large_count(t, range, large_note(hak_slot_of(range), large_entry(range) & ~HAK_KIND_KEPT),
                (size_t)-1);
    memmove(&t->large[i], &t->large[i + 1], (--t->large_count - i) * sizeof t->large[0]);
    hak_store_relaxed(&t->busy, false);
    return range;
}

/* Gives a freed block's range back to heap. */
static void large_release(char *range)
{
    _Atomic(uint32_t) *entry = hak_map_entry(hak_slot_of(range));
    uint32_t kind = hak_load_relaxed(entry) & ~HAK_KIND_KEPT;
    struct hak_note *note = large_note(hak_slot_of(range), kind);
    if (!(note->how & HARD_PURGED))
        hak_os_purge(range, large_range_bytes(range));
    if (!large_unseal(range, note))
        return; /* given up: the addresses stay inaccessible */
    hak_store_relaxed(entry, kind);
    hak_large_free(range, kind);
}

/* A freed block that is zero is to end at `end`: the guard behind it moves. */
static bool large_move_guard(char *range, const struct hak_note *note, size_t end)
{
    size_t before = large_end(note);
    if (end < before)
        return hak_os_protect(range + end, before - end, false) == 0;
    if (end > before) {
        if (hak_os_protect(range + before, end - before, true) != 0)
            return false;
        memset(range + before, 0, end - before);
    }
    return true;
}

/* What can be accessed of a sealed range is zero, and ends at `end`. */
static bool large_unseal_zero(char *range, const struct hak_note *note, size_t end)
{
    if (hak_os_protect(range + HAK_PAGE_BYTES, end - HAK_PAGE_BYTES, true) != 0)
        return false;
    if (!(note->how & HARD_PURGED))
        memset(range + HAK_PAGE_BYTES, 0, end - HAK_PAGE_BYTES);
    return true;
}

/* What a block that ends at `end` leaves of the pages of a longer one: none of it can be accessed.
 */
static void large_purge_rest(char *range, size_t end, size_t before)
{
    if (end < before && before - end > end / KEPT_REST_SHARE)
        hak_os_purge(range + end, before - end);
}

/* Makes a block of a kept range, whose guards stay where they are. False: the system refuses. */
static bool large_revive(char *range, size_t size_bytes, size_t front, uint32_t how)
{
    _Atomic(uint32_t) *entry = hak_map_entry(hak_slot_of(range));
    uint32_t kind = hak_load_relaxed(entry) & ~HAK_KIND_KEPT;
    struct hak_note *note = large_note(hak_slot_of(range), kind);
    how |= HARD_GUARD_FRONT | HARD_GUARD_BACK | (note->how & HARD_PURGED ? 0 : HARD_WARM);
    struct hak_note now = {.bytes = size_bytes, .front_bytes = (uint32_t)front, .how = how};
    size_t end = large_end(&now);
    size_t before = note->how & HARD_PURGED ? 0 : large_end(note);
    if (note->how & HARD_ZEROED) {
        large_check_zeroed(range, note);
        if (!large_move_guard(range, note, end))
            return false;
    } else if (!large_unseal_zero(range, note, end)) {
        return false;
    }
    large_purge_rest(range, end, before);
    *note = now;
    size_t room = end - front - size_bytes;
    if (room != 0)
        hard_canary_put(range + front, size_bytes, size_bytes + room);
    hak_store_release(entry, kind); /* ORDER: [large-entry] the note is whole */
    return true;
}

/* heap may be short of what waits in quarantine. */
static char *large_take(size_t bytes, size_t align, bool *zero)
{
    char *range = hak_heap_large(bytes, align, zero);
    if (range == NULL && hak_hard_self->large_count != 0) {
        hak_hard_flush();
        range = hak_heap_large(bytes, align, zero);
    }
    return range;
}

void *hak_hard_large_alloc(size_t size_bytes, uint32_t how)
{
    bool zero;
    size_t align = (size_t)1 << ((how & HARD_ALIGN_MASK) >> HARD_ALIGN_SHIFT);
    bool guard_in_front = align <= HAK_PAGE_BYTES;
    if (size_bytes > HAK_HUGE_MAX)
        return hak_heap_large(size_bytes, align, &zero); /* which refuses it, and says why */
    size_t front = guard_in_front ? HAK_PAGE_BYTES : 0;
    size_t end = front + hak_round_up(hak_max(size_bytes, 1), HAK_PAGE_BYTES);
    if (guard_in_front)
        front = end - hak_round_up(hak_max(size_bytes, 1), hak_max(align, HAK_ALIGNMENT));
    char *range = guard_in_front ? large_try_kept(end + HAK_PAGE_BYTES) : NULL;
    if (range != NULL) {
        if (large_revive(range, size_bytes, front, how))
            return range + front;
        large_release(range);
    }
    range = large_take(end + HAK_PAGE_BYTES, hak_max(align, HAK_PAGE_BYTES), &zero);
    if (range == NULL)
        return NULL;
    if (!zero) /* freed blocks are, unless somebody wrote to one since */
        hak_os_purge(range, large_range_bytes(range));
    struct hak_note *note = large_note(hak_slot_of(range), large_entry(range));
    *note = (struct hak_note){.bytes = size_bytes, .front_bytes = (uint32_t)front, .how = how};
    large_seal(range, note);
    return range + front;
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

void hak_hard_large_evict(struct hard_thread *t)
{
    char *range = t->large[0];
    const struct hak_note *note =
        large_note(hak_slot_of(range), large_entry(range) & ~HAK_KIND_KEPT);
    if (note->how & HARD_ZEROED)
        large_check_zeroed(range, note);
    large_count(t, range, note, (size_t)-1);
    memmove(&t->large[0], &t->large[1], --t->large_count * sizeof t->large[0]);
    large_release(range);
}

/* What the quarantines may have in memory together. */
static size_t large_resident_most(void)
{
    struct hak_large_stats all;
    hak_large_stats(&all);
    return hak_max((all.large_bytes + all.huge_bytes) / RESIDENT_SHARE, RESIDENT_ALL_BYTES);
}

/* Makes a freed block such that nobody can use it, or at least not without being seen. False: the
 * system refuses. */
static bool large_put_away(char *range, struct hak_note *note, size_t range_bytes, size_t most)
{
    if (note->bytes > most / (KEPT_LEAST + 1)) { /* so that more than wait fit */
        if (hak_os_protect(range, range_bytes, false) != 0)
            return false;
        note->how |= HARD_SEALED;
        if (hak_os_purge(range, range_bytes) == 0)
            note->how |= HARD_PURGED;
        return true;
    }
    if (note->how & HARD_WARM) {
        hak_hard_zero_written(range + note->front_bytes, large_end(note) - note->front_bytes);
        note->how |= HARD_ZEROED;
        return true;
    }
    if (hak_os_protect(range, range_bytes, false) != 0)
        return false;
    note->how |= HARD_SEALED;
    return true;
}

static bool large_fits(const struct hard_thread *t, const struct hak_note *note, size_t range_bytes,
                       size_t most)
{
    size_t more = large_resident_bytes(note);
    return t->large_count < HARD_LARGE_KEPT &&
           t->large_bytes + range_bytes <= hak_hard.kept_most_bytes &&
           (t->large_resident_bytes + more <= RESIDENT_BYTES ||
            hak_load_relaxed(&large_kept_resident_bytes) + more <= most);
}

/* The block goes to quarantine, if it can be put away. */
static void large_keep(char *range, struct hak_note *note)
{
    struct hard_thread *t = hak_hard_self;
    size_t range_bytes = large_range_bytes(range);
    size_t most = large_resident_most();
    if (hak_load_relaxed(&t->busy))
        t = hak_hard_quarantine_slow();
    if (t == NULL || !(note->how & HARD_GUARD_BACK) || range_bytes > hak_hard.kept_most_bytes ||
        !large_put_away(range, note, range_bytes, most)) {
        large_release(range);
        return;
    }
    hak_store_relaxed(&t->busy, true);
    while (t->large_count > 0 && !large_fits(t, note, range_bytes, most))
        hak_hard_large_evict(t);
    large_count(t, range, note, 1);
    t->large[t->large_count++] = range;
    hak_store_relaxed(&t->busy, false);
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
    if (((note->how ^ claim->word) & claim->mask & ~HARD_SIZE_MASK) ||
        ((claim->mask & HARD_SIZE_MASK) && claim->size_bytes != bytes))
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
    memset(range + from, 0, large_end(note) - from);
    note->bytes = bytes;
    size_t room = large_end(note) - note->front_bytes - bytes;
    if (room != 0)
        hard_canary_put(range + note->front_bytes, bytes, bytes + room);
}

static void *large_try_resize(char *range, uint32_t entry, struct hak_note *note, size_t bytes)
{
    struct hak_note now = *note;
    now.bytes = bytes;
    if (!large_unseal(range, note))
        return NULL;
    now.how = note->how;
    char *q = hak_large_try_resize(range, entry, large_end(&now) + HAK_PAGE_BYTES);
    if (q == NULL) {
        large_seal(range, note);
        return NULL;
    }
    note = large_note(hak_slot_of(q), large_entry(q));
    *note = now;
    large_seal(q, note);
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
    if (size_bytes < HAK_SMALL_MAX || size_bytes > HAK_HUGE_MAX)
        return true;
    if (large_end(&now) == large_end(note)) {
        large_resize(range, note, size_bytes);
        *out = p;
    } else {
        *out = large_try_resize(range, entry, note, size_bytes);
    }
    return true;
}

size_t hak_hard_large_usable_bytes(const void *p, uint32_t entry)
{
    struct hak_note *note;
    return large_range(p, entry, &note) == NULL ? 0 : note->bytes;
}
