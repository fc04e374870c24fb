/* Conformance, start and end: the library of early_late.c.
 * SPDX-License-Identifier: Apache-2.0 OR MIT */
#ifndef HAK_TEST_LATE_H
#define HAK_TEST_LATE_H

#include <stdbool.h>

bool late_was_constructed(void);

#endif
