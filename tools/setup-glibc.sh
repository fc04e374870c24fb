#!/usr/bin/env bash
# Installs what tests/glibc/run.py needs besides what `make` needs: the source of the C library, and what builds it.
#
# SPDX-License-Identifier: Apache-2.0 OR MIT
set -euo pipefail
# shellcheck source=tools/packages.sh
source "$(dirname "${BASH_SOURCE[0]}")/packages.sh"

packages_install "${PACKAGES_BUILD[@]}" "${PACKAGES_GLIBC[@]}"
