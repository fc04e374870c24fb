/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * hard: malloc and free for machines with AVX2 and BMI. See paths.h. */
#define HARD_PATH(name) name##_avx2
#include "hard/paths.h"
