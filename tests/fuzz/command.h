/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Fuzzing: what the targets of the hakmem command share. The command ends itself with hak_die where
 * it refuses; here that is a jump back (the linker's --wrap), so that the next input can follow.
 * What was allocated is lost then, so these targets do not look for leaks.
 *
 * Included by one source file a program. */
#ifndef HAK_FUZZ_COMMAND_H
#define HAK_FUZZ_COMMAND_H

#include "fuzz.h"

#include "util.h"

#include <setjmp.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static jmp_buf command_refused;

_Noreturn void __wrap_hak_die(int status, const char *format, ...);
_Noreturn void __wrap_hak_die(int status, const char *format, ...)
{
    char message[16384];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    fuzz_check(length > 0, "the command ends without a message");
    fuzz_check(status == 125 || status == 126 || status == 127, "the command ends with %d", status);
    longjmp(command_refused, 1);
}

int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void)
{
    return 1;
}

/* The input as a file that the command can open by this name. The descriptor stays the same. */
__attribute__((unused)) static const char *command_file(const uint8_t *data, size_t size)
{
    static char path[64];
    static int file = -1;
    if (file < 0) {
        file = memfd_create("fuzz", 0);
        fuzz_check(file >= 0 && fchmod(file, 0700) == 0, "no file");
        (void)snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    }
    fuzz_check(ftruncate(file, 0) == 0 && pwrite(file, data, size, 0) == (ssize_t)size,
               "the file cannot be written");
    return path;
}

#endif
