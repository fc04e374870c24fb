/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * The hakmem command: `hakmem explain`: why allocations failed. */
#include "explain.h"

#include "util.h"

#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void hak_explain_help(void)
{
    (void)fputs(
        "Usage: hakmem explain [--json] PID | CORE | FILE\n"
        "Tell why the last allocations of a process failed, how things stood then, and what to\n"
        "change. From the running process, from a core file of it (of a crash, or gcore's), or\n"
        "from what 'hakmem stat --json' printed or hakmem_stats_json wrote.\n"
        "\n"
        "  --json  as JSON\n"
        "  --help  print this and exit\n"
        "\n"
        "Exit status: 0 told, also if nothing has failed; 1 the process has no hakmem or cannot\n"
        "be read, or the file is none of these; 2 the arguments are wrong.\n",
        stdout);
}

static bool explain_is_elf(const char *path)
{
    char magic[SELFMAG], *problem = NULL;
    int file = hak_open_regular(path, &problem);
    bool is = file >= 0 && read(file, magic, sizeof magic) == (ssize_t)sizeof magic &&
              memcmp(magic, ELFMAG, sizeof magic) == 0;
    if (file >= 0)
        (void)close(file);
    free(problem);
    return is;
}

static bool explain_read(struct hak_explanation *e, const char *what, struct hak_obstacle *obstacle)
{
    struct hak_remote remote;
    pid_t pid = hak_parse_pid(what);
    if (pid == 0 && access(what, F_OK) != 0)
        hak_die(HAK_EXIT_USAGE, "explain: '%s' is neither the number of a process nor a file: %s",
                what, strerror(errno));
    if (pid == 0 && !explain_is_elf(what))
        return hak_explain_read_json(e, what, obstacle);
    bool read = hak_remote_open_either(&remote, pid, what, obstacle) &&
                hak_explain_read_remote(e, &remote, obstacle);
    hak_remote_close(&remote);
    return read;
}

int hak_explain(int argc, char **argv)
{
    static const char *const options[] = {"--json", "--help"};
    struct hak_explanation e = {0};
    struct hak_obstacle obstacle = {0};
    bool json = false;
    int i = 1;
    for (; i < argc && argv[i][0] == '-'; i++) {
        if (strcmp(argv[i], "--json") == 0) {
            json = true;
        } else if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            hak_explain_help();
            return EXIT_SUCCESS;
        } else {
            hak_unknown_option(HAK_EXIT_USAGE, "explain", argv[i], options, 2);
        }
    }
    if (i + 1 != argc)
        hak_die(HAK_EXIT_USAGE, i == argc ? "explain: no process given; for example: hakmem "
                                            "explain 1234, or: hakmem explain core"
                                          : "explain: one process or file at a time");
    bool read = explain_read(&e, argv[i], &obstacle);
    if (!read) {
        hak_say("explain: %s", obstacle.problem);
        hak_say("hint: %s", obstacle.hint);
    } else if (json) {
        hak_explain_print_json(&e);
    } else {
        (void)hak_printable(e.who);
        hak_explain_print(&e);
    }
    hak_obstacle_free(&obstacle);
    free(e.who);
    return read ? EXIT_SUCCESS : EXIT_FAILURE;
}
