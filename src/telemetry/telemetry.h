/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * telemetry: entry header. What others can see of the allocator: it reads the layers below and
 * changes nothing in them. */
#pragma once

#include "telemetry/root.h"
#include "telemetry/sites.h"
