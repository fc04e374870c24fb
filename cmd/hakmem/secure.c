/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * The hakmem command: foresees AT_SECURE as the kernel decides it, see secure.h. Security modules
 * (SELinux, AppArmor) may decide otherwise; nothing here can foresee them. */
#include "secure.h"

#include <endian.h>
#include <linux/capability.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

/* Set-ID bits and file capabilities mean nothing after no_new_privs and on a nosuid file system. */
static bool secure_privileges_count(const char *program)
{
    struct statvfs system;
    if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1)
        return false;
    return statvfs(program, &system) < 0 || (system.f_flag & ST_NOSUID) == 0;
}

/* Whether the file gives capabilities; it may have the attribute and give none. */
static bool secure_has_capabilities(const char *program)
{
    struct vfs_ns_cap_data data = {0};
    if (getxattr(program, "security.capability", &data, sizeof data) <
        (ssize_t)sizeof data.magic_etc)
        return false;
    uint32_t given = le32toh(data.magic_etc) & VFS_CAP_FLAGS_EFFECTIVE;
    for (unsigned i = 0; i < VFS_CAP_U32; i++)
        given |= data.data[i].permitted;
    return given != 0;
}

const char *hak_secure_reason(const char *program)
{
    static char reason[128];
    struct stat info;
    if (stat(program, &info) < 0)
        return NULL;
    const bool counts = secure_privileges_count(program);
    const bool set_uid = counts && (info.st_mode & S_ISUID) != 0;
    const bool set_gid = counts && (info.st_mode & S_ISGID) != 0 && (info.st_mode & S_IXGRP) != 0;
    const uid_t uid = set_uid ? info.st_uid : geteuid();
    const gid_t gid = set_gid ? info.st_gid : getegid();
    if (uid != getuid())
        (void)snprintf(reason, sizeof reason, "runs with the rights of user %u (%s)", uid,
                       set_uid ? "set-user-ID" : "as hakmem itself does");
    else if (gid != getgid())
        (void)snprintf(reason, sizeof reason, "runs with the rights of group %u (%s)", gid,
                       set_gid ? "set-group-ID" : "as hakmem itself does");
    else if (counts && getuid() != 0 && secure_has_capabilities(program))
        (void)snprintf(reason, sizeof reason, "has file capabilities");
    else
        return NULL;
    return reason;
}
