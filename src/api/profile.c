/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * api: the heap profile: switched by options or by the program, written at the end of the process
 * if options asked for it. */
#include "api/api_internal.h"

#include "hakmem.h"

#include <errno.h>
#include <string.h>

static const char refused[] =
    "hakmem: HAKMEM_PROF: the hardened library has no heap profile; nothing is sampled\n";
static const char no_memory[] =
    "hakmem: HAKMEM_PROF: no memory for the tables of the heap profile; nothing is sampled\n";
static const char perturbed[] =
    "hakmem: HAKMEM_PROF: not together with HAKMEM_PERTURB; nothing is sampled\n";

void hak_profile_begin(void)
{
    if (hak_options.prof_file[0] != '\0')
        hak_prof_set_path(hak_options.prof_file);
    if (!hak_options.prof && !hak_options.prof_leaks)
        return;
    int error = hak_profile_start(hak_options.prof_sample_bytes);
    if (error == ENOTSUP)
        hak_os_write_stderr(refused, sizeof refused - 1);
    else if (error == EBUSY)
        hak_os_write_stderr(perturbed, sizeof perturbed - 1);
    else if (error != 0)
        hak_os_write_stderr(no_memory, sizeof no_memory - 1);
}

static void profile_write(void)
{
    char path[HAK_PROF_PATH_BYTES];
    int error = hak_prof_expand(NULL, path) ? hak_prof_write(path) : ENAMETOOLONG;
    if (error != 0)
        hak_report_not_written("HAKMEM_PROF: the profile", path, error);
}

void hak_profile_end(void)
{
    if (hak_prof_period() == 0)
        return;
    if (hak_options.prof)
        profile_write();
    if (hak_options.prof_leaks) {
        hak_report_live();
        hak_prof_report_leaks();
    }
}

HAK_PUBLIC int hakmem_prof_start(uint64_t period_bytes)
{
    return hak_profile_start(period_bytes);
}

HAK_PUBLIC void hakmem_prof_stop(void)
{
    hak_profile_stop();
}

HAK_PUBLIC int hakmem_prof_dump(const char *path)
{
    return hak_prof_write(path);
}
