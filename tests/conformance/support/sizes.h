/* Conformance support: block sizes at and around every boundary of the design.
 *
 * Small, mid, large and huge blocks take different ways through the allocator; a test that walks
 * these lists has been on all of them.
 *
 * Included by tests. Defines data only.
 * SPDX-License-Identifier: Apache-2.0 OR MIT */
#ifndef HAK_TEST_SIZES_H
#define HAK_TEST_SIZES_H

#include <stddef.h>

#define KIB(n) ((size_t)(n) << 10)
#define MIB(n) ((size_t)(n) << 20)
#define GIB(n) ((size_t)(n) << 30)
#define COUNT_OF(a) (sizeof(a) / sizeof((a)[0]))

static const size_t all_sizes[] = {
    1,           8,      15,          16,         17,          24,         32,         33,
    48,          64,     100,         127,        128,         129,        200,        255,
    256,         257,    512,         1000,       1024,        1025,       2048,       3000,
    KIB(4) - 1,  KIB(4), KIB(4) + 1,  KIB(8),     10000,       KIB(16),    20000,      KIB(32),
    KIB(32) + 1, 40000,  KIB(64) - 1, KIB(64),    KIB(64) + 1, 100000,     KIB(128),   200000,
    KIB(256),    500000, KIB(512),    MIB(1) - 1, MIB(1),      MIB(1) + 1, MIB(2) - 1, MIB(2),
    MIB(2) + 1,  MIB(3), 5000123,     MIB(16),    MIB(33) + 5,
};

/* One of each range: small, mid (one slab and several), large, huge. */
static const size_t range_sizes[] = {
    16, 48, 160, 1024, 5000, KIB(20), KIB(60), KIB(200), MIB(1) - 64, MIB(3), MIB(17),
};

#endif
