/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * heap: what slow paths do besides their work, a few times a second. Called by route.c and the
 * background thread, with no lock held. */
#include "heap/heap.h"
#include "policy/policy.h"

void hak_heap_tick_any(void)
{
    hak_cache_tick_any();
    hak_policy_tick_any();
}
