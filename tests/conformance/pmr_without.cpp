/* Conformance: hakmem.hpp compiles without exceptions and without type information. It need not
 * run.
 *
 * SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "hakmem.hpp"

std::pmr::memory_resource *without();
std::pmr::memory_resource *without()
{
    return hakmem::resource();
}
