/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * The hakmem command: `hakmem version`. */
#pragma once

/* Prints the command's version, and that of the library which `hakmem run` would use. */
void hak_version_print(void);
