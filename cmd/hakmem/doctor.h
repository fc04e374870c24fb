/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * The hakmem command: `hakmem doctor`, and what its files share. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

int hak_doctor(int argc, char **argv);
void hak_doctor_help(void);

enum hak_level {
    HAK_OK,
    HAK_NOTE,   /* worth knowing; nothing is wrong */
    HAK_PROBLEM /* it costs memory, makes allocations fail, or hakmem is not at work */
};

struct hak_finding {
    const char *name; /* one word, the same in every version */
    enum hak_level level;
    char *value;        /* what was found */
    const char *effect; /* NULL where all is well */
    char *fix;
};

struct hak_doctor {
    pid_t pid;          /* 0: none, only the system */
    const char *folder; /* "/proc/PID", or "/proc/self" */
    bool is_copy;       /* --root: files only; no process is behind them */
    struct hak_finding *findings;
    size_t count;
};

/* `value` and `fix` are new strings, which the list takes. */
void hak_doctor_add(struct hak_doctor *d, const char *name, enum hak_level level, char *value,
                    const char *effect, char *fix);

/* doctor_system.c: the kernel's settings and the limits that hold for the process. */
void hak_doctor_look_at_system(struct hak_doctor *d);
/* doctor_cgroup.c. */
void hak_doctor_look_at_cgroup(struct hak_doctor *d);
/* doctor_process.c: whether hakmem is at work in it, and who else is. */
void hak_doctor_look_at_process(struct hak_doctor *d);
