/* Conformance: with HAKMEM_CHECK_SIZES=0 a program may delete an object as one of a base class that
 * has no virtual destructor, as povray and squid do: the compiler then names the size of the base.
 * Everything else is checked as before (hardened_cases.c, where sizes are, too).
 * SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <new>

extern "C" {
#include "conformance/support/cmocka_all.h"

#include "support/api.h"
}

namespace
{

struct base {
    char first[24];
};

template <std::size_t more> struct derived : base {
    char rest[more];
};

template <class T> T *hide(T *p)
{
    __asm__ volatile("" : "+r"(p));
    return p;
}

template <std::size_t more> void delete_as_base()
{
    for (int i = 0; i < 1000; i++) {
        auto *p = new derived<more>;
        std::memset(static_cast<void *>(p), 0x5a, sizeof *p);
        delete static_cast<base *>(hide(p));
    }
}

void objects_of_classes_that_are_larger_than_their_base(void **)
{
    delete_as_base<8>();
    delete_as_base<1000>();
    delete_as_base<60000>();
    delete_as_base<300000>();
    delete_as_base<3000000>();
}

void another_size_or_alignment_in_c(void **)
{
    my_free_sized_fn *free_with_size = my_find_free_sized();
    assert_non_null(free_with_size);
    free_with_size(std::malloc(100), 99);
    free_with_size(std::malloc(200000), 1);
    ::operator delete(::operator new(640, std::align_val_t(64)), 640, std::align_val_t(128));
}

} // namespace

int main()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(objects_of_classes_that_are_larger_than_their_base),
        cmocka_unit_test(another_size_or_alignment_in_c),
    };
    return RUN_TESTS(tests);
}
