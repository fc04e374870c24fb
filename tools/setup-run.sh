#!/usr/bin/env bash
# Installs what `make run` needs: the build tools and the programs of the demonstration.
#
# SPDX-License-Identifier: Apache-2.0 OR MIT
set -euo pipefail
# shellcheck source=tools/packages.sh
source "$(dirname "${BASH_SOURCE[0]}")/packages.sh"

packages_install "${PACKAGES_BUILD[@]}" "${PACKAGES_RUN[@]}"
