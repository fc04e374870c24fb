/* Conformance: mallinfo, mallinfo2, malloc_info, malloc_stats, malloc_trim, mallopt are real: their
 * numbers follow what the program does.
 *
 * Run with the library preloaded, or built against the prefixed one.
 * SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "conformance/support/cmocka_all.h"
#include "conformance/support/pattern.h"
#include "conformance/support/sizes.h"
#include "conformance/support/xml.h"
#include "support/api.h"

enum { COUNT = 400000 };

static void *blocks[COUNT];

static void take_blocks(size_t count, size_t size)
{
    for (size_t i = 0; i < count; i++) {
        blocks[i] = my_malloc(size);
        assert_non_null(blocks[i]);
        memset(blocks[i], 1, size);
    }
}

static void give_blocks(size_t count)
{
    for (size_t i = 0; i < count; i++)
        my_free(blocks[i]);
}

/* 100 MB in blocks of each range: the account rises by that and not by much more, then falls. */
static void mallinfo2_follows_allocations(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(range_sizes); i++) {
        size_t size = range_sizes[i];
        size_t count = MIB(100) / size < COUNT ? MIB(100) / size : COUNT;
        size_t total = size * count, before = my_bytes_in_use();
        take_blocks(count, size);
        struct mallinfo2 full = my_mallinfo2();
        size_t risen = full.uordblks + full.hblkhd - before;
        /* of kept memory a block above 1 MiB takes whole pieces of 2 MiB */
        size_t slack = (size > 1000000 ? total : total / 2) + count * 16 + MIB(2);
        CHECK(risen >= total - total / 16 && risen <= total + slack,
              "%zu blocks of %zu: in use rose by %zu", count, size, risen);
        CHECK(full.arena + full.hblkhd >= total, "%zu from the system", full.arena + full.hblkhd);
        give_blocks(count);
        size_t after = my_bytes_in_use();
        CHECK(after <= before + total / 8 + MIB(1), "size %zu: %zu before, %zu after", size, before,
              after);
    }
}

static void mallinfo2_adds_up(void **state)
{
    (void)state;
    take_blocks(10000, 500);
    for (size_t i = 0; i < 10000; i += 2)
        my_free(blocks[i]);
    struct mallinfo2 info = my_mallinfo2();
    CHECK(info.uordblks + info.fordblks == info.arena, "%zu in use, %zu free, %zu in all",
          info.uordblks, info.fordblks, info.arena);
    CHECK(info.fordblks > 0 && info.keepcost <= info.fordblks, "%zu free, %zu of it can be trimmed",
          info.fordblks, info.keepcost);
    for (size_t i = 1; i < 10000; i += 2)
        my_free(blocks[i]);
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
static void mallinfo_tells_the_same_in_ints(void **state)
{
    (void)state;
    take_blocks(10000, 1000);
    struct mallinfo2 wide = my_mallinfo2();
    struct mallinfo narrow = MY_API(mallinfo)();
    assert_int_equal((unsigned)narrow.uordblks, (unsigned)wide.uordblks);
    assert_int_equal((unsigned)narrow.arena, (unsigned)wide.arena);
    assert_int_equal((unsigned)narrow.hblkhd, (unsigned)wide.hblkhd);
    assert_true((unsigned)narrow.uordblks >= 10000 * 1000);
    give_blocks(10000);
}
#pragma GCC diagnostic pop

static void malloc_info_writes_valid_xml(void **state)
{
    (void)state;
    take_blocks(5000, 700);
    FILE *file = tmpfile();
    assert_non_null(file);
    errno = 0;
    assert_int_equal(my_malloc_info(0, file), 0);
    static char text[256 * 1024];
    rewind(file);
    size_t n = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[n] = 0;
    const char *wrong = xml_check(text, "malloc");
    CHECK(!wrong, "%s in:\n%.2000s", wrong, text);
    CHECK(strstr(text, "<malloc version=\""), "the root says no version:\n%.200s", text);
    CHECK(xml_number(text, "=\"") >= 5000 * 700, "no number tells of %d bytes:\n%.2000s",
          5000 * 700, text);
    give_blocks(5000);
}

static void malloc_info_knows_no_options(void **state)
{
    (void)state;
    FILE *file = tmpfile();
    assert_non_null(file);
    assert_int_equal(my_malloc_info(1, file), EINVAL);
    assert_int_equal(my_malloc_info(-1, file), EINVAL);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    assert_int_equal(ftell(file), 0);
    fclose(file);
}

/* What a call writes to a file descriptor. */
static size_t written_to(int fd, void (*call)(void), char *text, size_t room)
{
    FILE *file = tmpfile();
    assert_non_null(file);
    fflush(NULL);
    int saved = dup(fd);
    dup2(fileno(file), fd);
    call();
    fflush(NULL);
    dup2(saved, fd);
    close(saved);
    rewind(file);
    size_t n = fread(text, 1, room - 1, file);
    text[n] = 0;
    fclose(file);
    return n;
}

static void malloc_stats_writes_to_stderr_only(void **state)
{
    (void)state;
    static char text[64 * 1024];
    assert_int_equal(written_to(STDOUT_FILENO, my_malloc_stats, text, sizeof text), 0);
    take_blocks(20000, 100);
    assert_true(written_to(STDERR_FILENO, my_malloc_stats, text, sizeof text) > 20);
    CHECK(strpbrk(text, "123456789"), "no number in: %s", text);
    CHECK(text[strlen(text) - 1] == '\n', "no whole lines: %s", text);
    give_blocks(20000);
}

static size_t resident_bytes(void)
{
    char text[128] = "";
    int fd = open("/proc/self/statm", O_RDONLY);
    assert_true(fd >= 0);
    assert_true(read(fd, text, sizeof text - 1) > 0);
    close(fd);
    char *second = strchr(text, ' ');
    assert_non_null(second);
    return strtoul(second, NULL, 10) * (size_t)sysconf(_SC_PAGESIZE);
}

static void malloc_trim_gives_memory_back(void **state)
{
    (void)state;
    if (allocator_sanitized())
        SKIP_BECAUSE("a sanitizer's shadow memory hides the difference");
    my_malloc_trim(0);
    size_t empty = resident_bytes();
    take_blocks(COUNT, 200); /* 80 MB */
    size_t full = resident_bytes();
    CHECK(full > empty + MIB(70), "%zu resident when empty, %zu when full", empty, full);
    give_blocks(COUNT);
    int released = my_malloc_trim(0);
    assert_true(released == 0 || released == 1);
    size_t trimmed = resident_bytes();
    CHECK(trimmed < empty + MIB(16), "%zu resident when empty, %zu full, %zu trimmed", empty, full,
          trimmed);
    take_blocks(1000, 200);
    give_blocks(1000);
}

/* Memory in the holes of a used heap comes back as well, and what lives there stays. */
static void malloc_trim_keeps_live_blocks(void **state)
{
    (void)state;
    take_blocks(100000, 400);
    for (size_t i = 0; i < 100000; i++) {
        if (i % 1000)
            my_free(blocks[i]);
        else
            pattern_fill(blocks[i], 400, i);
    }
    my_malloc_trim(0);
    for (size_t i = 0; i < 100000; i += 1000) {
        CHECK(pattern_holds(blocks[i], 400, i), "block %zu", i);
        my_free(blocks[i]);
    }
}

static void malloc_trim_says_what_it_did(void **state)
{
    (void)state;
    assert_int_equal(my_mallopt(M_TRIM_THRESHOLD, -1), 1); /* nothing goes back by itself */
    take_blocks(COUNT, 100);
    give_blocks(COUNT);
    int first = my_malloc_trim(0);
    bool done = false;
    for (int i = 0; i < 5 && !done; i++)
        done = my_malloc_trim(0) == 0;
    if (allocator_may_be_other())
        SKIP_BECAUSE("glibc's answer is 1 whenever a free chunk spans a page");
    assert_int_equal(first, 1);
    assert_true(done); /* nothing is left to release */
}

static void mallopt_answers_as_glibc_does(void **state)
{
    (void)state;
    static const struct {
        int parameter, value, result;
    } cases[] = {
        {M_MMAP_THRESHOLD, 1 << 20, 1},
        {M_MMAP_THRESHOLD, 1 << 25, 1},
        {M_TRIM_THRESHOLD, 1 << 20, 1},
        {M_TRIM_THRESHOLD, -1, 1},
        {M_TOP_PAD, 4096, 1},
        {M_MMAP_MAX, 65536, 1},
        {M_ARENA_TEST, 2, 1},
        {M_ARENA_MAX, 2, 1},
        {M_CHECK_ACTION, 3, 1},
        {M_PERTURB, 0, 1},
        {M_MXFAST, 64, 1},
        {M_MXFAST, 100000, 0},
        {M_MXFAST, -1, 0},
        {M_MXFAST, 128, 1},
        {12345, 1, 1},
        {-100, 1, 1},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        int result = my_mallopt(cases[i].parameter, cases[i].value);
        CHECK(result == cases[i].result, "mallopt(%d, %d) gave %d", cases[i].parameter,
              cases[i].value, result);
    }
    void *p = my_malloc(MIB(3));
    assert_non_null(p);
    my_free(p);
}

/* The hardened library, which clears what is freed, refuses M_PERTURB. */
static void mallopt_perturb_is_done_or_refused(void **state)
{
    (void)state;
    static const size_t sizes[] = {1, 24, 100, 2000, KIB(20), KIB(200), MIB(1)};
    bool done = my_mallopt(M_PERTURB, 0x5a) == 1;
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        unsigned char *p = my_malloc(sizes[i]);
        assert_non_null(p);
        for (size_t k = 0; done && k < sizes[i]; k++)
            CHECK(p[k] == (unsigned char)~0x5a, "byte %zu of %zu is %#x", k, sizes[i], p[k]);
        my_free(p);
        p = my_calloc(1, sizes[i]);
        assert_true(p && all_zero(p, sizes[i]));
        my_free(p);
    }
    assert_int_equal(my_mallopt(M_PERTURB, 0), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mallinfo2_follows_allocations),
        cmocka_unit_test(mallinfo2_adds_up),
        cmocka_unit_test(mallinfo_tells_the_same_in_ints),
        cmocka_unit_test(malloc_info_writes_valid_xml),
        cmocka_unit_test(malloc_info_knows_no_options),
        cmocka_unit_test(malloc_stats_writes_to_stderr_only),
        cmocka_unit_test(malloc_trim_gives_memory_back),
        cmocka_unit_test(malloc_trim_keeps_live_blocks),
        cmocka_unit_test(malloc_trim_says_what_it_did),
        cmocka_unit_test(mallopt_answers_as_glibc_does),
        cmocka_unit_test(mallopt_perturb_is_done_or_refused),
    };
    return RUN_TESTS(tests);
}
