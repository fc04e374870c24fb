/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * pool: superslabs that are mapped and touched before anybody asks for them. They wait among the
 * retired ones, whose limits grow by as many, and do not grow old before their first use. See
 * pool.h. */
#include "pool/pool_internal.h"

void hak_pool_prewarm_at_growth(size_t superslabs)
{
    hak_store_relaxed(&hak_pool.prewarm_due, superslabs);
}

size_t hak_pool_prewarm(size_t superslabs)
{
    size_t first;
    while (superslabs != 0 &&
           hak_pool_map(superslabs, 1, superslabs * HAK_SUPERSLAB_BYTES, true, &first) != 0)
        superslabs /= 2;
    if (superslabs == 0)
        return 0;
    hak_os_populate(hak_superslab_address(first), superslabs * HAK_SUPERSLAB_BYTES);
    for (size_t i = 0; i < superslabs; i++) {
        struct hak_superslab *s = hak_superslab(first + i);
        hak_store_relaxed(&s->missing, 0u);
        hak_pool_set_dense(first + i, false);
        hak_store_relaxed(&s->state, (uint64_t)POOL_ALL); /* claimed, and clean */
    }
    hak_add_relaxed(&hak_pool.mapped_total, superslabs);
    hak_add_relaxed(&hak_pool.prewarmed, superslabs);
    hak_retired_put_at(first, superslabs, POOL_NEVER_USED_NS);
    return superslabs;
}
