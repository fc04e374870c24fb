#!/usr/bin/env bash
# Installs what `make fuzz` needs: the build tools, clang with libFuzzer, and AFL++ with its own clang's sanitizers.
#
# SPDX-License-Identifier: Apache-2.0 OR MIT
set -euo pipefail
# shellcheck source=tools/packages.sh
source "$(dirname "${BASH_SOURCE[0]}")/packages.sh"
packages_install "${PACKAGES_BUILD[@]}" "${PACKAGES_FUZZ[@]}"
