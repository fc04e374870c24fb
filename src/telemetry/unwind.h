/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * telemetry: the call stack of the calling thread. Called by prof.c. Takes no lock and allocates
 * nothing, so a fork or a signal at any moment does no harm. */
#pragma once

#include "os/os.h"

/* Stores up to `most` addresses, that of `from` first, then return addresses, outward. Memory is
 * read only from the stack pointer on, where it can be read, and in the unwind tables of the
 * program and its libraries. Returns how many. */
unsigned hak_unwind(const struct hak_registers *from, uintptr_t *frames, unsigned most);
