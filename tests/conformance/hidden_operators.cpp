/* Conformance: a library with C++ operators of its own, which nobody else sees: linked with the C++
 * runtime, whose symbols are not exported. What it exchanges with mixed_library.cpp is allocated by
 * the operators of one and freed by those of the other.
 * SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "conformance/mixed_library.h"

extern "C" int hidden_exchange(std::size_t bytes)
{
    int wrong = 0;
    for (int i = 0; i < 1000; i++) {
        mixed::Text *theirs = mixed::make(bytes);
        wrong += theirs->bytes != bytes || theirs->text[bytes - 1] != 'x';
        delete[] theirs->text;
        delete theirs;
        auto *ours = new mixed::Text;
        ours->bytes = bytes;
        ours->text = new char[bytes];
        std::memset(ours->text, 'x', bytes);
        wrong += mixed::drop(ours);
    }
    return wrong;
}
