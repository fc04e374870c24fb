/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * telemetry: what the files about call sites share. */
#pragma once

#include "telemetry/sites.h"

/* The group that the rules in force have for a site. */
unsigned hak_site_rule_group(uintptr_t address);

/* The lifetimes of a site's samples that live still, up to now, in KiB. */
uint64_t hak_site_live_life_kib(const struct hak_site *site);
