/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * pool: huge pages are asked for as long as the system has them at hand. See pool.h.
 *
 * [huge-cost]: a huge page costs what clearing 2 MiB costs, 0.1 to 0.3 ms, less than the 512 faults
 * that it saves (0.65 ms). But the kernel may have to make it first by moving other pages together,
 * and in a virtual machine whose host takes free memory back (free page reporting, a balloon) the
 * host may have to, which was measured to take 4.5 ms, while small pages were still there. So the
 * first page of every superslab for slabs, which is about to be used anyway, is faulted in here,
 * and the processor time that this took is looked at (not the time that has passed: the thread may
 * have had to wait for a processor). A program pays such prices while they are little in all, as
 * the pages serve it for the rest of its life. After one that is too much the next superslabs have
 * small pages, and twice as many after the next, unless the program has run for so long meanwhile
 * that what it has paid is little again. So it is with what a huge block grows by, and with new
 * ones of which nothing is known. Blocks that are known to be used up get theirs whatever they
 * cost: many of them use up what small pages are still there, so that those are no cheaper.
 * Figures: docs/performance.md.
 *
 * [huge-rest]: what is given back of a huge page is in memory again as soon as the system puts the
 * huge page together anew (khugepaged, in the background, within minutes; by default a single page
 * that is in memory is enough for it). Then 100 MB that were freed but for a block in each slab
 * came back as 100 MB. So a superslab of which half is in memory or less when something of it goes
 * is to have small pages, which it has in any case since the first part of it went, until all its
 * slots are in use again and in memory.
 *
 * [huge-unasked]: a superslab for which no huge pages are asked for is not expected to be used up
 * soon, and it is the same memory where the system asks to be asked and where it does not (`always`
 * in /sys/kernel/mm/transparent_hugepage/enabled): there a program of a few MiB would hold half as
 * much again. So the system is told that it is to have small ones. (That file is not read: a
 * program may be where it cannot open files any more.) */
#include "pool/pool_internal.h"

#define DEAR_NS UINT64_C(2000000)
#define PAID_LEAST_NS UINT64_C(8000000)
#define PAID_SHARE 16             /* of the processor time that the process has used */
#define SPARED_FIRST ((size_t)16) /* superslabs without huge pages after one that is too much */
#define SPARED_MOST ((size_t)1024)
#define FORBIDDEN_UP_TO_BYTES (HAK_SUPERSLAB_BYTES / 2)
#define PERMITTED_FROM_BYTES (HAK_SUPERSLAB_BYTES / 8 * 7)

/* Is that more than a program should have paid by now? */
static bool huge_is_too_much(uint64_t paid_ns)
{
    struct hak_os_usage usage;
    hak_os_usage(&usage);
    return paid_ns > PAID_LEAST_NS + usage.cpu_ns / PAID_SHARE;
}

/* Counts superslabs for which no huge pages are asked for. Threads at the same time may count one
 * for two. */
static bool huge_is_spared(void)
{
    size_t left = hak_load_relaxed(&hak_pool.huge_spared);
    if (left == 0 || !huge_is_too_much(hak_load_relaxed(&hak_pool.huge_paid_ns)))
        return false;
    hak_store_relaxed(&hak_pool.huge_spared, left - 1);
    return true;
}

/* One was that dear, and so are others, one after the other: is that to be paid? */
static bool huge_is_borne(uint64_t price_ns, size_t pages)
{
    uint64_t all_ns = price_ns * pages;
    hak_add_relaxed(&hak_pool.huge_dear_total, 1u);
    if (!huge_is_too_much(hak_add_relaxed(&hak_pool.huge_paid_ns, all_ns) + all_ns))
        return true;
    hak_sub_relaxed(&hak_pool.huge_paid_ns, all_ns - price_ns);
    size_t spared = hak_max(hak_load_relaxed(&hak_pool.huge_spared_last) * 2, SPARED_FIRST);
    spared = hak_min(spared, SPARED_MOST);
    hak_store_relaxed(&hak_pool.huge_spared_last, spared);
    hak_store_relaxed(&hak_pool.huge_spared, spared);
    return false;
}

void hak_pool_forbid_huge_pages(size_t superslab)
{
    hak_os_advise_small_pages(hak_superslab_address(superslab), HAK_SUPERSLAB_BYTES);
    hak_store_relaxed(&hak_superslab(superslab)->huge_pages, (uint8_t)HAK_HUGE_FORBIDDEN);
}

/* How much of a superslab is in memory; all, if the system does not tell. */
static size_t huge_resident_bytes(size_t superslab)
{
    unsigned char in_memory[HAK_SUPERSLAB_BYTES / HAK_PAGE_BYTES] = {0};
    size_t page_bytes = hak_os_page_bytes();
    size_t bytes = 0;
    if (!hak_os_list_resident(hak_superslab_address(superslab), HAK_SUPERSLAB_BYTES, in_memory))
        return HAK_SUPERSLAB_BYTES; /* mapped in part, so it has no huge page */
    for (size_t i = 0; i * page_bytes < HAK_SUPERSLAB_BYTES; i++)
        bytes += in_memory[i] * page_bytes;
    return bytes;
}

void hak_pool_pages_went(size_t slot)
{
    size_t superslab = slot / HAK_SLOTS;
    if (pool_may_be_huge(hak_superslab(superslab)) &&
        huge_resident_bytes(superslab) <= FORBIDDEN_UP_TO_BYTES)
        hak_pool_forbid_huge_pages(superslab);
}

void hak_pool_permit_huge_pages(size_t superslab)
{
    if (huge_resident_bytes(superslab) < PERMITTED_FROM_BYTES)
        return;
    hak_pool_ask_for_huge_pages(hak_superslab_address(superslab), HAK_SUPERSLAB_BYTES);
    hak_store_relaxed(&hak_superslab(superslab)->huge_pages, (uint8_t)HAK_HUGE_ASKED);
}

void hak_pool_ask_for_huge_pages(char *at, size_t bytes)
{
    hak_os_advise_huge_pages(at, bytes);
    hak_add_relaxed(&hak_pool.huge_asked_total, 1u);
}

bool hak_pool_try_huge_pages(char *at, size_t bytes, char *page)
{
    if (huge_is_spared())
        return false;
    hak_pool_ask_for_huge_pages(at, bytes);
    uint64_t price_ns = hak_os_fault_in_ns(page);
    size_t pages = hak_max((size_t)(at + bytes - page) / HAK_SUPERSLAB_BYTES, (size_t)1);
    if (price_ns >= DEAR_NS)
        return huge_is_borne(price_ns, pages) || pages == 1;
    hak_store_relaxed(&hak_pool.huge_spared, (size_t)0);
    hak_store_relaxed(&hak_pool.huge_spared_last, (size_t)0);
    return true;
}
