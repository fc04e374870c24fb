/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Test support: stands between the layers above os and the real os layer (the linker's --wrap, see
 * wrap.txt). Passes every call on, counts it, and refuses the ones it was told to refuse.
 *
 * Unit tests call it, from the thread that runs the test; the layers' calls may come from any
 * thread. It never makes up memory: what it does not refuse, the real system has done. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum fake_os_call {
    FAKE_MAP_AT,
    FAKE_MAP,
    FAKE_UNMAP,
    FAKE_PURGE,
    FAKE_MOVE,
    FAKE_FIND_HOLE,
    FAKE_ANY,      /* all of the above, counted together */
    FAKE_RESIDENT, /* counted only: it cannot be refused */
    FAKE_CALLS
};

/* Bytes mapped through the os layer and not unmapped since the process began. */
size_t fake_os_mapped_bytes(void);
/* Calls since the process began, refused ones included. */
uint64_t fake_os_calls(enum fake_os_call call);

/* Refuses the nth call from now on (1: the next one) with an errno value; the others pass. */
void fake_os_fail(enum fake_os_call call, unsigned nth, int error);
/* Refuses the nth call from now on and every one after it. */
void fake_os_fail_from(enum fake_os_call call, unsigned nth, int error);
/* Refuses a move of several mappings as Linux did before 6.17: the place is unmapped (EFAULT). */
void fake_os_fail_moves_of_several(void);
/* The next move moves so many bytes, and is refused then, as since Linux 6.17 that of
 * several mappings may be: the next piece of the place is unmapped by then (EFAULT). */
void fake_os_move_in_part(size_t bytes);
/* Refuses nothing any more. */
void fake_os_fail_nothing(void);

/* The clock stands at this time; at 1,000 s until then, so that no test depends on how long it
 * takes. */
void fake_os_set_time_ns(uint64_t now_ns);
/* From now on faulting a page in takes so long; no time at all until then, so that no test depends
 * on whether the machine has huge pages at hand. */
void fake_os_set_fault_ns(uint64_t fault_ns);
/* The machine has so many processors, if nobody has asked before; 64 until then, so that heaps have
 * slabs of their own. */
void fake_os_set_processors(unsigned processors);
/* From now on every random number is this one. */
void fake_os_set_random(uint64_t value);
/* From now on addresses count as restricted, as under a sanitizer. */
void fake_os_restrict_addresses(void);

/* What is written to stderr from now on is kept here instead, up to 4 KiB; forgets what was kept.
 */
void fake_os_capture_stderr(void);
const char *fake_os_captured(void);

/* Calls call(argument), in which hak_os_die ends only the call. Returns its message, or NULL if the
 * call returned by itself. Locks that the call held stay held. One at a time in each thread. */
const char *fake_os_last_words(void (*call)(void *), void *argument);
