/* Conformance: a program that has operators new and delete of its own has those that call them,
 * too: the array, nothrow and sized forms ([new.delete] in ISO C++20).
 *
 * The program's put something before each block, as those do that count memory or have pools: a
 * block of any other allocator is not theirs to delete. Run with the library preloaded or linked.
 * SPDX-License-Identifier: Apache-2.0 OR MIT */
#ifdef __clang__ /* of libstdc++'s stable_sort */
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
#else /* programs of C++11 have no operator with a size */
#pragma GCC diagnostic ignored "-Wsized-deallocation"
#endif
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <vector>

extern "C" {
#include "conformance/support/cmocka_all.h"
}

namespace
{

const std::uint64_t mark = 0x6f7572206f776e21;
bool refuses;        /* the next ones */
unsigned plain_live; /* blocks of each kind */
unsigned aligned_live;

struct head {
    std::uint64_t mark;
    void *whole;
};

void *give(std::size_t size, std::size_t align, unsigned &live)
{
    std::size_t before = align < sizeof(head) ? sizeof(head) : align;
    void *whole = refuses ? nullptr : std::aligned_alloc(before, (size + 2 * before - 1) & -before);
    if (whole == nullptr)
        throw std::bad_alloc();
    char *p = static_cast<char *>(whole) + before;
    reinterpret_cast<head *>(p)[-1] = {mark, whole};
    live++;
    return p;
}

void take_back(void *p, unsigned &live)
{
    if (p == nullptr)
        return;
    head *h = static_cast<head *>(p) - 1;
    assert_int_equal(h->mark, mark);
    h->mark = 0;
    live--;
    std::free(h->whole);
}

template <class T> T *hide(T *p)
{
    __asm__ volatile("" : "+r"(p));
    return p;
}

} // namespace

void *operator new(std::size_t size)
{
    return give(size, 1, plain_live);
}

void *operator new(std::size_t size, std::align_val_t align)
{
    return give(size, static_cast<std::size_t>(align), aligned_live);
}

void operator delete(void *p) noexcept
{
    take_back(p, plain_live);
}

void operator delete(void *p, std::align_val_t) noexcept
{
    take_back(p, aligned_live);
}

namespace
{

const std::align_val_t align64{64};

void what_other_forms_allocate_is_the_programs(void **)
{
    static const std::size_t sizes[] = {1, 24, 500, 3000, 70000};
    for (std::size_t size : sizes) {
        void *p[] = {::operator new(size), ::operator new[](size),
                     ::operator new(size, std::nothrow), ::operator new[](size, std::nothrow)};
        assert_int_equal(plain_live, 4);
        for (void *block : p)
            ::operator delete(hide(block));
        void *q[] = {::operator new(size, align64), ::operator new[](size, align64),
                     ::operator new(size, align64, std::nothrow),
                     ::operator new[](size, align64, std::nothrow)};
        assert_int_equal(plain_live, 0);
        assert_int_equal(aligned_live, 4);
        for (void *block : q) {
            assert_int_equal(reinterpret_cast<std::uintptr_t>(block) % 64, 0);
            ::operator delete(hide(block), align64);
        }
        assert_int_equal(aligned_live, 0);
    }
}

void other_forms_delete_with_the_programs(void **)
{
    void (*const plain[])(void *) = {
        [](void *p) { ::operator delete[](p); },
        [](void *p) { ::operator delete(p, std::size_t{40}); },
        [](void *p) { ::operator delete[](p, std::size_t{40}); },
        [](void *p) { ::operator delete(p, std::nothrow); },
        [](void *p) { ::operator delete[](p, std::nothrow); },
    };
    void (*const aligned[])(void *) = {
        [](void *p) { ::operator delete[](p, align64); },
        [](void *p) { ::operator delete(p, std::size_t{40}, align64); },
        [](void *p) { ::operator delete[](p, std::size_t{40}, align64); },
        [](void *p) { ::operator delete(p, align64, std::nothrow); },
        [](void *p) { ::operator delete[](p, align64, std::nothrow); },
    };
    for (auto form : plain) {
        form(hide(::operator new(40)));
        assert_int_equal(plain_live, 0);
        form(hide(static_cast<void *>(nullptr)));
    }
    for (auto form : aligned) {
        form(hide(::operator new(40, align64)));
        assert_int_equal(aligned_live, 0);
        form(hide(static_cast<void *>(nullptr)));
    }
}

void what_the_programs_throws_is_null_for_nothrow(void **)
{
    refuses = true;
    assert_null(hide(::operator new(40, std::nothrow)));
    assert_null(hide(::operator new[](40, std::nothrow)));
    assert_null(hide(::operator new(40, align64, std::nothrow)));
    assert_null(hide(::operator new[](40, align64, std::nothrow)));
    bool thrown = false;
    try {
        hide(::operator new[](40));
    } catch (const std::bad_alloc &) {
        thrown = true;
    }
    refuses = false;
    assert_true(thrown);
}

/* std::stable_sort has its buffer from the nothrow form and deletes it by the usual one. */
void the_standard_library_gets_along(void **)
{
    std::vector<int> numbers(5000);
    for (std::size_t i = 0; i < numbers.size(); i++)
        numbers[i] = static_cast<int>(i * 7919 % numbers.size());
    std::stable_sort(numbers.begin(), numbers.end());
    assert_true(std::is_sorted(numbers.begin(), numbers.end()));
    delete[] hide(new std::vector<int>[3]);
    assert_int_equal(plain_live, 1); /* the numbers */
}

} // namespace

int main()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_other_forms_allocate_is_the_programs),
        cmocka_unit_test(other_forms_delete_with_the_programs),
        cmocka_unit_test(what_the_programs_throws_is_null_for_nothrow),
        cmocka_unit_test(the_standard_library_gets_along),
    };
    return RUN_TESTS(tests);
}
