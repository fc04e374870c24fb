/* Stress: how much memory is resident while the test runs and when it is idle.
 *
 * Called by stress.c from its main thread. Reads /proc/self/statm; never allocates.
 * SPDX-License-Identifier: Apache-2.0 OR MIT */
#ifndef HAK_STRESS_FOOTPRINT_H
#define HAK_STRESS_FOOTPRINT_H

#include <stddef.h>

/* Mapped and resident bytes of the process. */
void footprint_now(size_t *mapped, size_t *resident);

/* Takes a snapshot for the drift when a part of the run is over (0 to 1); as often as you like. */
void footprint_sample(double part, size_t live);

/* When all threads have stopped and hold `live` bytes: prints drift and idle memory, and fails the
 * test if they are more than is promised; the drift only of runs of five minutes or more. Idle
 * memory is judged only where the library has its background thread: without it nothing happens in
 * a program that makes no calls. */
void footprint_judge(unsigned seconds, size_t live);

#endif
