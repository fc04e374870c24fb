/* Conformance support: runs a command in a process of its own and collects what it said.
 *
 * For cases that end the process, need a limit, or might hang: the child is killed after a time and
 * the test goes on.
 *
 * Called by test drivers from one thread. Never uses a shell.
 * SPDX-License-Identifier: Apache-2.0 OR MIT */
#ifndef HAK_TEST_CHILD_H
#define HAK_TEST_CHILD_H

#include <stdbool.h>
#include <stddef.h>

enum { CHILD_OUT_BYTES = 256 * 1024, CHILD_ERR_BYTES = 16 * 1024 };

struct child {
    char *const *argv;     /* argv[0] is looked up on PATH */
    void (*setup)(void *); /* runs in the child before exec; may be NULL */
    void *setup_arg;
    unsigned timeout_seconds; /* 0: 60 */

    /* results */
    int status; /* as from waitpid */
    bool timed_out;
    size_t out_bytes, err_bytes; /* what was kept of it; always followed by a 0 */
    char out[CHILD_OUT_BYTES + 1];
    char err[CHILD_ERR_BYTES + 1];
};

/* A statuses that children here end with, besides 0. */
enum {
    CHILD_NOT_CAUGHT = 42,  /* the case went through without the abort that was expected */
    CHILD_SKIP = 77,        /* the system does not permit this test */
    CHILD_EXEC_FAILED = 127 /* setup or exec failed; the reason is on stderr */
};

/* Runs the command to its end. False only if it could not be started at all. */
bool child_run(struct child *c);

/* True if the child exited by itself with this status. */
bool child_exited(const struct child *c, int status);

/* One line for an assertion's message: how the child ended and what it wrote to stderr. */
const char *child_describe(const struct child *c);

/* The program's own path, to run itself again. */
const char *child_self(void);

/* The path of a program or library that lies beside this one; good until the next call. */
char *child_beside(const char *name);

#endif
