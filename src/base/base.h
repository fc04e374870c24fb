/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * base: entry header. Atomics, bits, checks and text; knows nothing of allocation or of the system.
 */
#pragma once

#include "base/atomics.h"
#include "base/bits.h"
#include "base/checks.h"
#include "base/text.h"
