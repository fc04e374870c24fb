/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * The hakmem command: `hakmem run`. */
#pragma once

/* Becomes the program that the arguments name; returns an exit status only for --check and --help.
 */
int hak_run(int argc, char **argv);
void hak_run_help(void);
