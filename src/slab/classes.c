/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * slab: fills the tables of size classes. See classes.h. Called once, at the start. */
#include "slab/slab.h"

#define MOST_SLOTS 16u
#define MIN_BLOCKS 8u /* in a slab, so that what a slab's tail wastes stays below 1/16 */

struct hak_class_tables hak_tables;

static void classes_describe(unsigned cls, size_t size)
{
    struct hak_class *c = &hak_tables.classes[cls];
    unsigned slots = 1;
    while (slots < MOST_SLOTS && (slots * HAK_SLOT_BYTES / size < MIN_BLOCKS ||
                                  slots * HAK_SLOT_BYTES % size > slots * HAK_SLOT_BYTES / 16))
        slots *= 2;
    c->size_bytes = (uint32_t)size;
    c->slots = (uint8_t)slots;
    c->blocks = (uint16_t)(slots * HAK_SLOT_BYTES / size);
    c->inline_bits = c->blocks <= 64;
    c->offset_mask = (uint32_t)(slots * HAK_SLOT_BYTES - 1);
    c->even_bits = hak_ctz64(size);
    c->inverse = hak_inverse64(size >> c->even_bits);
}

static size_t classes_step(size_t size)
{
    if (size < 128)
        return 16;
    size_t doubling = (size_t)1 << hak_log2_floor(size);
    return doubling / 8;
}

void hak_classes_start(void)
{
    unsigned cls = 0;
    size_t tiny = 0;
    size_t small = 0;
    for (size_t size = 16; size <= HAK_SMALL_MAX; size += classes_step(size), cls++) {
        classes_describe(cls, size);
        for (; tiny * 16 <= size && tiny * 16 <= HAK_TINY_MAX; tiny++)
            hak_tables.tiny_kind[tiny] = (uint8_t)(2 * cls);
        for (; small * 128 <= size; small++)
            hak_store_relaxed(&hak_tables.small_kind[small], (uint8_t)(2 * cls));
    }
    for (size_t i = 0; i < HAK_TINY_KINDS; i++)
        hak_tables.coarse_kind[i] = hak_tables.tiny_kind[hak_max((size_t)1 << hak_log2_ceil(i), 2)];
}
