/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Unit tests of api: limits, caps and prewarming as options, old names, events; why allocations
 * failed; all figures as JSON. */
#include "../unit.h"

#include "api/api_internal.h"
#include "fake_os.h"
#include "hakmem.h"
#include "pool/pool_internal.h"

#include <errno.h>
#include <sys/resource.h>

static char text[1 << 17];

static const char *read_options(char *first, char *second)
{
    char *environment[] = {first, second, NULL};
    fake_os_capture_stderr();
    hak_options_read(environment);
    return fake_os_captured();
}

static uint64_t value_of(const char *name)
{
    uint64_t value = 0;
    CHECK(hakmem_ctl(name, &value, NULL) == 0, "%s", name);
    return value;
}

static void the_limit_is_a_number_of_superslabs_and_at_least_one(void **state)
{
    (void)state;
    assert_string_equal(read_options("HAKMEM_LIMIT_MB=65", NULL), "");
    assert_int_equal(hak_pool.limit_superslabs, 32);
    assert_string_equal(read_options("HAKMEM_LIMIT_MB=1", NULL), "");
    assert_int_equal(hak_pool.limit_superslabs, 1);
    assert_string_equal(read_options("HAKMEM_LIMIT_MB=0", NULL), "");
    assert_int_equal(hak_pool.limit_superslabs, 0);
}

/* All that fits is allocated, freed, and allocated again. */
static void a_program_at_its_limit_goes_on(void **state)
{
    (void)state;
    static void *p[4096];
    static const size_t sizes[] = {100, 5000, 60000, 300000, 1500000, 9000000};
    read_options("HAKMEM_LIMIT_MB=32", NULL);
    for (size_t s = 0; s < UNIT_COUNT(sizes); s++) {
        size_t first = 0;
        for (int round = 0; round < 3; round++) {
            size_t n = 0;
            errno = 0;
            while (n < UNIT_COUNT(p) && (p[n] = hakmem_malloc(sizes[s])) != NULL)
                memset(p[n++], 1, 100);
            CHECK(n == UNIT_COUNT(p) || errno == ENOMEM, "%d", errno);
            CHECK(value_of("pool.mapped_superslabs") - value_of("pool.unmapped_superslabs") <= 16,
                  "size %zu", sizes[s]);
            first = round == 0 ? n : first;
            CHECK(n >= first && n > 0, "size %zu: %zu blocks, then %zu", sizes[s], first, n);
            while (n > 0)
                hakmem_free(p[--n]);
        }
    }
    assert_true(value_of("failures.exhaustion") > 0);
    assert_int_equal(value_of("failures.map"), 0);
    assert_true(hakmem_last_failures(text, sizeof text) > 0);
    assert_non_null(strstr(text, "hakmem: allocation of 9000000 bytes failed: HAKMEM_LIMIT_MB is "
                                 "reached; huge, stage fresh"));
}

/* All blocks of a slab are free, some of them in the thread's bin: the next class needs its slot.
 */
static void what_is_free_in_bins_is_to_be_had_at_the_limit(void **state)
{
    (void)state;
    static void *p[4096];
    size_t n = 0;
    read_options("HAKMEM_LIMIT_MB=4", NULL);
    while (n < UNIT_COUNT(p) && (p[n] = hakmem_malloc(5000)) != NULL)
        n++;
    assert_in_range(n, 100, UNIT_COUNT(p) - 1);
    assert_null(hakmem_malloc(100));
    size_t slab_bytes = hak_class(hak_class_of(5000))->slots * HAK_SLOT_BYTES;
    uintptr_t slab = (uintptr_t)p[n / 2] / slab_bytes;
    for (size_t i = 0; i < n; i++)
        if ((uintptr_t)p[i] / slab_bytes == slab)
            hakmem_free(p[i]);
    void *other = hakmem_malloc(100);
    assert_non_null(other);
    assert_int_equal((uintptr_t)other / slab_bytes, slab);
    assert_int_equal(value_of("failures.averted"), 1);
    assert_int_equal(value_of("failures.exhaustion"), 2);
}

static void a_refusal_of_the_system_is_told_with_its_limits(void **state)
{
    (void)state;
    hakmem_free(hakmem_malloc(10));
    assert_int_equal(hakmem_last_failures(text, sizeof text), 0);
    assert_string_equal(text, "");
    fake_os_fail_from(FAKE_ANY, 1, ENOMEM);
    assert_null(hakmem_malloc(5000000));
    fake_os_fail_nothing();
    assert_null(hakmem_calloc(SIZE_MAX / 2, 3));
    assert_null(hakmem_pvalloc(SIZE_MAX - 5));
    assert_int_equal(value_of("failures.map"), 1);
    assert_int_equal(value_of("failures.threshold"), 2);
    int length = hakmem_last_failures(text, sizeof text);
    assert_int_equal(length, strlen(text));
    assert_int_equal(strncmp(text,
                             "hakmem: allocation of 5000000 bytes failed: the system refused "
                             "memory (ENOMEM); ",
                             80),
                     0);
    char part[100];
    assert_int_equal(hakmem_last_failures(NULL, 0), length);
    assert_int_equal(hakmem_last_failures(part, sizeof part), length);
    assert_int_equal(strlen(part), sizeof part - 1);
    assert_memory_equal(part, text, sizeof part - 1);
}

static void caps_are_set_by_option_and_by_name(void **state)
{
    (void)state;
    uint64_t bytes = 3 << 20;
    assert_string_equal(read_options("HAKMEM_SOFT_CAP=64:1,1024:20", "HAKMEM_CONF=soft_cap:32:7"),
                        "");
    assert_int_equal(value_of("class.64.soft_cap_bytes"), 1 << 20);
    assert_int_equal(value_of("class.1000.soft_cap_bytes"), 20 << 20);
    assert_int_equal(value_of("class.32.soft_cap_bytes"), 7 << 20);
    assert_int_equal(value_of("class.128.soft_cap_bytes"), 0);
    assert_int_equal(hakmem_ctl("class.64.soft_cap_bytes", NULL, &bytes), 0);
    assert_int_equal(hak_pool_soft_cap(hak_class_of(64)), 48);
    bytes = 1;
    assert_int_equal(hakmem_ctl("class.64k.soft_cap_bytes", NULL, &bytes), 0);
    assert_int_equal(value_of("class.65536.soft_cap_bytes"), 65536);
    assert_int_equal(hakmem_ctl("class.65537.soft_cap_bytes", NULL, &bytes), EINVAL);
    assert_int_equal(hakmem_ctl("class.0.soft_cap_bytes", NULL, &bytes), EINVAL);
    assert_int_equal(hakmem_ctl("class..soft_cap_bytes", NULL, &bytes), ENOENT);
    assert_int_equal(hakmem_ctl("class.64.soft_cap", NULL, &bytes), ENOENT);
    static char *const bad[] = {
        "HAKMEM_SOFT_CAP=64",      "HAKMEM_SOFT_CAP=64:",  "HAKMEM_SOFT_CAP=:1",
        "HAKMEM_SOFT_CAP=99999:1", "HAKMEM_SOFT_CAP=64:x", "HAKMEM_SOFT_CAP=64:1,,"};
    for (size_t i = 0; i < UNIT_COUNT(bad); i++)
        CHECK(strstr(read_options(bad[i], NULL), "HAKMEM_SOFT_CAP\n") != NULL, "%s", bad[i]);
}

static void assert_one_bad_cap(const char *said)
{
    CHECK(strstr(said, "HAKMEM_SOFT_CAP\n") == said + strlen(said) - 16, "\"%s\"", said);
}

static void a_bad_cap_changes_none(void **state)
{
    (void)state;
    assert_one_bad_cap(read_options("HAKMEM_SOFT_CAP=64:1,bogus", NULL));
    assert_one_bad_cap(read_options("HAKMEM_SOFT_CAP=64:1,128:2k", NULL));
    assert_one_bad_cap(read_options("HAKMEM_SOFT_CAP=64:1,65537:1", NULL));
    assert_int_equal(value_of("class.64.soft_cap_bytes"), 0);
    assert_string_equal(read_options("HAKMEM_CONF=soft_cap:64:1;128:2m,stats:1", NULL), "");
    assert_int_equal(value_of("class.64.soft_cap_bytes"), 1 << 20);
    assert_int_equal(value_of("class.128.soft_cap_bytes"), 2 << 20);
    assert_true(hak_options.stats);
}

static void prewarmed_superslabs_of_all_names_are_added(void **state)
{
    (void)state;
    assert_string_equal(
        read_options("HAKMEM_PREWARM_SUPERSLABS=3", "HAKMEM_PREWARM_SUPERSLABS_C7=2"), "");
    assert_int_equal(value_of("pool.retired_superslabs"), 5);
    hakmem_malloc(100);
    assert_int_equal(value_of("pool.acquired.fresh"), 0);
    assert_int_equal(value_of("pool.acquired.retired"), 1);
}

static void lazy_prewarming_waits(void **state)
{
    (void)state;
    read_options("HAKMEM_PREWARM_SUPERSLABS=3", "HAKMEM_PREWARM_LAZY=1");
    assert_int_equal(value_of("pool.mapped_superslabs"), 0);
    hakmem_malloc(100);
    assert_int_equal(value_of("pool.mapped_superslabs"), 3);
}

static void prewarming_leaves_most_of_the_address_space(void **state)
{
    (void)state;
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
    skip(); /* the shadow alone is larger than any limit */
#endif
    struct rlimit limit = {(rlim_t)256 << 20, (rlim_t)256 << 20};
    assert_int_equal(setrlimit(RLIMIT_AS, &limit), 0);
    assert_string_equal(read_options("HAKMEM_PREWARM_SUPERSLABS=100", NULL),
                        "hakmem: prewarming is cut to an eighth of RLIMIT_AS\n");
    assert_int_equal(value_of("pool.retired_superslabs"), 16);
}

static void old_names_warn_once_and_say_what_is_there_instead(void **state)
{
    (void)state;
    assert_string_equal(
        read_options("HAKMEM_SS_EMPTY_REUSE=1", NULL),
        "hakmem: option HAKMEM_SS_EMPTY_REUSE has no effect: empty slots are always "
        "used again\n");
    assert_non_null(strstr(read_options("HAKMEM_TINY_USE_SUPERSLAB=0", NULL), "no effect"));
    assert_non_null(strstr(read_options("HAKMEM_SS_EMPTY_SCAN_LIMIT=16", NULL), "no effect"));
}

static unsigned lines_with(const char *said, const char *part)
{
    unsigned n = 0;
    for (; (said = strstr(said, part)) != NULL; said++)
        n++;
    return n;
}

static void events_are_lines_in_the_checked_build(void **state)
{
    (void)state;
    const char *said = read_options("HAKMEM_SS_ACQUIRE_DEBUG=1", "HAKMEM_SS_FREE_DEBUG=1");
    if (!HAK_CHECKS)
        assert_string_equal(said,
                            "hakmem: only the debug build of the library prints single events\n");
    hakmem_free(hakmem_malloc(1200000)); /* too long to wait in a cache */
    hakmem_free(hakmem_malloc(1200000));
    assert_int_equal(lines_with(said, "[SS_ACQUIRE] stage=fresh class=88 superslab=0 slot=0"),
                     HAK_CHECKS);
    assert_int_equal(lines_with(said, "[SS_ACQUIRE]"), 2 * HAK_CHECKS);
    assert_int_equal(lines_with(said, "[SS_FREE]"), 2 * HAK_CHECKS);
    assert_int_equal(lines_with(said, "[SS_LRU]"), 0);
}

static void the_stages_are_told_in_all_and_by_class(void **state)
{
    (void)state;
    for (int i = 0; i < 10; i++)
        hakmem_free(hakmem_malloc(1200000)); /* too long to wait in a cache */
    for (int i = 0; i < 5; i++)
        hakmem_free(hakmem_malloc(200000));
    hakmem_malloc(65536);
    fake_os_capture_stderr();
    hak_report_stages();
    const char *said = fake_os_captured();
    CHECK(strstr(said, "hakmem: slots acquired, stage fresh 2 (16.6%)\n"), "%s", said);
    assert_non_null(strstr(said,
                           "hakmem: large blocks: adopt 0, warm 9, empty 0, unused 1, retired "
                           "0, fresh 1, from caches 4, slots in use 0\n"));
    assert_non_null(strstr(said, "hakmem: class of 66688 bytes: "));
    assert_null(strstr(said, "hakmem: class of 16 bytes: "));
}

static void locks_are_counted_and_told(void **state)
{
    (void)state;
    hakmem_malloc(100);
    assert_true(value_of("locks.pool_grow.acquired") >= 1);
    uint64_t before = value_of("locks.heaps.acquired");
    for (int i = 0; i < 1000; i++)
        hakmem_malloc(1000);
    assert_true(value_of("locks.heaps.acquired") > before + 10);
    assert_int_equal(value_of("locks.heaps.contended"), 0);
    fake_os_capture_stderr();
    hak_report_locks();
    assert_int_equal(lines_with(fake_os_captured(), "hakmem: lock "), HAK_LOCK_COUNT);
}

static void *passed_on[20000];

static void free_what_was_passed_on(unsigned index, void *argument)
{
    (void)index, (void)argument;
    for (size_t i = 0; i < UNIT_COUNT(passed_on); i++)
        hakmem_free(passed_on[i]);
}

static void blocks_on_their_ways_back_are_counted(void **state)
{
    (void)state;
    hak_store_relaxed(&hak_cache_knobs.exchange_blocks, UINT64_MAX); /* two homes stay two */
    for (size_t i = 0; i < UNIT_COUNT(passed_on); i++)
        passed_on[i] = hakmem_malloc(100);
    assert_int_equal(value_of("bins.drained"), 0);
    assert_int_equal(value_of("remote.freed"), 0);
    assert_int_equal(value_of("remote.collected"), 0);
    unit_in_threads(1, free_what_was_passed_on, NULL);
    assert_int_equal(value_of("remote.freed"), UNIT_COUNT(passed_on));
    for (size_t i = 0; i < UNIT_COUNT(passed_on); i++)
        passed_on[i] = hakmem_malloc(100);
    assert_int_equal(value_of("remote.collected"), UNIT_COUNT(passed_on));
    free_what_was_passed_on(0, NULL);
    assert_in_range(value_of("bins.drained"), UNIT_COUNT(passed_on) / 2,
                    2 * UNIT_COUNT(passed_on)); /* all but what a bin holds, and what it held */
    assert_int_equal(value_of("remote.freed"), UNIT_COUNT(passed_on));
    hakmem_stats_json(text, sizeof text);
    assert_non_null(strstr(text, "\n  \"remote.freed\": 20000,\n  \"remote.collected\": 20000,"));
    assert_non_null(strstr(text, "\n  \"bins.drained\": "));
}

/* The rest is done by a real parser: tests/command/test_stats.py. */
static void json_has_the_length_it_says_and_is_cut_where_it_must_be(void **state)
{
    (void)state;
    static char part[1000];
    hakmem_malloc(100);
    hakmem_malloc(SIZE_MAX);
    size_t mapped = fake_os_mapped_bytes();
    int length = hakmem_stats_json(text, sizeof text);
    assert_int_equal(length, strlen(text));
    assert_in_range(length, 10000, 60000);
    assert_int_equal(strncmp(text, "{\n \"schema_version\": 1,", 23), 0);
    assert_string_equal(text + length - 3, "}}\n");
    assert_true(hakmem_stats_json(NULL, 0) >= length);
    memset(part, 'x', sizeof part);
    assert_true(hakmem_stats_json(part, sizeof part - 1) >= length);
    assert_int_equal(strlen(part), sizeof part - 2);
    assert_int_equal(part[sizeof part - 1], 'x');
    assert_int_equal(fake_os_mapped_bytes(), mapped);
    assert_non_null(strstr(text, "\"threshold\": 1"));
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(the_limit_is_a_number_of_superslabs_and_at_least_one),
    cmocka_unit_test(a_program_at_its_limit_goes_on),
    cmocka_unit_test(what_is_free_in_bins_is_to_be_had_at_the_limit),
    cmocka_unit_test(a_refusal_of_the_system_is_told_with_its_limits),
    cmocka_unit_test(caps_are_set_by_option_and_by_name),
    cmocka_unit_test(a_bad_cap_changes_none),
    cmocka_unit_test(prewarmed_superslabs_of_all_names_are_added),
    cmocka_unit_test(lazy_prewarming_waits),
    cmocka_unit_test(prewarming_leaves_most_of_the_address_space),
    cmocka_unit_test(old_names_warn_once_and_say_what_is_there_instead),
    cmocka_unit_test(events_are_lines_in_the_checked_build),
    cmocka_unit_test(the_stages_are_told_in_all_and_by_class),
    cmocka_unit_test(locks_are_counted_and_told),
    cmocka_unit_test(blocks_on_their_ways_back_are_counted),
    cmocka_unit_test(json_has_the_length_it_says_and_is_cut_where_it_must_be),
};
UNIT_MAIN(tests)
