/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * api: the optional background thread. It does on time what slow paths do as they come by: takes in
 * what was freed for threads that sleep, and gives back what has been kept for too long, even if
 * the program never calls again. It has no heap of its own and receives no signals, and ends with
 * the main thread.
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
static struct {
    size_t data_bytes;
    pthread_key_t key; /* set in the main thread */
    bool has_key;
    pthread_t thread;
    _Atomic(bool) runs;
    _Atomic(uint32_t) ends; /* the main thread has ended */
} background HAK_RARELY_USED;

/* A process whose main thread calls pthread_exit ends with its last thread. That must not be this
 * one, which would go on for ever, and receives no signal that could end it; nor is what a program
 * does at its end to be done on this one's stack. */
static void background_main_ends(void *unused)
{
    (void)unused;
    hak_store_relaxed(&background.ends, 1u);
    hak_os_wake(&background.ends);
    if (hak_load_acquire(&background.runs)) /* ORDER: [background] which one */
        pthread_join(background.thread, NULL);
}

static void background_watch_main(void)
{
    hak_store_relaxed(&background.runs, false);
    hak_store_relaxed(&background.ends, 0u);
    if (background.has_key && hak_os_is_first_thread())
        pthread_setspecific(background.key, &background);
}

static void *background_run(void *unused)
{
    while (hak_load_relaxed(&background.ends) == 0) {
        hak_os_sleep_while(&background.ends, 0, HAK_TICK_NS);
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
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* inherited by the new thread */
    bool started = false;
    for (size_t i = 0; i < sizeof stack_bytes / sizeof stack_bytes[0] && !started; i++)
        started =
            pthread_attr_setstacksize(&attributes, stack_bytes[i] + background.data_bytes) == 0 &&
            pthread_create(&background.thread, &attributes, background_run, NULL) == 0;
    hak_store_release(&background.runs, started); /* ORDER: [background] */
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
    background_watch_main();
    hak_heap_call_from_slow_path(background_start_again);
}

bool hak_background_begin(void)
{
    background.data_bytes = hak_round_up(hak_os_thread_data_bytes(), hak_os_page_bytes());
    background.has_key = hak_heap_try_make_key(&background.key, background_main_ends);
    background_watch_main();
    return background_start() && pthread_atfork(NULL, NULL, background_forked) == 0;
}

void hak_background_end(void)
{
    hak_heap_call_from_slow_path(NULL);
}
