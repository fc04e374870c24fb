// SPDX-License-Identifier: Apache-2.0 OR MIT
// A file for tests/programs: g++ has to compile it (much of the standard library), and the result
// is run as a program that uses every operator new and delete. It prints only what follows from its
// work.
#include <algorithm>
#include <cstdint>
#include <iostream>
#include <list>
#include <map>
#include <memory>
#include <new>
#include <regex>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <unordered_map>
#include <variant>
#include <vector>

namespace
{

struct alignas(128) Wide {
    double values[16];
};

std::uint64_t work(unsigned seed)
{
    std::map<std::string, std::vector<int>> tree;
    std::unordered_map<int, std::list<std::string>> table;
    std::uint32_t state = seed * 2654435761u + 1;
    for (int i = 0; i < 20000; i++) {
        state = state * 1664525u + 1013904223u;
        tree["key" + std::to_string(state >> 22)].push_back(i);
        table[static_cast<int>(state >> 24)].push_back(std::string(state >> 25, 'x'));
        if (i % 7 == 0)
            table.erase(static_cast<int>(state >> 23 & 0xff));
    }
    std::uint64_t sum = 0;
    for (const auto &[key, values] : tree)
        sum = sum * 31 + key.size() + values.size();
    for (int key = 0; key < 256; key++)
        if (auto found = table.find(key); found != table.end())
            sum = sum * 31 + found->second.size();
    return sum;
}

std::size_t operators()
{
    std::vector<std::unique_ptr<Wide>> wide;
    for (int i = 0; i < 1000; i++) {
        wide.push_back(std::make_unique<Wide>());
        if (reinterpret_cast<std::uintptr_t>(wide.back().get()) % alignof(Wide) != 0)
            throw std::logic_error("aligned new returned a misaligned block");
    }
    std::unique_ptr<int[]> array(new (std::nothrow) int[5000]());
    auto shared = std::make_shared<std::variant<int, std::string>>(std::string(500, 'v'));
    return wide.size() + static_cast<std::size_t>(array[4999]) + std::get<1>(*shared).size();
}

std::string failures()
{
    std::ostringstream out;
    try {
        ::operator delete(::operator new(static_cast<std::size_t>(PTRDIFF_MAX)));
        out << "no exception";
    } catch (const std::bad_alloc &) {
        out << "bad_alloc";
    }
    try {
        throw std::runtime_error(std::string(300, 'e'));
    } catch (const std::exception &error) {
        out << ' ' << std::string(error.what()).size();
    }
    return out.str();
}

} // namespace

int main()
{
    std::vector<std::uint64_t> results(4);
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < results.size(); i++)
        threads.emplace_back([i, &results] { results[i] = work(i); });
    for (auto &thread : threads)
        thread.join();
    for (std::uint64_t result : results)
        std::cout << "work " << result << '\n';
    std::cout << "operators " << operators() << '\n' << "failures " << failures() << '\n';
    std::string text;
    for (int i = 0; i < 2000; i++)
        text += "a" + std::to_string(i) + ";";
    std::cout << "regex " << std::regex_replace(text, std::regex("a([0-9])7;"), "<$1>").size()
              << '\n';
    std::multiset<std::string> sorted;
    for (std::size_t i = 0; i + 5 < text.size(); i += 3)
        sorted.insert(text.substr(i, 5));
    std::cout << "sorted " << *sorted.begin() << ' ' << sorted.size() << std::endl;
    return 0;
}
