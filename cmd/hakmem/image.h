/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * The hakmem command: the allocator in another process, as its root (telemetry/root.h) shows it.
 *
 * The layers of the allocator are part of this command, and of some records there is one in a
 * process. So those of the other process are copied over our own, and the layers' own functions
 * tell about them: hak_class, hak_pool_stats, hak_failure_count and so on. (The command's memory is
 * libc's; nothing here allocates from hakmem.) One process at a time. */
#pragma once

#include "remote.h"

#include "policy/policy.h"
#include "telemetry/root_internal.h"

struct hak_image {
    struct hak_remote *remote;
    uint64_t root_at;
    struct hak_root root;
    char library[128]; /* the file that has it: libhakmem.so or the program */
    bool in_library;   /* a file of its own */
    /* Copies whose pointers are addresses over there. */
    struct hak_space space;
    struct hak_window window;
    struct hak_meta_state meta;
    struct hak_failures failures;
    struct hak_registry registry;
    uint64_t orphans;
    struct hak_policy_state policy;
    bool has_policy;
    bool started;
};

/* Finds the allocator and copies its records. False: `obstacle` says why not. */
bool hak_image_open(struct hak_image *image, struct hak_remote *r, struct hak_obstacle *obstacle);
/* Copies them once more. False: they cannot be read, or are damaged. */
bool hak_image_refresh(struct hak_image *image);
/* "0.1.0" in a static buffer. */
const char *hak_image_version(const struct hak_image *image);
