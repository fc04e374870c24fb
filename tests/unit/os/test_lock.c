/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Unit tests of os: locks. */
#include "../unit.h"

#include "os/os.h"

#include <time.h>

struct counter {
    struct hak_lock lock;
    unsigned long
        value; /* under the lock; plain, so that ThreadSanitizer sees what the lock orders */
    bool inside;
};

#define ROUNDS 20000u

static void count_locked(struct counter *c)
{
    MUST(!c->inside && hak_lock_is_mine(&c->lock));
    c->inside = true;
    c->value++;
    c->inside = false;
}

static void count_in_thread(unsigned index, void *argument)
{
    struct counter *c = argument;
    for (unsigned i = 0; i < ROUNDS; i++) {
        if (index % 2 == 0)
            hak_lock(&c->lock);
        else
            while (!hak_try_lock(&c->lock))
                hak_cpu_pause();
        count_locked(c);
        hak_unlock(&c->lock);
    }
}

static void one_thread_at_a_time_holds_a_lock(void **state)
{
    (void)state;
    struct counter c = {0};
    unit_in_threads(4, count_in_thread, &c);
    assert_int_equal(c.value, 4 * ROUNDS);
    assert_true(hak_try_lock(&c.lock));
}

static void look_from_outside(unsigned index, void *argument)
{
    (void)index;
    struct hak_lock *lock = argument;
    MUST(!hak_try_lock(lock));
    MUST(!hak_lock_is_mine(lock));
}

static void a_held_lock_is_the_holders_and_nobody_elses(void **state)
{
    (void)state;
    struct hak_lock lock = {0};
    assert_false(hak_lock_is_mine(&lock));
    hak_lock(&lock);
    assert_true(hak_lock_is_mine(&lock));
    assert_false(hak_try_lock(&lock));
    unit_in_threads(1, look_from_outside, &lock);
    hak_unlock(&lock);
    assert_false(hak_lock_is_mine(&lock));
    assert_true(hak_try_lock(&lock));
    assert_true(hak_lock_is_mine(&lock));
    hak_unlock(&lock);
}

static void recover_frees_a_lock_that_another_thread_held(void **state)
{
    (void)state;
    struct hak_lock lock = {.state = 2, .holder = 4096};
    assert_false(hak_try_lock(&lock));
    assert_true(hak_lock_recover(&lock));
    assert_false(hak_lock_recover(&lock));
    assert_true(hak_try_lock(&lock));
    hak_unlock(&lock);
}

/* A signal handler that interrupted the holder forked: the child goes on where that was. */
static void recover_leaves_the_lock_of_its_own_thread_alone(void **state)
{
    (void)state;
    struct hak_lock lock = {0};
    hak_lock(&lock);
    assert_false(hak_lock_recover(&lock));
    assert_true(hak_lock_is_mine(&lock));
    assert_false(hak_try_lock(&lock));
    hak_unlock(&lock);
    assert_true(hak_try_lock(&lock));
    hak_unlock(&lock);
}

static void recover_as_another_thread(unsigned index, void *argument)
{
    (void)index;
    struct hak_lock *lock = argument;
    hak_store_relaxed(&lock->holder, hak_os_this_thread()); /* its stack was the holder's */
    MUST(!hak_os_is_first_thread());
    MUST(hak_lock_recover(lock));
    MUST(hak_try_lock(lock));
    hak_unlock(lock);
}

static void recover_takes_no_thread_that_began_later_for_the_holder(void **state)
{
    (void)state;
    struct hak_lock lock = {.state = 1};
    assert_true(hak_os_is_first_thread());
    unit_in_threads(1, recover_as_another_thread, &lock);
}

static void hold_or_wait(unsigned index, void *argument)
{
    struct counter *c = argument;
    struct timespec while_held = {.tv_nsec = 30 * 1000 * 1000};
    hak_lock(&c->lock);
    if (index == 0)
        nanosleep(&while_held, NULL);
    count_locked(c);
    hak_unlock(&c->lock);
}

static void threads_that_wait_asleep_are_all_woken(void **state)
{
    (void)state;
    struct counter c = {0};
    unit_in_threads(8, hold_or_wait, &c);
    assert_int_equal(c.value, 8);
    assert_int_equal(hak_load_relaxed(&c.lock.state), 0);
}

static struct hak_lock *left_behind;

static void recover_it(void)
{
    hak_lock_recover(left_behind);
}

/* As in the child of a fork: the thread that holds it is no more. */
static void who_waits_for_nobody_is_asked_to_recover(void **state)
{
    (void)state;
    struct hak_lock lock = {.state = 1, .holder = 4096};
    left_behind = &lock;
    hak_lock_set_waits(recover_it);
    hak_lock(&lock);
    assert_true(hak_lock_is_mine(&lock));
    hak_unlock(&lock);
    hak_lock_set_waits(NULL);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(one_thread_at_a_time_holds_a_lock),
    cmocka_unit_test(a_held_lock_is_the_holders_and_nobody_elses),
    cmocka_unit_test(recover_frees_a_lock_that_another_thread_held),
    cmocka_unit_test(recover_leaves_the_lock_of_its_own_thread_alone),
    cmocka_unit_test(recover_takes_no_thread_that_began_later_for_the_holder),
    cmocka_unit_test(threads_that_wait_asleep_are_all_woken),
    cmocka_unit_test(who_waits_for_nobody_is_asked_to_recover),
};
UNIT_MAIN(tests)
