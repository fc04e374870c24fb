/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * os: guard pages on Linux. In the hardened build only. See os.h for the contract. */
#include "os/os.h"
#include "os/syscall_internal.h"

#include <sys/mman.h>

int hak_os_protect(void *at, size_t bytes, bool accessible)
{
    int protection = accessible ? PROT_READ | PROT_WRITE : PROT_NONE;
    return (int)-hak_syscall6(SYS_mprotect, (long)at, (long)bytes, protection, 0, 0, 0);
}

int hak_os_map_guarded(size_t bytes, void **out)
{
    void *range;
    int error = hak_os_map(bytes + 2 * HAK_PAGE_BYTES, &range);
    if (error != 0)
        return error;
    hak_os_protect(range, HAK_PAGE_BYTES, false);
    hak_os_protect((char *)range + HAK_PAGE_BYTES + bytes, HAK_PAGE_BYTES, false);
    *out = (char *)range + HAK_PAGE_BYTES;
    return 0;
}
