/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Unit tests of base: bits and rounding, each against the definition written as a loop. */
#include "../unit.h"

#include "base/base.h"

#include <pthread.h>

static void log2_floor_and_ceil_bracket_every_value(void **state)
{
    (void)state;
    for (uint64_t x = 1; x < 100000; x++) {
        unsigned floor = hak_log2_floor(x);
        unsigned ceil = hak_log2_ceil(x);
        CHECK(1ull << floor <= x && x < 2ull << floor, "x = %lu", x);
        CHECK(1ull << ceil >= x && (ceil == 0 || 1ull << (ceil - 1) < x), "x = %lu", x);
    }
    for (unsigned bit = 1; bit < 64; bit++) {
        assert_int_equal(hak_log2_floor(1ull << bit), bit);
        assert_int_equal(hak_log2_ceil(1ull << bit), bit);
        assert_int_equal(hak_log2_floor((1ull << bit) - 1), bit - 1);
        assert_int_equal(hak_log2_ceil((1ull << bit) + 1), bit + 1);
    }
    assert_int_equal(hak_log2_floor(UINT64_MAX), 63);
    assert_int_equal(hak_log2_ceil(0), 0);
    assert_int_equal(hak_log2_ceil(UINT64_MAX), 64);
}

static void is_pow2_is_true_of_single_bits_only(void **state)
{
    (void)state;
    assert_false(hak_is_pow2(0));
    for (unsigned bit = 0; bit < 64; bit++) {
        assert_true(hak_is_pow2((size_t)1 << bit));
        assert_false(hak_is_pow2(((size_t)1 << bit) | ((size_t)1 << ((bit + 1) % 64))));
    }
}

static void rounding_reaches_the_nearest_multiple(void **state)
{
    (void)state;
    for (size_t to = 1; to <= 4096; to *= 2) {
        for (size_t x = 0; x < 10000; x += 7) {
            size_t up = hak_round_up(x, to);
            size_t down = hak_round_down(x, to);
            CHECK(up % to == 0 && up >= x && up - x < to, "x = %zu, to = %zu", x, to);
            CHECK(down % to == 0 && down <= x && x - down < to, "x = %zu, to = %zu", x, to);
        }
    }
}

static void low_bits_are_as_many_as_asked_for(void **state)
{
    (void)state;
    for (unsigned n = 0; n <= 32; n++) {
        assert_int_equal(hak_popcount64(hak_low_bits32(n)), n);
        assert_int_equal((uint64_t)hak_low_bits32(n) + 1, 1ull << n);
    }
}

static void test_and_set_tells_what_the_bit_was(void **state)
{
    (void)state;
    for (unsigned at = 0; at < 200; at++) { /* beyond 63 it is the bit of the remainder */
        uint64_t bit = UINT64_C(1) << (at % 64);
        uint64_t word = 0x00ff00aa5500ff11u & ~bit;
        uint64_t before = word;
        assert_false(hak_test_and_set64(&word, at));
        assert_int_equal(word, before | bit);
        assert_true(hak_test_and_set64(&word, at));
        assert_int_equal(word, before | bit);
    }
}

static uint32_t naive_run_starts(uint32_t set, unsigned n)
{
    uint32_t starts = 0;
    for (unsigned at = 0; at + n <= 32; at++) {
        unsigned length = 0;
        while (length < n && (set >> (at + length) & 1))
            length++;
        if (length == n)
            starts |= 1u << at;
    }
    return starts;
}

static void run_starts_are_where_a_loop_finds_them(void **state)
{
    (void)state;
    struct unit_random r = {0x1234567};
    for (int i = 0; i < 20000; i++) {
        uint32_t set = (uint32_t)unit_random(&r);
        if (i % 3 == 0)
            set |= (uint32_t)unit_random(&r) | (uint32_t)(unit_random(&r) >> 20); /* longer runs */
        unsigned n = 1 + (unsigned)unit_below(&r, 32);
        CHECK(hak_run_starts32(set, n) == naive_run_starts(set, n), "set %x, run %u", set, n);
    }
    for (unsigned n = 1; n <= 32; n++) {
        assert_int_equal(hak_run_starts32(UINT32_MAX, n), naive_run_starts(UINT32_MAX, n));
        assert_int_equal(hak_run_starts32(0, n), 0);
    }
}

static void aligned_starts_are_the_multiples(void **state)
{
    (void)state;
    for (unsigned n = 1; n <= 32; n *= 2)
        for (unsigned at = 0; at < 32; at++)
            CHECK((hak_aligned_starts32(n) >> at & 1) == (at % n == 0), "n = %u, at = %u", n, at);
}

static void count_owner_adds_and_wraps(void **state)
{
    (void)state;
    _Atomic(uint16_t) small = 65535;
    _Atomic(uint64_t) large = 40;
    hak_count_owner(&small, (uint16_t)1);
    hak_count_owner(&large, 2u);
    assert_int_equal(hak_load_relaxed(&small), 0);
    assert_int_equal(hak_load_relaxed(&large), 42);
}

static void cas_tells_what_it_found(void **state)
{
    (void)state;
    _Atomic(uint32_t) word = 5;
    uint32_t expected = 4;
    assert_false(hak_cas_acquire(&word, &expected, 9u));
    assert_int_equal(expected, 5);
    assert_true(hak_cas_acquire(&word, &expected, 9u));
    assert_int_equal(hak_load_relaxed(&word), 9);
}

/* A word of four bytes, each of which a thread counts up. */
#define BYTE_ROUNDS 50000u
static _Atomic(uint8_t) bytes[4] __attribute__((aligned(4)));

static void *byte_main(void *byte)
{
    uint8_t expected = 0;
    for (unsigned i = 0; i < BYTE_ROUNDS; i++)
        while (!hak_cas_byte(byte, &expected, (uint8_t)(expected + 1)))
            ; /* the first of each round fails */
    return NULL;
}

static void byte_cas_tells_what_it_found_and_leaves_its_neighbours(void **state)
{
    (void)state;
    pthread_t threads[4];
    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, byte_main, (void *)&bytes[i]), 0);
    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(hak_load_relaxed(&bytes[i]), BYTE_ROUNDS % 256);
    uint8_t expected = 7;
    assert_false(hak_cas_byte(&bytes[2], &expected, 9));
    assert_int_equal(expected, BYTE_ROUNDS % 256);
    assert_true(hak_cas_byte(&bytes[2], &expected, 9));
    assert_int_equal(hak_load_relaxed(&bytes[2]), 9);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(log2_floor_and_ceil_bracket_every_value),
    cmocka_unit_test(is_pow2_is_true_of_single_bits_only),
    cmocka_unit_test(rounding_reaches_the_nearest_multiple),
    cmocka_unit_test(low_bits_are_as_many_as_asked_for),
    cmocka_unit_test(test_and_set_tells_what_the_bit_was),
    cmocka_unit_test(run_starts_are_where_a_loop_finds_them),
    cmocka_unit_test(aligned_starts_are_the_multiples),
    cmocka_unit_test(count_owner_adds_and_wraps),
    cmocka_unit_test(cas_tells_what_it_found),
    cmocka_unit_test(byte_cas_tells_what_it_found_and_leaves_its_neighbours),
};
UNIT_MAIN(tests)
