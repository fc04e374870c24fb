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

void operator_delete_one(void *p, size_t n, size_t align)
{
    if (n == SIZE_MAX)
        align == 0 ? ::operator delete(p) : ::operator delete(p, alignment(align));
    else
        align == 0 ? ::operator delete(p, n) : ::operator delete(p, n, alignment(align));
}

void operator_delete_array(void *p, size_t n, size_t align)
{
    if (n == SIZE_MAX)
        align == 0 ? ::operator delete[](p) : ::operator delete[](p, alignment(align));
    else
        align == 0 ? ::operator delete[](p, n) : ::operator delete[](p, n, alignment(align));
}
