/* Conformance: blocks of another allocator in the same process.
 *
 * A library may bring its own malloc, or take memory from libc's own one behind our back (a second
 * namespace, a handle on libc itself). Freed here, such a block is either passed on to whom it
 * belongs, or refused with a clear message. Never a crash.
 *
 * Each case runs in a process of its own (`foreign_heap --case NAME`).
 * Run with the library preloaded or linked. With HAK_TEST_JEMALLOC it is linked with jemalloc, and
 * the other heap is that one.
 * SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "conformance/support/child.h"
#include "conformance/support/cmocka_all.h"
#include "conformance/support/sizes.h"
#include "support/api.h"

typedef void *malloc_fn(size_t size);

static malloc_fn *find_malloc(void *handle, const char *name)
{
    malloc_fn *found = handle ? (malloc_fn *)dlsym(handle, name) : NULL;
    if (found)
        return found;
    fprintf(stderr, "no %s: %s\n", name, dlerror());
    _exit(CHILD_EXEC_FAILED);
}

/* libc's own heap, the one that grows with brk: a handle does not see what is preloaded. */
static malloc_fn *libc_malloc(void)
{
    return find_malloc(dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD), "__libc_malloc");
}

/* A second libc in a namespace of its own. */
static malloc_fn *second_libc_malloc(void)
{
    return find_malloc(dlmopen(LM_ID_NEWLM, "libc.so.6", RTLD_NOW), "malloc");
}

static malloc_fn *find_by_case(const char *name)
{
#ifdef HAK_TEST_JEMALLOC /* linked with this program, but not what its malloc means */
    return find_malloc(dlopen("libjemalloc.so.2", RTLD_NOW | RTLD_NOLOAD), "malloc");
#endif
    if (strncmp(name, "second", 6) == 0)
        return second_libc_malloc();
    if (strncmp(name, "libc", 4) == 0)
        return libc_malloc();
    return find_malloc(dlopen(child_beside("libconformance_foreign.so"), RTLD_NOW | RTLD_LOCAL),
                       "malloc");
}

static void announce(void *p)
{
    dprintf(STDOUT_FILENO, "%p\n", p);
}

static void free_them(malloc_fn *foreign_malloc, size_t size)
{
    void *p = foreign_malloc(size);
    memset(p, 0, size);
    announce(p);
    my_free(p);
}

static void realloc_them(malloc_fn *foreign_malloc, size_t size)
{
    void *p = foreign_malloc(size);
    memset(p, 'x', size);
    announce(p);
    char *q = my_realloc(p, size * 2 + 100);
    if (!q || q[0] != 'x' || q[size - 1] != 'x')
        _exit(1); /* passed on, but wrong */
}

static void ask_for_size(malloc_fn *foreign_malloc, size_t size)
{
    void *p = foreign_malloc(size);
    announce(p);
    size_t usable = my_malloc_usable_size(p);
    if (usable && usable < size)
        _exit(1);
}

static int run_one(const char *name)
{
    malloc_fn *foreign_malloc = find_by_case(name);
    const char *size = strrchr(name, '/');
    const char *what = strrchr(name, ' ');
    if (!size || !what)
        return 2;
    size_t bytes = strtoul(size + 1, NULL, 10);
    if (strncmp(what + 1, "free", 4) == 0)
        free_them(foreign_malloc, bytes);
    else if (strncmp(what + 1, "realloc", 7) == 0)
        realloc_them(foreign_malloc, bytes);
    else
        ask_for_size(foreign_malloc, bytes);
    for (int i = 0; i < 100000; i++) /* it still works */
        my_free(my_malloc((size_t)i % 3000));
    return 0;
}

static struct child child;

static void passed_on_or_refused(void **state)
{
    char *argv[] = {(char *)child_self(), "--case", *state, NULL};
    child.argv = argv;
    assert_true(child_run(&child));
    CHECK(child.out_bytes > 0, "the case did not begin: %s", child_describe(&child));
    if (child_exited(&child, 0) && child.err_bytes == 0)
        return;
    bool aborted =
        !child.timed_out && WIFSIGNALED(child.status) && WTERMSIG(child.status) == SIGABRT;
    CHECK(aborted, "%s", child_describe(&child));
    child.out[strcspn(child.out, "\n")] = 0;
    CHECK(strncmp(child.err, "hakmem:", 7) == 0, "%s", child_describe(&child));
    CHECK(strstr(child.err, child.out), "%s is not named: %s", child.out, child_describe(&child));
}

int main(int argc, char **argv)
{
    allocator_require();
    if (argc == 3 && strcmp(argv[1], "--case") == 0)
        return run_one(argv[2]);
    static const char *const names[] = {
#ifdef HAK_TEST_JEMALLOC
        "jemalloc free/24",      "jemalloc free/2000",     "jemalloc free/100000",
        "jemalloc free/3000000", "jemalloc realloc/24",    "jemalloc realloc/40000",
        "jemalloc usable/24",    "jemalloc usable/300000",
#else
        "libc free/24",
        "libc free/2000",
        "libc free/100000",
        "libc free/3000000",
        "libc realloc/24",
        "libc realloc/5000",
        "libc usable/24",
        "libc usable/300000",
        "second libc free/24",
        "second libc free/40000",
        "second libc free/5000000",
        "second libc realloc/24",
        "second libc usable/100",
        "other free/24",
        "other free/100000",
        "other free/3000000",
        "other usable/100",
#endif
    };
    struct CMUnitTest tests[COUNT_OF(names)];
    for (size_t i = 0; i < COUNT_OF(names); i++)
        tests[i] =
            (struct CMUnitTest){names[i], passed_on_or_refused, NULL, NULL, (void *)names[i]};
    return _cmocka_run_group_tests("foreign_heap", tests, COUNT_OF(tests), NULL, NULL);
}
