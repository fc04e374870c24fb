/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * The hakmem command: the heap profile of another process: `hakmem samples` prints it, and
 * `hakmem ask` asks for one. `hakmem prof` (python/) calls both. */
#pragma once

int hak_samples(int argc, char **argv);
void hak_samples_help(void);
int hak_ask(int argc, char **argv);
void hak_ask_help(void);
