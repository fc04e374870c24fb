/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * api: the constructor and the destructor of the library. Nothing depends on when they run: memory
 * is served before the one and after the other. The constructor reads options and prepares for
 * fork; the destructor prints what was asked for, and looks at what was freed last. */
#include "api/api_internal.h"
#include "hard/hard.h"

#include <unistd.h>

static const char no_thread[] = "hakmem: HAKMEM_BACKGROUND_THREAD: no thread could be started; "
                                "memory goes back on slow paths only\n";

__attribute__((constructor)) static void init_begin(void)
{
    hak_foreign_start();
    hak_options_read(environ);
    if (hak_options.stats || hak_options.stage_stats || hak_options.lock_stats ||
        hak_options.prof_leaks)
        hak_os_keep_stderr();
    hak_profile_begin();
    hak_heap_prepare_for_forks();
    if (hak_options.background_thread && !hak_background_begin())
        hak_os_write_stderr(no_thread, sizeof no_thread - 1);
}

__attribute__((destructor)) static void init_end(void)
{
    hak_background_end();
    hak_heap_notice_fork();
    hak_profile_end();
    int error = hak_policy_write(true);
    if (error != 0)
        hak_report_not_written("HAKMEM_POLICY: what was learned", hak_policy_file(), error);
    if (hak_options.stats)
        hak_report_summary();
    if (hak_options.stage_stats)
        hak_report_stages();
    if (hak_options.lock_stats)
        hak_report_locks();
    if (HAK_HARDENED)
        hak_hard_audit();
    else
        hak_heap_audit(NULL);
}
