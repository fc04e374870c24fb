/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Unit tests of os: what the system allows the process, counted locks, lines for events. */
#include "../unit.h"

#include "os/os.h"
#include "os/trace.h"

#include <sys/resource.h>

static void limits_are_the_systems(void **state)
{
    (void)state;
    struct rlimit limit = {(rlim_t)1 << 50, (rlim_t)1 << 50};
    assert_int_equal(setrlimit(RLIMIT_AS, &limit), 0);
    struct rlimit data = {(rlim_t)1 << 49, (rlim_t)1 << 49};
    assert_int_equal(setrlimit(RLIMIT_DATA, &data), 0);
    struct hak_os_limits before, after;
    int next_file = dup(0);
    close(next_file);
    hak_os_limits(&before);
    assert_int_equal(before.address_space_bytes, (uint64_t)1 << 50);
    assert_int_equal(before.data_bytes, (uint64_t)1 << 49);
    assert_int_equal(hak_os_address_space_limit(), (uint64_t)1 << 50);
    assert_in_range(before.mappings, 5, 100000);
    void *holes[20];
    for (size_t i = 0; i < UNIT_COUNT(holes); i++) /* neighbours with other rights do not merge */
        holes[i] =
            mmap(NULL, 4096, i % 2 ? PROT_READ : PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    hak_os_limits(&after);
    assert_in_range(after.mappings, before.mappings + 10, before.mappings + 25);
    assert_non_null(holes[0]);
    int file = dup(0);
    assert_int_equal(file, next_file); /* nothing stayed open */
}

static void a_lock_counts_who_takes_it_and_who_has_to_wait(void **state)
{
    (void)state;
    struct hak_lock lock = {0};
    struct hak_lock_counts counts = {0};
    for (int i = 0; i < 10; i++) {
        hak_lock(&lock);
        assert_false(hak_try_lock(&lock));
        hak_unlock(&lock);
    }
    hak_lock_add_counts(&lock, &counts);
    assert_int_equal(counts.acquired, 10);
    assert_int_equal(counts.contended, 0);
}

static struct hak_lock shared;

static void take_it_often(unsigned index, void *argument)
{
    (void)index;
    for (unsigned i = 0; i < 2000; i++) {
        hak_lock(&shared);
        ++*(unsigned *)argument;
        if (i % 100 == 0)
            sched_yield();
        hak_unlock(&shared);
    }
}

static void counts_lose_nothing_among_threads(void **state)
{
    (void)state;
    unsigned taken = 0;
    struct hak_lock_counts counts = {0};
    unit_in_threads(8, take_it_often, &taken);
    hak_lock_add_counts(&shared, &counts);
    assert_int_equal(taken, 16000);
    assert_int_equal(counts.acquired, 16000);
    assert_true(counts.contended < counts.acquired);
}

static void an_event_is_a_line_with_a_fixed_word_first(void **state)
{
    (void)state;
    char line[256];
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(dup2(ends[1], 2), 2);
    hak_trace_line(HAK_TRACE_ACQUIRE, "stage", "warm",
                   (struct hak_trace_value[]){{"class", 12}, {"slot", 7}, {NULL, 0}});
    ssize_t n = read(ends[0], line, sizeof line - 1);
    assert_true(n > 0);
    line[n] = '\0';
    assert_string_equal(line, "[SS_ACQUIRE] stage=warm class=12 slot=7\n");
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(limits_are_the_systems),
    cmocka_unit_test(a_lock_counts_who_takes_it_and_who_has_to_wait),
    cmocka_unit_test(counts_lose_nothing_among_threads),
    cmocka_unit_test(an_event_is_a_line_with_a_fixed_word_first),
};
UNIT_MAIN(tests)
