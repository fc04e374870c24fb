/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * hakmem: the allocator as a memory resource of C++17. Where libhakmem is the program's malloc all
 * of it goes there anyway; this is for programs that keep another malloc beside it, through the
 * prefixed library, and for containers that take their resource as an argument:
 *
 *     std::pmr::vector<int> numbers(hakmem::resource());
 *
 * May be used from any thread at any time, before constructors and after destructors included. */
#ifndef HAKMEM_HPP
#define HAKMEM_HPP

#include "hakmem.h"

#include <cstddef>
#include <cstdlib>
#include <memory_resource>
#include <new>

namespace hakmem
{

/* All of them are equal: what one has allocated any other may free. allocate throws std::bad_alloc
 * when there is no memory, and for more than PTRDIFF_MAX bytes; compiled without exceptions it ends
 * the program. The alignment is a power of two. */
class memory_resource final : public std::pmr::memory_resource
{
    /* Every block of malloc's has it. */
    static constexpr std::size_t least_alignment = 16;

    void *do_allocate(std::size_t bytes, std::size_t alignment) override
    {
        void *p = alignment <= least_alignment ? hakmem_malloc(bytes)
                                               : hakmem_aligned_alloc(alignment, bytes);
        if (p == nullptr) {
#ifdef __cpp_exceptions
            throw std::bad_alloc();
#else
            std::abort();
#endif
        }
        return p;
    }

    void do_deallocate(void *p, std::size_t bytes, std::size_t alignment) override
    {
        if (alignment <= least_alignment)
            hakmem_free_sized(p, bytes);
        else
            hakmem_free_aligned_sized(p, alignment, bytes);
    }

    bool do_is_equal(const std::pmr::memory_resource &other) const noexcept override
    {
#ifdef __cpp_rtti
        return dynamic_cast<const memory_resource *>(&other) != nullptr;
#else
        return this == &other;
#endif
    }
};

/* One that is never destroyed: containers in static variables may be, after everything else. */
inline std::pmr::memory_resource *resource() noexcept
{
    alignas(memory_resource) static unsigned char place[sizeof(memory_resource)];
    static memory_resource *const made = new (place) memory_resource;
    return made;
}

} // namespace hakmem

#endif
