/* Conformance, start and end: allocation in the destructors of thread-local data: pthread keys that
 * re-arm through all rounds, C11 tss, C++ thread_local. Keys made before and after the allocator
 * could have made its own; blocks kept from round to round.
 *
 * A heap that comes to life again in the last round must still not be lost: memory is measured over
 * thousands of threads.
 * Run with the library preloaded, or built against the prefixed one.
 * SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <atomic>
#include <fcntl.h>
#include <limits.h>
#include <memory>
#include <pthread.h>
#include <threads.h>

extern "C" {
#include "conformance/support/cmocka_all.h"
}
#include "conformance/startend/busy.h"

namespace
{

const unsigned rounds = PTHREAD_DESTRUCTOR_ITERATIONS;

struct record {
    unsigned round;
    pthread_key_t key;
    void *block; /* taken in one round, freed in the next */
};

pthread_key_t first_key, last_key;
tss_t c11_key;
std::atomic<unsigned> wrong, ended_rounds, ended_objects;

void take_block(record *r)
{
    r->block = my_malloc(500 + r->round);
    if (r->block)
        pattern_fill(r->block, 500 + r->round, r->round);
    else
        wrong++;
}

void give_block(record *r)
{
    if (!pattern_holds(r->block, 500 + r->round, r->round))
        wrong++;
    my_free(r->block);
}

/* Works, and asks to be called again, as often as the system does that. */
void destroy(void *arg)
{
    record *r = static_cast<record *>(arg);
    give_block(r);
    if (!busy_churn(20, r->round) || !busy_one(r->round == 2 ? 70000 : 3000, r->round))
        wrong++;
    if (++r->round < rounds) {
        take_block(r);
        if (pthread_setspecific(r->key, r) != 0)
            wrong++;
        return;
    }
    ended_rounds++;
    my_free(r);
}

void destroy_c11(void *arg)
{
    if (!pattern_holds(arg, 3000, 9) || !busy_churn(20, 4))
        wrong++;
    my_free(arg);
}

void arm(pthread_key_t key)
{
    record *r = static_cast<record *>(my_malloc(sizeof(record)));
    *r = {0, key, nullptr};
    take_block(r);
    if (pthread_setspecific(key, r) != 0)
        wrong++;
}

/* Before the allocator's first use in this program, as far as a program can be before it. */
void make_first_key(int, char **, char **)
{
    pthread_key_create(&first_key, destroy);
}

#ifndef HAK_TEST_PREFIXED /* a sanitizer is not ready for anything that early */
__attribute__((section(".preinit_array"), used)) void (*preinit)(int, char **,
                                                                 char **) = make_first_key;
#endif

struct object {
    void *block = my_malloc(2000);
    object()
    {
        pattern_fill(block, 2000, 3);
    }
    ~object()
    {
        if (!pattern_holds(block, 2000, 3) || !busy_churn(20, 5))
            wrong++;
        my_free(block);
        if (!pthread_getspecific(last_key))
            arm(last_key); /* C++ objects end first, so this key still gets its rounds */
        ended_objects++;
    }
};

thread_local object thread_object;
thread_local std::unique_ptr<object> thread_pointer;

void *thread_main(void *)
{
    arm(first_key);
    void *block = my_malloc(3000);
    pattern_fill(block, 3000, 9);
    if (tss_set(c11_key, block) != thrd_success || !thread_object.block)
        wrong++;
    thread_pointer.reset(new object);
    return nullptr;
}

void run_threads(unsigned count)
{
    for (unsigned i = 0; i < count; i += 4) {
        pthread_t ids[4];
        for (pthread_t &id : ids)
            assert_int_equal(pthread_create(&id, nullptr, thread_main, nullptr), 0);
        for (pthread_t id : ids)
            assert_int_equal(pthread_join(id, nullptr), 0);
    }
}

std::size_t resident_bytes()
{
    char text[128] = "";
    int fd = open("/proc/self/statm", O_RDONLY);
    assert_true(fd >= 0 && read(fd, text, sizeof text - 1) > 0);
    close(fd);
    return std::strtoul(strchr(text, ' '), nullptr, 10) * 4096;
}

void destructors_work_through_all_rounds(void **)
{
    run_threads(400);
    assert_int_equal(wrong.load(), 0);
    assert_int_equal(ended_objects.load(), 800);
    assert_int_equal(ended_rounds.load(), 400 + 400);
}

void nothing_is_lost_over_many_threads(void **)
{
    unsigned count = 4000;
    if (allocator_sanitized())
        SKIP_BECAUSE("a sanitizer keeps a few KiB of its own for every thread there was");
    run_threads(count / 4);
    my_malloc_trim(0); /* what is kept for the next threads is not lost */
    std::size_t before = resident_bytes();
    run_threads(count);
    my_malloc_trim(0);
    std::size_t after = resident_bytes();
    print_message("%zu KiB grew to %zu KiB in %u threads\n", before >> 10, after >> 10, count);
    CHECK(after < before + MIB(4), "%zu KiB grew to %zu KiB in %u threads", before >> 10,
          after >> 10, count);
    assert_int_equal(wrong.load(), 0);
}

} // namespace

int main()
{
#ifdef HAK_TEST_PREFIXED
    make_first_key(0, nullptr, nullptr);
#endif
    if (pthread_key_create(&last_key, destroy) != 0 ||
        tss_create(&c11_key, destroy_c11) != thrd_success)
        return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(destructors_work_through_all_rounds),
        cmocka_unit_test(nothing_is_lost_over_many_threads),
    };
    return RUN_TESTS(tests);
}
