/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "conformance/mixed_library.h"

namespace mixed
{

Text *make(std::size_t bytes)
{
    auto *made = new Text;
    made->bytes = bytes;
    made->text = new char[bytes];
    std::memset(made->text, 'x', bytes);
    return made;
}

int drop(Text *text)
{
    int wrong = text->text[0] != 'x' || text->text[text->bytes - 1] != 'x';
    delete[] text->text;
    delete text;
    return wrong;
}

} // namespace mixed
