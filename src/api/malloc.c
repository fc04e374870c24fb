/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * api: the malloc family. Arguments are checked here as glibc, POSIX and C define them; everything
 * else is the heap layer's. stdlib.h is not included on purpose: its attributes for malloc would
 * clash with the aliases. */
#include "api/api_internal.h"
#include "api/blocks.h"

#include <errno.h>

void *hakmem_malloc(size_t size);
void *hakmem_calloc(size_t count, size_t size);
void *hakmem_realloc(void *p, size_t size);
void *hakmem_reallocarray(void *p, size_t count, size_t size);
void hakmem_free(void *p);
void hakmem_free_sized(void *p, size_t size);
void hakmem_free_aligned_sized(void *p, size_t alignment, size_t size);
void hakmem_cfree(void *p);
void *hakmem_aligned_alloc(size_t alignment, size_t size);
void *hakmem_memalign(size_t alignment, size_t size);
int hakmem_posix_memalign(void **out, size_t alignment, size_t size);
void *hakmem_valloc(size_t size);
void *hakmem_pvalloc(size_t size);
size_t hakmem_malloc_usable_size(void *p);

static void *malloc_refuse(int error)
{
    errno = error;
    return NULL;
}

/* More bytes than a size_t counts, or more than a difference of pointers. */
static void *malloc_refuse_size(size_t bytes)
{
    hak_refused(HAK_FAILURE_THRESHOLD, ENOMEM, NULL);
    hak_failure_record(bytes, 1, HAK_KIND_HUGE);
    return malloc_refuse(ENOMEM);
}

HAK_FAST HAK_PUBLIC void *hakmem_malloc(size_t size)
{
    return api_malloc(size);
}

/* What operator new of the shared library is but for its end, `failed`, which calls the handler and
 * throws through here: a tail call, so that the call site is the program's. */
HAK_HIDDEN void *hak_operator_new(size_t size, void *(*failed)(size_t size));

static HAK_NOINLINE void *malloc_operator_slow(size_t size, void *(*failed)(size_t size))
{
    void *p = hak_heap_malloc_from(size, HAK_CALL_SITE());
    return p != NULL ? p : failed(size);
}

HAK_FAST void *hak_operator_new(size_t size, void *(*failed)(size_t size))
{
    void *p = hak_heap_try_malloc(size);
    return HAK_LIKELY(p != NULL) ? p : malloc_operator_slow(size, failed);
}

static HAK_NOINLINE void malloc_free_slow(void *p)
{
    if (p != NULL && HAK_UNLIKELY(!hak_heap_free_slow(p)))
        hak_foreign_free(p);
}

/* Takes over what free has found out already, and calls nothing but at its end: for a thread that
 * frees what others allocate this is the fast path. */
static HAK_NOINLINE void malloc_free_remote(void *p, struct hak_front *front, uint64_t kind)
{
    if (HAK_UNLIKELY(!hak_heap_try_free_remote(front, kind, p)))
        malloc_free_slow(p);
}

HAK_FAST HAK_PUBLIC void hakmem_free(void *p)
{
    struct hak_front *front = hak_self;
    uint64_t kind = 0;
    if (HAK_HARDENED) {
        hak_hard_free(p, hak_foreign_free);
        return;
    }
    bool known = hak_heap_try_kind(front, p, &kind);
    if (HAK_UNLIKELY(known && kind >= HAK_KIND_CLASSES))
        malloc_free_remote(p, front, kind);
    else if (HAK_UNLIKELY(!known || !hak_cache_push(front, kind, p)))
        malloc_free_slow(p);
}

HAK_FAST HAK_PUBLIC void *hakmem_calloc(size_t count, size_t size)
{
    size_t bytes;
    if (HAK_UNLIKELY(__builtin_mul_overflow(count, size, &bytes)))
        return malloc_refuse_size(SIZE_MAX);
    return api_calloc(bytes);
}

void *hak_api_calloc(size_t count, size_t size, uintptr_t site)
{
    size_t bytes;
    if (HAK_UNLIKELY(__builtin_mul_overflow(count, size, &bytes)))
        return malloc_refuse_size(SIZE_MAX);
    return api_calloc_at(bytes, site);
}

static HAK_NOINLINE void *malloc_realloc_slow(void *p, size_t size, uintptr_t site)
{
    if (size == 0) {
        hakmem_free(p);
        return NULL;
    }
    void *q;
    if (HAK_UNLIKELY(!api_realloc_at(p, size, site, &q)))
        hak_foreign_die("invalid realloc of ", p);
    return q;
}

/* What needs no more than malloc does, and what stays where it is, takes no frame. */
void *hak_api_realloc(void *p, size_t size, uintptr_t site)
{
    if (p == NULL)
        return api_malloc_at(size, site);
    if (!HAK_HARDENED && HAK_LIKELY(size != 0) && hak_heap_may_keep(p, size))
        return p;
    return malloc_realloc_slow(p, size, site);
}

HAK_NOINLINE HAK_PUBLIC void *hakmem_realloc(void *p, size_t size)
{
    return hak_api_realloc(p, size, HAK_CALL_SITE());
}

void *hak_api_reallocarray(void *p, size_t count, size_t size, uintptr_t site)
{
    size_t bytes;
    if (HAK_UNLIKELY(__builtin_mul_overflow(count, size, &bytes)))
        return malloc_refuse_size(SIZE_MAX);
    return hak_api_realloc(p, bytes, site);
}

/* A tail call, so that the call site is the program's. To the whole function, in whose place
 * valgrind puts its own; it knows no reallocarray. */
HAK_PUBLIC void *hakmem_reallocarray(void *p, size_t count, size_t size)
{
    size_t bytes;
    if (HAK_UNLIKELY(__builtin_mul_overflow(count, size, &bytes)))
        return malloc_refuse_size(SIZE_MAX);
    return hakmem_realloc(p, bytes);
}

/* What reallocarray is. As in glibc it calls the realloc that the program finds: who has malloc,
 * calloc, realloc and free of its own, or another library before this one, need not have it. */
HAK_HIDDEN void *hak_found_reallocarray(void *p, size_t count, size_t size);
HAK_PUBLIC void *malloc_found_realloc(void *p, size_t size) HAK_FOUND(realloc, hakmem_realloc);

void *hak_found_reallocarray(void *p, size_t count, size_t size)
{
    size_t bytes;
    if (HAK_UNLIKELY(__builtin_mul_overflow(count, size, &bytes)))
        return malloc_refuse_size(SIZE_MAX);
    return malloc_found_realloc(p, bytes);
}

/* Frees that say more of their block; the hardened library checks that it is true. */
HAK_PUBLIC void hakmem_free_sized(void *p, size_t size)
{
    if (HAK_HARDENED)
        hak_hard_free_claimed(p, &(struct hak_claim){.sized = true, .size_bytes = size},
                              hak_foreign_free);
    else
        hakmem_free(p);
}

HAK_PUBLIC void hakmem_free_aligned_sized(void *p, size_t alignment, size_t size)
{
    if (HAK_HARDENED)
        hak_hard_free_claimed(
            p,
            &(struct hak_claim){
                .sized = true, .size_bytes = size, .aligned = true, .align_bytes = alignment},
            hak_foreign_free);
    else
        hakmem_free(p);
}

HAK_PUBLIC void hakmem_cfree(void *p)
{
    hakmem_free(p);
}

void *hak_api_memalign(size_t alignment, size_t size, uintptr_t site)
{
    if (!HAK_HARDENED && alignment <= HAK_ALIGNMENT)
        return api_malloc_at(size, site);
    if (alignment > SIZE_MAX / 2 + 1)
        return malloc_refuse(EINVAL);
    return api_aligned_at((size_t)1 << hak_log2_ceil(alignment), size, site);
}

HAK_PUBLIC void *hakmem_memalign(size_t alignment, size_t size)
{
    return hak_api_memalign(alignment, size, HAK_CALL_SITE());
}

HAK_PUBLIC void *hakmem_aligned_alloc(size_t alignment, size_t size)
{
    return hak_api_memalign(alignment, size, HAK_CALL_SITE());
}

int hak_api_posix_memalign(void **out, size_t alignment, size_t size, uintptr_t site)
{
    if (!hak_is_pow2(alignment) || alignment < sizeof(void *))
        return EINVAL;
    void *p = hak_api_memalign(alignment, size, site);
    if (p == NULL)
        return ENOMEM; /* errno says so, too: POSIX leaves it open, and with glibc it does */
    *out = p;
    return 0;
}

HAK_PUBLIC int hakmem_posix_memalign(void **out, size_t alignment, size_t size)
{
    return hak_api_posix_memalign(out, alignment, size, HAK_CALL_SITE());
}

HAK_PUBLIC void *hakmem_valloc(size_t size)
{
    return api_aligned_at(hak_os_page_bytes(), size, HAK_CALL_SITE());
}

void *hak_api_pvalloc(size_t size, uintptr_t site)
{
    if (size > PTRDIFF_MAX)
        return malloc_refuse_size(size);
    size_t page_bytes = hak_os_page_bytes();
    return api_aligned_at(page_bytes, hak_round_up(size + (size == 0), page_bytes), site);
}

HAK_PUBLIC void *hakmem_pvalloc(size_t size)
{
    return hak_api_pvalloc(size, HAK_CALL_SITE());
}

HAK_PUBLIC size_t hakmem_malloc_usable_size(void *p)
{
    return p == NULL ? 0 : api_usable_bytes(p);
}

HAK_ALSO(void *, malloc, (size_t), hakmem_malloc)
HAK_ALSO(void, free, (void *), hakmem_free)
HAK_ALSO(void *, calloc, (size_t, size_t), hakmem_calloc)
HAK_ALSO(void *, realloc, (void *, size_t), hakmem_realloc)
HAK_ALSO(void *, reallocarray, (void *, size_t, size_t), hak_found_reallocarray)
HAK_ALSO(void, free_sized, (void *, size_t), hakmem_free_sized)
HAK_ALSO(void, free_aligned_sized, (void *, size_t, size_t), hakmem_free_aligned_sized)
HAK_ALSO(void, cfree, (void *), hakmem_cfree)
HAK_ALSO(void *, aligned_alloc, (size_t, size_t), hakmem_aligned_alloc)
HAK_ALSO(void *, memalign, (size_t, size_t), hakmem_memalign)
HAK_ALSO(int, posix_memalign, (void **, size_t, size_t), hakmem_posix_memalign)
HAK_ALSO(void *, valloc, (size_t), hakmem_valloc)
HAK_ALSO(void *, pvalloc, (size_t), hakmem_pvalloc)
HAK_ALSO(size_t, malloc_usable_size, (void *), hakmem_malloc_usable_size)

/* glibc's names for the same; old programs and some libraries call them. */
HAK_ALSO(void *, __libc_malloc, (size_t), hakmem_malloc)
HAK_ALSO(void, __libc_free, (void *), hakmem_free)
HAK_ALSO(void, __libc_cfree, (void *), hakmem_cfree)
HAK_ALSO(void *, __libc_calloc, (size_t, size_t), hakmem_calloc)
HAK_ALSO(void *, __libc_realloc, (void *, size_t), hakmem_realloc)
HAK_ALSO(void *, __libc_reallocarray, (void *, size_t, size_t), hakmem_reallocarray)
HAK_ALSO(void *, __libc_memalign, (size_t, size_t), hakmem_memalign)
HAK_ALSO(void *, __libc_valloc, (size_t), hakmem_valloc)
HAK_ALSO(void *, __libc_pvalloc, (size_t), hakmem_pvalloc)
HAK_ALSO(int, __posix_memalign, (void **, size_t, size_t), hakmem_posix_memalign)
