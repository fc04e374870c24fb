/* Conformance: every C++ operator new and delete: plain, array, nothrow, sized, aligned and their
 * combinations; the new_handler loop, then bad_alloc.
 *
 * Run with the library preloaded or linked; the prefixed library has no operators.
 * SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <malloc.h>
#include <new>
#include <stdexcept>
#include <string>
#include <sys/resource.h>
#include <vector>

extern "C" {
#include "conformance/support/cmocka_all.h"
#include "conformance/support/pattern.h"
#include "conformance/support/sizes.h"
}

namespace
{

const std::size_t too_big = SIZE_MAX / 2 + 5;

void *hide(void *p)
{
    __asm__ volatile("" : "+r"(p));
    return p;
}

std::size_t hide(std::size_t n)
{
    __asm__ volatile("" : "+r"(n));
    return n;
}

/* Each way to allocate (of `kinds`), with the alignment it promises. */
enum {
    PLAIN,
    ARRAY,
    NOTHROW,
    ARRAY_NOTHROW,
    ALIGNED,
    ARRAY_ALIGNED,
    ALIGNED_NOTHROW,
    ARRAY_ALIGNED_NOTHROW
};
const unsigned kinds = 8;

void *take(unsigned kind, std::size_t size, std::align_val_t align)
{
    size = hide(size);
    switch (kind) {
    case PLAIN:
        return hide(::operator new(size));
    case ARRAY:
        return hide(::operator new[](size));
    case NOTHROW:
        return hide(::operator new(size, std::nothrow));
    case ARRAY_NOTHROW:
        return hide(::operator new[](size, std::nothrow));
    case ALIGNED:
        return hide(::operator new(size, align));
    case ARRAY_ALIGNED:
        return hide(::operator new[](size, align));
    case ALIGNED_NOTHROW:
        return hide(::operator new(size, align, std::nothrow));
    default:
        return hide(::operator new[](size, align, std::nothrow));
    }
}

bool is_array(unsigned kind)
{
    return kind % 2 == 1;
}

bool is_aligned_kind(unsigned kind)
{
    return kind >= ALIGNED;
}

bool is_nothrow(unsigned kind)
{
    return kind == NOTHROW || kind == ARRAY_NOTHROW || kind == ALIGNED_NOTHROW ||
           kind == ARRAY_ALIGNED_NOTHROW;
}

/* 0: as it came; 1: nothrow form; 2: sized form. */
const unsigned ways_to_delete = 3;

void give_scalar(void *p, unsigned way, std::size_t size)
{
    switch (way) {
    case 0:
        ::operator delete(p);
        break;
    case 1:
        ::operator delete(p, std::nothrow);
        break;
    default:
        ::operator delete(p, size);
        break;
    }
}

void give_array(void *p, unsigned way, std::size_t size)
{
    switch (way) {
    case 0:
        ::operator delete[](p);
        break;
    case 1:
        ::operator delete[](p, std::nothrow);
        break;
    default:
        ::operator delete[](p, size);
        break;
    }
}

void give_aligned(void *p, unsigned way, std::size_t size, std::align_val_t align, bool array)
{
    switch (way + (array ? 3 : 0)) {
    case 0:
        ::operator delete(p, align);
        break;
    case 1:
        ::operator delete(p, align, std::nothrow);
        break;
    case 2:
        ::operator delete(p, size, align);
        break;
    case 3:
        ::operator delete[](p, align);
        break;
    case 4:
        ::operator delete[](p, align, std::nothrow);
        break;
    default:
        ::operator delete[](p, size, align);
        break;
    }
}

void give(unsigned kind, unsigned way, void *p, std::size_t size, std::align_val_t align)
{
    if (is_aligned_kind(kind))
        give_aligned(p, way, size, align, is_array(kind));
    else if (is_array(kind))
        give_array(p, way, size);
    else
        give_scalar(p, way, size);
}

void every_new_with_every_delete(void **)
{
    for (unsigned kind = 0; kind < kinds; kind++) {
        for (unsigned way = 0; way < ways_to_delete; way++) {
            for (std::size_t i = 0; i < COUNT_OF(all_sizes); i++) {
                std::size_t size = all_sizes[i], align = is_aligned_kind(kind) ? 128 : 16;
                void *p = take(kind, size, std::align_val_t(128));
                CHECK(p && reinterpret_cast<std::uintptr_t>(p) % align == 0, "kind %u size %zu",
                      kind, size);
                CHECK(malloc_usable_size(p) >= size, "kind %u size %zu", kind, size);
                pattern_fill(p, size, i);
                CHECK(pattern_holds(p, size, i), "kind %u size %zu", kind, size);
                give(kind, way, p, size, std::align_val_t(128));
            }
        }
    }
}

void alignments_up_to_1_mib(void **)
{
    for (std::size_t align = 1; align <= MIB(1); align *= 2) {
        for (unsigned kind = ALIGNED; kind < kinds; kind++) {
            static const std::size_t sizes[] = {0, 1, 40, 1000, 70000};
            for (std::size_t size : sizes) {
                void *p = take(kind, size, std::align_val_t(align));
                CHECK(p && reinterpret_cast<std::uintptr_t>(p) % align == 0, "align %zu gave %p",
                      align, p);
                std::memset(p, 1, size);
                give(kind, kind % 3, p, size, std::align_val_t(align));
            }
        }
    }
}

void size_0_is_unique_and_null_may_be_deleted(void **)
{
    for (unsigned kind = 0; kind < kinds; kind++) {
        void *a = take(kind, 0, std::align_val_t(64)), *b = take(kind, 0, std::align_val_t(64));
        assert_true(a && b && a != b);
        for (unsigned way = 0; way < ways_to_delete; way++)
            give(kind, way, nullptr, 0, std::align_val_t(64));
        give(kind, 0, a, 0, std::align_val_t(64));
        give(kind, 1, b, 0, std::align_val_t(64));
    }
}

/* What follows a failed call may destroy objects before it looks at errno. */
void every_delete_keeps_errno(void **)
{
    const int mark = 4711;
    for (unsigned kind = 0; kind < kinds; kind++) {
        for (unsigned way = 0; way < ways_to_delete; way++) {
            errno = mark;
            give(kind, way, nullptr, 0, std::align_val_t(128));
            CHECK(errno == mark, "kind %u way %u, null: errno %d", kind, way, errno);
            for (std::size_t size : all_sizes) {
                void *p = take(kind, size, std::align_val_t(128));
                errno = mark;
                give(kind, way, p, size, std::align_val_t(128));
                CHECK(errno == mark, "kind %u way %u, size %zu: errno %d", kind, way, size, errno);
            }
        }
    }
}

void too_big_throws_or_gives_null(void **)
{
    for (unsigned kind = 0; kind < kinds; kind++) {
        static const std::size_t sizes[] = {SIZE_MAX, SIZE_MAX - 15, SIZE_MAX - 4096, too_big};
        for (std::size_t size : sizes) {
            bool thrown = false;
            void *p = nullptr;
            try {
                p = take(kind, size, std::align_val_t(64));
            } catch (const std::bad_alloc &) {
                thrown = true;
            }
            CHECK(p == nullptr && thrown == !is_nothrow(kind), "kind %u size %zx", kind, size);
        }
    }
}

/* ---- the new_handler loop ---- */

unsigned calls;
void *reserve; /* what a handler can give back */

void give_up_after_5()
{
    if (++calls == 5)
        std::set_new_handler(nullptr);
}

void handler_is_called_until_it_gives_up(void **)
{
    for (unsigned kind = 0; kind < kinds; kind++) {
        calls = 0;
        std::set_new_handler(give_up_after_5);
        bool thrown = false;
        void *p = nullptr;
        try {
            p = take(kind, too_big, std::align_val_t(64));
        } catch (const std::bad_alloc &) {
            thrown = true;
        }
        CHECK(calls == 5, "kind %u: %u calls", kind, calls);
        CHECK(p == nullptr && thrown == !is_nothrow(kind), "kind %u", kind);
        assert_true(std::get_new_handler() == nullptr);
    }
}

struct our_error : std::bad_alloc {
};

void throw_ours()
{
    calls++;
    throw our_error();
}

void what_the_handler_throws_passes(void **)
{
    for (unsigned kind = 0; kind < kinds; kind++) {
        calls = 0;
        std::set_new_handler(throw_ours);
        bool thrown = false;
        void *p = nullptr;
        try {
            p = take(kind, too_big, std::align_val_t(64));
        } catch (const our_error &) {
            thrown = true;
        }
        std::set_new_handler(nullptr);
        CHECK(calls == 1 && p == nullptr && thrown == !is_nothrow(kind), "kind %u", kind);
    }
}

void free_the_reserve()
{
    calls++;
    std::free(reserve);
    reserve = nullptr;
    malloc_trim(0);
    if (calls > 3)
        throw std::bad_alloc();
}

std::size_t virtual_bytes()
{
    unsigned long pages = 0;
    std::FILE *f = std::fopen("/proc/self/statm", "r");
    if (!f || std::fscanf(f, "%lu", &pages) != 1)
        pages = 0;
    if (f)
        std::fclose(f);
    return pages * 4096;
}

/* With 200 MiB of address space left and 150 of them in the reserve, 120 MiB fit only after the
 * handler has freed it. */
void a_handler_that_frees_memory_lets_the_next_try_succeed(void **)
{
    struct rlimit old, limit;
    assert_int_equal(getrlimit(RLIMIT_AS, &old), 0);
    malloc_trim(0); /* nothing that is kept may serve */
    limit = old;
    limit.rlim_cur = virtual_bytes() + MIB(200);
    for (unsigned kind = 0; kind < kinds; kind++) {
        assert_int_equal(setrlimit(RLIMIT_AS, &limit), 0);
        reserve = std::malloc(MIB(150));
        calls = 0;
        std::set_new_handler(free_the_reserve);
        void *p = nullptr;
        try {
            p = take(kind, MIB(120), std::align_val_t(64));
        } catch (const std::bad_alloc &) {
        }
        std::set_new_handler(nullptr);
        setrlimit(RLIMIT_AS, &old);
        CHECK(p != nullptr && calls == 1, "kind %u: %p after %u calls", kind, p, calls);
        give(kind, 0, p, MIB(120), std::align_val_t(64));
        malloc_trim(0);
    }
}

struct thrower {
    char bytes[500];
    thrower()
    {
        throw std::runtime_error("constructor");
    }
};

/* A constructor that throws gives its memory back through the matching delete. */
void a_throwing_constructor_frees(void **)
{
    struct mallinfo2 before = mallinfo2();
    for (int i = 0; i < 100000; i++) {
        try {
            delete new thrower;
        } catch (const std::runtime_error &) {
        }
    }
    struct mallinfo2 after = mallinfo2();
    assert_true(after.uordblks < before.uordblks + MIB(10));
}

struct alignas(256) wide {
    char bytes[300];
    ~wide()
    {
        bytes[0] = 0;
    }
};

void expressions_and_containers(void **)
{
    for (int i = 0; i < 2000; i++) {
        wide *one = new wide, *many = new wide[3];
        assert_int_equal(reinterpret_cast<std::uintptr_t>(hide(one)) % 256, 0);
        assert_int_equal(reinterpret_cast<std::uintptr_t>(hide(many)) % 256, 0);
        delete one;
        delete[] many;
        std::vector<std::string> words;
        for (int k = 0; k < 50; k++)
            words.push_back(std::string(static_cast<std::size_t>(k * 7), 'x') + std::to_string(k));
        assert_int_equal(words[49].size(), 49 * 7 + 2);
    }
    bool thrown = false;
    try {
        volatile std::size_t n = SIZE_MAX / 8;
        char(*p)[16] = new char[n][16];
        delete[] p;
    } catch (const std::bad_alloc &) { /* bad_array_new_length is one */
        thrown = true;
    }
    assert_true(thrown);
}

/* Old C++ code deletes what malloc gave, and the other way round; glibc allows it. */
void malloc_and_new_share_their_blocks(void **)
{
    for (std::size_t i = 0; i < COUNT_OF(all_sizes); i++) {
        std::free(take(PLAIN, all_sizes[i], std::align_val_t(16)));
        std::free(take(ALIGNED, all_sizes[i], std::align_val_t(64)));
        ::operator delete(hide(std::malloc(all_sizes[i])));
    }
}

} // namespace

int main()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_new_with_every_delete),
        cmocka_unit_test(alignments_up_to_1_mib),
        cmocka_unit_test(size_0_is_unique_and_null_may_be_deleted),
        cmocka_unit_test(every_delete_keeps_errno),
        cmocka_unit_test(too_big_throws_or_gives_null),
        cmocka_unit_test(handler_is_called_until_it_gives_up),
        cmocka_unit_test(what_the_handler_throws_passes),
        cmocka_unit_test(a_handler_that_frees_memory_lets_the_next_try_succeed),
        cmocka_unit_test(a_throwing_constructor_frees),
        cmocka_unit_test(expressions_and_containers),
        cmocka_unit_test(malloc_and_new_share_their_blocks),
    };
    return RUN_TESTS(tests);
}
