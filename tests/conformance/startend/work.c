/* Conformance, start and end: the program that startend.c runs under odd conditions. Prints "done"
 * if all went well.
 *
 *   work sizes              every function, every range of sizes, some churn
 *   work threads N          the same in N threads, twice
 *   work closed             the same; and no file descriptor below 3 may have been opened
 *   work committed MIB      holds so many MiB in small blocks; prints what the process has
 * committed work exhaust SIZE       takes blocks until there are none, frees them, and takes them
 * again work exec N             the same as sizes, then runs itself N times in a row work
 * exit-thread        a thread calls exit while others allocate work misuse             frees a bad
 * pointer
 *
 * SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>

#include "conformance/startend/busy.h"

enum { THREADS_MAX = 64 };

static bool stop_at_limit; /* under a tight limit the largest sizes are left out */

static void sizes(void)
{
    busy_require(busy_sizes(stop_at_limit ? MIB(1) : MIB(16)) && busy_churn(100000, 1), "work");
}

static void *thread_main(void *number)
{
    busy_require(busy_sizes(KIB(512)) && busy_churn(50000, (uint64_t)(uintptr_t)number),
                 "work in a thread");
    return NULL;
}

static void threads(unsigned count)
{
    pthread_t ids[THREADS_MAX];
    for (int round = 0; round < 2; round++) {
        for (unsigned i = 0; i < count; i++)
            busy_require(pthread_create(&ids[i], NULL, thread_main, (void *)(uintptr_t)i) == 0,
                         "pthread_create");
        for (unsigned i = 0; i < count; i++)
            busy_require(pthread_join(ids[i], NULL) == 0, "pthread_join");
    }
}

/* The allocator must not have put a file of its own where the program's next one belongs. */
static void closed(void)
{
    for (int fd = 0; fd < 3; fd++)
        if (fcntl(fd, F_GETFD) >= 0)
            _exit(3);
    sizes();
    my_malloc_stats();
    busy_require(my_malloc(SIZE_MAX) == NULL, "malloc(SIZE_MAX)");
    for (int fd = 0; fd < 3; fd++)
        if (fcntl(fd, F_GETFD) >= 0)
            _exit(4);
    _exit(0);
}

/* What vm.overcommit_memory=2 counts: all private writable mappings, touched or not. */
static size_t committed_bytes(void)
{
    static char line[4096];
    size_t total = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    busy_require(maps != NULL, "/proc/self/maps");
    while (fgets(line, sizeof line, maps)) {
        size_t from, to;
        char permissions[8] = "";
        if (sscanf(line, "%zx-%zx %7s", &from, &to, permissions) == 3 && permissions[1] == 'w' &&
            permissions[3] == 'p' && !strstr(line, "[stack]"))
            total += to - from;
    }
    fclose(maps);
    return total;
}

static void committed(size_t mib)
{
    enum { SIZE = 100 };
    size_t count = MIB(mib) / SIZE;
    for (size_t i = 0; i < count; i++)
        busy_require(my_malloc(SIZE) != NULL, "malloc");
    printf("%zu\n", committed_bytes());
    fflush(stdout);
}

struct link {
    struct link *next;
};

static size_t take_all(struct link **list, size_t size)
{
    size_t count = 0;
    errno = 0;
    for (struct link *p; (p = my_malloc(size)) != NULL; count++) {
        p->next = *list;
        *list = p;
    }
    busy_require(errno == ENOMEM, "errno after the last malloc");
    return count;
}

static void give_all(struct link *list)
{
    while (list) {
        struct link *next = list->next;
        my_free(list);
        list = next;
    }
}

/* What was had once must be had again, in this size and in others. */
static void exhaust(size_t size)
{
    /* The hardened library's blocks in random places and in quarantine leave less room for large
     * ones, and it has more records of small ones. */
    bool hardened = getenv("HAK_TEST_HARDENED") != NULL;
    struct link *list = NULL;
    size_t first = take_all(&list, size), lost = hardened ? first / 4 : first / 10;
    busy_require(first * size > MIB(64), "a fair part of the limit");
    busy_require(my_calloc(1, MIB(200)) == NULL && my_realloc(list, MIB(200)) == NULL, "refusal");
    give_all(list);
    for (int round = 0; round < 3; round++) {
        list = NULL;
        size_t again = take_all(&list, size);
        busy_require(again >= first - lost, "recovery");
        give_all(list);
        busy_require(busy_sizes(MIB(3)) && busy_churn(50000, 1), "work after exhaustion");
    }
    struct link *other = NULL; /* the memory of one size serves another */
    size_t other_size = size > KIB(4) ? 100 : KIB(300);
    busy_require(take_all(&other, other_size) * other_size >=
                     first * size / 10 * (hardened ? 6 : 7),
                 "another size");
    give_all(other);
}

static void run_again(char **argv, unsigned left)
{
    char number[16];
    sizes();
    if (!left)
        return;
    snprintf(number, sizeof number, "%u", left - 1);
    char *next[] = {argv[0], argv[1], number, NULL};
    execv("/proc/self/exe", next);
    busy_require(false, "execv");
}

static void *allocate_for_ever(void *number)
{
    for (;;)
        busy_churn(1000, (uint64_t)(uintptr_t)number);
    return NULL;
}

static void *exit_soon(void *unused)
{
    (void)unused;
    busy_churn(20000, 9);
    busy_say("done\n");
    exit(0);
}

static void exit_thread(void)
{
    pthread_t id;
    for (uintptr_t i = 0; i < 4; i++)
        busy_require(pthread_create(&id, NULL, allocate_for_ever, (void *)i) == 0,
                     "pthread_create");
    busy_require(pthread_create(&id, NULL, exit_soon, NULL) == 0, "pthread_create");
    for (;;)
        busy_churn(1000, 77);
}

static void free_a_bad_pointer(void)
{
    char local[64];
    my_free(my_malloc(100));
    my_free(local + 8);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    size_t number = argc > 2 ? strtoul(argv[2], NULL, 10) : 0;
    stop_at_limit = getenv("HAK_TEST_TIGHT") != NULL;
    if (strcmp(what, "sizes") == 0)
        sizes();
    else if (strcmp(what, "threads") == 0 && number > 0 && number <= THREADS_MAX)
        threads((unsigned)number);
    else if (strcmp(what, "closed") == 0)
        closed();
    else if (strcmp(what, "committed") == 0)
        committed(number);
    else if (strcmp(what, "exhaust") == 0 && number >= sizeof(struct link))
        exhaust(number);
    else if (strcmp(what, "exec") == 0)
        run_again(argv, (unsigned)number);
    else if (strcmp(what, "exit-thread") == 0)
        exit_thread();
    else if (strcmp(what, "misuse") == 0)
        free_a_bad_pointer();
    else
        busy_require(false,
                     "work needs: sizes | threads N | closed | committed MIB | exhaust SIZE | "
                     "exec N | exit-thread | misuse;  it");
    busy_say("done\n");
    return 0;
}
