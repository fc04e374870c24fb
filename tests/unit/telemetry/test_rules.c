/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Unit tests of telemetry: rules for call sites: their lines, and what they do to the table and to
 * the watched classes. */
#include "../unit.h"

#include "telemetry/telemetry.h"

#include <string.h>

static bool parse(const char *line, struct hak_site_rule *out)
{
    return hak_site_rule_parse(line, strlen(line), out);
}

static const char *format(const struct hak_site_rule *rule)
{
    static char line[HAK_SITE_LINE_BYTES];
    struct hak_text text;
    hak_text_begin(&text, line, sizeof line);
    hak_site_rule_format(rule, &text);
    CHECK(text.length < sizeof line, "%zu", text.length);
    return line;
}

static void what_is_written_is_read(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "site 2f5130ebda9bb1e4ba4f349b93a218b4a1f2713a+1a6e 64 medium 10",
        "site 00ff+00 16-65536 long 4294967295",
        "site token+ffffffffffffffff 1 short 0",
    };
    struct hak_site_rule rule;
    for (unsigned i = 0; i < UNIT_COUNT(lines); i++) {
        CHECK(parse(lines[i], &rule), "%s", lines[i]);
        assert_string_equal(format(&rule), lines[i]);
    }
    memset(&rule, 0xff, sizeof rule); /* the longest there can be */
    rule.build_id_bytes = HAK_BUILD_ID_MOST;
    rule.group = HAK_GROUP_MEDIUM;
    rule.least_bytes--;
    struct hak_site_rule again;
    assert_true(parse(format(&rule), &again));
    assert_string_equal(format(&rule), format(&again));
}

static void the_fields_are_read(void **state)
{
    (void)state;
    struct hak_site_rule rule;
    assert_false(parse("site 0a0b+1c2D 48-96 long 7", &rule)); /* D */
    assert_true(parse("  site\t0a0b+1c2d 48-96 long 7 # why\n", &rule));
    assert_int_equal(rule.build_id_bytes, 2);
    assert_int_equal(rule.build_id[0], 0x0a);
    assert_int_equal(rule.build_id[1], 0x0b);
    assert_int_equal(rule.offset, 0x1c2d);
    assert_int_equal(rule.least_bytes, 48);
    assert_int_equal(rule.most_bytes, 96);
    assert_int_equal(rule.group, HAK_GROUP_LONG);
    assert_int_equal(rule.evidence, 7);
}

static void anything_else_is_no_rule(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "",
        "site",
        "knob 0a+1 64 long 3",
        "site 0a 64 long 3",
        "site +1 64 long 3",
        "site 0a+ 64 long 3",
        "site 0a+11112222333344445 64 long 3",
        "site 0a1+1 64 long 3",
        "site 0g+1 64 long 3",
        "site 000102030405060708090a0b0c0d0e0f1011121314+1 64 long 3",
        "site tokens+1 64 long 3",
        "site 0a+1 64- long 3",
        "site 0a+1 96-64 long 3",
        "site 0a+1 long 3",
        "site 0a+1 64 longer 3",
        "site 0a+1 64 long",
        "site 0a+1 64 long x",
        "site 0a+1 64 long 4294967296",
        "site 0a+1 64 long 3 more",
        "# site 0a+1 64 long 3",
    };
    struct hak_site_rule rule;
    for (unsigned i = 0; i < UNIT_COUNT(lines); i++)
        CHECK(!parse(lines[i], &rule), "%s", lines[i]);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(what_is_written_is_read),
    cmocka_unit_test(the_fields_are_read),
    cmocka_unit_test(anything_else_is_no_rule),
};
UNIT_MAIN(tests)
