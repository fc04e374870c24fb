/* Conformance, start and end: a library that wraps malloc the way tracers do: each function looks
 * up the next one with dlsym on its first call, and meanwhile dlsym itself may allocate.
 *
 * Preloaded before the allocator by startend.c.
 * SPDX-License-Identifier: Apache-2.0 OR MIT */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <stddef.h>
#include <unistd.h>

static void (*volatile next_free)(void *);

/* A name that nobody has: glibc then allocates the text for dlerror, through our calloc and malloc.
 * The next dlsym frees that text, so free must be known before. */
static void *look_up(const char *name)
{
    if (!next_free)
        next_free = (void (*)(void *))dlsym(RTLD_NEXT, "free");
    dlsym(RTLD_NEXT, "there_is_no_such_function");
    dlerror();
    void *found = dlsym(RTLD_NEXT, name);
    if (!found)
        _exit(5);
    return found;
}

/* volatile: the headers promise that dlsym never calls back into this file, and here it does. */
static __thread volatile int busy;

/* While a look-up is running, what it needs comes from the next definition without a second one. */
#define NEXT(name)                                                                                 \
    static __typeof__(&name) volatile next;                                                        \
    if (!next && busy)                                                                             \
        next = (__typeof__(&name))dlsym(RTLD_NEXT, #name);                                         \
    if (!next) {                                                                                   \
        busy++;                                                                                    \
        next = (__typeof__(&name))look_up(#name);                                                  \
        busy--;                                                                                    \
    }

void *malloc(size_t size);
void *calloc(size_t count, size_t size);
void *realloc(void *p, size_t size);
void free(void *p);
void *aligned_alloc(size_t align, size_t size);

void *malloc(size_t size)
{
    NEXT(malloc)
    return next(size);
}

void *calloc(size_t count, size_t size)
{
    NEXT(calloc)
    return next(count, size);
}

void *realloc(void *p, size_t size)
{
    NEXT(realloc)
    return next(p, size);
}

void free(void *p)
{
    if (!next_free)
        look_up("free");
    next_free(p);
}

void *aligned_alloc(size_t align, size_t size)
{
    NEXT(aligned_alloc)
    return next(align, size);
}

/* Says that it was really in between. */
__attribute__((destructor)) static void wrapper_end(void)
{
    ssize_t n = write(STDOUT_FILENO, "wrapped\n", 8);
    (void)n;
}
