/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * api: hakmem_ctl, mallopt, malloc_trim: reading and setting by name or number. */
#include "api/api_internal.h"
#include "hard/hard.h"

#include "hakmem.h"

#include <errno.h>
#include <string.h>

HAK_PUBLIC const char *hakmem_ctl_name(unsigned index)
{
    unsigned figures = 0;
    while (hak_control_name(figures) != NULL)
        figures++;
    return index < figures ? hak_control_name(index) : hak_setting_name(index - figures);
}

HAK_PUBLIC int hakmem_ctl(const char *name, uint64_t *value, const uint64_t *new_value)
{
    if (strcmp(name, "policy.write") == 0)
        return new_value == NULL ? EINVAL : hak_policy_write(false);
    const char *known;
    for (unsigned i = 0; (known = hak_control_name(i)) != NULL; i++) {
        if (strcmp(known, name) != 0)
            continue;
        if (new_value != NULL)
            return EPERM;
        struct hak_snapshot s;
        hak_snapshot_take(&s);
        if (value != NULL)
            *value = hak_control_value(&s, i);
        return 0;
    }
    int error = hak_setting_control(name, value, new_value);
    return error != ENOENT ? error : hak_class_control(name, value, new_value);
}

HAK_PUBLIC int hakmem_malloc_trim(size_t pad)
{
    (void)pad; /* there is no top of a heap at which a pad could be left */
    if (HAK_HARDENED)
        hak_hard_flush();
    return hak_heap_trim() > 0;
}

/* M_TRIM_THRESHOLD bounds what is kept and M_PERTURB fills blocks, as in glibc. The others tune
 * mechanisms that hakmem does not have, and are accepted as glibc accepts them; a value out of
 * glibc's own range is refused. */
HAK_PUBLIC int hakmem_mallopt(int parameter, int value)
{
    enum { MXFAST_MOST = 80 * (int)sizeof(size_t) / 4, MMAP_THRESHOLD_MOST = 32 << 20 };
    switch (parameter) {
    case M_TRIM_THRESHOLD: {
        hak_options.trim_threshold_bytes = value < 0 ? SIZE_MAX : hak_max((size_t)value, 1);
        hak_options_apply_limits(&hak_options.trim_threshold_bytes);
        return 1;
    }
    case M_MXFAST:
        return value >= 0 && value <= MXFAST_MOST;
    case M_MMAP_THRESHOLD:
        return value >= 0 && value <= MMAP_THRESHOLD_MOST;
    case M_PERTURB:
        return hak_heap_set_perturb((uint8_t)value);
    default:
        return 1;
    }
}

HAK_PUBLIC const char *hakmem_version(void)
{
#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)
    return TEXT(HAKMEM_VERSION_MAJOR) "." TEXT(HAKMEM_VERSION_MINOR) "." TEXT(HAKMEM_VERSION_PATCH);
}

HAK_ALSO(int, malloc_trim, (size_t), hakmem_malloc_trim)
HAK_ALSO(int, mallopt, (int, int), hakmem_mallopt)
HAK_ALSO(int, __libc_mallopt, (int, int), hakmem_mallopt)
