/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Replays recorded snapshots through the controller and prints every decision, and at the end what
 * was learned, as a policy file.
 *
 *   replay learn|try|frozen|fixed RECORD [POLICY]
 *
 * RECORD has the lines that HAKMEM_POLICY_TRACE=1 prints in the debug build; POLICY is what was
 * known before. The same input gives the same output on every machine. Exits with 2 for wrong use.
 */
#include "policy/policy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_MOST ((size_t)1 << 20)

static _Noreturn void die(const char *what, const char *which)
{
    (void)fprintf(stderr, "replay: %s: %s\n", what, which);
    exit(2);
}

static uint64_t value_of(const char *line, const char *name)
{
    char key[64];
    (void)snprintf(key, sizeof key, " %s=", name);
    const char *at = strstr(line, key);
    if (at == NULL)
        die("no such counter in a line of the record", name);
    return strtoull(at + strlen(key), NULL, 10);
}

static struct hak_policy_snapshot snapshot_of(const char *line)
{
    return (struct hak_policy_snapshot){
        .now_ns = value_of(line, "now_ns"),
        .cpu_ns = value_of(line, "cpu_ns"),
        .faults = value_of(line, "faults"),
        .resident_bytes = value_of(line, "resident_bytes"),
        .spare_bytes = value_of(line, "spare_bytes"),
        .purged_bytes = value_of(line, "purged_bytes"),
        .kept_bytes = value_of(line, "kept_bytes"),
        .slow_calls = value_of(line, "slow_calls"),
        .mapped_superslabs = value_of(line, "mapped_superslabs"),
        .regretted_slots = value_of(line, "regretted_slots"),
        .aged_slots = value_of(line, "aged_slots"),
        .huge_blocks = value_of(line, "huge_blocks"),
        .heaps = value_of(line, "heaps"),
        .group_max_bytes = value_of(line, "group_max_bytes"),
        .group_used_bytes = value_of(line, "group_used_bytes"),
        .group_stalled_us = value_of(line, "group_stalled_us"),
    };
}

static enum hak_policy_mode mode_of(const char *name)
{
    static const char *const names[] = {"fixed", "frozen", "learn", "try"};
    for (unsigned mode = HAK_POLICY_FIXED; mode <= HAK_POLICY_TRY; mode++)
        if (strcmp(name, names[mode]) == 0)
            return (enum hak_policy_mode)mode;
    die("no such mode", name);
}

static char text[TEXT_MOST];

static size_t read_text(const char *path)
{
    FILE *file = fopen(path, "r");
    if (file == NULL)
        die("cannot be read", path);
    size_t length = fread(text, 1, sizeof text, file);
    (void)fclose(file);
    return length;
}

static struct hak_policy_state state;

/* The decisions of one tick, as they are kept for those who ask. */
static void print_decisions(void)
{
    struct hak_text out;
    hak_text_begin(&out, text, sizeof text);
    hak_policy_explain(&state, &out, "", "\n", "");
    (void)fputs(text, stdout);
    state.decided = 0;
}

int main(int argc, char **argv)
{
    struct hak_evidence before = {0};
    if (argc < 3 || argc > 4)
        die("usage", "replay learn|try|frozen|fixed RECORD [POLICY]");
    hak_classes_start();
    if (argc == 4 && hak_policy_parse(text, read_text(argv[3]), &before) != 0)
        die("no policy", argv[3]);
    const bool fixed[HAK_KNOBS] = {false};
    hak_policy_init(&state, mode_of(argv[1]), &before, fixed);
    print_decisions();
    FILE *record = fopen(argv[2], "r");
    char line[1024];
    struct hak_policy_snapshot last = {0};
    if (record == NULL)
        die("cannot be read", argv[2]);
    while (fgets(line, sizeof line, record) != NULL) {
        if (strncmp(line, "[POLICY]", 8) != 0)
            continue;
        struct hak_policy_snapshot s = snapshot_of(line);
        hak_policy_step(&state, &s);
        print_decisions();
        last = s;
    }
    (void)fclose(record);
    hak_policy_end(&state, &last);
    hak_evidence_add(&before, &state.learned);
    hak_policy_print(&before, text, sizeof text);
    (void)fputs(text, stdout);
    return 0;
}
