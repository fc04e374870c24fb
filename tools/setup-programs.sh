#!/usr/bin/env bash
# Installs what `make programs` needs besides what `make test` needs: the many programs that are run under hakmem.
#
# SPDX-License-Identifier: Apache-2.0 OR MIT
set -euo pipefail
# shellcheck source=tools/packages.sh
source "$(dirname "${BASH_SOURCE[0]}")/packages.sh"

mapfile -t by_command < <(packages_missing_commands "${PACKAGES_TEST_COMMANDS[@]}")
packages_install "${PACKAGES_BUILD[@]}" "${PACKAGES_RUN[@]}" "${PACKAGES_TEST[@]}" "${PACKAGES_PROGRAMS[@]}" \
    "${by_command[@]}"
mapfile -t testsuite < <(packages_python_testsuite)
packages_install "${testsuite[@]}"
