/* Conformance support: which allocator is being tested.
 *
 * A test must not pass because the library was not there: without hakmem every program here fails,
 * unless HAK_TEST_ANY_ALLOCATOR=1 says that another allocator is meant (to check the tests
 * themselves, or to compare).
 *
 * Called by the tests' main functions. Never allocates.
 * SPDX-License-Identifier: Apache-2.0 OR MIT */
#ifndef HAK_TEST_ALLOCATOR_H
#define HAK_TEST_ALLOCATOR_H

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Ends the program with status 1 and a message if the allocator under test is not hakmem. */
void allocator_require(void);

/* True if another allocator is allowed, so that a test may skip what only hakmem promises. */
bool allocator_may_be_other(void);

/* True if the program was built with a sanitizer. */
bool allocator_sanitized(void);

#ifdef __cplusplus
}
#endif

#endif
