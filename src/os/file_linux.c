/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * os: files on Linux, by system calls alone: no buffer, no lock, no errno. See os.h. */
#include "base/text.h"
#include "os/os.h"
#include "os/syscall_internal.h"

#include <errno.h>
#include <fcntl.h>

/* A pipe that nobody reads is refused (ENXIO), else the end of a process would wait for a reader. A
 * symbolic link is followed, as by a shell's redirection: /dev/stdout is one, and whose links are
 * not to be trusted in a folder like /tmp the kernel knows (fs.protected_symlinks). */
int hak_os_open(const char *path, bool write)
{
    enum { FOR_ITS_OWNER = 0600 };
    int flags = write ? O_WRONLY | O_CREAT | O_TRUNC | O_NONBLOCK | O_NOCTTY : O_RDONLY;
    int file =
        (int)hak_syscall6(SYS_openat, AT_FDCWD, (long)path, flags | O_CLOEXEC, FOR_ITS_OWNER, 0, 0);
    if (file >= 0 && write)
        hak_syscall6(SYS_fcntl, file, F_SETFL, 0, 0, 0, 0);
    return file;
}

size_t hak_os_read(int file, char *buffer, size_t bytes)
{
    long got;
    do
        got = hak_syscall6(SYS_read, file, (long)buffer, (long)bytes, 0, 0, 0);
    while (got == -EINTR);
    return got > 0 ? (size_t)got : 0;
}

void hak_os_close(int file)
{
    hak_syscall6(SYS_close, file, 0, 0, 0, 0, 0);
}

int hak_os_read_file(const char *path, char *buffer, size_t size, size_t *got)
{
    *got = 0;
    int file = (int)hak_syscall6(SYS_openat, AT_FDCWD, (long)path,
                                 O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0, 0, 0);
    if (file < 0)
        return -file;
    long n = 1;
    while (*got < size && n != 0) {
        n = hak_syscall6(SYS_read, file, (long)buffer + (long)*got, (long)(size - *got), 0, 0, 0);
        if (n > 0)
            *got += (size_t)n;
        else if (n != 0 && n != -EINTR)
            break;
    }
    hak_os_close(file);
    return n < 0 && n != -EINTR ? (int)-n : 0;
}

size_t hak_os_folder(char *folder, size_t size)
{
    long length = hak_syscall6(SYS_getcwd, (long)folder, (long)size, 0, 0, 0, 0);
    /* "(unreachable)/...": it lies outside of what the process sees. */
    return length > 1 && folder[0] == '/' ? (size_t)length - 1 : 0;
}

/* A file of this name that is there already was left by a process with this number, which ended
 * while it wrote: in containers numbers come again. */
static int file_make_anew(const char *path)
{
    enum { TRIES = 2, FOR_ALL = 0666 };
    int file = -EEXIST;
    for (int i = 0; i < TRIES && file == -EEXIST; i++) {
        if (i != 0)
            hak_syscall6(SYS_unlinkat, AT_FDCWD, (long)path, 0, 0, 0, 0);
        file = (int)hak_syscall6(SYS_openat, AT_FDCWD, (long)path,
                                 O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, FOR_ALL, 0, 0);
    }
    return file;
}

int hak_os_write_file(const char *path, const char *text, size_t bytes)
{
    enum { NAME_BYTES = 1024 };
    char beside[NAME_BYTES];
    struct hak_text name;
    hak_text_begin(&name, beside, sizeof beside);
    hak_text_string(&name, path);
    hak_text_string(&name, ".new-");
    hak_text_decimal(&name, hak_os_process_id());
    if (name.length >= sizeof beside)
        return ENAMETOOLONG;
    int file = file_make_anew(beside);
    if (file < 0)
        return -file;
    int error = hak_os_write(file, text, bytes);
    hak_os_close(file);
    if (error == 0)
        error =
            (int)-hak_syscall6(SYS_renameat2, AT_FDCWD, (long)beside, AT_FDCWD, (long)path, 0, 0);
    if (error != 0)
        hak_syscall6(SYS_unlinkat, AT_FDCWD, (long)beside, 0, 0, 0, 0);
    return error;
}

uint64_t hak_os_process_id(void)
{
    return (uint64_t)hak_syscall6(SYS_getpid, 0, 0, 0, 0, 0, 0);
}
