/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Unit tests of os: memory. Each claim of the contract in os.h, against the running kernel. */
#include "../unit.h"

#include "bytes.h"
#include "os/os.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/time.h>

#define PAGES(n) ((size_t)(n) * HAK_PAGE_BYTES)

/* An address at which n pages are free. */
static char *free_place(size_t n)
{
    uintptr_t at = 0;
    assert_int_equal(hak_os_find_hole(PAGES(n), &at), 0);
    assert_int_equal(at % HAK_PAGE_BYTES, 0);
    return (char *)at;
}

static bool is_mapped(char *at)
{
    unsigned char resident;
    return mincore(at, HAK_PAGE_BYTES, &resident) == 0;
}

static bool is_zero(const char *at, size_t bytes)
{
    return bytes_all(at, bytes, 0);
}

static void find_hole_keeps_nothing_mapped(void **state)
{
    (void)state;
    assert_false(is_mapped(free_place(4)));
    uintptr_t at = 42;
    assert_int_equal(hak_os_find_hole((size_t)1 << 60, &at), ENOMEM);
}

static void map_at_maps_zeroed_memory_just_there(void **state)
{
    (void)state;
    char *at = free_place(4);
    assert_int_equal(hak_os_map_at(at + PAGES(1), PAGES(2)), 0);
    assert_false(is_mapped(at));
    assert_false(is_mapped(at + PAGES(3)));
    assert_true(is_zero(at + PAGES(1), PAGES(2)));
    memset(at + PAGES(1), 1, PAGES(2));
}

static void map_at_refuses_what_is_taken_and_leaves_it_alone(void **state)
{
    (void)state;
    char *at = free_place(6);
    assert_int_equal(hak_os_map_at(at + PAGES(2), PAGES(1)), 0);
    memset(at + PAGES(2), 7, PAGES(1));
    assert_int_equal(hak_os_map_at(at + PAGES(2), PAGES(1)), EEXIST);
    assert_int_equal(hak_os_map_at(at, PAGES(3)), EEXIST);
    assert_int_equal(hak_os_map_at(at, PAGES(6)), EEXIST);
    assert_int_equal(at[PAGES(2)], 7);
    assert_int_equal(at[PAGES(3) - 1], 7);
    assert_false(is_mapped(at));
    assert_false(is_mapped(at + PAGES(1)));
    assert_false(is_mapped(at + PAGES(3)));
}

static void unmap_makes_the_range_free_again(void **state)
{
    (void)state;
    void *p;
    assert_int_equal(hak_os_map(PAGES(3), &p), 0);
    char *at = p;
    memset(at, 1, PAGES(3));
    assert_int_equal(hak_os_unmap(at + PAGES(1), PAGES(1)), 0);
    assert_true(is_mapped(at));
    assert_false(is_mapped(at + PAGES(1)));
    assert_true(is_mapped(at + PAGES(2)));
    assert_int_equal(hak_os_map_at(at + PAGES(1), PAGES(1)), 0);
    assert_true(is_zero(at + PAGES(1), PAGES(1)));
}

static void purge_keeps_the_range_mapped_and_zero(void **state)
{
    (void)state;
    void *p;
    assert_int_equal(hak_os_map(PAGES(3), &p), 0);
    char *at = p;
    memset(at, 1, PAGES(3));
    assert_int_equal(hak_os_purge(at + PAGES(1), PAGES(1)), 0);
    unsigned char resident[3];
    assert_int_equal(mincore(at, PAGES(3), resident), 0);
    assert_true(resident[0] & 1);
    assert_false(resident[1] & 1);
    assert_true(is_zero(at + PAGES(1), PAGES(1)));
    assert_int_equal(at[0], 1);
    assert_int_equal(at[PAGES(2)], 1);
}

static void purge_does_not_round_up(void **state)
{
    (void)state;
    void *p;
    assert_int_equal(hak_os_map(PAGES(2), &p), 0);
    char *at = p;
    memset(at, 1, PAGES(2));
    assert_int_equal(hak_os_purge(at, PAGES(3) / 2), EINVAL);
    assert_int_equal(at[0], 1);
    assert_int_equal(at[PAGES(2) - 1], 1);
}

static void zero_leaves_out_gaps_of_16_pages_and_more(void **state)
{
    (void)state;
    unit_without_huge_pages();
    /* From the first page to before the second. It asks for 1,024 pages at a time. */
    static const unsigned used[][2] = {{0, 1},       {16, 17},     {33, 40},
                                       {1000, 1023}, {1025, 1040}, {2030, 3000}};
    static const struct {
        unsigned first, end;
        bool resident;
    } expected[] = {{0, 17, true},      {17, 33, false},     {33, 40, true},    {40, 1000, false},
                    {1000, 1040, true}, {1040, 2030, false}, {2030, 3030, true}};
    enum { PAGES_ZEROED = 3010, PAGES_MAPPED = 3030 };
    static unsigned char resident[PAGES_MAPPED];
    void *p;
    assert_int_equal(hak_os_map(PAGES(PAGES_MAPPED), &p), 0);
    char *at = p;
    for (unsigned i = 0; i < UNIT_COUNT(used); i++)
        memset(at + PAGES(used[i][0]), 7, PAGES(used[i][1] - used[i][0]));
    memset(at + PAGES(PAGES_ZEROED), 7, PAGES(PAGES_MAPPED - PAGES_ZEROED));
    hak_os_zero(at, PAGES(PAGES_ZEROED));
    assert_int_equal(mincore(at, PAGES(PAGES_MAPPED), resident), 0);
    for (unsigned i = 0; i < UNIT_COUNT(expected); i++)
        for (unsigned page = expected[i].first; page < expected[i].end; page++)
            CHECK((resident[page] & 1) == expected[i].resident, "page %u", page);
    assert_true(is_zero(at, PAGES(PAGES_ZEROED)));
    for (unsigned page = PAGES_ZEROED; page < PAGES_MAPPED; page++)
        assert_int_equal(at[PAGES(page)], 7);
}

/* From now on, as in a sandbox. */
static void refuse(long call)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)call, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {UNIT_COUNT(code), code};
    assert_int_equal(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
        skip();
}

static void assert_zero_writes_everything(void)
{
    static unsigned char resident[64];
    void *p;
    assert_int_equal(hak_os_map(PAGES(64), &p), 0);
    memset(p, 7, PAGES(1));
    hak_os_zero(p, PAGES(64));
    if (mincore(p, PAGES(64), resident) == 0)
        for (unsigned page = 0; page < 64; page++)
            CHECK(resident[page] & 1, "page %u", page);
    assert_true(is_zero(p, PAGES(64)));
}

static void zero_writes_everything_where_nothing_can_be_given_back(void **state)
{
    (void)state;
    refuse(SYS_madvise);
    assert_zero_writes_everything();
}

static void zero_writes_everything_where_the_system_tells_nothing(void **state)
{
    (void)state;
    refuse(SYS_mincore);
    assert_zero_writes_everything();
}

static void move_brings_the_content_and_unmaps_the_source(void **state)
{
    (void)state;
    void *from, *to;
    assert_int_equal(hak_os_map(PAGES(2), &from), 0);
    assert_int_equal(hak_os_map(PAGES(4), &to), 0);
    memset(from, 3, PAGES(2));
    memset(to, 4, PAGES(4));
    assert_int_equal(hak_os_move(from, to, PAGES(2), false), 0);
    assert_false(is_mapped(from));
    assert_int_equal(((char *)to)[0], 3);
    assert_int_equal(((char *)to)[PAGES(2) - 1], 3);
    assert_int_equal(((char *)to)[PAGES(2)], 4);
}

static void move_with_keep_source_leaves_zeroed_memory_behind(void **state)
{
    (void)state;
    void *from, *to;
    assert_int_equal(hak_os_map(PAGES(2), &from), 0);
    assert_int_equal(hak_os_map(PAGES(2), &to), 0);
    memset(from, 3, PAGES(2));
    assert_int_equal(hak_os_move(from, to, PAGES(2), true), 0);
    assert_int_equal(((char *)to)[0], 3);
    assert_int_equal(((char *)to)[PAGES(2) - 1], 3);
    assert_true(is_mapped(from));
    assert_true(is_zero(from, PAGES(2)));
    memset(from, 5, PAGES(2));
    assert_int_equal(((char *)to)[0], 3);
}

static void on_alarm(int signal)
{
    (void)signal;
}

/* Pages that the system may share with others of the same content it copies before it moves them,
 * and looks whether a signal waits before each. */
static void no_signal_disturbs_a_move_of_several_mappings(void **state)
{
    (void)state;
    const size_t pages = 512;
    const struct itimerval often = {{0, 20}, {0, 20}}, never = {{0, 0}, {0, 0}};
    struct sigaction restart = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
    void *from, *to;
    assert_int_equal(hak_os_map(PAGES(pages), &from), 0);
    assert_int_equal(hak_os_map(PAGES(pages), &to), 0);
    if (madvise(from, PAGES(pages), MADV_MERGEABLE) != 0)
        skip(); /* a kernel without */
    assert_int_equal(sigaction(SIGALRM, &restart, NULL), 0);
    for (unsigned round = 0; round < 200; round++) {
        memset(from, 3, PAGES(pages));
        assert_int_equal(madvise(from, PAGES(pages), MADV_MERGEABLE), 0);
        assert_int_equal(madvise((char *)from + PAGES(pages / 2), PAGES(1), MADV_DONTDUMP), 0);
        assert_int_equal(setitimer(ITIMER_REAL, &often, NULL), 0);
        int error = hak_os_move(from, to, PAGES(pages), true);
        assert_int_equal(setitimer(ITIMER_REAL, &never, NULL), 0);
        if (error == EFAULT && round == 0)
            skip(); /* before Linux 6.17 */
        assert_int_equal(error, 0);
        for (size_t i = 0; i < pages; i++)
            CHECK(((char *)to)[PAGES(i)] == 3, "round %u: page %zu is lost", round, i);
        assert_true(is_zero(from, PAGES(pages)));
    }
}

static void what_a_move_has_moved_is_told_by_page(void **state)
{
    (void)state;
    void *p, *to;
    assert_int_equal(hak_os_map(PAGES(9), &p), 0);
    assert_int_equal(hak_os_map(PAGES(9), &to), 0);
    for (size_t n = 0; n < 9; n++) {
        assert_int_equal(hak_os_moved_bytes(p, PAGES(9)), PAGES(n));
        assert_int_equal(hak_os_move((char *)p + PAGES(n), (char *)to + PAGES(n), PAGES(1), false),
                         0);
    }
    assert_int_equal(hak_os_moved_bytes(p, PAGES(9)), PAGES(9));
}

static void refusals_are_positive_errno_values_and_errno_stays(void **state)
{
    (void)state;
    void *p;
    assert_int_equal(hak_os_map(PAGES(2), &p), 0);
    errno = 1234;
    assert_int_equal(hak_os_map((size_t)1 << 62, &p), ENOMEM);
    assert_int_equal(hak_os_unmap((char *)p + 1, PAGES(1)), EINVAL);
    assert_int_equal(hak_os_purge((char *)p + 1, PAGES(1)), EINVAL);
    assert_int_equal(hak_os_map_at(p, PAGES(1)), EEXIST);
    assert_int_equal(hak_os_unmap(p, PAGES(2)), 0);
    assert_true(hak_os_purge(p, PAGES(2)) > 0);
    assert_true(hak_os_move(p, (char *)p + PAGES(8), PAGES(1), false) > 0);
    assert_int_equal(errno, 1234);
}

static void fault_in_brings_one_page_into_memory(void **state)
{
    (void)state;
    void *p;
    assert_int_equal(hak_os_map(PAGES(2), &p), 0);
    char *at = p;
    assert_in_range(hak_os_fault_in_ns(at), 1, 1000000000u);
    assert_true(hak_os_is_resident(at));
    assert_false(hak_os_is_resident(at + PAGES(1)));
    assert_true(is_zero(at, PAGES(1)));
}

static void what_is_in_memory_is_told_page_by_page(void **state)
{
    (void)state;
    size_t page_bytes = hak_os_page_bytes();
    void *p;
    assert_int_equal(hak_os_map(4 * page_bytes, &p), 0);
    char *at = p;
    at[2 * page_bytes + 1] = 1;
    unsigned char in_memory[4] = {7, 7, 7, 7};
    assert_true(hak_os_list_resident(at, sizeof in_memory * page_bytes, in_memory));
    assert_memory_equal(in_memory, "\0\0\1\0", sizeof in_memory);
    assert_true(hak_os_is_resident(at + 3 * page_bytes - 1));
    assert_false(hak_os_is_resident(at + 3 * page_bytes));
    assert_int_equal(hak_os_unmap(at, 4 * page_bytes), 0);
    assert_false(hak_os_list_resident(at, page_bytes, in_memory));
    assert_memory_equal(in_memory, "\0\0\1\0", sizeof in_memory);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(fault_in_brings_one_page_into_memory),
    cmocka_unit_test(what_is_in_memory_is_told_page_by_page),
    cmocka_unit_test(find_hole_keeps_nothing_mapped),
    cmocka_unit_test(map_at_maps_zeroed_memory_just_there),
    cmocka_unit_test(map_at_refuses_what_is_taken_and_leaves_it_alone),
    cmocka_unit_test(unmap_makes_the_range_free_again),
    cmocka_unit_test(purge_keeps_the_range_mapped_and_zero),
    cmocka_unit_test(purge_does_not_round_up),
    cmocka_unit_test(zero_leaves_out_gaps_of_16_pages_and_more),
    cmocka_unit_test(zero_writes_everything_where_nothing_can_be_given_back),
    cmocka_unit_test(zero_writes_everything_where_the_system_tells_nothing),
    cmocka_unit_test(move_brings_the_content_and_unmaps_the_source),
    cmocka_unit_test(move_with_keep_source_leaves_zeroed_memory_behind),
    cmocka_unit_test(no_signal_disturbs_a_move_of_several_mappings),
    cmocka_unit_test(what_a_move_has_moved_is_told_by_page),
    cmocka_unit_test(refusals_are_positive_errno_values_and_errno_stays),
};
UNIT_MAIN(tests)
