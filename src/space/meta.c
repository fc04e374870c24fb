/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * space: memory for heaps and bins. Powers of two from 64 bytes, kept in lists when freed, carved
 * from chunks of their own, far from the window: a program that runs over the end of a block does
 * not meet them. See space.h. */
#include "space/failure.h"

#define META_SMALLEST_SHIFT 6
#define META_LISTS 24
#define META_CHUNK_BYTES ((size_t)64 << 10)

struct meta_free {
    struct meta_free *next;
};

static struct {
    struct hak_lock lock;
    struct meta_free *lists[META_LISTS];
    char *chunk;
    size_t chunk_left_bytes;
} meta;

static unsigned meta_list_of(size_t bytes)
{
    unsigned shift = hak_log2_ceil(bytes);
    return shift < META_SMALLEST_SHIFT ? 0 : shift - META_SMALLEST_SHIFT;
}

static void *meta_carve_locked(size_t bytes)
{
    if (meta.chunk_left_bytes < bytes) {
        void *fresh;
        size_t chunk_bytes = hak_max(META_CHUNK_BYTES, bytes);
        int error = HAK_HARDENED ? hak_os_map_guarded(chunk_bytes, &fresh)
                                 : hak_os_map(chunk_bytes, &fresh);
        if (error != 0) {
            hak_refused(HAK_FAILURE_MAP, error, "records");
            return NULL;
        }
        meta.chunk = fresh; /* what was left of the old one is given up: less than one request */
        meta.chunk_left_bytes = chunk_bytes;
    }
    void *p = meta.chunk;
    meta.chunk += bytes;
    meta.chunk_left_bytes -= bytes;
    return p;
}

void *hak_meta_alloc(size_t bytes)
{
    unsigned list = meta_list_of(bytes);
    if (list >= META_LISTS)
        return NULL;
    hak_lock(&meta.lock);
    struct meta_free *p = meta.lists[list];
    if (p != NULL)
        meta.lists[list] = p->next;
    else
        p = meta_carve_locked((size_t)1 << (list + META_SMALLEST_SHIFT));
    hak_unlock(&meta.lock);
    return p;
}

void hak_meta_free(void *p, size_t bytes)
{
    struct meta_free *f = p;
    unsigned list = meta_list_of(bytes);
    hak_lock(&meta.lock);
    f->next = meta.lists[list];
    meta.lists[list] = f;
    hak_unlock(&meta.lock);
}

void hak_meta_add_lock_counts(struct hak_lock_counts *sum)
{
    hak_lock_add_counts(&meta.lock, sum);
}

void hak_meta_fork_child(void)
{
    if (hak_lock_recover(&meta.lock))
        meta.chunk_left_bytes = 0; /* another thread may have been carving from it */
}
