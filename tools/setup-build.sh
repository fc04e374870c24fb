#!/usr/bin/env bash
# Installs what building hakmem needs: compiler, CMake, Ninja. Does nothing where all of it is there.
#
# SPDX-License-Identifier: Apache-2.0 OR MIT
set -euo pipefail
# shellcheck source=tools/packages.sh
source "$(dirname "${BASH_SOURCE[0]}")/packages.sh"

packages_install "${PACKAGES_BUILD[@]}"
