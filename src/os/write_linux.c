/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * os: writing on Linux, to files and to stderr, by system calls alone. What the library writes is
 * never the end of the process: the signals that a write may raise are held back and taken away
 * again. Never allocates; keeps errno. See os.h. */
#include "os/os.h"
#include "os/syscall_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <time.h>

/* The kernel's set of signals: one bit each. */
#define WRITE_SIGNAL(number) (UINT64_C(1) << ((number) - 1))
#define WRITE_SIGNALS (WRITE_SIGNAL(SIGPIPE) | WRITE_SIGNAL(SIGXFSZ))

struct write_signals {
    uint64_t mask_before, pending_before;
};

static struct write_signals write_hold_signals(void)
{
    struct write_signals s = {0, 0};
    uint64_t held = WRITE_SIGNALS;
    hak_syscall6(SYS_rt_sigprocmask, SIG_BLOCK, (long)&held, (long)&s.mask_before, sizeof held, 0,
                 0);
    if ((s.mask_before & WRITE_SIGNALS) != 0) /* else none could wait */
        hak_syscall6(SYS_rt_sigpending, (long)&s.pending_before, sizeof held, 0, 0, 0, 0);
    return s;
}

/* Both are sent to the thread that writes, so that none of the program's own is taken away. */
static void write_release_signals(struct write_signals *s, int error)
{
    uint64_t raised = error == EPIPE   ? WRITE_SIGNAL(SIGPIPE)
                      : error == EFBIG ? WRITE_SIGNAL(SIGXFSZ)
                                       : 0;
    struct timespec at_once = {0, 0};
    if ((raised & ~s->pending_before) != 0)
        hak_syscall6(SYS_rt_sigtimedwait, (long)&raised, 0, (long)&at_once, sizeof raised, 0, 0);
    hak_syscall6(SYS_rt_sigprocmask, SIG_SETMASK, (long)&s->mask_before, 0, sizeof raised, 0, 0);
}

int hak_os_write(int file, const char *text, size_t bytes)
{
    int error = 0;
    struct write_signals signals = write_hold_signals();
    while (bytes > 0 && error == 0) {
        long written = hak_syscall6(SYS_write, file, (long)text, (long)bytes, 0, 0, 0);
        if (written == 0 || (written < 0 && written != -EINTR)) {
            error = written == 0 ? EIO : (int)-written;
        } else if (written > 0) {
            text += written;
            bytes -= (size_t)written;
        }
    }
    write_release_signals(&signals, error);
    return error;
}

/* --- stderr --- */

/* What was stderr when a report was asked for. By the time it is written the program may have
 * closed it, and its number, or that of the duplicate, be that of a file of the program's own. */
static struct {
    bool asked, can_tell;
    int file; /* 0: there was none */
    dev_t device;
    ino_t inode;
} write_kept HAK_RARELY_USED;

void hak_os_keep_stderr(void)
{
    enum { ABOVE_THE_PROGRAMS_OWN = 700 };
    struct stat is = {0};
    if (write_kept.asked)
        return;
    write_kept.asked = true;
    long kept =
        hak_syscall6(SYS_fcntl, STDERR_FILENO, F_DUPFD_CLOEXEC, ABOVE_THE_PROGRAMS_OWN, 0, 0, 0);
    if (kept == -EBADF)
        return;
    /* Few may be allowed, EINVAL: then it is stderr itself, as long as it is there. */
    write_kept.file = kept > 0 ? (int)kept : STDERR_FILENO;
    if (hak_syscall6(SYS_fstat, write_kept.file, (long)&is, 0, 0, 0, 0) != 0)
        return; /* a filter of system calls */
    write_kept.can_tell = true;
    write_kept.device = is.st_dev;
    write_kept.inode = is.st_ino;
}

static bool write_is_kept(int file)
{
    struct stat is = {0};
    return hak_syscall6(SYS_fstat, file, (long)&is, 0, 0, 0, 0) == 0 &&
           is.st_dev == write_kept.device && is.st_ino == write_kept.inode;
}

/* 0: there is none. */
static int write_find_stderr(void)
{
    if (!write_kept.asked)
        return STDERR_FILENO;
    if (!write_kept.can_tell || write_is_kept(write_kept.file))
        return write_kept.file;
    return write_is_kept(STDERR_FILENO) ? STDERR_FILENO : 0;
}

void hak_os_write_stderr(const char *text, size_t bytes)
{
    int file = write_find_stderr();
    if (file != 0)
        (void)hak_os_write(file, text, bytes);
}
