/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * The hakmem command: `hakmem stat`, and what its files share. */
#pragma once

#include "json.h"
#include "survey.h"

int hak_stat(int argc, char **argv);
void hak_stat_help(void);

/* --peak: how much there was when the survey was made, and at most, as the kernel noted it (0: not
 * known). That is known when the command ends and the survey was printed, so what is printed of a
 * peak has no end before hak_stat_end_*. */
struct hak_stat_peak {
    uint64_t seen_bytes, kernel_bytes;
};

/* stat_json.c. */
struct hak_stat_parts {
    bool superslabs, samples, peak;
};
void hak_stat_print_json(const struct hak_survey *survey, struct hak_stat_parts parts);
void hak_stat_end_json(struct hak_stat_peak peak);
void hak_stat_json_failures(struct hak_json *j, const struct hak_image *image);
/* stat_lifetimes.c */
void hak_stat_json_lifetimes(struct hak_json *j, const struct hak_survey *survey);
/* stat_samples.c */
void hak_stat_json_samples(struct hak_json *j, const struct hak_survey *survey);
/* stat_text.c: the waterfall for people. `previous_bytes` (an array of the lines' resident bytes,
 * or NULL) adds a column of changes. `is_ending`: nobody can ask the process once this is read. */
void hak_stat_print_text(const struct hak_survey *survey, const uint64_t *previous_bytes,
                         bool is_ending);
void hak_stat_end_text(struct hak_stat_peak peak);
/* stat_openmetrics.c. */
void hak_stat_print_openmetrics(const struct hak_survey *survey, bool peak);
void hak_stat_end_openmetrics(struct hak_stat_peak peak);

/* stat_end.c: runs a command under hakmem and calls `show` when it is about to end, its memory
 * still there; `look`, if not NULL, all the while. Returns the command's exit status as a shell
 * would; ends the hakmem command where that is not possible. */
struct hak_stat_end {
    void (*show)(pid_t pid, void *context);
    void (*look)(pid_t pid, void *context);
    void *context;
};
int hak_stat_run(char **command, const struct hak_stat_end *end);
