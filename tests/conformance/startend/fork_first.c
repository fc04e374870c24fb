/* Conformance: fork while another thread makes the very first allocation of the process. Whatever
 * of the start was done when the child's memory was copied, parent and child both can allocate.
 *
 * Only with the prefixed library: before main libc has allocated from one that is preloaded. This
 * program allocates nothing before the race, and each race is run in a process of its own.
 * SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/wait.h>

#include "conformance/startend/busy.h"
#include "conformance/support/allocator.h"

enum { RACES = 150, THREADS = 3, HANG_SECONDS = 30 };

static atomic_uint ready;
static atomic_bool go;

static void *first_allocation(void *number)
{
    ready++;
    while (!go)
        continue;
    for (volatile unsigned wait = (unsigned)(uintptr_t)number; wait > 0; wait--)
        continue;
    void *p = my_malloc(100);
    busy_require(p && busy_churn(300, 1), "the first allocation of a thread");
    my_free(p);
    return NULL;
}

static int wait_for(pid_t pid)
{
    int status = -1;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        continue;
    return status;
}

/* The thread is given a head start that differs from race to race, or has none. */
_Noreturn static void race(unsigned number)
{
    pthread_t threads[THREADS];
    alarm(HANG_SECONDS);
    for (uintptr_t i = 0; i < THREADS; i++)
        busy_require(
            !pthread_create(&threads[i], NULL, first_allocation, (void *)(number % 5 * 400 * i)),
            "pthread_create");
    while (ready < THREADS)
        continue;
    go = true;
    for (volatile unsigned wait = number * 37 % 4000; wait > 0; wait--)
        continue;
    pid_t pid = fork();
    if (pid == 0) {
        alarm(HANG_SECONDS);
        busy_require(busy_churn(1000, 2) && busy_one(100000, 2), "allocation in the child");
        _exit(0);
    }
    busy_require(pid > 0 && wait_for(pid) == 0, "the child of a race");
    for (size_t i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    busy_require(busy_churn(1000, 3), "allocation in the parent");
    _exit(0);
}

int main(void)
{
    unsigned races = allocator_sanitized() ? RACES / 10 : RACES;
    for (unsigned i = 0; i < races; i++) {
        pid_t pid = fork();
        if (pid == 0)
            race(i);
        int status = pid > 0 ? wait_for(pid) : -1;
        if (status != 0) {
            fprintf(stderr, "fork_first: FAILED: race %u ended with status %#x (14: it hangs)\n", i,
                    (unsigned)status);
            return 1;
        }
    }
    printf("fork_first: %u races\n", races);
    return 0;
}
