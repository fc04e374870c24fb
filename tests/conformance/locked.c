/* Conformance: memory that the program has locked (mlock, mlockall). The system refuses to take it
 * back (EINVAL to MADV_DONTNEED), so what was freed is as the program left it, and calloc's memory
 * has to be zero all the same. Nobody has to unlock a buffer before it is freed.
 *
 * Each case runs in a process of its own, and locks at most 8 MiB, the usual limit.
 * Run with the library preloaded.
 * SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "conformance/support/child.h"
#include "conformance/support/cmocka_all.h"
#include "conformance/support/pattern.h"
#include "conformance/support/sizes.h"
#include "support/api.h"

enum { NOT_ZERO = 1, NO_MEMORY = 2, NOT_LOCKED = 3, LARGE = 60, SMALL = 20000, BUFFERS = 6 };

/* ---- in the child ---- */

static void lock(void *p, size_t size)
{
    if (mlock(p, size) != 0)
        _exit(CHILD_SKIP);
}

static char *locked_buffer(size_t size)
{
    char *p = my_malloc(size);
    if (!p)
        _exit(NO_MEMORY);
    lock(p, size);
    memset(p, 0x5a, size);
    return p;
}

static char *resized(char *p, size_t size)
{
    char *q = my_realloc(p, size);
    if (!q)
        _exit(NO_MEMORY);
    return q;
}

static void *zeros(size_t size)
{
    void *p = my_calloc(1, size);
    if (!p)
        _exit(NO_MEMORY);
    if (!all_zero(p, size))
        _exit(NOT_ZERO);
    return p;
}

/* Blocks of all kinds, which use what was freed; half of the large ones are freed at once. */
static void use_again(void)
{
    for (size_t i = 0; i < LARGE; i++) {
        void *p = zeros(70000 + i % 20 * 50000);
        if (i % 2)
            my_free(p);
    }
    for (size_t i = 0; i < SMALL; i++)
        zeros(100 + i % 3000);
}

static void one_buffer(void)
{
    my_free(locked_buffer(1500000));
    use_again();
}

static void one_buffer_and_trim(void)
{
    my_free(locked_buffer(1500000));
    my_malloc_trim(0);
    use_again();
}

static void some_buffers(void)
{
    char *p[BUFFERS];
    for (size_t i = 0; i < BUFFERS; i++)
        p[i] = locked_buffer(MIB(1));
    for (size_t i = 0; i < BUFFERS; i++)
        my_free(p[i]);
    use_again();
}

static void buffers_of_one_size_and_then_shorter_ones(void)
{
    for (size_t size = 700000; size > 100000; size -= 60000) {
        my_free(locked_buffer(size));
        my_free(zeros(size - 30000));
    }
    use_again();
}

static void a_buffer_that_becomes_smaller(void)
{
    char *p = resized(locked_buffer(1500000), 300000);
    use_again();
    my_free(resized(p, 100000));
    use_again();
}

static void a_huge_buffer_that_becomes_smaller(void)
{
    char *p = resized(locked_buffer(MIB(7)), MIB(5) + 70000);
    my_free(zeros(MIB(3)));
    my_free(resized(p, 100000));
    use_again();
}

static void buffers_that_grow(void)
{
    char *p = locked_buffer(200000);
    for (size_t size = 300000; size < MIB(3); size += 200000) {
        p = resized(p, size);
        memset(p, 0x5a, size);
        my_free(zeros(size / 2));
    }
    my_free(p);
    use_again();
}

static void everything_is_locked(void)
{
    if (mlockall(MCL_CURRENT | MCL_FUTURE) != 0)
        _exit(CHILD_SKIP);
    one_buffer_and_trim();
    some_buffers();
    a_huge_buffer_that_becomes_smaller();
}

/* Mappings that can be written to and are locked, or are not, as far as /proc tells. */
static unsigned mappings(bool locked)
{
    char line[512];
    unsigned count = 0;
    FILE *f = fopen("/proc/self/smaps", "r");
    while (f != NULL && fgets(line, sizeof line, f) != NULL)
        count += strncmp(line, "VmFlags:", 8) == 0 && strstr(line, " wr ") != NULL &&
                 (strstr(line, " lo") != NULL) == locked;
    if (f != NULL)
        fclose(f);
    return count;
}

/* Blocks that become so large that they have to move, among others that stay. */
static void a_locked_process_that_resizes(void)
{
    if (mlockall(MCL_CURRENT | MCL_FUTURE) != 0 || mappings(true) == 0)
        _exit(CHILD_SKIP); /* AddressSanitizer's mlockall does nothing */
    unsigned before = mappings(false);
    for (size_t i = 0; i < 3; i++) {
        char *p = my_malloc(600000);
        if (!p || !my_malloc(100000) || !my_realloc(p, 2200000))
            _exit(CHILD_SKIP); /* that is more than may be locked */
    }
    if (mappings(false) > before)
        _exit(NOT_LOCKED);
}

/* ---- the tests ---- */

static void in_a_child(void (*run)(void))
{
    int status = 0;
    pid_t pid = fork();
    if (pid == 0) {
        run();
        _exit(0);
    }
    assert_true(pid > 0 && waitpid(pid, &status, 0) == pid);
    if (WIFEXITED(status) && WEXITSTATUS(status) == CHILD_SKIP)
        SKIP_BECAUSE("this process may not lock so much memory");
    CHECK(
        status == 0,
        "status %#x (0x100: calloc's memory is not zero; 0x300: a mapping is not locked any more)",
        (unsigned)status);
}

#define IN_A_CHILD(name)                                                                           \
    static void after_##name(void **state)                                                         \
    {                                                                                              \
        (void)state;                                                                               \
        in_a_child(name);                                                                          \
    }
IN_A_CHILD(one_buffer)
IN_A_CHILD(one_buffer_and_trim)
IN_A_CHILD(some_buffers)
IN_A_CHILD(buffers_of_one_size_and_then_shorter_ones)
IN_A_CHILD(a_buffer_that_becomes_smaller)
IN_A_CHILD(a_huge_buffer_that_becomes_smaller)
IN_A_CHILD(buffers_that_grow)
IN_A_CHILD(everything_is_locked)
IN_A_CHILD(a_locked_process_that_resizes)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(after_one_buffer),
        cmocka_unit_test(after_one_buffer_and_trim),
        cmocka_unit_test(after_some_buffers),
        cmocka_unit_test(after_buffers_of_one_size_and_then_shorter_ones),
        cmocka_unit_test(after_a_buffer_that_becomes_smaller),
        cmocka_unit_test(after_a_huge_buffer_that_becomes_smaller),
        cmocka_unit_test(after_buffers_that_grow),
        cmocka_unit_test(after_everything_is_locked),
        cmocka_unit_test(after_a_locked_process_that_resizes),
    };
    return RUN_TESTS(tests);
}
