/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * heap: counts what is given out while profiling is on, and takes samples. See profile.h. */
#include "heap/profile.h"

#include <errno.h>

int hak_profile_start(uint64_t period_bytes)
{
    if (HAK_HARDENED)
        return ENOTSUP; /* its notes of large blocks, its canaries and quarantine know no samples */
    if (hak_load_relaxed(&hak_heap_perturb) != 0)
        return EBUSY; /* what does not go by the bins is not counted */
    hak_heap_notice_fork();
    hak_heap_self_slow();
    if (!hak_heap_started())
        return ENOMEM;
    int error = hak_prof_start(period_bytes);
    if (error == 0)
        hak_cache_set_metered(true);
    return error;
}

void hak_profile_stop(void)
{
    hak_prof_stop();
    if (hak_heap_started())
        hak_cache_set_metered(false);
}

HAK_COLD void hak_profile_answer_slow(void)
{
    uint64_t asked = hak_exchange_relaxed(&hak_root.requests[HAK_ROOT_ASK_PROFILE], 0u);
    switch (asked & ((1u << HAK_PROF_ASK_SHIFT) - 1)) {
    case HAK_PROF_ASK_START:
        if (hak_profile_start(asked >> HAK_PROF_ASK_SHIFT) != 0)
            hak_add_relaxed(&hak_prof.refused, 1u);
        break;
    case HAK_PROF_ASK_STOP:
        hak_profile_stop();
        break;
    case HAK_PROF_ASK_DUMP:
        hak_prof_write(NULL);
        break;
    default:
        break;
    }
    /* Whoever asked may have closed the tables of the fast paths, so that somebody comes by. */
    if (hak_heap_started())
        hak_cache_set_metered(hak_prof_is_on());
}

/* NULL: no memory for one; the thread is not counted then. */
static struct hak_meter *profile_meter(struct hak_heap *heap)
{
    struct hak_meter *m = hak_cache_meter(heap);
    if (m != NULL && HAK_UNLIKELY(m->random == 0))
        m->random = hak_prof_seed();
    return m;
}

/* True if a sample point lies in the next so many bytes of a class or of what has none. The
 * distance to the next one begins anew behind the block: points have no memory. */
static bool profile_hits(struct hak_meter *m, unsigned cls, size_t bytes)
{
    struct hak_metered *of = &m->of[hak_min(cls, HAK_METERED_CLASSES)];
    if (HAK_UNLIKELY(!of->begun)) {
        of->begun = true;
        of->left_bytes = hak_prof_distance(&m->random);
    }
    of->left_bytes -= (int64_t)bytes;
    if (HAK_LIKELY(of->left_bytes >= 0))
        return false;
    of->left_bytes = hak_prof_distance(&m->random);
    return true;
}

void *hak_profile_small(struct hak_heap *heap, unsigned cls, size_t size_bytes, size_t align_bytes,
                        bool *zero)
{
    struct hak_meter *m = profile_meter(heap);
    size_t size = hak_class(cls)->size_bytes;
    if (HAK_LIKELY(m != NULL) &&
        HAK_LIKELY(hak_kind_shown((uint8_t)(cls * 2)) == HAK_KIND_METERED + cls * 2)) {
        if (m->of[cls].thin >= HAK_METER_THIN_TURNS)
            hak_cache_meter_supply(heap, cls);
        void *p = hak_cache_meter_take(heap, cls);
        if (HAK_LIKELY(p != NULL))
            return p;
    }
    if (m != NULL && profile_hits(m, cls, size)) {
        void *p = hak_large_alloc_sampled(size, align_bytes, zero);
        if (p != NULL) {
            struct hak_note *note = hak_large_note(p, HAK_KIND_LARGE);
            note->bytes = size_bytes;
            note->how = hak_prof_sampled(size);
            return p;
        }
    }
    return hak_heap_refill(heap, cls, zero);
}

void hak_profile_large(const void *p)
{
    struct hak_heap *heap = hak_heap_self_slow();
    struct hak_meter *m = heap == NULL ? NULL : profile_meter(heap);
    uint32_t entry = hak_map_lookup(p);
    size_t bytes = hak_large_usable_bytes(p, entry);
    if (m != NULL && profile_hits(m, HAK_CLASSES, bytes))
        hak_large_note(p, entry)->how = hak_prof_sampled(bytes);
}

/* For the profile a block that was resized was freed and allocated again. */
void hak_profile_resized(const void *from, const void *to, uint32_t site, size_t bytes)
{
    uint32_t entry = hak_map_lookup(to);
    if (from == to && hak_large_usable_bytes(to, entry) == bytes)
        return;
    if (site != 0) {
        hak_large_note(to, entry)->how = 0;
        hak_prof_freed(site, bytes);
    }
    if (hak_prof_is_on())
        hak_profile_large(to);
}

void hak_profile_kept(const void *p, size_t asked_bytes)
{
    uint32_t entry = hak_map_lookup(p);
    if (entry == HAK_KIND_LARGE)
        hak_large_note(p, entry)->bytes = asked_bytes;
}
