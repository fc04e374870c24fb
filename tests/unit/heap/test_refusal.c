/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Unit tests of heap: the same work again and again, each time with another call of the system
 * refused. It may fail to get memory, with ENOMEM; it may not crash, lose or change what it had, or
 * stay broken when memory is there again. */
#include "heap_support.h"
#include "space/failure.h"

#define MOST_REFUSALS 200u
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define STEP 7u /* a process is expensive there; the other builds refuse each call */
#else
#define STEP 1u
#endif
#define PLACES 48u
#define WORK 220u

static struct {
    char *p;
    size_t size;
} held[PLACES];

static unsigned refused; /* requests that got no memory */

static void must_be_intact(unsigned at)
{
    if (held[at].p != NULL)
        MUST(is_filled(held[at].p, held[at].size, held[at].size, at));
}

static void keep(unsigned at, char *p, size_t size)
{
    if (p == NULL) {
        MUST(errno == ENOMEM);
        refused++;
        return;
    }
    MUST(hak_heap_usable_bytes(p) >= size);
    held[at].p = p;
    held[at].size = size;
    fill(p, size, at);
}

static void replace(unsigned at, struct unit_random *r, size_t size)
{
    static const size_t aligns[] = {64, 4096, 65536, MIB, 8 * MIB};
    must_be_intact(at);
    release(held[at].p == NULL ? allocate(1) : held[at].p);
    held[at].p = NULL;
    errno = 0;
    switch (unit_below(r, 3)) {
    case 0:
        keep(at, hak_heap_malloc(size), size);
        break;
    case 1: {
        char *p = hak_heap_calloc(size);
        MUST(p == NULL || is_zero(p, hak_min(size, 9000)));
        keep(at, p, size);
        break;
    }
    default:
        keep(at, hak_heap_aligned(aligns[unit_below(r, UNIT_COUNT(aligns))], size), size);
    }
}

static void resize(unsigned at, size_t size)
{
    errno = 0;
    char *p = heap_realloc(held[at].p, size);
    if (p == NULL) {
        MUST(errno == ENOMEM);
        must_be_intact(at);
        refused++;
        return;
    }
    MUST(is_filled(p, hak_min(size, held[at].size), held[at].size, at));
    keep(at, p, size);
}

static size_t some_size(struct unit_random *r)
{
    static const size_t limits[] = {200, 1024, 10000, 70000, 400000, MIB, 3 * MIB / 2};
    return 1 + unit_below(r, limits[unit_below(r, UNIT_COUNT(limits))]);
}

static void work(struct unit_random *r)
{
    for (unsigned i = 0; i < WORK; i++) {
        unsigned at = (unsigned)unit_below(r, PLACES);
        if (held[at].p != NULL && unit_below(r, 2) == 0)
            resize(at, some_size(r));
        else
            replace(at, r, some_size(r));
        if (i % 40 == 39)
            hak_heap_trim();
    }
}

static void all_must_be_well_again(void)
{
    struct unit_random r = {4};
    fake_os_fail_nothing();
    refused = 0;
    work(&r);
    MUST(refused == 0);
    for (unsigned at = 0; at < PLACES; at++) {
        must_be_intact(at);
        if (held[at].p != NULL)
            release(held[at].p);
    }
    hak_heap_trim();
    struct hak_cache_usage u;
    hak_cache_usage(&u);
    struct hak_large_stats l;
    hak_large_stats(&l);
    MUST(u.used_blocks == 0 && u.bin_blocks == 0);
    MUST(l.large_blocks == 0 && l.huge_blocks == 0);
}

/* Something small is always to be had: allocate() and the heap itself must not be what is refused.
 */
static void begin(void)
{
    for (unsigned i = 0; i < 100; i++)
        held[i % PLACES].p == NULL ? keep(i % PLACES, allocate(16), 16) : release(allocate(16));
}

static void in_child(unsigned k, void (*refuse)(enum fake_os_call, unsigned, int), bool started)
{
    pid_t child = fork();
    if (child == 0) {
        struct unit_random r = {k};
        if (started)
            begin();
        refuse(FAKE_ANY, k, ENOMEM);
        if (!started) {
            keep(0, hak_heap_malloc(100), 100);
            keep(1, hak_heap_malloc(100000), 100000);
            keep(2, hak_heap_calloc(3 * MIB), 3 * MIB);
        } else {
            work(&r);
        }
        all_must_be_well_again();
        _exit(0);
    }
    int status;
    waitpid(child, &status, 0);
    CHECK(status == 0, "call %u refused: wait status %x", k, (unsigned)status);
}

/* How many calls there are to refuse. */
static unsigned calls_of_work(void)
{
    int ends[2];
    unsigned calls = 0;
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        struct unit_random r = {1};
        begin();
        uint64_t before = fake_os_calls(FAKE_ANY);
        work(&r);
        calls = (unsigned)(fake_os_calls(FAKE_ANY) - before);
        MUST(write(ends[1], &calls, sizeof calls) == sizeof calls);
        _exit(0);
    }
    assert_int_equal(read(ends[0], &calls, sizeof calls), sizeof calls);
    waitpid(child, NULL, 0);
    CHECK(calls > 40, "%u", calls);
    return (unsigned)hak_min(calls, MOST_REFUSALS);
}

static void each_single_refusal_is_survived(void **state)
{
    (void)state;
    for (unsigned k = 1, most = calls_of_work(); k <= most; k += STEP)
        in_child(k, fake_os_fail, true);
}

static void running_out_of_memory_at_each_call_is_survived(void **state)
{
    (void)state;
    for (unsigned k = 1, most = calls_of_work(); k <= most; k += k < 20 ? STEP : 3 * STEP)
        in_child(k, fake_os_fail_from, true);
}

static void a_refusal_while_the_process_starts_is_survived(void **state)
{
    (void)state;
    for (unsigned k = 1; k <= 20; k += 1 + STEP / 4) {
        in_child(k, fake_os_fail, false);
        in_child(k, fake_os_fail_from, false);
    }
}

static void without_any_memory_every_call_says_enomem_and_leaks_nothing(void **state)
{
    (void)state;
    fake_os_fail_from(FAKE_ANY, 1, ENOMEM);
    for (int i = 0; i < 10; i++) {
        errno = 0;
        assert_null(hak_heap_malloc(100));
        assert_int_equal(errno, ENOMEM);
        errno = 0;
        assert_null(hak_heap_calloc(100000));
        assert_int_equal(errno, ENOMEM);
        errno = 0;
        assert_null(hak_heap_aligned(4096, 5 * MIB));
        assert_int_equal(errno, ENOMEM);
    }
    assert_int_equal(fake_os_mapped_bytes(), 0);
    assert_false(hak_heap_started());
    fake_os_fail_nothing();
    release(allocate(100));
}

/* Nor is it a failure to anybody. */
static void a_block_becomes_shorter_without_any_memory(void **state)
{
    (void)state;
    static const size_t have[] = {200, 1000, 5000, 30000, 200000, MIB, 5 * MIB};
    for (size_t i = 0; i < UNIT_COUNT(have); i++) {
        for (size_t bytes = 1; bytes < have[i]; bytes = bytes * 3 + 1) {
            char *p = allocate(have[i]);
            fill(p, have[i], (unsigned)i);
            fake_os_fail_from(FAKE_ANY, 1, ENOMEM);
            for (size_t size = 16; size <= 8192; size += 16) /* all that is there */
                while (hak_heap_malloc(size) != NULL)
                    continue;
            uint64_t failures = hak_failure_count(HAK_FAILURE_MAP);
            errno = 1234;
            p = heap_realloc(p, bytes);
            CHECK(p != NULL && errno == 1234, "%zu to %zu: errno %d", have[i], bytes, errno);
            assert_int_equal(hak_failure_count(HAK_FAILURE_MAP), failures);
            fake_os_fail_nothing();
            assert_true(is_filled(p, bytes, have[i], (unsigned)i));
            assert_true(hak_heap_usable_bytes(p) >= bytes);
            release(p);
        }
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(each_single_refusal_is_survived),
    cmocka_unit_test(running_out_of_memory_at_each_call_is_survived),
    cmocka_unit_test(a_refusal_while_the_process_starts_is_survived),
    cmocka_unit_test(without_any_memory_every_call_says_enomem_and_leaks_nothing),
    cmocka_unit_test(a_block_becomes_shorter_without_any_memory),
};
UNIT_MAIN(tests)
