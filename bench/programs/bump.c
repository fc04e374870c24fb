/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Benchmark: the limit. Not an allocator but what is left of one: memory is counted up in chunks of
 * the system's, and free does nothing. No allocator executes fewer instructions, so `hakmem bench
 * --callgrind` counts with this one too. Built as libbump.so, preloaded by the harness for counting
 * only.
 *
 * The size of a block is kept in front of it, which realloc needs. It never gives anything back.
 */
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#define EXPORT __attribute__((visibility("default")))
#define ALIGNMENT ((size_t)16)
#define CHUNK_BYTES ((size_t)1 << 30)

static __thread unsigned char *next, *end;

EXPORT void *malloc(size_t size);
EXPORT void free(void *block);
EXPORT void *calloc(size_t count, size_t size);
EXPORT void *realloc(void *block, size_t size);
EXPORT void *memalign(size_t alignment, size_t size);
EXPORT void *aligned_alloc(size_t alignment, size_t size);
EXPORT int posix_memalign(void **result, size_t alignment, size_t size);
EXPORT void *valloc(size_t size);
EXPORT void *reallocarray(void *block, size_t count, size_t size);
EXPORT size_t malloc_usable_size(void *block);

static size_t *size_of(void *block)
{
    return (size_t *)block - 1;
}

__attribute__((noinline)) static void *bump_slow(size_t alignment, size_t size)
{
    size_t bytes =
        size + alignment + ALIGNMENT > CHUNK_BYTES ? size + alignment + ALIGNMENT : CHUNK_BYTES;
    if (bytes < size) {
        errno = ENOMEM;
        return NULL;
    }
    void *chunk = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (chunk == MAP_FAILED) {
        errno = ENOMEM;
        return NULL;
    }
    next = chunk;
    end = next + bytes;
    return memalign(alignment, size);
}

EXPORT void *memalign(size_t alignment, size_t size)
{
    uintptr_t start =
        ((uintptr_t)next + sizeof(size_t) + alignment - 1) & ~(uintptr_t)(alignment - 1);
    if (__builtin_expect(next == NULL || size > (uintptr_t)end - (uintptr_t)next ||
                             start + size > (uintptr_t)end,
                         0))
        return bump_slow(alignment, size);
    unsigned char *block = next + (start - (uintptr_t)next);
    next = block + size;
    *size_of(block) = size;
    return block;
}

EXPORT void *malloc(size_t size)
{
    return memalign(ALIGNMENT, size);
}

EXPORT void free(void *block)
{
    (void)block;
}

/* Fresh memory of the system is zero already. */
EXPORT void *calloc(size_t count, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) {
        errno = ENOMEM;
        return NULL;
    }
    return malloc(bytes);
}

EXPORT void *realloc(void *block, size_t size)
{
    if (block != NULL && size <= *size_of(block))
        return block;
    void *larger = malloc(size);
    if (larger != NULL && block != NULL)
        memcpy(larger, block, *size_of(block));
    return larger;
}

EXPORT void *reallocarray(void *block, size_t count, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) {
        errno = ENOMEM;
        return NULL;
    }
    return realloc(block, bytes);
}

EXPORT void *aligned_alloc(size_t alignment, size_t size)
{
    return memalign(alignment < ALIGNMENT ? ALIGNMENT : alignment, size);
}

EXPORT int posix_memalign(void **result, size_t alignment, size_t size)
{
    void *block = aligned_alloc(alignment, size);
    if (block == NULL)
        return ENOMEM;
    *result = block;
    return 0;
}

EXPORT void *valloc(size_t size)
{
    return memalign(4096, size);
}

EXPORT size_t malloc_usable_size(void *block)
{
    return block == NULL ? 0 : *size_of(block);
}
