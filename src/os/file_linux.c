/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * os: files on Linux, by system calls alone: no buffer, no lock, no errno. See os.h. */
#include "os/os.h"
#include "os/syscall_internal.h"

#include <errno.h>
#include <fcntl.h>

int hak_os_open(const char *path, bool write)
{
    int flags = O_CLOEXEC | (write ? O_WRONLY | O_CREAT | O_TRUNC : O_RDONLY);
    enum { FOR_ITS_OWNER = 0600 };
    return (int)hak_syscall6(SYS_openat, AT_FDCWD, (long)path, flags, FOR_ITS_OWNER, 0, 0);
}

size_t hak_os_read(int file, char *buffer, size_t bytes)
{
    long got;
    do
        got = hak_syscall6(SYS_read, file, (long)buffer, (long)bytes, 0, 0, 0);
    while (got == -EINTR);
    return got > 0 ? (size_t)got : 0;
}

bool hak_os_write(int file, const char *text, size_t bytes)
{
    while (bytes > 0) {
        long written = hak_syscall6(SYS_write, file, (long)text, (long)bytes, 0, 0, 0);
        if (written == -EINTR)
            continue;
        if (written <= 0)
            return false;
        text += written;
        bytes -= (size_t)written;
    }
    return true;
}

void hak_os_close(int file)
{
    hak_syscall6(SYS_close, file, 0, 0, 0, 0, 0);
}

uint64_t hak_os_process_id(void)
{
    return (uint64_t)hak_syscall6(SYS_getpid, 0, 0, 0, 0, 0, 0);
}
