/* Test support: one set of names for the allocator under test.
 *
 * A test calls my_malloc, my_free ...; they mean the plain names (the library is preloaded or
 * linked and replaces them), or with HAK_TEST_PREFIXED the names of the prefixed library, so that
 * the same source also runs where a sanitizer owns the plain names. The compiler sees nothing of
 * what it knows about malloc: no call is removed, no comparison of two blocks is decided at compile
 * time.
 *
 * Used by tests only. Never includes a private header of the library.
 * SPDX-License-Identifier: Apache-2.0 OR MIT */
#ifndef HAK_TEST_API_H
#define HAK_TEST_API_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <malloc.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#ifndef __GLIBC__ /* what the library has and this libc has not */
void *pvalloc(size_t size) __attribute__((weak));
int malloc_info(int options, FILE *file) __attribute__((weak));
void malloc_stats(void) __attribute__((weak));
int malloc_trim(size_t pad) __attribute__((weak));
int mallopt(int parameter, int value) __attribute__((weak));
#endif

#ifdef HAK_TEST_PREFIXED
#include "hakmem.h"
#define MY_API(name) hakmem_##name
#else
#define MY_API(name) name
#endif

static inline void *my_opaque(void *p)
{
    __asm__ volatile("" : "+r"(p));
    return p;
}

static inline size_t my_opaque_size(size_t size)
{
    __asm__ volatile("" : "+r"(size));
    return size;
}

static inline void *my_malloc(size_t size)
{
    return my_opaque(MY_API(malloc)(my_opaque_size(size)));
}

static inline void *my_calloc(size_t count, size_t size)
{
    return my_opaque(MY_API(calloc)(my_opaque_size(count), my_opaque_size(size)));
}

static inline void *my_realloc(void *p, size_t size)
{
    return my_opaque(MY_API(realloc)(my_opaque(p), my_opaque_size(size)));
}

static inline void *my_reallocarray(void *p, size_t count, size_t size)
{
    return my_opaque(
        MY_API(reallocarray)(my_opaque(p), my_opaque_size(count), my_opaque_size(size)));
}

static inline void my_free(void *p)
{
    MY_API(free)(my_opaque(p));
}

static inline void *my_aligned_alloc(size_t align, size_t size)
{
    return my_opaque(MY_API(aligned_alloc)(my_opaque_size(align), my_opaque_size(size)));
}

static inline void *my_memalign(size_t align, size_t size)
{
    return my_opaque(MY_API(memalign)(my_opaque_size(align), my_opaque_size(size)));
}

static inline int my_posix_memalign(void **out, size_t align, size_t size)
{
    return MY_API(posix_memalign)((void **)my_opaque(out), my_opaque_size(align),
                                  my_opaque_size(size));
}

static inline void *my_valloc(size_t size)
{
    return my_opaque(MY_API(valloc)(my_opaque_size(size)));
}

static inline void *my_pvalloc(size_t size)
{
    return my_opaque(MY_API(pvalloc)(my_opaque_size(size)));
}

static inline size_t my_malloc_usable_size(void *p)
{
    return my_opaque_size(MY_API(malloc_usable_size)(my_opaque(p)));
}

#ifdef __GLIBC__
static inline struct mallinfo2 my_mallinfo2(void)
{
    return MY_API(mallinfo2)();
}
#else
int hakmem_ctl(const char *name, uint64_t *value, const uint64_t *new_value) __attribute__((weak));
#endif

/* In use by malloc's own account, small blocks and mappings together. */
static inline size_t my_bytes_in_use(void)
{
#ifdef __GLIBC__
    struct mallinfo2 info = my_mallinfo2();
    return info.uordblks + info.hblkhd;
#else
    uint64_t bytes = 0;
    return hakmem_ctl("live.bytes", &bytes, NULL) == 0 ? (size_t)bytes : 0;
#endif
}

static inline int my_malloc_info(int options, FILE *file)
{
    return MY_API(malloc_info)(options, file);
}

static inline void my_malloc_stats(void)
{
    MY_API(malloc_stats)();
}

static inline int my_malloc_trim(size_t pad)
{
    return MY_API(malloc_trim)(pad);
}

static inline int my_mallopt(int parameter, int value)
{
    return MY_API(mallopt)(parameter, value);
}

/* In C23, but not in glibc before 2.43; cfree has left its headers. They are looked up, so that the
 * tests build and start with any allocator. NULL: it has none. */
typedef void my_free_sized_fn(void *p, size_t size);
typedef void my_free_aligned_sized_fn(void *p, size_t align, size_t size);
typedef void my_cfree_fn(void *p);

#ifdef HAK_TEST_PREFIXED

static inline my_free_sized_fn *my_find_free_sized(void)
{
    return hakmem_free_sized;
}

static inline my_free_aligned_sized_fn *my_find_free_aligned_sized(void)
{
    return hakmem_free_aligned_sized;
}

static inline my_cfree_fn *my_find_cfree(void)
{
    return hakmem_cfree;
}

#else

static inline my_free_sized_fn *my_find_free_sized(void)
{
    return (my_free_sized_fn *)dlsym(RTLD_DEFAULT, "free_sized");
}

static inline my_free_aligned_sized_fn *my_find_free_aligned_sized(void)
{
    return (my_free_aligned_sized_fn *)dlsym(RTLD_DEFAULT, "free_aligned_sized");
}

static inline my_cfree_fn *my_find_cfree(void)
{
    void *found = dlsym(RTLD_DEFAULT, "cfree");
#ifdef __GLIBC__ /* it has it for old programs, under an old version */
    if (!found)
        found = dlvsym(RTLD_DEFAULT, "cfree", "GLIBC_2.2.5");
#endif
    return (my_cfree_fn *)found;
}

#endif

/* True if the program really talks to hakmem (linked, preloaded or prefixed). */
static inline int my_api_is_hakmem(void)
{
#ifdef HAK_TEST_PREFIXED
    return 1;
#else
    Dl_info version, alloc;
    void *symbol = dlsym(RTLD_DEFAULT, "hakmem_version");
    if (!symbol || !dladdr(symbol, &version))
        return 0;
    symbol = dlsym(RTLD_DEFAULT, "malloc");
    return symbol && dladdr(symbol, &alloc) && version.dli_fbase == alloc.dli_fbase;
#endif
}

#endif
