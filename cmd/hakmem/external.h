/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * The hakmem command: commands that are programs of their own, `hakmem-NAME`. */
#pragma once

#include "util.h"

/* Becomes hakmem-NAME (argv[0] is NAME) when there is one: beside this command, in the directory
 * for such programs, or on PATH, in that order. Returns when there is none. */
void hak_external_exec(char **argv);

/* Adds the NAME of every hakmem-NAME that can be found, sorted and each once. */
void hak_external_list(struct hak_strings *names);
