/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Benchmark: cxx_maps. Stresses what C++ programs do all day: std::map and std::unordered_map from
 * strings to strings, of which many are too long to be kept inside the string object. They are
 * filled with ENTRIES entries in a scattered order, asked, thinned out by two thirds, filled again,
 * and destroyed. Two blocks of different sizes for each entry, freed in an order of their own.
 *
 * Checksum: all keys and values found, in order of the map. It never starts a thread.
 */
#include "bench.h"

#include <map>
#include <string>
#include <unordered_map>

namespace
{

std::string key_of(uint64_t number)
{
    uint64_t state = number | 1;
    uint64_t random = bench_random(&state);
    return "customer/" + std::to_string(random % 1000003) + "/" + std::to_string(number);
}

std::string value_of(uint64_t number)
{
    return std::string(number % 61, static_cast<char>('a' + number % 26));
}

template <typename Map> void fill(Map &map, uint64_t from, uint64_t count)
{
    for (uint64_t n = from; n < from + count; n++)
        map.emplace(key_of(n), value_of(n));
}

template <typename Map> uint64_t ask(const Map &map, uint64_t count)
{
    uint64_t sum = 0;
    for (uint64_t n = 0; n < count; n += 3) {
        auto found = map.find(key_of(n));
        if (found == map.end() || found->second != value_of(n))
            bench_die(1, "entry %" PRIu64 " is lost or was overwritten", n);
        sum += found->second.size() + n;
    }
    return sum;
}

template <typename Map> void thin_out(Map &map, uint64_t count)
{
    for (uint64_t n = 0; n < count; n++)
        if (n % 3 != 0)
            map.erase(key_of(n));
}

template <typename Map> uint64_t work(uint64_t entries)
{
    Map map;
    fill(map, 0, entries);
    uint64_t sum = ask(map, entries);
    thin_out(map, entries);
    fill(map, entries, entries / 2);
    sum = bench_mix(sum, ask(map, entries));
    return bench_mix(sum, map.size());
}

uint64_t in_order(uint64_t entries)
{
    std::map<std::string, std::string> map;
    uint64_t sum = 0;
    fill(map, 0, entries / 4);
    for (const auto &[key, value] : map)
        sum = bench_mix(sum, key.size() * 64 + value.size());
    return sum;
}

} // namespace

int main(int argc, char **argv)
{
    bench_expect_args(argc, argv, 1, 1, "cxx_maps ENTRIES");
    uint64_t entries = bench_number(argc, argv, 1, "ENTRIES", 3, UINT32_MAX);
    uint64_t begin = bench_now_ns();
    uint64_t checksum = work<std::map<std::string, std::string>>(entries);
    checksum = bench_mix(checksum, work<std::unordered_map<std::string, std::string>>(entries));
    checksum = bench_mix(checksum, in_order(entries));
    bench_report("cxx_maps", entries * 4, bench_now_ns() - begin, checksum);
    return 0;
}
