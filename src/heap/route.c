/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * heap: slow paths of malloc and free: which layer serves a request, whose block it is that comes
 * back. */
#include "heap/profile.h"
#include "space/failure.h"

#include <errno.h>
#include <string.h>

void hak_heap_can_do_without(bool can)
{
    struct hak_heap *heap = hak_heap_self_slow();
    if (heap != NULL)
        heap->can_do_without = can;
}

static _Atomic(hak_heap_relief *) route_relief;

void hak_heap_set_relief(hak_heap_relief *relief)
{
    hak_store_relaxed(&route_relief, relief);
}

/* Before a request is refused: what is free and held by somebody goes to where it can be had.
 * Without it a program at HAKMEM_LIMIT_MB that frees as much as it asks for, in blocks of other
 * sizes, is refused again and again: what it freed stays in bins. True: it may be tried once more.
 */
static HAK_COLD bool route_try_relief(void)
{
    struct hak_heap *heap = hak_heap_self_slow();
    if (!hak_heap_started() || (heap != NULL && heap->can_do_without))
        return false;
    hak_heap_relief *relief = HAK_HARDENED ? hak_load_relaxed(&route_relief) : NULL;
    if (relief != NULL) /* only the hardened library keeps anything above this layer */
        relief();
    hak_cache_relieve(heap);
    return true;
}

static void *route_relieved(void *p)
{
    if (p != NULL)
        hak_failure_avert();
    return p;
}

/* `kind` is that of the block that could not be had. */
static void *route_no_memory(size_t bytes, size_t align, unsigned kind)
{
    const struct hak_heap *heap = hak_heap_self_if_open();
    if (heap == NULL || !heap->can_do_without)
        hak_failure_record(bytes, align, kind);
    errno = ENOMEM;
    return NULL;
}

/* Where a thread places a size; with NULL, one without a heap. */
static unsigned route_class_in(const struct hak_heap *heap, size_t bytes)
{
    return heap != NULL ? hak_front_class(&heap->front, bytes) : hak_class_of(bytes);
}

static void route_tick(const struct hak_heap *heap)
{
    if (hak_cache_is_tick_due(heap))
        hak_heap_tick_any();
}

void *hak_heap_refill(struct hak_heap *heap, unsigned cls, bool *zero)
{
    void *p = hak_cache_refill(heap, cls, zero);
    route_tick(heap);
    return p;
}

static void route_overflow(struct hak_heap *heap, unsigned cls, void *p)
{
    hak_cache_overflow(heap, cls, p);
    route_tick(heap);
}

#define REMOTE_TICK_BLOCKS 64u

static void route_free_remote(struct hak_heap *heap, uint32_t entry, void *p)
{
    uint64_t sends = hak_load_relaxed(&heap->stats.remote_sends);
    hak_cache_free_remote(heap, entry, p);
    /* Threads that only free blocks of others come by here. */
    if (HAK_UNLIKELY((hak_load_relaxed(&heap->stats.remote_sends) ^ sends) >= REMOTE_TICK_BLOCKS))
        hak_heap_tick_any();
}

/* What somebody asked for, and where from. */
struct request {
    size_t bytes, align;
    uintptr_t site;
    unsigned how; /* HAK_WHOLE_WRITTEN, or 0 if it has to be zero */
};

/* --- M_PERTURB: all classes are closed to malloc's fast path, and a front that knows no slots
 * sends every free here, so that neither fast path looks at anything new --- */

_Atomic(uint8_t) hak_heap_perturb;

bool hak_heap_set_perturb(uint8_t value)
{
    if (value != 0) {
        if (HAK_HARDENED || hak_prof_is_on())
            return false;
        hak_heap_notice_fork();
        hak_heap_self_slow();
        if (!hak_heap_started())
            return false;
    }
    hak_store_relaxed(&hak_heap_perturb, value);
    uint64_t every = value != 0 ? UINT64_MAX : 0;
    if (hak_heap_started())
        hak_cache_watch(HAK_WATCHER_PERTURB, (struct hak_class_set){{every, every}});
    return true;
}

/* The heap of a thread whose frees go by the slow path as well. */
static struct hak_heap *perturb_self(void)
{
    struct hak_heap *heap = hak_heap_self_slow();
    if (heap != NULL)
        heap->front.slots = 0; /* until hak_cache_refresh */
    return heap;
}

static HAK_NOINLINE void *perturb_given(void *p, size_t bytes)
{
    uint8_t value = hak_load_relaxed(&hak_heap_perturb);
    perturb_self();
    return p != NULL && value != 0 ? memset(p, value ^ UINT8_MAX, bytes) : p;
}

/* A block of a class. */
static HAK_NOINLINE void perturb_free(void *p, uint32_t entry)
{
    uint32_t kind = entry & HAK_KIND_MASK;
    hak_block_checked_index(kind / 2, p); /* an interior pointer does not return */
    memset(p, hak_load_relaxed(&hak_heap_perturb), hak_class(kind / 2)->size_bytes);
    struct hak_heap *heap = perturb_self();
    if (heap == NULL)
        hak_cache_free_direct(kind / 2, p);
    else if ((entry ^ heap->front.tag) != kind)
        route_free_remote(heap, entry, p);
    else if (!hak_cache_push(&heap->front, kind, p))
        route_overflow(heap, kind / 2, p);
}

/* --- */

/* hak_heap_refill; where no alignment depends on the class, the block may be of a larger one. */
static void *route_take(struct hak_heap *heap, unsigned cls, const struct request *r, bool *zero)
{
    if (r->align > HAK_ALIGNMENT)
        return hak_heap_refill(heap, cls, zero);
    void *p = hak_cache_refill_or_larger(heap, cls, zero);
    route_tick(heap);
    return p;
}

/* A refill that is counted; now and then a block whose end will be seen, instead of it. */
static HAK_NOINLINE void *route_watch(struct hak_heap *heap, unsigned cls, const struct request *r,
                                      bool *zero)
{
    void *p = NULL;
    size_t bytes = hak_bin_batch(&heap->classes[cls]) * (size_t)hak_class(cls)->size_bytes;
    if (hak_sites_count_refill(heap, bytes))
        p = hak_site_try_sample(r->site, r->bytes, r->align, zero);
    return p != NULL ? p : route_take(heap, cls, r, zero);
}

/* A block of a class whose bin has none. */
static void *route_refill(struct hak_heap *heap, unsigned cls, const struct request *r, bool *zero)
{
    hak_cache_note_size(heap, cls, hak_round_up(r->bytes, r->align));
    if (HAK_UNLIKELY(hak_load_relaxed(&hak_sites_learning)) && hak_sites_is_turn_owner(heap))
        return route_watch(heap, cls, r, zero);
    return route_take(heap, cls, r, zero);
}

/* A block of a watched class: from the heap of its site's group. */
static void *route_by_site(struct hak_heap *heap, unsigned cls, const struct request *r, bool *zero)
{
    struct hak_heap *of_group = hak_cache_group_heap(heap, hak_site_group(r->site));
    if (HAK_UNLIKELY(of_group == NULL))
        of_group = heap;
    *zero = false;
    void *p = hak_cache_pop(&of_group->front, cls * 2u);
    return HAK_LIKELY(p != NULL) ? p : route_refill(of_group, cls, r, zero);
}

static void *route_small(struct hak_heap *heap, unsigned cls, const struct request *r, bool *zero)
{
    if (HAK_UNLIKELY(hak_prof_is_on())) /* groups are left alone meanwhile */
        return hak_profile_small(heap, cls, r->bytes, r->align, zero);
    if (HAK_UNLIKELY(hak_cache_is_watched(HAK_WATCHER_SITES, cls)))
        return route_by_site(heap, cls, r, zero);
    if (HAK_UNLIKELY(hak_load_relaxed(&hak_heap_perturb) != 0)) { /* malloc did not look */
        void *p = hak_cache_pop(&heap->front, cls * 2u);
        *zero = false;
        if (p != NULL)
            return p;
    }
    if (hak_cache_is_ordered(&heap->front, cls)) {
        void *p = hak_cache_take_ordered(heap, cls);
        *zero = false;
        if (p != NULL)
            return p;
    }
    return route_refill(heap, cls, r, zero);
}

static void *route_try_class(unsigned cls, const struct request *r, bool *zero)
{
    struct hak_heap *heap = hak_heap_self_slow();
    if (heap != NULL)
        return route_small(heap, cls, r, zero);
    return hak_heap_started() ? hak_cache_shared_alloc(cls, zero) : NULL;
}

static void *route_class(unsigned cls, const struct request *r, bool *zero)
{
    hak_heap_notice_fork();
    hak_profile_notice_request();
    void *p = route_try_class(cls, r, zero);
    if (HAK_UNLIKELY(p == NULL) && route_try_relief())
        p = route_relieved(route_try_class(cls, r, zero));
    return p != NULL ? p : route_no_memory(r->bytes, r->align, cls * 2);
}

/* Threads by the number of their heap share caches of runs; the hardened library has better use for
 * what was freed. */
static unsigned route_run_cache(const struct hak_heap *heap)
{
    return HAK_HARDENED || heap == NULL ? HAK_NO_RUN_CACHE : heap->front.tag >> HAK_TAG_SHIFT;
}

static void *route_large(struct hak_heap *heap, size_t bytes, size_t align, unsigned how,
                         bool *zero)
{
    if (heap != NULL) {
        hak_count_owner(&heap->stats.large_requests, 1u);
        if (hak_load_relaxed(&heap->stats.large_requests) % HAK_TICK_CALLS == 0)
            hak_heap_tick_any();
    }
    unsigned near = route_run_cache(heap);
    void *p = hak_large_alloc_near(near, bytes, align, how, zero);
    if (HAK_UNLIKELY(p == NULL) && route_try_relief())
        p = route_relieved(hak_large_alloc_near(near, bytes, align, how, zero));
    return p;
}

void *hak_heap_large(size_t bytes, size_t align, unsigned how, bool *zero)
{
    hak_heap_notice_fork();
    hak_profile_notice_request();
    void *p = NULL;
    struct hak_heap *heap = NULL;
    if (bytes > HAK_HUGE_MAX || align > HAK_HUGE_MAX)
        hak_refused(HAK_FAILURE_THRESHOLD, ENOMEM, NULL);
    else if ((heap = hak_heap_self_slow()) != NULL || hak_heap_started())
        p = route_large(heap, bytes, align, how, zero);
    if (HAK_UNLIKELY(hak_prof_is_on()) && p != NULL)
        hak_profile_large(p);
    return p != NULL ? p
                     : route_no_memory(bytes, align,
                                       bytes <= HAK_LARGE_MAX ? HAK_KIND_LARGE : HAK_KIND_HUGE);
}

static void *route_large_of(const struct request *r, bool *zero)
{
    void *p = hak_heap_large(r->bytes, r->align, r->how, zero);
    if (HAK_UNLIKELY(hak_load_relaxed(&hak_sites_learning)) && p != NULL)
        hak_site_count_large(r->site, r->bytes);
    return p;
}

static HAK_NOINLINE void *route_malloc(size_t size_bytes, uintptr_t site)
{
    bool zero;
    const struct request r = {size_bytes, 1, site, HAK_WHOLE_WRITTEN};
    if (size_bytes > HAK_SMALL_MAX)
        return route_large_of(&r, &zero);
    return route_class(route_class_in(hak_heap_self_slow(), size_bytes), &r, &zero);
}

static HAK_NOINLINE void *route_malloc_profiled(size_t size_bytes, uintptr_t site)
{
    void *p = size_bytes <= HAK_TINY_MAX    ? hak_profile_try_metered(size_bytes)
              : size_bytes <= HAK_SMALL_MAX ? hak_profile_try_counted(size_bytes)
                                            : NULL;
    return p != NULL ? p : route_malloc(size_bytes, site);
}

void *hak_heap_malloc_from(size_t size_bytes, uintptr_t site)
{
    if (HAK_UNLIKELY(hak_prof_is_on()))
        return route_malloc_profiled(size_bytes, site);
    if (HAK_UNLIKELY(hak_load_relaxed(&hak_heap_perturb) != 0))
        return perturb_given(route_malloc(size_bytes, site), size_bytes);
    return route_malloc(size_bytes, site);
}

HAK_NOINLINE void *hak_heap_malloc_slow(size_t size_bytes)
{
    return hak_heap_malloc_from(size_bytes, HAK_CALL_SITE());
}

/* Out of the bin that malloc would look into. A thread without a heap has none. */
static void *route_pop(struct hak_heap *heap, unsigned cls)
{
    return heap == NULL
               ? NULL
               : hak_cache_pop(&heap->front, hak_front_kind(&heap->front, (uint8_t)(cls * 2)));
}

/* Of a block of this length a program often writes little: to zero all of it would keep all of it
 * in memory. To ask which pages are takes a twentieth of the time of zeroing 1 MiB. */
#define SPARSE_FROM_BYTES ((size_t)1 << 20)

static void *route_zero(void *p, size_t bytes)
{
    if (bytes < SPARSE_FROM_BYTES)
        return memset(p, 0, bytes);
    hak_os_zero(p, bytes);
    return p;
}

void *hak_heap_calloc_from(size_t bytes, uintptr_t site)
{
    bool zero = false;
    void *p;
    const struct request r = {bytes, 1, site, 0};
    if (bytes > HAK_SMALL_MAX) {
        p = route_large_of(&r, &zero);
    } else {
        struct hak_heap *heap = hak_heap_self_slow();
        unsigned cls = route_class_in(heap, bytes);
        p = route_pop(heap, cls);
        if (p == NULL)
            p = route_class(cls, &r, &zero);
    }
    return p == NULL || zero ? p : route_zero(p, bytes);
}

HAK_NOINLINE void *hak_heap_calloc_slow(size_t bytes)
{
    return hak_heap_calloc_from(bytes, HAK_CALL_SITE());
}

/* cls == HAK_CLASSES: a large block. */
static HAK_NOINLINE void *route_aligned(size_t align, size_t bytes, uintptr_t site, unsigned cls)
{
    bool zero = false;
    const struct request r = {bytes + (bytes == 0), align, site, HAK_WHOLE_WRITTEN};
    void *p = cls < HAK_CLASSES ? route_class(cls, &r, &zero) : route_large_of(&r, &zero);
    return HAK_UNLIKELY(hak_load_relaxed(&hak_heap_perturb) != 0) ? perturb_given(p, bytes) : p;
}

/* Where the thread places the size, if all blocks of that class are aligned. */
static unsigned route_aligned_class(const struct hak_heap *heap, size_t align, size_t bytes)
{
    size_t size = hak_round_up(bytes + (bytes == 0), align);
    unsigned cls = route_class_in(heap, size);
    return HAK_LIKELY(hak_class_is_aligned(cls, align)) ? cls : hak_class_aligned(align, size);
}

void *hak_heap_aligned_from(size_t align_bytes, size_t size_bytes, uintptr_t site)
{
    unsigned cls = HAK_CLASSES;
    if (align_bytes <= HAK_SLOT_BYTES && size_bytes <= HAK_SLOT_BYTES) {
        struct hak_heap *heap = hak_heap_self_slow();
        cls = route_aligned_class(heap, align_bytes, size_bytes);
        void *p = route_pop(heap, cls);
        if (p != NULL)
            return p;
    }
    return route_aligned(align_bytes, size_bytes, site, cls);
}

HAK_NOINLINE void *hak_heap_aligned(size_t align_bytes, size_t size_bytes)
{
    return hak_heap_aligned_from(align_bytes, size_bytes, HAK_CALL_SITE());
}

/* A block of a class, of a thread without a heap, or whose front is out of date. */
static HAK_NOINLINE void route_free_unready(void *p, uint32_t entry)
{
    struct hak_heap *heap = hak_heap_self_slow();
    uint32_t kind = entry & HAK_KIND_MASK;
    if (heap == NULL) {
        hak_cache_free_direct(kind / 2, p);
        return;
    }
    hak_cache_refresh(heap);
    if (!hak_heap_try_free(p))
        hak_heap_free_slow(p);
}

static bool route_free_large(void *p, uint32_t entry)
{
    if (entry == HAK_KIND_LARGE &&
        HAK_UNLIKELY(hak_load_relaxed(&hak_slab_record(hak_slot_of(p))->large_sample) != 0))
        return hak_site_free_sample(p, entry);
    if (HAK_HARDENED)
        return hak_large_free(p, entry);
    uint32_t site = hak_large_note(p, entry)->how;
    size_t bytes = HAK_UNLIKELY(site != 0) ? hak_large_usable_bytes(p, entry) : 0;
    struct hak_heap *heap = hak_heap_self_if_open(); /* a free alone opens none */
    if (!hak_large_free_near(route_run_cache(heap), p, entry))
        return false;
    if (HAK_UNLIKELY(site != 0))
        hak_prof_freed(site, bytes);
    return true;
}

bool hak_heap_free_slow(void *p)
{
    uint32_t entry = hak_map_lookup(p);
    uint32_t kind = entry & HAK_KIND_MASK;
    if (HAK_UNLIKELY(entry == 0))
        return false;
    hak_heap_notice_fork();
    if (HAK_UNLIKELY(kind >= HAK_KIND_CLASSES))
        return route_free_large(p, entry);
    if (HAK_UNLIKELY(hak_load_relaxed(&hak_heap_perturb) != 0)) {
        perturb_free(p, entry);
        return true;
    }
    struct hak_front *front = hak_self;
    if (HAK_UNLIKELY(hak_slot_of(p) >= front->slots)) /* always so without a heap */
        route_free_unready(p, entry);
    else if ((entry ^ front->tag) != kind)
        route_free_remote(hak_heap_of_front(front), entry, p);
    else
        route_overflow(hak_heap_of_front(front), kind / 2, p);
    return true;
}

/* `looks`: an interior pointer of a size class does not return. */
HAK_ALWAYS_INLINE size_t route_bytes(const void *p, bool looks)
{
    uint32_t entry = hak_map_lookup(p);
    uint32_t kind = entry & HAK_KIND_MASK;
    if (entry == 0)
        return 0;
    if (kind >= HAK_KIND_CLASSES)
        return hak_large_usable_bytes(p, entry);
    if (looks)
        hak_block_checked_index(kind / 2, p);
    return hak_class(kind / 2)->size_bytes;
}

size_t hak_heap_usable_bytes(const void *p)
{
    return route_bytes(p, true);
}

/* Some programs ask at each malloc and at each free. */
size_t hak_heap_block_bytes(const void *p)
{
    return route_bytes(p, false);
}

/* A block that has to move for a little more will grow by a little again: the program appends to it
 * and does not ask for more than it needs. So it gets a quarter more than it had, or it would be
 * copied with each class that it grows through, of which there are eight a doubling; an eighth
 * above 8 KiB, where classes lie further apart, as they do below the least of these sizes. Who asks
 * for more himself grows by more at a time. */
#define GROW_FROM_BYTES 256u
#define GROW_LITTLE_SHARE 16u
#define GROW_BY_SHARE 4u
#define GROW_WIDE_FROM_BYTES ((size_t)9 << 10)
#define GROW_WIDE_BY_SHARE 8u

static size_t route_grown_bytes(size_t have, size_t bytes)
{
    size_t grown = have + have / (have < GROW_WIDE_FROM_BYTES ? GROW_BY_SHARE : GROW_WIDE_BY_SHARE);
    bool little = bytes > have && bytes - have <= have / GROW_LITTLE_SHARE;
    return !HAK_HARDENED && little && have > GROW_FROM_BYTES && grown <= HAK_SMALL_MAX ? grown
                                                                                       : bytes;
}

/* NULL is no failure to the program. */
static void *route_try_malloc(size_t bytes, uintptr_t site)
{
    int error = errno;
    hak_heap_can_do_without(true);
    void *p = hak_heap_malloc_at(bytes, site);
    hak_heap_can_do_without(false);
    if (p == NULL)
        errno = error;
    return p;
}

static void *route_grow(size_t have, size_t bytes, uintptr_t site)
{
    size_t grown = route_grown_bytes(have, bytes);
    if (grown == bytes)
        return hak_heap_malloc_at(bytes, site);
    void *q = route_try_malloc(grown, site);
    if (q == NULL)
        return hak_heap_malloc_at(bytes, site);
    if (!HAK_HARDENED && HAK_UNLIKELY(hak_prof_is_on()))
        hak_profile_kept(q, bytes);
    return q;
}

static void route_move(void *p, void *q, size_t bytes)
{
    memcpy(q, p, bytes);
    if (!hak_heap_try_free(p))
        hak_heap_free_slow(p);
}

/* NULL: it is to stay, or has to. */
static void *route_try_leave(void *p, size_t have, size_t bytes, uintptr_t site)
{
    void *q = hak_large_is_left(p, have, bytes) ? route_try_malloc(bytes, site) : NULL;
    if (q != NULL)
        route_move(p, q, bytes);
    return q;
}

void *hak_heap_realloc_from(void *p, size_t have, size_t bytes, uintptr_t site)
{
    hak_heap_notice_fork();
    if (have <= HAK_SMALL_MAX && hak_heap_stays(have, bytes)) {
        if (!HAK_HARDENED && HAK_UNLIKELY(hak_prof_is_on()))
            hak_profile_kept(p, bytes);
        return p;
    }
    if (have > HAK_SMALL_MAX && bytes > HAK_SMALL_MAX) {
        uint32_t entry = hak_map_lookup(p);
        uint32_t sampled = hak_large_note(p, entry)->how;
        void *q = route_try_leave(p, have, bytes, site);
        if (q != NULL)
            return q;
        q = hak_large_try_resize(p, entry, bytes);
        if ((sampled != 0 || HAK_UNLIKELY(hak_prof_is_on())) && !HAK_HARDENED && q != NULL)
            hak_profile_resized(p, q, sampled, have);
        if (q != NULL)
            return q;
    }
    void *q = bytes <= have ? route_try_malloc(bytes, site) : route_grow(have, bytes, site);
    if (q == NULL)
        return bytes <= have ? p : NULL; /* it has the room */
    route_move(p, q, hak_min(have, bytes));
    return q;
}

/* Of a large or huge block only the first slot is known as one. */
static bool route_is_in_large(size_t slot, const void *p)
{
    size_t end = hak_space_high_water() * HAK_SLOTS;
    while (slot > 0 && slot < end && hak_load_relaxed(hak_map_entry(slot)) == 0)
        slot--;
    uint32_t kind = hak_load_relaxed(hak_map_entry(slot)) & HAK_KIND_MASK;
    return (kind == HAK_KIND_LARGE || kind == HAK_KIND_HUGE) && hak_large_reaches(slot, kind, p);
}

const char *hak_heap_why_not(const void *p)
{
    size_t slot = hak_slot_of(p);
    if (slot >= hak_load_relaxed(&hak_space.slots))
        return "not from this allocator";
    if (route_is_in_large(slot, p))
        return "points into a large block, not at its beginning";
    return "no block is there: freed before, or never allocated";
}

size_t hak_heap_trim(void)
{
    hak_heap_notice_fork();
    struct hak_heap *heap = hak_heap_self_slow();
    if (!hak_heap_started())
        return 0;
    uint64_t unmapped = hak_pool_unmapped();
    if (heap != NULL)
        hak_cache_flush_groups(heap);
    hak_cache_collect_orphans();
    hak_large_flush_any();
    size_t bytes = (size_t)(hak_pool_unmapped() - unmapped) * HAK_SUPERSLAB_BYTES;
    bytes += hak_large_trim();
    return bytes + hak_cache_purge();
}
