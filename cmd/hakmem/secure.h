/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * The hakmem command: whether the kernel will start a program in secure-execution mode, in which
 * the loader ignores LD_PRELOAD. Asks the kernel; changes nothing. */
#pragma once

/* Why it will, as the end of the sentence "it ...", in a static buffer; NULL: it will not. */
const char *hak_secure_reason(const char *program);
