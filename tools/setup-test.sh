#!/usr/bin/env bash
# Installs what `make test` and `make test-all` need: the build tools, test libraries, checkers, the programs that the tests run
# under hakmem, a kernel for a virtual machine, and the Python environment of the tools in python/.
#
# SPDX-License-Identifier: Apache-2.0 OR MIT
set -euo pipefail
# shellcheck source=tools/packages.sh
source "$(dirname "${BASH_SOURCE[0]}")/packages.sh"

mapfile -t by_command < <(packages_missing_commands "${PACKAGES_TEST_COMMANDS[@]}")
packages_install "${PACKAGES_BUILD[@]}" "${PACKAGES_RUN[@]}" "${PACKAGES_TEST[@]}" "${by_command[@]}"

# After python3 itself: the name of the package has its version.
mapfile -t testsuite < <(packages_python_testsuite)
packages_install "${testsuite[@]}"

"$(dirname "${BASH_SOURCE[0]}")/setup-kernel.sh"

# The Python tools' own packages, for their tests.
"$(dirname "${BASH_SOURCE[0]}")/setup-venv.sh"
