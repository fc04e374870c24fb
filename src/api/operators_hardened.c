/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * api: what the C++ operators of the hardened library call. Without it these are never called. */
#include "api/api_internal.h"
#include "hard/hard.h"

#include <errno.h>

HAK_HIDDEN void *hak_hardened_new(size_t size, int array);
HAK_HIDDEN void *hak_hardened_new_aligned(size_t size, size_t alignment, int array);
HAK_HIDDEN void hak_hardened_delete(void *p, int array, size_t size);
HAK_HIDDEN void hak_hardened_delete_aligned(void *p, int array, size_t size, size_t alignment);

void *hak_hardened_new(size_t size, int array)
{
    return hak_hard_new(size, array ? HAK_BY_NEW_ARRAY : HAK_BY_NEW);
}

void *hak_hardened_new_aligned(size_t size, size_t alignment, int array)
{
    return hak_hard_alloc(size, alignment, array ? HAK_BY_ALIGNED_NEW_ARRAY : HAK_BY_ALIGNED_NEW);
}

/* Both, size: SIZE_MAX of the operators without one. */
void hak_hardened_delete(void *p, int array, size_t size)
{
    hak_hard_delete(p, array ? HAK_BY_NEW_ARRAY : HAK_BY_NEW, size, hak_foreign_free);
}

void hak_hardened_delete_aligned(void *p, int array, size_t size, size_t alignment)
{
    const struct hak_claim claim = {.maker = array ? HAK_BY_ALIGNED_NEW_ARRAY : HAK_BY_ALIGNED_NEW,
                                    .sized = size != SIZE_MAX,
                                    .aligned = true,
                                    .size_bytes = size,
                                    .align_bytes = alignment};
    hak_hard_free_claimed(p, &claim, hak_foreign_free);
}
