// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Test: a C++ program that is linked with libhakmem.a, with shared system libraries and, as
// linked_cxx_static, with `-static`. Every operator new and delete has to be hakmem's, and work.
// linked_cxx_plain is the same without the library, to compare (linked.h).
// Who runs it: CTest. It never preloads anything.
#include <algorithm>
#include <map>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "linked.h"

namespace
{

struct alignas(256) Wide {
    char bytes[512];
};

int handler_calls = 0;

void handler_gives_up_after_three()
{
    if (++handler_calls == 3)
        throw std::bad_alloc();
}

// The calls are written out: the compiler may leave out a new-expression and its delete together.
void check_operators()
{
    void *plain = ::operator new(100);
    linked_check(linked_block_is_ours(plain, 100), "operator new uses another malloc");
    ::operator delete(plain, std::size_t{100});
    void *array = ::operator new[](1000);
    linked_check(linked_block_is_ours(array, 1000), "operator new[] uses another malloc");
    ::operator delete[](array);
    void *aligned = ::operator new(sizeof(Wide), std::align_val_t{alignof(Wide)});
    linked_check(reinterpret_cast<std::uintptr_t>(aligned) % alignof(Wide) == 0, "misaligned new");
    ::operator delete(aligned, sizeof(Wide), std::align_val_t{alignof(Wide)});
    void *quiet = ::operator new(static_cast<std::size_t>(PTRDIFF_MAX), std::nothrow);
    linked_check(quiet == nullptr, "nothrow new of PTRDIFF_MAX bytes succeeded");
}

void check_new_handler()
{
    std::set_new_handler(handler_gives_up_after_three);
    bool caught = false;
    try {
        ::operator delete(::operator new(static_cast<std::size_t>(PTRDIFF_MAX)));
    } catch (const std::bad_alloc &) {
        caught = true;
    }
    std::set_new_handler(nullptr);
    linked_check(caught && handler_calls == 3, "the new handler was not called until it gave up");
    std::printf("%d calls of the new handler\n", handler_calls);
}

std::size_t work(std::size_t seed)
{
    std::map<std::string, std::vector<std::unique_ptr<Wide>>> tree;
    for (std::size_t i = 0; i < 3000; i++) {
        auto &list =
            tree["a key that is longer than a short string " + std::to_string(i * seed % 97)];
        list.push_back(std::make_unique<Wide>());
        if (list.size() > 20)
            list.erase(list.begin(), list.begin() + 10);
    }
    std::size_t left = 0;
    for (const auto &entry : tree)
        left += entry.second.size();
    return left;
}

} // namespace

int main()
{
    linked_check_version();
    linked_check_sizes();
    linked_check_library_calls();
    check_operators();
    check_new_handler();
    std::vector<std::size_t> left(4);
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < left.size(); i++)
        threads.emplace_back([i, &left] { left[i] = work(i + 2); });
    std::for_each(threads.begin(), threads.end(), [](std::thread &thread) { thread.join(); });
    for (std::size_t count : left) {
        linked_check(count > 1000 && count <= 97 * 20, "a container lost something");
        std::printf("%zu elements left\n", count);
    }
    std::puts("passed");
    return 0;
}
