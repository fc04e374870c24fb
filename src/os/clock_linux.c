/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * os: the time on Linux, from the kernel's own function in the process (the vDSO), without a system
 * call where it has one. Not libc's clock_gettime: a program or a preloaded library may have its
 * own (libfaketime), which tells another time, and allocates or waits while we hold a lock. */
#include "os/symbols_internal.h"
#include "os/syscall_internal.h"

#include <sys/auxv.h>
#include <time.h>

#if defined(__aarch64__)
#define CLOCK_NAME "__kernel_clock_gettime"
#else
#define CLOCK_NAME "__vdso_clock_gettime"
#endif

typedef int clock_call(clockid_t clock, struct timespec *now);

static int clock_ask_kernel(clockid_t clock, struct timespec *now)
{
    return (int)hak_syscall6(SYS_clock_gettime, clock, (long)now, 0, 0, 0, 0);
}

/* NOLINTBEGIN(performance-no-int-to-ptr): the kernel says where it put the file */

static clock_call *clock_find(void)
{
    const ElfW(Ehdr) *file = (const ElfW(Ehdr) *)getauxval(AT_SYSINFO_EHDR);
    if (file == NULL)
        return clock_ask_kernel;
    struct dl_phdr_info info = {
        .dlpi_addr = (ElfW(Addr))file,
        .dlpi_phdr = (const ElfW(Phdr) *)((uintptr_t)file + file->e_phoff),
        .dlpi_phnum = file->e_phnum,
    };
    for (unsigned i = file->e_phnum; i-- > 0;) /* the first one is at the file's beginning */
        if (info.dlpi_phdr[i].p_type == PT_LOAD)
            info.dlpi_addr =
                (ElfW(Addr))file + info.dlpi_phdr[i].p_offset - info.dlpi_phdr[i].p_vaddr;
    struct hak_os_symbols t;
    const ElfW(Sym) *s = hak_os_read_symbols(&info, &t) ? hak_os_find_symbol(&t, CLOCK_NAME) : NULL;
    return s == NULL ? clock_ask_kernel : (clock_call *)(t.base + s->st_value);
}

/* NOLINTEND(performance-no-int-to-ptr) */

uint64_t hak_os_now_ns(void)
{
    static _Atomic(clock_call *) found; /* all threads find the same */
    clock_call *call = hak_load_relaxed(&found);
    if (call == NULL) {
        call = clock_find();
        hak_store_relaxed(&found, call);
    }
    struct timespec now = {0};
    call(CLOCK_MONOTONIC_COARSE, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}
