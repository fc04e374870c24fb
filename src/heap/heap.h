/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * heap: entry header. Puts the layers together: routes a request by its size, a free by what the
 * map says, starts the allocator at the first call, gives threads their heaps, survives fork.
 * Called by api only. Sets errno to ENOMEM where it returns NULL; frees leave errno alone. */
#pragma once

#include "cache/cache.h"
#include "large/large.h"
#include "telemetry/prof.h"
#include "telemetry/telemetry.h"

#include <pthread.h>
#include <string.h>

/* --- fast paths --- */

/* Where the caller of the public function is: the slow paths are tail calls of those. */
#define HAK_CALL_SITE() ((uintptr_t)__builtin_return_address(0))

void *hak_heap_malloc_slow(size_t size_bytes);
void *hak_heap_malloc_from(size_t size_bytes, uintptr_t site);

/* The kind whose bin malloc looks into for this size. False: it is not a class's. */
HAK_ALWAYS_INLINE bool hak_heap_try_size(const struct hak_front *front, size_t size_bytes,
                                         uint64_t *kind)
{
    if (HAK_LIKELY(size_bytes <= HAK_TINY_MAX))
        *kind = hak_load_relaxed(&front->tiny_kind[(size_bytes + 15) / 16]);
    else if (size_bytes <= HAK_SMALL_MAX)
        *kind = hak_load_relaxed(&hak_tables.small_kind[hak_small_index(size_bytes)]);
    else
        return false;
    return true;
}

/* A block out of its bin; NULL: the slow path has to get one. */
HAK_ALWAYS_INLINE void *hak_heap_try_malloc(size_t size_bytes)
{
    struct hak_front *front = hak_self;
    uint64_t kind;
    return HAK_LIKELY(hak_heap_try_size(front, size_bytes, &kind)) ? hak_cache_pop(front, kind)
                                                                   : NULL;
}

/* The same if the newest block of the bin is so aligned, as all are where the class's size is a
 * multiple of it. align_bytes a power of two. */
HAK_ALWAYS_INLINE void *hak_heap_try_aligned(size_t align_bytes, size_t size_bytes)
{
    struct hak_front *front = hak_self;
    uint64_t kind;
    size_t rest = align_bytes - 1;
    if (HAK_UNLIKELY((align_bytes | size_bytes) > HAK_SMALL_MAX) ||
        HAK_UNLIKELY(!hak_heap_try_size(front, (size_bytes + rest) & ~rest, &kind)))
        return NULL;
    struct hak_bin *bin = hak_bin_of_kind(front, kind);
    return ((uintptr_t)*hak_load_relaxed(&bin->top) & rest) == 0 ? hak_cache_pop(front, kind)
                                                                 : NULL;
}

/* A block of any size. */
HAK_ALWAYS_INLINE void *hak_heap_malloc(size_t size_bytes)
{
    void *p = hak_heap_try_malloc(size_bytes);
    return HAK_LIKELY(p != NULL) ? p : hak_heap_malloc_slow(size_bytes);
}

/* The same for a call site that the caller knows. */
static inline void *hak_heap_malloc_at(size_t size_bytes, uintptr_t site)
{
    void *p = hak_heap_try_malloc(size_bytes);
    return HAK_LIKELY(p != NULL) ? p : hak_heap_malloc_from(size_bytes, site);
}

void *hak_heap_calloc_slow(size_t bytes);
void *hak_heap_calloc_from(size_t bytes, uintptr_t site);

/* Zeros a block for so many bytes; blocks are multiples of 16 bytes long. The C library's function
 * takes three times as many instructions for the shortest ones. */
HAK_ALWAYS_INLINE void *hak_heap_zero(char *p, size_t bytes)
{
    char *last = p + (bytes - 1) / 16 * 16;
    if (HAK_UNLIKELY(bytes == 0 || bytes > 128))
        return memset(p, 0, bytes);
    memset(p, 0, 16);
    memset(last, 0, 16);
    if (bytes > 32) {
        memset(p + 16, 0, 16);
        memset(last - 16, 0, 16);
    }
    if (bytes > 64) {
        memset(p + 32, 0, 32);
        memset(last - 48, 0, 32);
    }
    return p;
}

/* A block of any size, all zero. */
HAK_ALWAYS_INLINE void *hak_heap_calloc(size_t bytes)
{
    void *p = hak_heap_try_malloc(bytes);
    return HAK_LIKELY(p != NULL) ? hak_heap_zero(p, bytes) : hak_heap_calloc_slow(bytes);
}

/* The kind of the block that p may be: less than HAK_KIND_CLASSES for one of the thread's own
 * slabs. False: the front knows no such place; p is no block, or the front lags behind. */
HAK_ALWAYS_INLINE bool hak_heap_try_kind(const struct hak_front *front, const void *p,
                                         uint64_t *kind)
{
    size_t slot = ((uintptr_t)p - front->base) >> HAK_SLOT_SHIFT;
    if (HAK_UNLIKELY(slot >= front->slots))
        return false;
    *kind = hak_load_relaxed(&front->map[slot]) ^ front->tag;
    return true;
}

/* Puts a block of this thread's own slabs into its bin. False: anything else (NULL included),
 * nothing was done. */
HAK_ALWAYS_INLINE bool hak_heap_try_free(void *p)
{
    struct hak_front *front = hak_self;
    uint64_t kind;
    return HAK_LIKELY(hak_heap_try_kind(front, p, &kind)) && HAK_LIKELY(kind < HAK_KIND_CLASSES) &&
           hak_cache_push(front, kind, p);
}

/* A block keeps its place while it fills at least half of it. */
static inline bool hak_heap_stays(size_t have_bytes, size_t bytes)
{
    return bytes <= have_bytes && (bytes >= have_bytes / 2 || have_bytes <= 64);
}

/* p is a block of this thread's own slabs whose place is right for so many bytes too. False:
 * anything else. bytes > 0. */
HAK_ALWAYS_INLINE bool hak_heap_may_keep(const void *p, size_t bytes)
{
    uint64_t kind;
    if (HAK_UNLIKELY(!hak_heap_try_kind(hak_self, p, &kind)) ||
        HAK_UNLIKELY(kind >= HAK_KIND_CLASSES) || (!HAK_HARDENED && HAK_UNLIKELY(hak_prof_is_on())))
        return false;
    return hak_heap_stays(hak_class((unsigned)kind / 2)->size_bytes, bytes) &&
           hak_block_begins((unsigned)kind / 2, p);
}

/* --- slow paths --- */

/* hak_cache_refill, and now and then the tick. */
void *hak_heap_refill(struct hak_heap *heap, unsigned cls, bool *zero);

/* False: p is not a block of ours (it may be freed already, or never have been one); nothing was
 * done. */
bool hak_heap_free_slow(void *p);

/* Frees a block of another thread's slab, of this kind, that can wait with others. False: anything
 * else, nothing was done. */
HAK_ALWAYS_INLINE bool hak_heap_try_free_remote(struct hak_front *front, uint64_t kind, void *p)
{
    return hak_cache_try_free_remote(hak_heap_of_front(front), (uint32_t)kind ^ front->tag, p);
}
/* A large or huge block. *zero says that it reads as zero. how: HAK_WHOLE_WRITTEN or 0. */
void *hak_heap_large(size_t size_bytes, size_t align_bytes, unsigned how, bool *zero);
/* align a power of two, any size. */
void *hak_heap_aligned(size_t align_bytes, size_t size_bytes);
void *hak_heap_aligned_from(size_t align_bytes, size_t size_bytes, uintptr_t site);
/* What may be written from p on; 0 when p is not a block of ours. */
size_t hak_heap_usable_bytes(const void *p);
/* The same for a caller who is sure that a block begins at p if one is there: of a size class it
 * does not look. */
size_t hak_heap_block_bytes(const void *p);
/* p a block of ours, have_bytes is hak_heap_usable_bytes(p), bytes > 0. NULL: the block is as it
 * was, which never happens to one that is large enough. */
void *hak_heap_realloc_from(void *p, size_t have_bytes, size_t bytes, uintptr_t site);

/* From now on, or no longer, the calling thread asks for what it can do without: if that is not to
 * be had, no failure is recorded. errno is the caller's to keep. */
void hak_heap_can_do_without(bool can);

/* Called when a request is about to be refused, and then tried once more: the layer above has kept
 * what was freed. */
typedef void hak_heap_relief(void);
void hak_heap_set_relief(hak_heap_relief *relief);

/* Why p is no block that can be freed, for a message; a constant string. */
const char *hak_heap_why_not(const void *p);

/* glibc's M_PERTURB: from now on blocks are filled with the complement of `value` when they are
 * given out (calloc's are zero all the same) and small ones with `value` when they are freed; 0
 * ends that. Every call goes by the slow paths meanwhile; a thread that only frees does so from its
 * next slow path on. Any thread that holds no lock. False: not while the heap profile counts, and
 * not in the hardened library. */
bool hak_heap_set_perturb(uint8_t value);
extern HAK_HIDDEN _Atomic(uint8_t) hak_heap_perturb;

/* Returns as much as possible to the system. Returns the bytes. */
size_t hak_heap_trim(void);

/* By the destructor: looks at what the calling thread has freed last, see hak_cache_audit. */
void hak_heap_audit(hak_cache_look *look);

/* Slow paths call it now and then, with no lock held: what is done a few times a second. */
void hak_heap_tick_any(void);

/* Gives the calling thread its heap; NULL for a thread that is starting or ending, or without
 * memory. */
struct hak_heap *hak_heap_open_slow(void);

/* The calling thread's heap, if it has one. */
static inline struct hak_heap *hak_heap_self_if_open(void)
{
    struct hak_front *front = hak_self;
    return HAK_LIKELY(front != &hak_front_none && front != &hak_front_shared)
               ? hak_heap_of_front(front)
               : NULL;
}

static inline struct hak_heap *hak_heap_self_slow(void)
{
    struct hak_heap *heap = hak_heap_self_if_open();
    return HAK_LIKELY(heap != NULL) ? heap : hak_heap_open_slow();
}

bool hak_heap_started(void);

/* A key for thread data; `end` is told of the ends of threads that have set it. Never key 0, if
 * another is to be had: that is what a variable for a key names which nobody has created, and
 * setting it fails, unless somebody owns that key. False: all are taken. */
bool hak_heap_try_make_key(pthread_key_t *key, void (*end)(void *value));

/* By the constructor: where slow paths cannot see a fork by themselves (Linux before 4.14)
 * pthread_atfork is told. */
void hak_heap_prepare_for_forks(void);
/* In the child of a fork: called by the first slow path, or the handler. */
void hak_heap_fork_child(void);

/* The next slow path calls `what`, once, before it does anything else and with no lock held: what
 * it is may allocate. NULL: nothing is to be called any more. For handlers of pthread_atfork, which
 * must not do much themselves. */
typedef void hak_heap_call(void);
void hak_heap_call_from_slow_path(hak_heap_call *what);

extern HAK_HIDDEN _Atomic(_Atomic(uint32_t) *)
    hak_heap_unforked; /* points to HAK_UNFORKED, or hak_heap_notice_slow has something to do */
#define HAK_UNFORKED 1u
void hak_heap_notice_slow(void);

/* At the beginning of every slow path. */
static inline void hak_heap_notice_fork(void)
{
    /* ORDER: [unforked] what was made good in the child */
    if (HAK_UNLIKELY(hak_load_acquire(hak_load_relaxed(&hak_heap_unforked)) != HAK_UNFORKED))
        hak_heap_notice_slow();
}

/* Takes a lock of a layer above, of which there are HAK_HEAP_LOCKS at most. In the child of a fork
 * it is free, whoever held it: what it guards has to bear that it is half changed. The caller holds
 * no lock. */
#define HAK_HEAP_LOCKS 4u
void hak_heap_lock(struct hak_lock *lock);
