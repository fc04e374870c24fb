#!/usr/bin/env bash
# Sets up all that `hakmem bench` needs, in one command: the peers that the distribution has, the peers that are built
# from source (tools/build-peers.sh), the real programs, and the Python environment. Does nothing where all is there.
#
# SPDX-License-Identifier: Apache-2.0 OR MIT
set -euo pipefail
here=$(dirname "${BASH_SOURCE[0]}")
# shellcheck source=tools/packages.sh
source "$here/packages.sh"

mapfile -t by_command < <(packages_missing_commands "${PACKAGES_BENCH_COMMANDS[@]}")
packages_install "${PACKAGES_BUILD[@]}" "${PACKAGES_BENCH[@]}" "${by_command[@]}"
"$here/setup-venv.sh"
"$here/build-peers.sh"
