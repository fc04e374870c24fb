/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * api: the optional background thread. It does on time what slow paths do as they come by: takes in
 * what was freed for threads that sleep, and gives back what has been kept for too long, even if
 * the program never calls again. It has no heap of its own and receives no signals.
 *
 * It does not live on in the child of a fork. There the first slow path starts another: a child
 * that only waits to become another program needs none, and a handler of pthread_atfork is no place
 * to start threads in. A child that libc knows nothing of (raw clone) has none: only libc's own
 * fork leaves libc in a state in which a thread can be made. */
#include "api/api_internal.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>

/* Beside the thread-local data of all libraries, which glibc puts on the stack too. If more lies
 * there than is known of, so that the first is refused, the second will do. */
static const size_t stack_bytes[] = {(size_t)64 << 10, (size_t)8 << 20};
static size_t background_data_bytes;

static void *background_run(void *unused)
{
    for (;;) {
        hak_os_sleep_ns(HAK_TICK_NS);
        do
            hak_heap_tick_any();
        while (hak_load_relaxed(&hak_pool_knobs.behind));
    }
    return unused;
}

static bool background_start(void)
{
    pthread_attr_t attributes;
    if (pthread_attr_init(&attributes) != 0)
        return false;
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* inherited by the new thread */
    pthread_t thread;
    bool started = false;
    for (size_t i = 0; i < sizeof stack_bytes / sizeof stack_bytes[0] && !started; i++)
        started =
            pthread_attr_setstacksize(&attributes, stack_bytes[i] + background_data_bytes) == 0 &&
            pthread_create(&thread, &attributes, background_run, NULL) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return started;
}

/* In the midst of a malloc or free of the child. Without a thread it ages as a program without one.
 */
static void background_start_again(void)
{
    int error = errno;
    (void)background_start();
    errno = error;
}

static void background_forked(void)
{
    hak_heap_notice_fork();
    hak_heap_call_from_slow_path(background_start_again);
}

bool hak_background_begin(void)
{
    background_data_bytes = hak_round_up(hak_os_thread_data_bytes(), hak_os_page_bytes());
    return background_start() && pthread_atfork(NULL, NULL, background_forked) == 0;
}

void hak_background_end(void)
{
    hak_heap_call_from_slow_path(NULL);
}
