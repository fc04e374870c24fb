/* Conformance: a C++ library that is loaded at run time: what it may expect when memory runs out,
 * and objects that it exchanges with the program.
 * SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "conformance/cxx_plugin.h"

#include <cstdint>
#include <new>
#include <string>
#include <vector>

namespace
{

int handler_calls;

void give_up()
{
    handler_calls++;
    std::set_new_handler(nullptr);
}

void throw_bad_alloc()
{
    handler_calls++;
    throw std::bad_alloc();
}

std::vector<char> reserved;
void *asked; /* NULL: there is never that much */

void *ask(plugin_way way)
{
    volatile std::size_t size = SIZE_MAX / 4;
    const auto align = static_cast<std::align_val_t>(64);
    switch (way) {
    case PLUGIN_NEW:
        return ::operator new(size);
    case PLUGIN_NEW_ARRAY:
        return ::operator new[](size);
    case PLUGIN_ALIGNED_NEW:
        return ::operator new(size, align);
    case PLUGIN_NOTHROW:
        return ::operator new(size, std::nothrow);
    case PLUGIN_ARRAY_NOTHROW:
        return ::operator new[](size, std::nothrow);
    case PLUGIN_ALIGNED_NOTHROW:
        return ::operator new(size, align, std::nothrow);
    case PLUGIN_ALIGNED_ARRAY_NOTHROW:
        return ::operator new[](size, align, std::nothrow);
    default:
        break;
    }
    reserved.reserve(size);
    return reserved.data();
}

} // namespace

extern "C" plugin_end plugin_fail(plugin_way way, plugin_handler handler, int *calls)
{
    plugin_end end = PLUGIN_MEMORY;
    handler_calls = 0;
    std::set_new_handler(handler == PLUGIN_GIVES_UP ? give_up
                         : handler == PLUGIN_THROWS ? throw_bad_alloc
                                                    : nullptr);
    try {
        asked = ask(way);
        if (asked == nullptr)
            end = PLUGIN_NULL;
    } catch (const std::bad_alloc &) {
        end = PLUGIN_BAD_ALLOC;
    }
    std::set_new_handler(nullptr);
    *calls = handler_calls;
    return end;
}

extern "C" std::vector<std::string> *plugin_make(std::size_t bytes)
{
    return new std::vector<std::string>(10, std::string(bytes, 'x'));
}

extern "C" void plugin_drop(std::vector<std::string> *strings)
{
    strings->push_back(strings->front());
    strings->shrink_to_fit();
    delete strings;
}
