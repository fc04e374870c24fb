/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Unit tests of pool: what those of huge pages share. */
#pragma once

#include "pool_support.h"

/* And the clock stands: a pool that grows does so quickly. */
static inline void huge_pages_from(size_t bytes)
{
    fake_os_set_time_ns(SECOND_NS);
    struct hak_pool_config config = {.retired_max_count = 1000,
                                     .retired_max_bytes = SIZE_MAX,
                                     .retired_max_age_ns = UINT64_MAX,
                                     .huge_pages_from_bytes = bytes};
    hak_pool_configure(&config);
}

static inline bool is_dense(size_t slot)
{
    return hak_superslab_is_dense(slot / HAK_SLOTS);
}

static inline bool has_huge_pages(size_t slot)
{
    return hak_load_relaxed(&hak_superslab(slot / HAK_SLOTS)->huge_pages) == HAK_HUGE_ASKED;
}

#define DENSE (3u | HAK_POOL_DENSE)

#define CHEAP_NS 230000u
#define TOO_DEAR_NS 4000000000u /* a sixteenth of a minute, which no test takes */

static inline void huge_pages_that_cost(uint64_t fault_ns)
{
    start();
    huge_pages_from(0);
    fake_os_set_fault_ns(fault_ns);
}

/* Acquires slots that will be used up until they fill so many superslabs; returns the last. */
static inline size_t fill_superslabs(unsigned superslabs)
{
    size_t last = 0;
    for (unsigned i = 0; i < superslabs * HAK_SLOTS; i++)
        last = acquire(1, 1, DENSE, NULL);
    return last;
}
