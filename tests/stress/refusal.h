/* Stress: when the system has no more memory to give.
 *
 * Called by stress.c from its main thread, in this order.
 * SPDX-License-Identifier: Apache-2.0 OR MIT */
#ifndef HAK_STRESS_REFUSAL_H
#define HAK_STRESS_REFUSAL_H

/* Takes the blocks that refusal_check will replace. */
void refusal_prepare(void);

/* From now on the kernel refuses mmap, munmap, mprotect, mremap and madvise to all threads. */
void refusal_begin(int error);

/* What was freed since must be to be had again, without the system. */
void refusal_check(void);

/* Ends the refusals that faults/refuse makes: at once memory of all sizes must be to be had. Prints
 * what the process holds when everything was freed and trimmed. */
void refusal_recover(void);

#endif
