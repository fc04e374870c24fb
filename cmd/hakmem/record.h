/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * The hakmem command: `hakmem record`. */
#pragma once

/* Becomes the program that the arguments name; returns for --help alone. */
int hak_record(int argc, char **argv);
void hak_record_help(void);
