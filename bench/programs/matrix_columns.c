/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Benchmark: matrix_columns. Stresses where blocks of a power of two lie: a square matrix whose
 * rows are blocks of their own is added up column by column. If all rows begin at the same place
 * within a page, a column's elements share a few sets of the caches; if each begins at another one,
 * they do not. C programs keep matrices, tables and buffers of pixels like that.
 *
 * Rows of SIDE numbers of 8 bytes are allocated, filled, and added up TIMES times. Checksum: the
 * sums of all columns. It allocates no more than SIDE blocks, and frees them at the end.
 */
#include "bench.h"

static uint64_t column_sum(uint64_t *const *row, size_t side, size_t column)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < side; i++)
        sum += row[i][column];
    return sum;
}

int main(int argc, char **argv)
{
    bench_expect_args(argc, argv, 2, 2, "matrix_columns SIDE TIMES");
    size_t side = bench_number(argc, argv, 1, "SIDE", 1, 1u << 15);
    uint64_t times = bench_number(argc, argv, 2, "TIMES", 1, UINT64_C(1) << 40);
    uint64_t **row = calloc(side, sizeof *row);
    if (row == NULL)
        bench_die(3, "no memory for %zu rows: give a smaller SIDE", side);

    uint64_t random = bench_seed(42, 0), checksum = 0;
    uint64_t begin = bench_now_ns();
    for (size_t i = 0; i < side; i++) {
        row[i] = malloc(side * sizeof *row[i]);
        if (row[i] == NULL)
            bench_die(3, "no memory for row %zu: give a smaller SIDE", i);
        for (size_t column = 0; column < side; column++)
            row[i][column] = bench_random(&random);
    }
    for (uint64_t n = 0; n < times; n++)
        for (size_t column = 0; column < side; column++)
            checksum = bench_mix(checksum, column_sum(row, side, column));
    uint64_t elapsed = bench_now_ns() - begin;
    for (size_t i = 0; i < side; i++)
        free(row[i]);
    free(row);
    bench_report("matrix_columns", side * side * times, elapsed, checksum);
    return 0;
}
