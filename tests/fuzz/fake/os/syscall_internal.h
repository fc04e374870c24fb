/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Fuzzing: takes the place of src/os/syscall_internal.h for fuzz_limits: the kernel is the fuzzer,
 * and files are what the input says. Included through the include path by limits_linux.c only. */
#pragma once

#include <sys/syscall.h>

long fuzz_syscall(long n, long a, long b, long c);

static inline long hak_syscall6(long n, long a, long b, long c, long d, long e, long f)
{
    (void)d;
    (void)e;
    (void)f;
    return fuzz_syscall(n, a, b, c);
}
