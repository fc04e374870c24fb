/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * os: memory from the Linux kernel. See os.h for the contract. */
#include "os/os.h"
#include "os/probes.h"
#include "os/syscall_internal.h"
#include "os/trace.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif
#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4
#endif

static long memory_mmap(void *at, size_t bytes, int protection, int flags)
{
    return hak_syscall6(SYS_mmap, (long)at, (long)bytes, protection,
                        MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
}

static bool memory_failed(long result)
{
    return result < 0 && result > -4096;
}

int hak_os_map_at(void *at, size_t bytes)
{
    long got = memory_mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_FIXED_NOREPLACE);
    HAK_TRACE(HAK_TRACE_MAP, "call", "map", {"address", (uintptr_t)at}, {"bytes", bytes},
              {"refused", memory_failed(got)});
    if (memory_failed(got))
        return (int)-got;
    if ((void *)got == at)
        return 0;
    /* A kernel (or valgrind) that does not know the flag takes the address for a hint. */
    hak_os_unmap((void *)got,
                 bytes); /* NOLINT(performance-no-int-to-ptr): an address from the kernel */
    return EEXIST;
}

int hak_os_map(size_t bytes, void **out)
{
    long got = memory_mmap(NULL, bytes, PROT_READ | PROT_WRITE, 0);
    if (memory_failed(got))
        return (int)-got;
    *out = (void *)got; /* NOLINT(performance-no-int-to-ptr): an address from the kernel */
    return 0;
}

int hak_os_unmap(void *at, size_t bytes)
{
    HAK_TRACE(HAK_TRACE_MAP, "call", "unmap", {"address", (uintptr_t)at}, {"bytes", bytes});
    return (int)-hak_syscall6(SYS_munmap, (long)at, (long)bytes, 0, 0, 0, 0);
}

int hak_os_purge(void *at, size_t bytes)
{
    HAK_PROBE2(purge, at, bytes);
    if (bytes % hak_os_page_bytes() != 0)
        return EINVAL; /* the kernel would round up, to what lies behind */
    return (int)-hak_syscall6(SYS_madvise, (long)at, (long)bytes, MADV_DONTNEED, 0, 0, 0);
}

void hak_os_advise_huge_pages(void *at, size_t bytes)
{
    hak_syscall6(SYS_madvise, (long)at, (long)bytes, MADV_HUGEPAGE, 0, 0, 0);
}

void hak_os_advise_small_pages(void *at, size_t bytes)
{
    hak_syscall6(SYS_madvise, (long)at, (long)bytes, MADV_NOHUGEPAGE, 0, 0, 0);
}

void hak_os_populate(void *at, size_t bytes)
{
    hak_syscall6(SYS_madvise, (long)at, (long)bytes, MADV_POPULATE_WRITE, 0, 0, 0);
}

static uint64_t memory_thread_cpu_ns(void)
{
    struct timespec used = {0};
    hak_syscall6(SYS_clock_gettime, CLOCK_THREAD_CPUTIME_ID, (long)&used, 0, 0, 0, 0);
    return (uint64_t)used.tv_sec * 1000000000u + (uint64_t)used.tv_nsec;
}

uint64_t hak_os_fault_in_ns(char *page)
{
    uint64_t begin_ns = memory_thread_cpu_ns();
    hak_os_populate(page, HAK_PAGE_BYTES);
    return memory_thread_cpu_ns() - begin_ns;
}

bool hak_os_list_resident(char *at, size_t bytes, unsigned char *in_memory)
{
    if (hak_syscall6(SYS_mincore, (long)at, (long)bytes, (long)in_memory, 0, 0, 0) != 0)
        return false;
    for (size_t i = 0; i * hak_os_page_bytes() < bytes; i++)
        in_memory[i] &= 1; /* the other bits are kept for the system */
    return true;
}

bool hak_os_is_resident(const void *at)
{
    unsigned char in_memory = 0;
    uintptr_t page = hak_round_down((uintptr_t)at, hak_os_page_bytes());
    return hak_os_list_resident((char *)page, 1, &in_memory) && in_memory;
}

#define ASKED_PAGES ((size_t)1024) /* at once: a byte each on the stack */
#define GAP_LEAST_PAGES 16u /* a page fault each would cost more than a call for all of them */

/* The first page from `from` on of which this holds; `pages` if there is none. */
static size_t memory_next_page(const unsigned char *resident, size_t pages, size_t from, bool is)
{
    while (from < pages && resident[from] != is)
        from++;
    return from;
}

/* Leaves out the gaps in the pages [at, at + bytes) and writes what lies before each, from `begin`
 * on. Returns where the rest begins. */
static char *memory_zero_to_gaps(char *begin, char *at, size_t bytes)
{
    unsigned char resident[ASKED_PAGES] = {0};
    size_t page_bytes = hak_os_page_bytes();
    size_t pages = bytes / page_bytes;
    if (!hak_os_list_resident(at, bytes, resident))
        return begin;
    for (size_t gap, end = 0; (gap = memory_next_page(resident, pages, end, false)) < pages;) {
        end = memory_next_page(resident, pages, gap, true);
        char *gap_at = at + gap * page_bytes;
        size_t gap_bytes = (end - gap) * page_bytes;
        /* what is not in memory may be in swap, and so has to be given back all the same */
        if (end - gap >= GAP_LEAST_PAGES && hak_os_purge(gap_at, gap_bytes) == 0) {
            memset(begin, 0, (size_t)(gap_at - begin));
            begin = gap_at + gap_bytes;
        }
    }
    return begin;
}

void hak_os_zero(char *at, size_t bytes)
{
    char *begin = at; /* of what is written by one memset: a long one need not go by the caches */
    char *end = at + bytes;
    size_t page_bytes = hak_os_page_bytes();
    size_t asked_bytes = ASKED_PAGES * HAK_PAGE_BYTES; /* of larger pages there are fewer in it */
    char *pages = at + -(uintptr_t)at % page_bytes;
    char *pages_end = end - (uintptr_t)end % page_bytes;
    for (; pages < pages_end; pages += asked_bytes)
        begin =
            memory_zero_to_gaps(begin, pages, hak_min((size_t)(pages_end - pages), asked_bytes));
    memset(begin, 0, (size_t)(end - begin));
}

/* Where pages may be shared with others of the same content (KSM) a signal interrupts the call, and
 * then it is begun anew. Since Linux 6.17, which moves several mappings one by one, those that have
 * been moved by then are lost if the source is kept, as what they have left is moved over them. And
 * with signals that come quickly the call would never end. */
int hak_os_move(void *from, void *to, size_t bytes, bool keep_source)
{
    long flags = MREMAP_MAYMOVE | MREMAP_FIXED | (keep_source ? MREMAP_DONTUNMAP : 0);
    uint64_t all = UINT64_MAX, before = 0;
    hak_syscall6(SYS_rt_sigprocmask, SIG_BLOCK, (long)&all, (long)&before, sizeof all, 0, 0);
    long got = hak_syscall6(SYS_mremap, (long)from, (long)bytes, (long)bytes, flags, (long)to, 0);
    hak_syscall6(SYS_rt_sigprocmask, SIG_SETMASK, (long)&before, 0, sizeof before, 0, 0);
    return memory_failed(got) ? (int)-got : 0;
}

static bool memory_is_unmapped(char *page)
{
    unsigned char in_memory = 0;
    return hak_syscall6(SYS_mincore, (long)page, 1, (long)&in_memory, 0, 0, 0) == -ENOMEM;
}

size_t hak_os_moved_bytes(char *from, size_t bytes)
{
    size_t page_bytes = hak_os_page_bytes();
    size_t low = 0, high = bytes / page_bytes; /* pages below are moved; from here on are not */
    while (low < high) {
        size_t page = low + (high - low) / 2;
        if (memory_is_unmapped(from + page * page_bytes))
            low = page + 1;
        else
            high = page;
    }
    return low * page_bytes;
}

int hak_os_map_wiped_on_fork(void **out)
{
    void *page;
    int error = hak_os_map(HAK_PAGE_BYTES, &page);
    if (error != 0)
        return error;
    error =
        (int)-hak_syscall6(SYS_madvise, (long)page, (long)HAK_PAGE_BYTES, MADV_WIPEONFORK, 0, 0, 0);
    if (error != 0)
        hak_os_unmap(page, HAK_PAGE_BYTES);
    else
        *out = page;
    return error;
}

bool hak_os_can_wipe_on_fork(void)
{
    return hak_syscall6(SYS_madvise, 0, 0, MADV_WIPEONFORK, 0, 0, 0) == 0; /* of no pages */
}

uintptr_t hak_os_break(void)
{
    return (uintptr_t)hak_syscall6(SYS_brk, 0, 0, 0, 0, 0, 0);
}

int hak_os_find_hole(size_t bytes, uintptr_t *out)
{
    long got = memory_mmap(NULL, bytes, PROT_NONE, MAP_NORESERVE);
    if (memory_failed(got))
        return (int)-got;
    *out = (uintptr_t)got;
    return hak_os_unmap((void *)got,
                        bytes); /* NOLINT(performance-no-int-to-ptr): an address from the kernel */
}

bool hak_os_addresses_restricted(void)
{
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
    return true;
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer)
    return true;
#else
    return false;
#endif
#else
    return false;
#endif
}
