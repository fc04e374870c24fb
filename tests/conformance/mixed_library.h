/* Conformance: a C++ library as most are; see hidden_operators.cpp.
 * SPDX-License-Identifier: Apache-2.0 OR MIT */
#ifndef HAK_TEST_MIXED_LIBRARY_H
#define HAK_TEST_MIXED_LIBRARY_H

#include <cstddef>
#include <cstring>

namespace mixed
{

struct Text {
    std::size_t bytes;
    char *text; /* from new[] */
};

Text *make(std::size_t bytes);
int drop(Text *text); /* 0: it was whole */

} // namespace mixed

#endif
