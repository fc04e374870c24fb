/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * model: what slots.pml and remote.pml share. Read by spin through run.py; never part of the
 * library.
 *
 * One statement of a model is one access of the C code to memory that several threads change; what
 * the code does with values of its own in between belongs to the step before. A section under a
 * lock is one step where everything that it touches is touched under that lock only. Memory is
 * sequentially consistent: what the weaker orders of the code allow is argued at the code, tag by
 * tag. */

/* A property with a name: spin prints the expression, so run.py finds the name in its message. */
#define CHECK(name, condition) assert((condition) || name)

/* Which mistake is built in: -DBROKEN=name. Without one, no name below is equal to it. */
#ifndef BROKEN
#define BROKEN 999
#endif

#define bit(i) (1 << (i))
#define has(mask, i) (((mask) >> (i)) & 1)
#define lowest(mask) \
    (((mask) & 1) -> 0 : (((mask) & 2) -> 1 : (((mask) & 4) -> 2 : 3)))
#define highest(mask) \
    (((mask) & 8) -> 3 : (((mask) & 4) -> 2 : (((mask) & 2) -> 1 : 0)))
#define count(mask) \
    (((mask) & 1) + (((mask) >> 1) & 1) + (((mask) >> 2) & 1) + (((mask) >> 3) & 1))
