/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * api: what hakmem_ctl can set while the program runs: the options that make sense then, each under
 * the name "option.", and limits of single size classes. Reading is for any thread; two threads
 * that set at once may each see half of the other's. */
#include "api/api_internal.h"
#include "hard/hard.h"

#include <errno.h>
#include <string.h>

enum setting_kind { SETTING_NUMBER, SETTING_FLAG };

struct setting {
    const char *name;
    enum setting_kind kind;
    void *value; /* uint64_t, or bool */
    uint64_t most;
};

/* docs/control.md is made of this table by tools/options_md.py; what each means is in
 * docs/options.md. */
/* clang-format off */
static const struct setting settings[] = {
    {"option.limit_mb", SETTING_NUMBER, &hak_options.limit_mb, UINT32_MAX},
    {"option.superslab_max_cached", SETTING_NUMBER, &hak_options.superslab_max_cached, UINT32_MAX},
    {"option.superslab_max_memory_mb", SETTING_NUMBER, &hak_options.superslab_max_memory_mb, UINT32_MAX},
    {"option.superslab_ttl_sec", SETTING_NUMBER, &hak_options.superslab_ttl_sec, UINT32_MAX},
    {"option.huge_pages_from_mb", SETTING_NUMBER, &hak_options.huge_pages_from_mb, UINT32_MAX},
    {"option.homes", SETTING_NUMBER, &hak_options.homes, HAK_HOMES_MOST},
    {"option.trace_failures", SETTING_FLAG, &hak_options.trace_failures, 1},
    {"option.stats", SETTING_FLAG, &hak_options.stats, 1},
    {"option.shared_pool_stage_stats", SETTING_FLAG, &hak_options.stage_stats, 1},
    {"option.shared_pool_lock_stats", SETTING_FLAG, &hak_options.lock_stats, 1},
    {"option.check_mismatch", SETTING_FLAG, &hak_options.check_mismatch, 1},
    {"option.check_sizes", SETTING_FLAG, &hak_options.check_sizes, 1},
};
/* clang-format on */
#define SETTINGS (sizeof settings / sizeof settings[0])

const char *hak_setting_name(unsigned index)
{
    return index < SETTINGS ? settings[index].name : NULL;
}

static void setting_put(const struct setting *s, uint64_t value)
{
    if (s->kind == SETTING_FLAG)
        *(bool *)s->value = value != 0;
    else
        *(uint64_t *)s->value = value;
    if (s->value == &hak_options.superslab_max_memory_mb)
        hak_options.trim_threshold_bytes = 0; /* mallopt's word is not the last any more */
    if (hak_options.stats || hak_options.stage_stats || hak_options.lock_stats)
        hak_os_keep_stderr(); /* once */
    hak_options_apply_limits(s->value);
}

int hak_setting_control(const char *name, uint64_t *value, const uint64_t *new_value)
{
    for (size_t i = 0; i < SETTINGS; i++) {
        const struct setting *s = &settings[i];
        if (strcmp(s->name, name) != 0)
            continue;
        uint64_t wanted = new_value != NULL ? *new_value : 0; /* `value` may be the same */
        if (wanted > s->most)
            return EINVAL;
        if (value != NULL)
            *value = s->kind == SETTING_FLAG ? *(bool *)s->value : *(uint64_t *)s->value;
        if (new_value != NULL)
            setting_put(s, wanted);
        return 0;
    }
    return ENOENT;
}

/* --- "class.SIZE.NAME" --- */

enum class_value {
    CLASS_SIZE,
    CLASS_SLABS,
    CLASS_USED_BLOCKS,
    CLASS_USED_BYTES,
    CLASS_SLOTS,
    CLASS_SOFT_CAP,
    CLASS_ACQUIRED /* and the stage */
};

#define CLASS_ACQUIRED_BY(stage) ((unsigned)CLASS_ACQUIRED + (unsigned)(stage))

/* docs/control.md is made of this table too: name, comment. */
/* clang-format off */
static const struct {
    const char *name;
    unsigned value; /* enum class_value */
} class_values[] = {
    {"size_bytes", CLASS_SIZE}, /* of the blocks of the class in which SIZE is */
    {"slabs", CLASS_SLABS}, /* that all heaps hold */
    {"used_blocks", CLASS_USED_BLOCKS}, /* those in threads' bins are free */
    {"used_bytes", CLASS_USED_BYTES}, /* these blocks */
    {"slots_in_use", CLASS_SLOTS}, /* slots of 64 KiB */
    {"soft_cap_bytes", CLASS_SOFT_CAP}, /* can be set; 0: no cap */
    {"acquired.adopt", CLASS_ACQUIRED_BY(HAK_STAGE_ADOPT)}, /* how often that stage of the shared pool served the class, since the start */
    {"acquired.warm", CLASS_ACQUIRED_BY(HAK_STAGE_WARM)}, /* the same */
    {"acquired.empty", CLASS_ACQUIRED_BY(HAK_STAGE_EMPTY)}, /* the same */
    {"acquired.unused", CLASS_ACQUIRED_BY(HAK_STAGE_UNUSED)}, /* the same */
    {"acquired.retired", CLASS_ACQUIRED_BY(HAK_STAGE_RETIRED)}, /* the same */
    {"acquired.fresh", CLASS_ACQUIRED_BY(HAK_STAGE_FRESH)}, /* the same */
};
/* clang-format on */

bool hak_control_set_soft_cap(uint64_t size_bytes, uint64_t cap_bytes)
{
    hak_heap_self_slow(); /* the tables of classes are filled at the start */
    if (size_bytes == 0 || size_bytes > HAK_SLOT_BYTES || !hak_heap_started())
        return false;
    size_t slots = cap_bytes / HAK_SLOT_BYTES;
    hak_pool_set_soft_cap(hak_class_of(size_bytes), cap_bytes == 0 ? 0 : hak_max(slots, 1));
    return true;
}

static uint64_t class_value(unsigned what, unsigned cls)
{
    struct hak_cache_usage usage;
    if (what >= CLASS_ACQUIRED)
        return hak_pool_acquired((enum hak_stage)(what - CLASS_ACQUIRED), cls);
    switch (what) {
    case CLASS_SIZE:
        return hak_class(cls)->size_bytes;
    case CLASS_SLOTS:
        return hak_pool_slots_in_use(cls);
    case CLASS_SOFT_CAP:
        return hak_pool_soft_cap(cls) * HAK_SLOT_BYTES;
    default:
        break;
    }
    hak_cache_usage(&usage);
    if (what == CLASS_SLABS)
        return usage.class_slabs[cls];
    return usage.class_used_blocks[cls] *
           (what == CLASS_USED_BYTES ? hak_class(cls)->size_bytes : 1);
}

int hak_class_control(const char *name, uint64_t *value, const uint64_t *new_value)
{
    static const char head[] = "class.";
    uint64_t size;
    if (strncmp(name, head, sizeof head - 1) != 0)
        return ENOENT;
    const char *digits = name + sizeof head - 1;
    size_t length = strcspn(digits, ".");
    if (digits[length] != '.' || !hak_text_parse_size(digits, length, &size))
        return ENOENT;
    for (size_t i = 0; i < sizeof class_values / sizeof class_values[0]; i++) {
        if (strcmp(digits + length + 1, class_values[i].name) != 0)
            continue;
        if (size == 0 || size > HAK_SLOT_BYTES)
            return EINVAL;
        if (new_value != NULL && class_values[i].value != CLASS_SOFT_CAP)
            return EPERM;
        hak_heap_self_slow();
        if (!hak_heap_started())
            return EINVAL;
        uint64_t wanted = new_value != NULL ? *new_value : 0; /* `value` may be the same */
        if (value != NULL)
            *value = class_value(class_values[i].value, hak_class_of(size));
        return new_value == NULL || hak_control_set_soft_cap(size, wanted) ? 0 : EINVAL;
    }
    return ENOENT;
}
