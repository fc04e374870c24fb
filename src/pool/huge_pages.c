/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * pool: huge pages are asked for as long as the system has them at hand. See pool.h.
 *
 * [huge-cost]: a huge page costs what clearing 2 MiB costs, 0.1 to 0.3 ms, less than the 512 faults
 * that it saves (0.65 ms). But the kernel may have to make it first by moving other pages together,
 * and in a virtual machine whose host takes free memory back (free page reporting, a balloon) the
 * host may have to, which was measured to take 4.5 ms, while small pages were still there. So the
 * first page of every superslab, which is about to be used anyway, is faulted in here, and the
 * processor time that this took is looked at (not the time that has passed: the thread may have had
 * to wait for a processor). If it was long then the next superslabs have small pages, and twice as
 * many after the next time. Figures: docs/performance.md. */
#include "pool/pool_internal.h"

#define DEAR_NS UINT64_C(2000000)
#define SPARED_FIRST ((size_t)16) /* superslabs without huge pages after one that was dear */
#define SPARED_MOST ((size_t)1024)

/* Counts superslabs for which no huge pages are asked for. Threads at the same time may count one
 * for two. */
static bool huge_is_spared(size_t superslabs)
{
    size_t left = hak_load_relaxed(&hak_pool.huge_spared);
    if (left == 0)
        return false;
    hak_store_relaxed(&hak_pool.huge_spared, left - hak_min(left, superslabs));
    return true;
}

static void huge_found_dear(void)
{
    size_t spared = hak_max(hak_load_relaxed(&hak_pool.huge_spared_last) * 2, SPARED_FIRST);
    spared = hak_min(spared, SPARED_MOST);
    hak_store_relaxed(&hak_pool.huge_spared_last, spared);
    hak_store_relaxed(&hak_pool.huge_spared, spared);
    hak_add_relaxed(&hak_pool.huge_dear_total, 1u);
}

bool hak_pool_ask_for_huge_pages(char *at, size_t bytes, char *page)
{
    size_t before = hak_round_down((size_t)(page - at), HAK_SUPERSLAB_BYTES);
    if (huge_is_spared((bytes - before + HAK_SUPERSLAB_BYTES - 1) / HAK_SUPERSLAB_BYTES))
        return false;
    size_t first = hak_min(bytes, before + HAK_SUPERSLAB_BYTES);
    hak_os_advise_huge_pages(at, first);
    hak_add_relaxed(&hak_pool.huge_asked_total, 1u);
    if (hak_os_fault_in_ns(page) >= DEAR_NS) {
        huge_found_dear();
        return true;
    }
    hak_store_relaxed(&hak_pool.huge_spared_last, (size_t)0);
    if (bytes > first)
        hak_os_advise_huge_pages(at + first, bytes - first);
    return true;
}
