/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * os: a mutex of one futex word, with the three states of "Futexes Are Tricky" (U. Drepper, 2011),
 * and a short spin first: the critical sections are tens of nanoseconds long. A holder that has
 * not let go by then is most likely not running, so others are let run a few times before the
 * thread sleeps: who sleeps has to be woken by a system call, and cannot know whether others wait
 * as well, so that it wakes somebody in turn. With thousands of threads that begin at once most of
 * their time went there. Never recursive. */
#include "os/os.h"
#include "os/syscall_internal.h"

enum { LOCK_FREE = 0, LOCK_HELD = 1, LOCK_AWAITED = 2 };
enum { LOCK_SPINS = HAK_SCHED ? 1 : 60, LOCK_YIELDS = HAK_SCHED ? 0 : 8 };

static _Atomic(hak_lock_waits *) lock_waits;

void hak_lock_set_waits(hak_lock_waits *call)
{
    hak_store_relaxed(&lock_waits, call);
}

/* Sleeps until somebody wakes it, if the lock is awaited, but not for long: a signal handler may
 * fork meanwhile, and then there is nobody in the child who would. The longer it has waited, the
 * longer: thousands that looked again at once would keep the holder from running. */
#define LOCK_SLEEP_NS UINT64_C(20000000)
#define LOCK_SLEEP_DOUBLINGS 5
static void lock_sleep(struct hak_lock *lock, unsigned times)
{
#if HAK_SCHED
    (void)times;
    hak_sched_sleep(&lock->state, LOCK_AWAITED);
#else
    hak_os_sleep_while(&lock->state, LOCK_AWAITED,
                       LOCK_SLEEP_NS << hak_min(times, LOCK_SLEEP_DOUBLINGS));
    hak_lock_waits *call = hak_load_relaxed(&lock_waits);
    if (call != NULL)
        call();
#endif
}

/* Wakes one that sleeps. */
static void lock_wake(struct hak_lock *lock)
{
#if HAK_SCHED
    hak_sched_wake(&lock->state);
#else
    hak_os_wake(&lock->state);
#endif
}

uintptr_t hak_os_this_thread(void)
{
#if HAK_SCHED
    return hak_sched_thread();
#else
    return (uintptr_t)__builtin_thread_pointer();
#endif
}

bool hak_os_is_first_thread(void)
{
    return hak_syscall6(SYS_gettid, 0, 0, 0, 0, 0, 0) == hak_syscall6(SYS_getpid, 0, 0, 0, 0, 0, 0);
}

bool hak_try_lock(struct hak_lock *lock)
{
    uint32_t expected = LOCK_FREE;
    if (!hak_cas_acquire(&lock->state, &expected,
                         (uint32_t)LOCK_HELD)) /* ORDER: [lock] what the last holder wrote */
        return false;
    hak_store_relaxed(&lock->holder, hak_os_this_thread());
    hak_count_owner(&lock->acquired, 1u);
    return true;
}

static HAK_NOINLINE void lock_wait_slow(struct hak_lock *lock)
{
    for (int i = 0; i < LOCK_SPINS + LOCK_YIELDS; i++) {
        if (i < LOCK_SPINS)
            hak_cpu_pause();
        else
            hak_syscall6(SYS_sched_yield, 0, 0, 0, 0, 0, 0);
        if (hak_load_relaxed(&lock->state) == LOCK_FREE && hak_try_lock(lock)) {
            hak_count_owner(&lock->contended, 1u);
            return;
        }
    }
    unsigned times = 0;
    /* ORDER: [lock] as in hak_try_lock */
    while (hak_exchange_acquire(&lock->state, (uint32_t)LOCK_AWAITED) != LOCK_FREE)
        lock_sleep(lock, times++);
    hak_store_relaxed(&lock->holder, hak_os_this_thread());
    hak_count_owner(&lock->acquired, 1u);
    hak_count_owner(&lock->contended, 1u);
}

void hak_lock(struct hak_lock *lock)
{
    if (HAK_UNLIKELY(!hak_try_lock(lock)))
        lock_wait_slow(lock);
}

void hak_unlock(struct hak_lock *lock)
{
    hak_store_relaxed(&lock->holder, (uintptr_t)0);
    /* ORDER: [lock] the next holder sees what was written under the lock */
    if (HAK_UNLIKELY(hak_exchange_release(&lock->state, (uint32_t)LOCK_FREE) == LOCK_AWAITED))
        lock_wake(lock);
}

bool hak_lock_is_mine(struct hak_lock *lock)
{
    return hak_load_relaxed(&lock->holder) == hak_os_this_thread();
}

bool hak_lock_recover(struct hak_lock *lock)
{
    if (hak_lock_is_mine(lock) && hak_os_is_first_thread())
        return false;
    bool held = hak_load_relaxed(&lock->state) != LOCK_FREE;
    hak_store_relaxed(&lock->holder, (uintptr_t)0);
    hak_store_relaxed(&lock->state, (uint32_t)LOCK_FREE);
    return held;
}

void hak_lock_add_counts(const struct hak_lock *lock, struct hak_lock_counts *sum)
{
    sum->acquired += hak_load_relaxed(&lock->acquired);
    sum->contended += hak_load_relaxed(&lock->contended);
}
