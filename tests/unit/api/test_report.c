/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Unit tests of api: reading by name, mallinfo2, malloc_info, mallopt, the summary. */
#include "../unit.h"

#include "api/api_internal.h"
#include "fake_os.h"
#include "hakmem.h"
#include "pool/pool_internal.h"

#include <errno.h>

static uint64_t read_value(const char *name)
{
    uint64_t value = UINT64_MAX - 42;
    CHECK(hakmem_ctl(name, &value, NULL) == 0 && value != UINT64_MAX - 42, "%s", name);
    return value;
}

static void every_name_can_be_read_before_and_after_the_first_allocation(void **state)
{
    (void)state;
    unsigned names = 0;
    for (; hakmem_ctl_name(names) != NULL; names++)
        if (strncmp(hakmem_ctl_name(names), "option.", 7) != 0)
            assert_int_equal(read_value(hakmem_ctl_name(names)), 0);
    assert_true(names > 10);
    assert_null(hakmem_ctl_name(names + 1));
    assert_null(hakmem_ctl_name(UINT32_MAX));
    hakmem_malloc(10);
    for (unsigned i = 0; i < names; i++) {
        read_value(hakmem_ctl_name(i));
        assert_int_equal(hakmem_ctl(hakmem_ctl_name(i), NULL, NULL), 0);
        for (unsigned j = 0; j < i; j++)
            assert_string_not_equal(hakmem_ctl_name(i), hakmem_ctl_name(j));
    }
}

static void unknown_names_and_writes_are_refused(void **state)
{
    (void)state;
    uint64_t value = 5;
    uint64_t wanted = 6;
    static const char *const unknown[] = {"", "live", "live.bytes ", "LIVE.BYTES", "live.bytesx"};
    for (size_t i = 0; i < UNIT_COUNT(unknown); i++)
        CHECK(hakmem_ctl(unknown[i], &value, NULL) == ENOENT, "\"%s\"", unknown[i]);
    assert_int_equal(hakmem_ctl("live.bytes", &value, &wanted), EPERM);
    assert_int_equal(value, 5);
}

static void values_follow_what_the_program_holds(void **state)
{
    (void)state;
    void *warm = hakmem_malloc(1);
    uint64_t blocks = read_value("live.blocks");
    uint64_t bytes = read_value("live.bytes");
    void *small = hakmem_malloc(1000);
    void *large = hakmem_malloc(200000);
    void *huge = hakmem_malloc(5 << 20);
    assert_int_equal(read_value("live.blocks"), blocks + 3);
    assert_in_range(read_value("live.bytes"), bytes + 1000 + 200000 + (5 << 20),
                    bytes + 2000 + 270000 + (6 << 20));
    assert_int_equal(read_value("large.blocks"), 1);
    assert_int_equal(read_value("huge.blocks"), 1);
    assert_true(read_value("held.bytes") >= read_value("live.bytes"));
    assert_int_equal(read_value("heaps.count"), 1);
    hakmem_free(small);
    hakmem_free(large);
    hakmem_free(huge);
    hakmem_free(warm);
    hakmem_malloc_trim(0);
    assert_int_equal(read_value("live.blocks"), 0);
    assert_int_equal(read_value("live.bytes"), 0);
    assert_int_equal(read_value("huge.blocks"), 0);
}

#ifdef __GLIBC__
static void mallinfo2_moves_with_the_program(void **state)
{
    (void)state;
    hakmem_free(hakmem_malloc(1));
    struct mallinfo2 before = hakmem_mallinfo2();
    static void *p[1000];
    for (size_t i = 0; i < UNIT_COUNT(p); i++)
        p[i] = hakmem_malloc(1000);
    void *huge = hakmem_malloc((5 << 20) - 4096); /* and somewhere in its first page it begins */
    struct mallinfo2 during = hakmem_mallinfo2();
    assert_in_range(during.uordblks - before.uordblks, 1000 * 1000, 1000 * 1100);
    assert_true(during.arena >= during.uordblks);
    assert_int_equal(during.hblks, before.hblks + 1);
    assert_int_equal(during.hblkhd, before.hblkhd + (5 << 20));
    assert_int_equal(hakmem_mallinfo().uordblks, (int)during.uordblks);
    for (size_t i = 0; i < UNIT_COUNT(p); i++)
        hakmem_free(p[i]);
    hakmem_free(huge);
    hakmem_malloc_trim(0);
    struct mallinfo2 after = hakmem_mallinfo2();
    assert_int_equal(after.smblks, 0); /* what lies in bins is not fastbins' */
    assert_int_equal(after.fsmblks, 0);
    assert_int_equal(after.uordblks, 0);
    assert_int_equal(after.hblks, 0);
    assert_int_equal(after.keepcost, 0);
}
#endif

/* Every element is closed, in order; attributes are quoted. Not a parser: enough to catch what
 * printing can break. */
static void assert_is_xml(const char *text)
{
    char open[16][32];
    unsigned depth = 0;
    unsigned elements = 0;
    for (const char *s = text; (s = strchr(s, '<')) != NULL;) {
        const char *end = strchr(s, '>');
        assert_non_null(end);
        assert_null(memchr(s + 1, '<', (size_t)(end - s - 1)));
        unsigned quotes = 0;
        for (const char *c = s; c < end; c++)
            quotes += *c == '"';
        assert_int_equal(quotes % 2, 0);
        size_t length = strcspn(s + 1, " />");
        if (s[1] == '/') {
            assert_true(depth > 0);
            depth--;
            assert_memory_equal(open[depth], s + 2, strlen(open[depth]));
        } else if (end[-1] != '/') {
            assert_true(depth < 16 && length < 32);
            snprintf(open[depth++], 32, "%.*s", (int)length, s + 1);
        }
        assert_true(depth > 0 || s[1] == '/'); /* one root */
        elements++;
        s = end;
    }
    assert_int_equal(depth, 0);
    assert_true(elements > 6);
}

static void malloc_info_is_xml(void **state)
{
    (void)state;
    for (size_t size = 1; size < 3000000; size = size * 3 / 2 + 1)
        hakmem_malloc(size);
    char *text = NULL;
    size_t length = 0;
    FILE *stream = open_memstream(&text, &length);
    assert_int_equal(hakmem_malloc_info(0, stream), 0);
    fclose(stream);
    assert_memory_equal(text, "<malloc version=\"", 17);
    assert_is_xml(text);
    free(text);
}

static void malloc_info_refuses_options_and_broken_streams(void **state)
{
    (void)state;
    char *text = NULL;
    size_t length = 0;
    FILE *stream = open_memstream(&text, &length);
    assert_int_equal(hakmem_malloc_info(1, stream), EINVAL);
    fclose(stream);
    assert_int_equal(length, 0);
    free(text);
    stream = fopen("/dev/full", "w");
    assert_non_null(stream);
    setvbuf(stream, NULL, _IONBF, 0);
    assert_int_equal(hakmem_malloc_info(0, stream), ENOSPC);
    fclose(stream);
}

static void mallopt_bounds_what_is_kept_and_refuses_what_is_out_of_range(void **state)
{
    (void)state;
    assert_int_equal(hakmem_mallopt(M_TRIM_THRESHOLD, 1 << 20), 1);
    assert_int_equal(hak_pool.config.max_bytes, 1 << 20);
    assert_int_equal(hakmem_mallopt(M_TRIM_THRESHOLD, -1), 1);
    assert_int_equal(hak_pool.config.max_bytes, SIZE_MAX);
    assert_int_equal(hakmem_mallopt(M_MXFAST, 64), 1);
    assert_int_equal(hakmem_mallopt(M_MXFAST, 100000), 0);
    assert_int_equal(hakmem_mallopt(M_MMAP_THRESHOLD, -1), 0);
    assert_int_equal(hakmem_mallopt(M_MMAP_THRESHOLD, 1 << 20), 1);
    assert_int_equal(hakmem_mallopt(-8, 1), 1); /* M_ARENA_MAX */
}

static void trim_tells_whether_memory_went_back(void **state)
{
    (void)state;
    assert_int_equal(hakmem_mallopt(M_TRIM_THRESHOLD, 64 << 20), 1);
    void *p = hakmem_malloc(6 << 20);
    hakmem_free(p);
    assert_int_equal(hakmem_malloc_trim(0), 1);
    assert_int_equal(hakmem_malloc_trim(0), 0);
}

static void the_summary_is_lines_of_ours(void **state)
{
    (void)state;
    hakmem_malloc(10);
    fake_os_capture_stderr();
    hakmem_malloc_stats();
    const char *said = fake_os_captured();
    unsigned lines = 0;
    for (const char *line = said; *line != '\0'; line = strchr(line, '\n') + 1, lines++) {
        CHECK(strncmp(line, "hakmem: ", 8) == 0, "%s", line);
        assert_non_null(strchr(line, '\n'));
    }
    assert_true(lines > 15);
    assert_non_null(strstr(said, hakmem_version()));
    assert_non_null(strstr(said, "hakmem: live blocks 1\n"));
    assert_non_null(strstr(said, "stage fresh 1 (100.0%)\n"));
}

static void a_path_that_is_said_forges_no_line(void **state)
{
    (void)state;
    fake_os_capture_stderr();
    hak_report_not_written("HAKMEM_PROF: the profile", "a\nhakmem: all is well\033[2J", EACCES);
    const char *said = fake_os_captured();
    assert_string_equal(said, "hakmem: HAKMEM_PROF: the profile could not be written to a?hakmem: "
                              "all is well?[2J (errno 13)\n");
}

static void a_profile_that_cannot_be_written_says_why(void **state)
{
    (void)state;
    static char path[1100] = "/tmp/";
    memset(path + 5, 'x', sizeof path - 6);
    assert_int_equal(hakmem_prof_start(0), 0);
    assert_int_equal(hakmem_prof_dump(path), ENAMETOOLONG);
    path[HAK_PROF_PATH_BYTES] = '\0';
    assert_int_equal(hakmem_prof_dump(path), ENAMETOOLONG);
    assert_int_equal(hakmem_prof_dump("/dev/full"), ENOSPC);
    assert_int_equal(hakmem_prof_dump("/nowhere/x"), ENOENT);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(every_name_can_be_read_before_and_after_the_first_allocation),
    cmocka_unit_test(unknown_names_and_writes_are_refused),
    cmocka_unit_test(values_follow_what_the_program_holds),
#ifdef __GLIBC__
    cmocka_unit_test(mallinfo2_moves_with_the_program),
#endif
    cmocka_unit_test(malloc_info_is_xml),
    cmocka_unit_test(malloc_info_refuses_options_and_broken_streams),
    cmocka_unit_test(mallopt_bounds_what_is_kept_and_refuses_what_is_out_of_range),
    cmocka_unit_test(trim_tells_whether_memory_went_back),
    cmocka_unit_test(the_summary_is_lines_of_ours),
    cmocka_unit_test(a_path_that_is_said_forges_no_line),
    cmocka_unit_test(a_profile_that_cannot_be_written_says_why),
};
UNIT_MAIN(tests)
