/* Conformance: the C++ operators for the hardened library's cases, callable from C. `n` of a delete
 * is the size that it states; SIZE_MAX: the operator without a size. `align` 0: the operators
 * without an alignment.
 *
 * Used by hardened_cases.c only.
 * SPDX-License-Identifier: Apache-2.0 OR MIT */
#ifndef HAK_TEST_HARDENED_OPERATORS_H
#define HAK_TEST_HARDENED_OPERATORS_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

void *operator_new_one(size_t n, size_t align);
void *operator_new_array(size_t n, size_t align);
void operator_delete_one(void *p, size_t n, size_t align);
void operator_delete_array(void *p, size_t n, size_t align);

#ifdef __cplusplus
}
#endif

#endif
