/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * telemetry: the table of call sites: open addressing, entries are added and never removed. See
 * sites.h. */
#include "telemetry/sites_internal.h"

#define SITE_PROBES 16u

struct hak_site hak_sites[HAK_SITES] HAK_RARELY_USED;

/* Others may find the entry before its group is known: they take it for short-lived, once. */
static struct hak_site *site_claim(struct hak_site *s, uintptr_t address)
{
    uintptr_t found = 0;
    if (hak_cas_relaxed(&s->address, &found, address)) {
        hak_store_relaxed(&s->group, (uint8_t)hak_site_rule_group(address));
        return s;
    }
    return found == address ? s : NULL;
}

struct hak_site *hak_site_find(uintptr_t address)
{
    unsigned place = hak_site_place(address);
    for (unsigned i = 0; address != 0 && i < SITE_PROBES; i++) {
        struct hak_site *s = &hak_sites[(place + i) % HAK_SITES];
        uintptr_t found = hak_load_relaxed(&s->address);
        if (found == address)
            return s;
        if (found == 0 && (s = site_claim(s, address)) != NULL)
            return s;
    }
    return NULL;
}

HAK_NOINLINE unsigned hak_site_group_slow(uintptr_t address)
{
    const struct hak_site *s = hak_site_find(address);
    return s == NULL ? HAK_GROUP_SHORT : hak_load_relaxed(&s->group);
}
