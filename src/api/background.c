/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * api: the optional background thread. It does on time what slow paths do as they come by: takes in
 * what was freed for threads that sleep, and gives back what has been kept for too long, even if
 * the program never calls again. It has no heap of its own and receives no signals. The child of a
 * fork has none and ages as a program without it. */
#include "api/api_internal.h"

#include <pthread.h>
#include <signal.h>

/* A stack holds the thread-local data of all libraries too: if that does not fit into the first,
 * the second will do. */
static const size_t stack_bytes[] = {(size_t)64 << 10, (size_t)8 << 20};

static void *background_run(void *unused)
{
    for (;;) {
        hak_os_sleep_ns(HAK_TICK_NS);
        hak_heap_tick_any();
    }
    return unused;
}

bool hak_background_start(void)
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
        started = pthread_attr_setstacksize(&attributes, stack_bytes[i]) == 0 &&
                  pthread_create(&thread, &attributes, background_run, NULL) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return started;
}
