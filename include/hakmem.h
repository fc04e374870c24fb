/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * hakmem: a memory allocator. The public interface.
 *
 * Programs need none of this: with libhakmem linked in or preloaded, malloc and its family are
 * hakmem. The functions here are the same allocator under names of its own (for programs that keep
 * another malloc beside it, through the prefixed library), and what malloc has no name for.
 *
 * All functions may be called from any thread at any time, before constructors and after
 * destructors included, but not from signal handlers. Those that allocate return NULL and set errno
 * to ENOMEM when there is no memory, or when more than PTRDIFF_MAX bytes are asked for; what was
 * allocated before stays valid. Blocks are aligned to at least 16 bytes. */
#ifndef HAKMEM_H
#define HAKMEM_H

#include <malloc.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define HAKMEM_VERSION_MAJOR 0
#define HAKMEM_VERSION_MINOR 1
#define HAKMEM_VERSION_PATCH 0

#ifdef __cplusplus
extern "C" {
#endif

/* "MAJOR.MINOR.PATCH" of the library that is running; a constant. */
const char *hakmem_version(void);

/* Options of a program's own, "name:value,name:value" (docs/options.md): a program may define this
 * variable, and hakmem reads it when it begins. The environment is stronger. The library does not
 * define it, and finds it also in a program that is compiled with -fvisibility=hidden. */
extern __attribute__((visibility("default"))) const char *hakmem_conf;

/* Reads or sets a value by name. `value` receives the present value when it is not NULL;
 * `new_value` is set when it is not NULL. Returns 0, ENOENT (no such name), EPERM (the value can
 * only be read) or EINVAL (out of range); then nothing was done. Figures, options that can be set
 * while the program runs, and figures of single size classes; names: docs/control.md;
 * hakmem_ctl_name(i) for i = 0, 1, ... until NULL lists the first two kinds. "policy.write" does
 * something and may also return the errno of a file. */
int hakmem_ctl(const char *name, uint64_t *value, const uint64_t *new_value);
const char *hakmem_ctl_name(unsigned index);

/* Why the last allocations failed, at most 16, oldest first, each a line of plain words that ends
 * in a newline: what was asked for, the reason, how the system stood if it refused (its limit on
 * address space, and unless HAKMEM_CGROUP=0 the number of mappings and the control group's memory,
 * for which files are opened at that moment), the class of the block, the stage that the search for
 * memory had come to, and how long ago that was. Writes at most `size`
 * bytes, the NUL at the end included, and nothing if size is 0; returns the length of the whole
 * text without the NUL, as snprintf does: what is as long as `size` or longer was cut off. 0: no
 * allocation has failed. Never allocates. */
int hakmem_last_failures(char *buffer, size_t size);

/* All figures as one JSON object, in the manner of hakmem_last_failures. docs/stats-json.md
 * describes it; "schema_version" grows when a member changes its meaning or goes. Never
 * allocates. */
int hakmem_stats_json(char *buffer, size_t size);

/* The heap profile: blocks sampled by their bytes, one for each `period_bytes` on average, with
 * their call stacks. hakmem_prof_start begins to sample, all threads at once; 0 is the default
 * period of 512 KiB, or the one of the first time, which holds for the life of the process. Returns
 * 0, EINVAL (another period than the first time, or above 1 TiB), ENOMEM, EBUSY (M_PERTURB is on)
 * or ENOTSUP (the hardened library has no profile). hakmem_prof_stop ends sampling; what was
 * sampled stays. hakmem_prof_dump writes the profile to a file, in which %p is replaced by the
 * number of the process and %n by that of the dump; NULL is HAKMEM_PROF_FILE. Returns 0, ENODATA
 * (never started), ENAMETOOLONG (1 KiB or more) or the errno of the file. docs/profiling.md
 * describes the format; `hakmem prof` reads it. */
int hakmem_prof_start(uint64_t period_bytes);
void hakmem_prof_stop(void);
int hakmem_prof_dump(const char *path);

/* As the functions of the same name without the prefix: C17, C23 (free_sized, free_aligned_sized),
 * POSIX, glibc. */
void *hakmem_malloc(size_t size);
void *hakmem_calloc(size_t count, size_t size);
void *hakmem_realloc(void *p, size_t size); /* size 0 frees p and returns NULL, as glibc does */
void *hakmem_reallocarray(void *p, size_t count, size_t size);
void hakmem_free(void *p); /* keeps errno */
void hakmem_free_sized(void *p, size_t size);
void hakmem_free_aligned_sized(void *p, size_t alignment, size_t size);
void hakmem_cfree(void *p);
void *hakmem_aligned_alloc(size_t alignment, size_t size);
void *hakmem_memalign(size_t alignment,
                      size_t size); /* other than powers of two are rounded up, as in glibc */
int hakmem_posix_memalign(void **out, size_t alignment, size_t size);
void *hakmem_valloc(size_t size);
void *hakmem_pvalloc(size_t size);
size_t hakmem_malloc_usable_size(
    void *p); /* all of it may be written; constant for a block's life */

#ifdef __GLIBC__ /* other libcs' malloc.h has no such structures */
struct mallinfo hakmem_mallinfo(void);
struct mallinfo2 hakmem_mallinfo2(void);
#elif !defined(M_TRIM_THRESHOLD) /* nor these numbers, which are glibc's */
#define M_MXFAST 1
#define M_TRIM_THRESHOLD (-1)
#define M_MMAP_THRESHOLD (-3)
#define M_PERTURB (-6)
#endif
int hakmem_malloc_info(int options, FILE *stream);
void hakmem_malloc_stats(void);
int hakmem_malloc_trim(size_t pad); /* 1 if memory went back to the system */
int hakmem_mallopt(int parameter, int value);

#ifdef __cplusplus
}
#endif
#endif
