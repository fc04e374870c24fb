/* Conformance: the memory resource of hakmem.hpp: sizes and alignments, what it throws, containers,
 * equality.
 *
 * Run with the library preloaded, or built against the prefixed one.
 * SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "hakmem.hpp"

#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <thread>
#include <vector>

extern "C" {
#include "conformance/support/cmocka_all.h"
#include "conformance/support/pattern.h"
#include "conformance/support/sizes.h"
}

namespace
{

/* Its destructor runs when everything else has ended. */
std::pmr::vector<std::pmr::string> last(hakmem::resource());

void every_size_and_alignment(void **state)
{
    (void)state;
    for (std::size_t size : all_sizes) {
        for (std::size_t alignment = 1; alignment <= MIB(1); alignment *= 2) {
            void *p = hakmem::resource()->allocate(size, alignment);
            assert_int_equal(reinterpret_cast<std::uintptr_t>(p) % alignment, 0);
            pattern_fill(p, size, alignment);
            assert_true(pattern_holds(p, size, alignment));
            hakmem::resource()->deallocate(p, size, alignment);
        }
    }
}

bool is_refused(std::size_t size, std::size_t alignment)
{
    try {
        hakmem::resource()->deallocate(hakmem::resource()->allocate(size, alignment), size,
                                       alignment);
    } catch (const std::bad_alloc &) {
        return true;
    }
    return false;
}

void too_much_throws_bad_alloc(void **state)
{
    (void)state;
    assert_true(is_refused(SIZE_MAX, 8));
    assert_true(is_refused(SIZE_MAX / 2 + 1, 1));
    assert_true(is_refused(SIZE_MAX / 2, 4096));
    assert_false(is_refused(0, 1));
    assert_false(is_refused(0, 4096));
}

void containers_take_it_along(void **state)
{
    (void)state;
    std::pmr::map<int, std::pmr::string> words(hakmem::resource());
    for (int i = 0; i < 20000; i++)
        words[i].assign(static_cast<std::size_t>(i % 300), 'x');
    assert_true(words[299].get_allocator().resource() == hakmem::resource());
    for (int i = 0; i < 20000; i += 2)
        words.erase(i);
    for (const auto &[number, word] : words)
        assert_int_equal(word.size(), number % 300);
    std::pmr::monotonic_buffer_resource arena(hakmem::resource());
    std::pmr::vector<long> numbers(&arena);
    for (long i = 0; i < 100000; i++)
        numbers.push_back(i);
    assert_int_equal(numbers[99999], 99999);
    last.emplace_back("freed after main");
}

void threads_free_each_others_blocks(void **state)
{
    (void)state;
    std::vector<std::pmr::vector<char>> made(8);
    std::vector<std::thread> threads;
    for (std::size_t n = 0; n < made.size(); n++)
        threads.emplace_back([&made, n] {
            std::pmr::vector<char> mine(hakmem::resource());
            mine.resize(1000 * (n + 1), static_cast<char>(n));
            made[n] = std::move(mine);
        });
    for (auto &thread : threads)
        thread.join();
    for (std::size_t n = 0; n < made.size(); n++)
        assert_int_equal(made[n].back(), n);
}

void all_are_equal(void **state)
{
    (void)state;
    hakmem::memory_resource other;
    assert_true(other == *hakmem::resource());
    assert_false(other == *std::pmr::null_memory_resource());
    void *p = other.allocate(100);
    hakmem::resource()->deallocate(p, 100);
}

} // namespace

int main()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_size_and_alignment),
        cmocka_unit_test(too_much_throws_bad_alloc),
        cmocka_unit_test(containers_take_it_along),
        cmocka_unit_test(threads_free_each_others_blocks),
        cmocka_unit_test(all_are_equal),
    };
    return RUN_TESTS(tests);
}
