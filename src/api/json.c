/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * api: all figures as JSON. Written straight into the caller's buffer: nothing is allocated.
 * docs/stats-json.md describes it. */
#include "api/api_internal.h"

#include "hakmem.h"

#include <limits.h>

#define SCHEMA_VERSION 1

static void json_key(struct hak_text *text, const char *before, const char *key)
{
    hak_text_string(text, before);
    hak_text_string(text, "\"");
    hak_text_string(text, key);
    hak_text_string(text, "\": ");
}

static void json_number(struct hak_text *text, const char *before, const char *key, uint64_t value)
{
    json_key(text, before, key);
    hak_text_decimal(text, value);
}

static void json_controls(struct hak_text *text, const struct hak_snapshot *s)
{
    json_key(text, ",\n ", "control");
    const char *name;
    for (unsigned i = 0; (name = hak_control_name(i)) != NULL; i++)
        json_number(text, i == 0 ? "{\n  " : ",\n  ", name, hak_control_value(s, i));
    hak_text_string(text, "}");
}

static void json_stages(struct hak_text *text, unsigned label)
{
    json_number(text, ", ", "slots_in_use", hak_pool_slots_in_use(label));
    json_key(text, ", ", "stages");
    for (enum hak_stage stage = 0; stage < HAK_STAGE_COUNT; stage++)
        json_number(text, stage == 0 ? "{" : ", ", hak_stage_name(stage),
                    hak_pool_acquired(stage, label));
    hak_text_string(text, "}}");
}

static void json_classes(struct hak_text *text, const struct hak_snapshot *s)
{
    json_key(text, ",\n ", "classes");
    for (unsigned cls = 0; cls < HAK_CLASSES; cls++) {
        json_number(text, cls == 0 ? "[\n  {" : ",\n  {", "size_bytes", hak_class(cls)->size_bytes);
        json_number(text, ", ", "slabs", s->cache.class_slabs[cls]);
        json_number(text, ", ", "used_blocks", s->cache.class_used_blocks[cls]);
        json_number(text, ", ", "soft_cap_bytes", hak_pool_soft_cap(cls) * HAK_SLOT_BYTES);
        json_stages(text, cls);
    }
    json_key(text, "],\n ", "large");
    json_number(text, "{", "blocks", s->large.large_blocks);
    json_stages(text, HAK_POOL_LABEL_RUN);
}

static void json_failures(struct hak_text *text, const struct hak_snapshot *s)
{
    json_key(text, ",\n ", "failures");
    for (enum hak_failure_reason r = 0; r < HAK_FAILURE_COUNT; r++)
        json_number(text, r == 0 ? "{" : ", ", hak_failure_name(r), s->failures[r]);
    json_key(text, ", ", "last");
    hak_text_string(text, "[");
    hak_failure_write(text, "\n  \"", "\"", ",");
    hak_text_string(text, "]}");
}

static void json_locks(struct hak_text *text, const struct hak_snapshot *s)
{
    json_key(text, ",\n ", "locks");
    for (enum hak_lock_name lock = 0; lock < HAK_LOCK_COUNT; lock++) {
        json_key(text, lock == 0 ? "{\n  " : ",\n  ", hak_lock_names[lock]);
        json_number(text, "{", "acquired", s->locks[lock].acquired);
        json_number(text, ", ", "contended", s->locks[lock].contended);
        hak_text_string(text, "}");
    }
    hak_text_string(text, "}");
}

static void json_policy(struct hak_text *text)
{
    json_key(text, ",\n ", "policy");
    hak_text_string(text, "{\"decisions\": [");
    hak_policy_explain_any(text, "\n  \"", "\"", ",");
    hak_text_string(text, "]}");
}

HAK_PUBLIC int hakmem_stats_json(char *buffer, size_t size)
{
    char none[1];
    struct hak_text text;
    struct hak_snapshot s;
    hak_snapshot_take(&s);
    hak_text_begin(&text, size != 0 ? buffer : none, hak_max(size, 1));
    json_number(&text, "{\n ", "schema_version", SCHEMA_VERSION);
    json_key(&text, ",\n ", "version");
    hak_text_string(&text, "\"");
    hak_text_string(&text, hakmem_version());
    hak_text_string(&text, "\"");
    json_controls(&text, &s);
    json_classes(&text, &s);
    json_failures(&text, &s);
    json_locks(&text, &s);
    json_policy(&text);
    hak_text_string(&text, "}\n");
    return text.length > INT_MAX ? INT_MAX : (int)text.length;
}
