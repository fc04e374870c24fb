/* Conformance, the tests' own test: libc's allocator with one defect, chosen by the variable
 * MUTANT. Each test program must pass without a defect and notice the one made for it
 * (check-tests.sh).
 *
 * Preloaded in place of hakmem. Never installed.
 * SPDX-License-Identifier: Apache-2.0 OR MIT */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

extern void *__libc_malloc(size_t size);
extern void __libc_free(void *p);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *p, size_t size);
extern void *__libc_memalign(size_t align, size_t size);
extern void *__libc_pvalloc(size_t size);

/* The chosen defect. The loader allocates before there is an environment: ask again later. */
static int is(const char *name)
{
    static const char *chosen;
    if (!chosen && environ)
        chosen = getenv("MUTANT") ? getenv("MUTANT") : "none";
    return chosen && strcmp(chosen, name) == 0;
}

/* Every so many calls. */
static int now_and_then(unsigned n)
{
    static _Atomic unsigned calls;
    return calls++ % n == n - 1;
}

static int at_exit_of_program;

/* Lies inside the block that was given by the call before. */
static void *overlapping(void)
{
    static _Atomic(char *) previous;
    char *inside = previous;
    char *p = __libc_malloc(8192);
    previous = p ? p + 2048 : NULL;
    return inside ? inside : p;
}

/* A lock that nobody takes care of when the process forks. */
static void stay_in_lock(void)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&lock);
    if (now_and_then(100))
        usleep(100);
    pthread_mutex_unlock(&lock);
}

void *malloc(size_t size)
{
    static void *_Atomic shared;
    if (is("malloc0-null") && size == 0)
        return NULL;
    if (is("malloc0-shared") && size == 0)
        return shared ? shared : (shared = __libc_malloc(0));
    if (is("late-null") && at_exit_of_program)
        return NULL;
    if (is("overlap") && size > 64 && size < 4000 && now_and_then(500))
        return overlapping();
    if (is("fork-lock"))
        stay_in_lock();
    void *p = __libc_malloc(is("align8") && size > 8 ? size + 16 : size);
    if (!p && is("no-errno"))
        errno = 0;
    if (p && is("align8") && size > 8 && size < 1000)
        return (char *)p + 8;
    return p;
}

void free(void *p)
{
    if (is("align8") && (uintptr_t)p % 16)
        p = (char *)p - 8;
    if (is("malloc0-shared") && p && malloc_usable_size(p) == 24)
        return;
    if (is("overlap")) /* what overlaps cannot be freed */
        return;
    if (is("free-errno"))
        errno = EINVAL;
    if (is("free-lost") && p && malloc_usable_size(p) < 5000)
        return;
    __libc_free(p);
    if (is("free-errno"))
        errno = EINVAL;
}

void *calloc(size_t count, size_t size)
{
    if (is("calloc-overflow"))
        return __libc_malloc(count * size);
    if (is("calloc-dirty")) {
        char *p = __libc_malloc(count * size);
        if (p && count * size >= 1000 && now_and_then(50))
            p[count * size - 1] = 1;
        else if (p)
            memset(p, 0, count * size);
        return p;
    }
    return __libc_calloc(count, size);
}

void *realloc(void *p, size_t size)
{
    if (is("realloc0-block") && p && size == 0)
        return __libc_realloc(p, 1);
    if (is("realloc-frees") && size > PTRDIFF_MAX) {
        __libc_free(p);
        errno = ENOMEM;
        return NULL;
    }
    if (is("realloc-loses") && p && size > 5000) {
        size_t old = malloc_usable_size(p);
        char *q = __libc_malloc(size);
        if (q)
            memcpy(q, p, old < 4096 ? old : size < old ? size - 16 : old - 16);
        __libc_free(p);
        return q;
    }
    return __libc_realloc(p, size);
}

void *memalign(size_t align, size_t size)
{
    return __libc_memalign(is("memalign-small") && align > 4096 ? 4096 : align, size);
}

void *aligned_alloc(size_t align, size_t size)
{
    if (is("aligned-odd") && (align & (align - 1)))
        return errno = EINVAL, NULL;
    return __libc_memalign(align, size);
}

int posix_memalign(void **out, size_t align, size_t size)
{
    if (is("posix-null"))
        *out = NULL;
    if (!is("posix-any") && (align < sizeof(void *) || (align & (align - 1))))
        return EINVAL;
    void *p = __libc_memalign(align, size);
    if (!p)
        return ENOMEM;
    *out = p;
    return 0;
}

void *pvalloc(size_t size)
{
    return is("pvalloc-short") ? __libc_memalign(4096, size) : __libc_pvalloc(size);
}

size_t malloc_usable_size(void *p)
{
    static size_t (*next)(void *);
    if (!next)
        next = (size_t (*)(void *))dlsym(RTLD_NEXT, "malloc_usable_size");
    size_t usable = p ? next(p) : 0;
    if (is("usable-more") && usable > 100 && usable < 1000)
        return usable + 16;
    if (is("usable-unstable") && usable > 100 && now_and_then(100))
        return usable - 16;
    return usable;
}

struct mallinfo2 mallinfo2(void)
{
    static struct mallinfo2 (*next)(void);
    if (!next)
        next = (struct mallinfo2(*)(void))dlsym(RTLD_NEXT, "mallinfo2");
    return is("mallinfo-zero") ? (struct mallinfo2){0} : next();
}

int malloc_info(int options, FILE *file)
{
    if (options)
        return EINVAL;
    fputs(is("info-xml") ? "<malloc version=\"1\"><heap></malloc>"
                         : "<malloc version=\"1\"><x size=\"99999999\"/></malloc>\n",
          file);
    return 0;
}

void malloc_stats(void)
{
    ssize_t n = write(is("stats-stdout") ? 1 : 2, "in use bytes     =      1\n", 26);
    (void)n;
}

int malloc_trim(size_t pad)
{
    static int (*next)(size_t);
    if (!next)
        next = (int (*)(size_t))dlsym(RTLD_NEXT, "malloc_trim");
    return is("trim-nothing") ? 1 : next(pad);
}

int mallopt(int parameter, int value)
{
    static int (*next)(int, int);
    if (!next)
        next = (int (*)(int, int))dlsym(RTLD_NEXT, "mallopt");
    return is("mallopt-zero") ? 0 : next(parameter, value);
}

void *reallocarray(void *p, size_t count, size_t size)
{
    size_t bytes = count * size;
    if (!is("reallocarray-overflow") && size && bytes / size != count)
        return errno = ENOMEM, NULL;
    return realloc(p, bytes);
}

void *valloc(size_t size)
{
    return __libc_memalign(is("valloc-16") ? 16 : 4096, size);
}

__attribute__((constructor)) static void mutant_start(void)
{
    if (is("noise"))
        malloc_stats();
    if (is("address-space") && mmap(NULL, (size_t)1 << 30, PROT_READ | PROT_WRITE,
                                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED)
        _exit(9);
}

__attribute__((destructor)) static void mutant_end(void)
{
    at_exit_of_program = 1;
}
