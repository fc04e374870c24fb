/* Stress: when the system has no more memory to give. See refusal.h.
 * SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "refusal.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "footprint.h"
#include "shadow.h"
#include "support/api.h"

/* An madvise with this advice, which the kernel does not know, tells faults/refuse to end it. */
enum { REFUSAL_IS_OVER = 0x68616b };
enum { HELD = 6000, ROUND_BLOCKS = 3000, SKIPPED = 77 };

static void *held[HELD];

/* From 16 bytes to 1 MiB; all together about 24 MiB. */
static size_t held_size(size_t i)
{
    return i % 500 == 7   ? (size_t)1 << 20
           : i % 100 == 3 ? (size_t)70000 + i
           : i % 10 == 5  ? 3000 + i % 5000
                          : 16 + i % 900;
}

static bool held_take(size_t i)
{
    errno = 0;
    held[i] = my_malloc(held_size(i));
    if (held[i])
        memset(held[i], 0x5a, held_size(i));
    else if (errno != ENOMEM)
        shadow_fail(NULL, "malloc(%zu) was refused with errno %d", held_size(i), errno);
    return held[i] != NULL;
}

void refusal_prepare(void)
{
    for (size_t i = 0; i < HELD; i++)
        if (!held_take(i))
            shadow_fail(NULL, "no memory to begin with");
}

void refusal_begin(int error)
{
#define REFUSE(number)                                                                             \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),                                             \
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ((unsigned)error & SECCOMP_RET_DATA))
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        REFUSE(SYS_mmap),
        REFUSE(SYS_munmap),
        REFUSE(SYS_mprotect),
        REFUSE(SYS_mremap),
        REFUSE(SYS_madvise),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof code / sizeof *code, code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
        syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program)) {
        printf("stress: skipped: this system permits no seccomp filter (%s)\n", strerror(errno));
        fflush(stdout);
        _exit(SKIPPED);
    }
    errno = 0;
    /* libc may make another error of it, as musl does of EPERM */
    if (syscall(SYS_mmap, NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != -1 ||
        errno != error)
        shadow_fail(NULL, "the filter refuses nothing");
}

/* The same sizes fit where they were; a quarter of the bytes also fits as blocks of other sizes. */
void refusal_check(void)
{
    size_t bytes = 0, other = 0;
    for (size_t i = 0; i < HELD; i++) {
        bytes += held_size(i);
        my_free(held[i]);
    }
    for (size_t i = 0; i < HELD; i++)
        if (!held_take(i))
            shadow_fail(NULL, "%zu bytes were freed, and malloc(%zu) is refused after %zu blocks",
                        bytes, held_size(i), i);
    for (size_t i = 0; i < HELD; i++)
        my_free(held[i]);
    static void *others[HELD];
    size_t count = 0;
    while (count < HELD && other < bytes / 4 && (others[count] = my_malloc(12000)) != NULL) {
        memset(others[count++], 1, 12000);
        other += 12000;
    }
    if (other < bytes / 4)
        shadow_fail(NULL, "%zu bytes were freed, of which only %zu can be used for other sizes",
                    bytes, other);
    while (count > 0)
        my_free(others[--count]);
}

static bool recover_round(void)
{
    bool all = true;
    for (size_t i = 0; i < ROUND_BLOCKS; i++)
        all &= held_take(i);
    for (size_t i = 0; i < ROUND_BLOCKS; i++)
        my_free(held[i]);
    return all;
}

void refusal_recover(void)
{
    syscall(SYS_madvise, 0, 0, REFUSAL_IS_OVER);
    for (int round = 0; round < 3; round++) {
        if (!recover_round())
            shadow_fail(NULL, "memory is still refused in round %d", round);
        my_malloc_trim(0);
    }
    size_t mapped, resident;
    footprint_now(&mapped, &resident);
    printf("recovered: %zu KiB mapped, %zu KiB resident\n", mapped >> 10, resident >> 10);
}
