/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * The hakmem command: `hakmem replay`, and the process that repeats a plan under one allocator. */
#pragma once

#include "plan.h"

int hak_replay(int argc, char **argv);
void hak_replay_help(void);

enum hak_replay_touch { HAK_REPLAY_TOUCH_NONE, HAK_REPLAY_TOUCH_PAGES, HAK_REPLAY_TOUCH_ALL };

/* What a repetition took. Bytes are the process's private memory, as the kernel counts it. */
struct hak_replay_run {
    uint64_t is_done; /* 1: all else is there */
    uint64_t elapsed_ns, processor_ns;
    uint64_t page_faults;
    uint64_t failed; /* allocations */
    uint64_t end_bytes;
    uint64_t freed_bytes;                        /* after that, with all freed that was live */
    uint64_t sample_bytes[HAK_PLAN_SAMPLES + 1]; /* 0: not reached */
};

/* The first argument of a process that repeats a plan. */
#define HAK_REPLAY_WORKER "--worker"
/* Its exit status when its malloc is not that of the library that it is told. */
#define HAK_REPLAY_EXIT_OTHER_MALLOC 3

/* argv: --worker, the descriptors of the plan and of a struct hak_replay_run, how to touch, and the
 * library whose malloc it must have, which is not there for libc's. */
int hak_replay_work(int argc, char **argv);
