/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Unit tests of base: text in a fixed buffer, and sizes read from text. */
#include "../unit.h"

#include "base/base.h"

static void numbers_are_written_as_printf_writes_them(void **state)
{
    (void)state;
    struct unit_random r = {99};
    for (int i = 0; i < 2000; i++) {
        uint64_t value = i < 3 ? (uint64_t)i : unit_random(&r) >> unit_below(&r, 64);
        char ours[64], theirs[64];
        struct hak_text text;
        hak_text_begin(&text, ours, sizeof ours);
        hak_text_decimal(&text, value);
        hak_text_string(&text, " ");
        hak_text_hex(&text, value);
        snprintf(theirs, sizeof theirs, "%lu 0x%lx", value, value);
        assert_string_equal(ours, theirs);
        assert_ptr_equal(text.at, ours + strlen(theirs));
    }
}

static void the_largest_number_fits(void **state)
{
    (void)state;
    char buffer[64];
    struct hak_text text;
    hak_text_begin(&text, buffer, sizeof buffer);
    hak_text_decimal(&text, UINT64_MAX);
    assert_string_equal(buffer, "18446744073709551615");
}

static void what_does_not_fit_is_cut_off_and_nothing_behind_the_buffer_is_touched(void **state)
{
    (void)state;
    for (size_t size = 1; size <= 20; size++) {
        char buffer[32];
        memset(buffer, '#', sizeof buffer);
        struct hak_text text;
        hak_text_begin(&text, buffer, size);
        assert_int_equal(buffer[0], '\0');
        hak_text_string(&text, "abc");
        hak_text_decimal(&text, 123456);
        hak_text_hex(&text, 0xff);
        assert_int_equal(strlen(buffer), size - 1 < 13 ? size - 1 : 13);
        assert_memory_equal(buffer, "abc1234560xff", strlen(buffer));
        for (size_t i = size; i < sizeof buffer; i++)
            assert_int_equal(buffer[i], '#');
    }
}

static void parse_size_reads_numbers_and_suffixes(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t value;
    } cases[] = {
        {"0", 0},
        {"7", 7},
        {"007", 7},
        {"1k", 1024},
        {"1K", 1024},
        {"1kB", 1024},
        {"1KiB", 1024},
        {"3m", 3u << 20},
        {"3MB", 3u << 20},
        {"3mib", 3u << 20},
        {"5G", 5ull << 30},
        {"2tB", 2ull << 40},
        {"0t", 0},
        {"18446744073709551615", UINT64_MAX},
        {"18014398509481983k", UINT64_MAX << 10},
        {"16777215t", 16777215ull << 40},
    };
    for (size_t i = 0; i < UNIT_COUNT(cases); i++) {
        uint64_t value = 77;
        CHECK(hak_text_parse_size(cases[i].text, strlen(cases[i].text), &value), "%s",
              cases[i].text);
        CHECK(value == cases[i].value, "%s gave %lu", cases[i].text, value);
    }
}

static void parse_size_refuses_everything_else_and_leaves_the_value(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",
        "k",
        "-1",
        "+1",
        " 1",
        "1 ",
        "1.5",
        "0x10",
        "1kk",
        "1kBB",
        "1kbi",
        "1p",
        "1i",
        "1B",
        "ten",
        "1\n",
        "1,2",
        "1km",
        "k1",
        "1kiBs",
        "18446744073709551616",    /* 2^64 */
        "99999999999999999999999", /* far beyond */
        "18014398509481984k",      /* 2^54 KiB = 2^64 */
        "16777216t",               /* 2^24 TiB = 2^64 */
        "17179869184g",            /* 2^34 GiB = 2^64 */
    };
    for (size_t i = 0; i < UNIT_COUNT(bad); i++) {
        uint64_t value = 77;
        CHECK(!hak_text_parse_size(bad[i], strlen(bad[i]), &value), "\"%s\" gave %lu", bad[i],
              value);
        CHECK(value == 77, "\"%s\" changed the value", bad[i]);
    }
}

static void parse_size_reads_no_further_than_it_was_told(void **state)
{
    (void)state;
    uint64_t value = 77;
    assert_true(hak_text_parse_size("12k,34", 3, &value));
    assert_int_equal(value, 12 * 1024);
    assert_true(hak_text_parse_size("12k,34", 2, &value));
    assert_int_equal(value, 12);
    assert_false(hak_text_parse_size("12", 0, &value));
}

static void text_is_found_where_the_c_library_finds_it(void **state)
{
    (void)state;
    static const char *const texts[] = {"", "a", "aab", "aaab", "abab abba", "x=1 y=22"};
    static const char *const words[] = {"", "a", "aab", "ba", " ", "y=", "b abb", "abab abbax"};
    for (size_t t = 0; t < UNIT_COUNT(texts); t++)
        for (size_t w = 0; w < UNIT_COUNT(words); w++) {
            CHECK(hak_text_find(texts[t], words[w]) == strstr(texts[t], words[w]),
                  "\"%s\" in \"%s\"", words[w], texts[t]);
            bool equal = strcmp(texts[t], words[w]) == 0;
            CHECK(hak_text_is(texts[t], strlen(texts[t]), words[w]) == equal, "\"%s\", \"%s\"",
                  words[w], texts[t]);
        }
    assert_ptr_equal(hak_text_find_char(texts[5], '2', 6), NULL);
    assert_ptr_equal(hak_text_find_char(texts[5], '2', 7), texts[5] + 6);
    assert_true(hak_text_is("size=16", 4, "size"));
    assert_false(hak_text_is("size=16", 3, "size"));
    assert_true(hak_bytes_are_equal("a\0b", "a\0b", 3));
    assert_false(hak_bytes_are_equal("a\0b", "a\0c", 3));
    assert_true(hak_bytes_are_equal("a", "b", 0));
    assert_int_equal(hak_text_digits("120 kB"), 3);
    assert_int_equal(hak_text_digits("max"), 0);
}

static void what_comes_from_outside_stays_in_its_line(void **state)
{
    (void)state;
    char line[16];
    struct hak_text text;
    hak_text_begin(&text, line, sizeof line);
    hak_text_printable(&text, "a\nb\033\x7f\xc3\xa9 c", 20);
    assert_string_equal(line, "a?b??\xc3\xa9 c");
    hak_text_printable(&text, "12345", 2);
    assert_string_equal(line, "a?b??\xc3\xa9 c12");
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(numbers_are_written_as_printf_writes_them),
    cmocka_unit_test(the_largest_number_fits),
    cmocka_unit_test(what_does_not_fit_is_cut_off_and_nothing_behind_the_buffer_is_touched),
    cmocka_unit_test(parse_size_reads_numbers_and_suffixes),
    cmocka_unit_test(parse_size_refuses_everything_else_and_leaves_the_value),
    cmocka_unit_test(parse_size_reads_no_further_than_it_was_told),
    cmocka_unit_test(what_comes_from_outside_stays_in_its_line),
    cmocka_unit_test(text_is_found_where_the_c_library_finds_it),
};
UNIT_MAIN(tests)
