/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * os: places at which a tracer (bpftrace, perf, gdb, SystemTap) can look on, without a debugger's
 * cost when nobody does: a probe is one nop, and a note in the file says where it is and where its
 * arguments are (USDT). All are on slow paths; docs/probes.md lists them, and a test compares.
 *
 * Built with <sys/sdt.h> (Debian package systemtap-sdt-dev); without it there are none, and the
 * build says so. Any layer may include it. Arguments are numbers that are at hand: nothing is
 * computed for them. */
#pragma once

#ifndef HAK_PROBES
#define HAK_PROBES 0
#endif

#if HAK_PROBES
#include <sys/sdt.h>
#define HAK_PROBE2(name, a, b) DTRACE_PROBE2(hakmem, name, a, b)
#define HAK_PROBE3(name, a, b, c) DTRACE_PROBE3(hakmem, name, a, b, c)
#else
#define HAK_PROBE2(name, a, b) ((void)(a), (void)(b))
#define HAK_PROBE3(name, a, b, c) ((void)(a), (void)(b), (void)(c))
#endif
