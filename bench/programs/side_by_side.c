/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Benchmark: side_by_side. Stresses where large blocks begin: ARRAYS blocks of KIB KiB and a few
 * bytes, a field of a record each (a structure of arrays, as numerical programs and column stores
 * have them), are read side by side from their beginnings to their ends, ROUNDS times. Where all
 * begin at the same place within a page, each step along them needs more lines of the same few sets
 * of the first cache than fit there.
 *
 * Checksum: the sum of each round. The blocks are allocated and written once, before the time is
 * taken.
 */
#include "bench.h"

static uint64_t arrays_sum(uint32_t *const *array, size_t arrays, size_t length)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < length; i++)
        for (size_t a = 0; a < arrays; a++)
            sum += array[a][i];
    return sum;
}

int main(int argc, char **argv)
{
    bench_expect_args(argc, argv, 3, 3, "side_by_side ARRAYS KIB ROUNDS");
    size_t arrays = bench_number(argc, argv, 1, "ARRAYS", 1, 4096);
    size_t bytes = bench_number(argc, argv, 2, "KIB", 1, 1u << 22) * 1024;
    uint64_t rounds = bench_number(argc, argv, 3, "ROUNDS", 1, UINT32_MAX);
    size_t length = bytes / sizeof(uint32_t);
    uint32_t **array = calloc(arrays, sizeof *array);
    for (size_t a = 0; array != NULL && a < arrays; a++) {
        array[a] = malloc(bytes + sizeof(uint32_t));
        if (array[a] == NULL)
            bench_die(3, "no memory for array %zu: give a smaller KIB", a);
        for (size_t i = 0; i <= length; i++)
            array[a][i] = (uint32_t)(i * arrays + a);
    }
    if (array == NULL)
        bench_die(3, "no memory for %zu pointers: give fewer ARRAYS", arrays);

    uint64_t checksum = 0;
    uint64_t begin = bench_now_ns();
    for (uint64_t round = 0; round < rounds; round++)
        checksum = bench_mix(checksum, arrays_sum(array, arrays, length));
    uint64_t elapsed = bench_now_ns() - begin;
    for (size_t a = 0; a < arrays; a++)
        free(array[a]);
    free(array);
    bench_report("side_by_side", rounds * length * arrays, elapsed, checksum);
    return 0;
}
