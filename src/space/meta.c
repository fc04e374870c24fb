/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * space: memory for heaps and bins. Powers of two from 64 bytes, kept in lists when freed, carved
 * from chunks of their own, far from the window: a program that runs over the end of a block does
 * not meet them. See space.h. */
#include "space/space_internal.h"

#define META_SMALLEST_SHIFT 6
#define META_CHUNK_BYTES ((size_t)64 << 10) /* at least */
#define META_CHUNK_SHARE 2u

struct hak_meta_state hak_meta;

static unsigned meta_list_of(size_t bytes)
{
    unsigned shift = hak_log2_ceil(bytes);
    return shift < META_SMALLEST_SHIFT ? 0 : shift - META_SMALLEST_SHIFT;
}

/* What may lie between two chunks that were mapped one after the other. */
#define META_GAP_BYTES (HAK_HARDENED ? 2 * HAK_PAGE_BYTES : 0)

/* Below the range that was noted before, as the system usually places it, or above, or a new one.
 */
static void meta_note_range_locked(uintptr_t at, size_t bytes)
{
    struct hak_meta_range *r = hak_meta.ranges;
    struct hak_meta_range *last = &hak_meta.ranges[HAK_META_RANGES - 1];
    uintptr_t end = at + bytes;
    for (; r < last && r->bytes != 0; r++) {
        if (r->at >= end && r->at - end <= META_GAP_BYTES) {
            r->bytes += r->at - at;
            r->at = at;
            return;
        }
        if (at >= r->at + r->bytes && at - (r->at + r->bytes) <= META_GAP_BYTES) {
            r->bytes = end - r->at;
            return;
        }
    }
    r->at = r == last ? 0 : at;
    r->bytes += bytes;
}

/* A share of what there is, so that chunks with something between them, the stacks of threads
 * mostly, are few enough to be noted: 32 of one size were used up by 260 threads. What is not used
 * of a chunk is not in memory. */
static size_t meta_chunk_bytes_locked(void)
{
    size_t bytes = 0;
    for (unsigned i = 0; i < HAK_META_RANGES; i++)
        bytes += hak_meta.ranges[i].bytes;
    return hak_max(hak_round_down(bytes / META_CHUNK_SHARE, META_CHUNK_BYTES), META_CHUNK_BYTES);
}

static int meta_map(size_t bytes, void **fresh)
{
    return HAK_HARDENED ? hak_os_map_guarded(bytes, fresh) : hak_os_map(bytes, fresh);
}

/* What is a page or more begins at one: then pages of it that are never used stay untouched. */
static void *meta_carve_locked(size_t bytes)
{
    size_t skip = bytes < HAK_PAGE_BYTES ? 0 : -(uintptr_t)hak_meta.chunk % HAK_PAGE_BYTES;
    skip = hak_min(skip, hak_meta.chunk_left_bytes);
    hak_meta.chunk += skip;
    hak_meta.chunk_left_bytes -= skip;
    if (hak_meta.chunk_left_bytes < bytes) {
        void *fresh;
        size_t chunk_bytes = hak_max(meta_chunk_bytes_locked(), bytes);
        int error = meta_map(chunk_bytes, &fresh);
        if (error != 0 && chunk_bytes > hak_max(META_CHUNK_BYTES, bytes)) {
            chunk_bytes = hak_max(META_CHUNK_BYTES, bytes);
            error = meta_map(chunk_bytes, &fresh);
        }
        if (error != 0) {
            hak_refused(HAK_FAILURE_MAP, error, "records");
            return NULL;
        }
        meta_note_range_locked((uintptr_t)fresh, chunk_bytes);
        hak_meta.chunk =
            fresh; /* what was left of the old one is given up: less than one request */
        hak_meta.chunk_left_bytes = chunk_bytes;
    }
    void *p = hak_meta.chunk;
    hak_meta.chunk += bytes;
    hak_meta.chunk_left_bytes -= bytes;
    return p;
}

void *hak_meta_alloc(size_t bytes)
{
    bool fresh;
    return hak_meta_alloc_or_fresh(bytes, &fresh);
}

void *hak_meta_alloc_or_fresh(size_t bytes, bool *fresh)
{
    unsigned list = meta_list_of(bytes);
    if (list >= HAK_META_LISTS)
        return NULL;
    hak_lock(&hak_meta.lock);
    struct hak_meta_free *p = hak_meta.lists[list];
    *fresh = p == NULL;
    if (p != NULL)
        hak_meta.lists[list] = p->next;
    else
        p = meta_carve_locked((size_t)1 << (list + META_SMALLEST_SHIFT));
    hak_unlock(&hak_meta.lock);
    return p;
}

void hak_meta_free(void *p, size_t bytes)
{
    hak_meta_free_chain(p, p, bytes);
}

struct hak_meta_free *hak_meta_alloc_chain(size_t bytes, unsigned most)
{
    unsigned list = meta_list_of(bytes);
    hak_lock(&hak_meta.lock);
    struct hak_meta_free *first = hak_meta.lists[list];
    struct hak_meta_free *last = first;
    for (unsigned i = 1; last != NULL && last->next != NULL && i < most; i++)
        last = last->next;
    if (first != NULL)
        hak_meta.lists[list] = last->next;
    else
        first = last = meta_carve_locked((size_t)1 << (list + META_SMALLEST_SHIFT));
    hak_unlock(&hak_meta.lock);
    if (last != NULL)
        last->next = NULL;
    return first;
}

void hak_meta_free_chain(struct hak_meta_free *first, struct hak_meta_free *last, size_t bytes)
{
    unsigned list = meta_list_of(bytes);
    hak_lock(&hak_meta.lock);
    last->next = hak_meta.lists[list];
    hak_meta.lists[list] = first;
    hak_unlock(&hak_meta.lock);
}

void hak_meta_add_lock_counts(struct hak_lock_counts *sum)
{
    hak_lock_add_counts(&hak_meta.lock, sum);
}

void hak_meta_fork_child(void)
{
    if (hak_lock_recover(&hak_meta.lock))
        hak_meta.chunk_left_bytes = 0; /* another thread may have been carving from it */
}
