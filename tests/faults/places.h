/* Faults: what lies where in the memory of a process that is traced.
 *
 * Used by refuse.c. Reads /proc/PID/maps of processes that stand still; remembers where the library
 * lies until it is told that a process has become another.
 * SPDX-License-Identifier: Apache-2.0 OR MIT */
#ifndef HAK_FAULTS_PLACES_H
#define HAK_FAULTS_PLACES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* True if the address is code of libhakmem.so in that process. */
bool places_is_library(pid_t pid, uintptr_t address);

/* The process has ended, or runs another program. */
void places_forget(pid_t pid);

/* "libc.so.6+0x1234" */
void places_name(pid_t pid, uintptr_t address, char *out, size_t bytes);

/* A call that changes [at, at + bytes): into how many more mappings that splits what is there. */
struct places_split {
    uintptr_t at, bytes;
    unsigned long splits;
};

/* How many mappings the process has. */
unsigned long places_mappings(pid_t pid, struct places_split *call);

#endif
