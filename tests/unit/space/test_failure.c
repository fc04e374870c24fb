/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Unit tests of space: the record of failed allocations. */
#include "../unit.h"

#include "fake_os.h"
#include "space/failure.h"

#include <errno.h>

#define SECOND_NS 1000000000ull

static char text[8192];

static const char *failures(void)
{
    struct hak_text out;
    hak_text_begin(&out, text, sizeof text);
    hak_failure_write(&out, "<", ">\n", "");
    assert_int_equal(out.length, strlen(text));
    return text;
}

static unsigned lines(void)
{
    unsigned n = 0;
    for (const char *s = failures(); *s != '\0'; s++)
        n += *s == '\n';
    return n;
}

static void fail_for(enum hak_failure_reason reason, int error, size_t size)
{
    assert_int_equal(hak_refused(reason, error, "fresh"), error);
    hak_failure_record(size, 1, HAK_KIND_HUGE);
}

static void each_reason_is_said_in_words_and_counted(void **state)
{
    (void)state;
    fake_os_set_time_ns(100 * SECOND_NS);
    assert_string_equal(failures(), "");
    hak_refused(HAK_FAILURE_MAP, ENOMEM, "fresh");
    assert_int_equal(hak_refused_why(), HAK_FAILURE_MAP);
    hak_refused(HAK_FAILURE_EXHAUSTION, ENOMEM, "fresh");
    assert_int_equal(hak_refused_why(), HAK_FAILURE_EXHAUSTION);
    hak_failure_record(48, 4096, 24);
    fake_os_set_time_ns(103 * SECOND_NS);
    assert_string_equal(failures(),
                        "<allocation of 48 bytes aligned to 4096 failed: HAKMEM_LIMIT_MB is "
                        "reached; class 12, stage fresh, 3000 ms ago>\n");
    fail_for(HAK_FAILURE_EXHAUSTION, ENOSPC, 7);
    assert_non_null(strstr(failures(), "the window of addresses is full; huge"));
    fail_for(HAK_FAILURE_THRESHOLD, ENOMEM, SIZE_MAX);
    assert_non_null(strstr(failures(), "more bytes than a size_t counts failed: no block can be"));
    fail_for(HAK_FAILURE_MAP, ENOMEM, 5000000);
    assert_non_null(strstr(failures(), "allocation of 5000000 bytes failed: the system refused "
                                       "memory (ENOMEM); "));
    assert_non_null(strstr(failures(), " mappings"));
    assert_int_equal(hak_failure_count(HAK_FAILURE_EXHAUSTION), 2);
    assert_int_equal(hak_failure_count(HAK_FAILURE_THRESHOLD), 1);
    assert_int_equal(hak_failure_count(HAK_FAILURE_MAP), 1);
}

static void a_refusal_counts_for_one_record(void **state)
{
    (void)state;
    fail_for(HAK_FAILURE_MAP, EPERM, 1);
    assert_non_null(strstr(failures(), "(EPERM)"));
    hak_failure_record(2, 1, 0); /* nobody said why */
    assert_non_null(strstr(failures(), "allocation of 2 bytes failed: the thread has no heap"));
}

static void the_last_sixteen_are_kept_oldest_first(void **state)
{
    (void)state;
    for (size_t i = 1; i <= 100; i++) {
        fail_for(HAK_FAILURE_THRESHOLD, ENOMEM, i);
        assert_int_equal(lines(), hak_min(i, HAK_FAILURES_KEPT));
    }
    assert_int_equal(strncmp(failures(), "<allocation of 85 bytes", 23), 0);
    assert_non_null(strstr(failures(), "of 100 bytes"));
    assert_int_equal(hak_failure_count(HAK_FAILURE_THRESHOLD), 100);
}

static unsigned last_mappings(void)
{
    const char *at = failures();
    for (const char *next = at; (next = strstr(next + 1, "<")) != NULL;)
        at = next;
    const char *end = strstr(at, " mappings");
    assert_non_null(end);
    while (end[-1] >= '0' && end[-1] <= '9')
        end--;
    return (unsigned)strtoul(end, NULL, 10);
}

static void the_system_is_looked_at_once_a_second(void **state)
{
    (void)state;
    fake_os_set_time_ns(100 * SECOND_NS);
    fail_for(HAK_FAILURE_MAP, ENOMEM, 1);
    unsigned before = last_mappings();
    for (int i = 0; i < 20; i++)
        assert_ptr_not_equal(
            mmap(NULL, 4096, i % 2 ? PROT_READ : PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
            MAP_FAILED);
    fake_os_set_time_ns(101 * SECOND_NS - 1);
    fail_for(HAK_FAILURE_MAP, ENOMEM, 2);
    assert_int_equal(last_mappings(), before);
    fake_os_set_time_ns(101 * SECOND_NS);
    fail_for(HAK_FAILURE_MAP, ENOMEM, 3);
    assert_true(last_mappings() >= before + 10);
}

/* Files are opened for them: tests/conformance/surroundings.c. */
static void mappings_are_counted_if_files_may_be_opened(void **state)
{
    (void)state;
    hak_failure_open_files(false);
    fail_for(HAK_FAILURE_MAP, ENOMEM, 1);
    assert_null(strstr(failures(), " mappings"));
    hak_failure_open_files(true);
    fail_for(HAK_FAILURE_MAP, ENOMEM, 2);
    assert_non_null(strstr(failures(), " mappings"));
}

static void the_first_of_each_reason_is_printed_when_asked_for(void **state)
{
    (void)state;
    fake_os_capture_stderr();
    fail_for(HAK_FAILURE_THRESHOLD, ENOMEM, 1);
    assert_string_equal(fake_os_captured(), "");
    hak_failure_trace(true);
    fail_for(HAK_FAILURE_THRESHOLD, ENOMEM, 2);
    fail_for(HAK_FAILURE_THRESHOLD, ENOMEM, 3);
    assert_int_equal(strncmp(fake_os_captured(), "hakmem: allocation of 2 bytes failed", 36), 0);
    assert_null(strstr(fake_os_captured(), "of 3 bytes"));
    fail_for(HAK_FAILURE_EXHAUSTION, ENOMEM, 4);
    assert_non_null(strstr(fake_os_captured(), "\nhakmem: allocation of 4 bytes failed"));
}

static void fail_often(unsigned index, void *argument)
{
    (void)argument;
    for (unsigned i = 0; i < 3000; i++) {
        hak_refused(index % 2 ? HAK_FAILURE_EXHAUSTION : HAK_FAILURE_THRESHOLD, ENOMEM, NULL);
        hak_failure_record(i, 1, 0);
    }
}

static void threads_fail_side_by_side(void **state)
{
    (void)state;
    unit_in_threads(8, fail_often, NULL);
    assert_int_equal(hak_failure_count(HAK_FAILURE_EXHAUSTION), 12000);
    assert_int_equal(hak_failure_count(HAK_FAILURE_THRESHOLD), 12000);
    assert_int_equal(lines(), HAK_FAILURES_KEPT);
    hak_failure_fork_child();
    assert_int_equal(lines(), HAK_FAILURES_KEPT);
}

/* Another thread may fail between the moment at which the time is read and that of the list. */
static void what_failed_since_the_time_was_read_has_just_failed(void **state)
{
    (void)state;
    fake_os_set_time_ns(100 * SECOND_NS);
    fail_for(HAK_FAILURE_THRESHOLD, ENOMEM, SIZE_MAX);
    fake_os_set_time_ns(100 * SECOND_NS - 1);
    assert_non_null(strstr(failures(), ", 0 ms ago"));
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(each_reason_is_said_in_words_and_counted),
    cmocka_unit_test(a_refusal_counts_for_one_record),
    cmocka_unit_test(the_last_sixteen_are_kept_oldest_first),
    cmocka_unit_test(the_system_is_looked_at_once_a_second),
    cmocka_unit_test(mappings_are_counted_if_files_may_be_opened),
    cmocka_unit_test(the_first_of_each_reason_is_printed_when_asked_for),
    cmocka_unit_test(threads_fail_side_by_side),
    cmocka_unit_test(what_failed_since_the_time_was_read_has_just_failed),
};
UNIT_MAIN(tests)
