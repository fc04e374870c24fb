/* Conformance: the misuse cases of hardened_mismatches.c, for the list in hardened_cases.c, and
 * what both begin with. Used by these two only. SPDX-License-Identifier: Apache-2.0 OR MIT */
#ifndef HAK_TEST_HARDENED_MISMATCHES_H
#define HAK_TEST_HARDENED_MISMATCHES_H

#include <string.h>

#include "conformance/misuse_cases.h"
#include "support/api.h"

static inline char *block(size_t size)
{
    char *p = my_malloc(size);
    memset(p, 0x5a, size);
    return misuse_announce(p);
}

void free_sized_with_one_more(size_t size);
void free_sized_with_one_less(size_t size);
void free_sized_with_its_class(size_t size);
void free_aligned_sized_with_another_size(size_t size);
void free_aligned_sized_with_another_alignment(size_t size);
void sized_delete_with_one_more(size_t size);
void sized_array_delete_with_one_less(size_t size);
void aligned_delete_with_another_alignment(size_t size);
void free_of_new(size_t size);
void free_of_new_array(size_t size);
void free_of_aligned_new(size_t size);
void realloc_of_new(size_t size);
void delete_of_malloc(size_t size);
void sized_delete_of_malloc(size_t size);
void array_delete_of_malloc(size_t size);
void delete_of_new_array(size_t size);
void array_delete_of_new(size_t size);
void delete_of_aligned_new(size_t size);
void aligned_delete_of_new(size_t size);
void aligned_delete_of_aligned_new_array(size_t size);
void objects_are_exchanged_with_hidden_operators(size_t size);
void delete_of_new_array_beside_hidden_operators(size_t size);
void sized_delete_with_one_more_beside_hidden_operators(size_t size);
void double_free_of_new_beside_hidden_operators(size_t size);

#endif
