// Conformance: see hardened_operators.h.
// SPDX-License-Identifier: Apache-2.0 OR MIT
#include "conformance/hardened_operators.h"

#include <cstdint>
#include <new>

static std::align_val_t alignment(size_t align)
{
    return static_cast<std::align_val_t>(align);
}

void *operator_new_one(size_t n, size_t align)
{
    return align == 0 ? ::operator new(n) : ::operator new(n, alignment(align));
}

void *operator_new_array(size_t n, size_t align)
{
    return align == 0 ? ::operator new[](n) : ::operator new[](n, alignment(align));
}

// Through pointers that the compiler cannot see through: of two calls of operator delete for one
// pointer, on two ways, clang 19 makes both at once.
template <typename Operator> static Operator hidden(Operator f)
{
    __asm__ volatile("" : "+r"(f));
    return f;
}

using plain = void (*)(void *);
using sized = void (*)(void *, std::size_t);
using aligned = void (*)(void *, std::align_val_t);
using sized_aligned = void (*)(void *, std::size_t, std::align_val_t);

void operator_delete_one(void *p, size_t n, size_t align)
{
    if (n == SIZE_MAX && align == 0)
        hidden<plain>(::operator delete)(p);
    else if (n == SIZE_MAX)
        hidden<aligned>(::operator delete)(p, alignment(align));
    else if (align == 0)
        hidden<sized>(::operator delete)(p, n);
    else
        hidden<sized_aligned>(::operator delete)(p, n, alignment(align));
}

void operator_delete_array(void *p, size_t n, size_t align)
{
    if (n == SIZE_MAX && align == 0)
        hidden<plain>(::operator delete[])(p);
    else if (n == SIZE_MAX)
        hidden<aligned>(::operator delete[])(p, alignment(align));
    else if (align == 0)
        hidden<sized>(::operator delete[])(p, n);
    else
        hidden<sized_aligned>(::operator delete[])(p, n, alignment(align));
}
