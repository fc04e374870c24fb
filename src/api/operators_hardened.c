/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * api: what the C++ operators of the hardened library call. Without it these are never called. */
#include "api/api_internal.h"
#include "hard/hard.h"

#include <errno.h>

HAK_HIDDEN void *hak_hardened_new(size_t size, size_t alignment, int array);
HAK_HIDDEN void hak_hardened_delete(void *p, int array, size_t size, size_t alignment);

static enum hak_maker operators_maker(bool aligned, bool array)
{
    if (aligned)
        return array ? HAK_BY_ALIGNED_NEW_ARRAY : HAK_BY_ALIGNED_NEW;
    return array ? HAK_BY_NEW_ARRAY : HAK_BY_NEW;
}

/* alignment: 0 of the operators without one. */
void *hak_hardened_new(size_t size, size_t alignment, int array)
{
    return hak_hard_alloc(size, alignment, operators_maker(alignment != 0, array));
}

/* size: SIZE_MAX of the operators without one. */
void hak_hardened_delete(void *p, int array, size_t size, size_t alignment)
{
    const struct hak_claim claim = {.maker = operators_maker(alignment != 0, array),
                                    .sized = size != SIZE_MAX,
                                    .aligned = alignment != 0,
                                    .size_bytes = size,
                                    .align_bytes = alignment};
    if (p != NULL && !hak_hard_free_claimed(p, &claim))
        hak_foreign_free(p);
}
