/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * hard: malloc and free for any machine. See paths.h. */
#define HARD_PATH(name) name##_plain
#include "hard/paths.h"
