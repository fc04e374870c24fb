#!/usr/bin/env bash
# Makes build/venv: a Python environment with what the tools in python/ need and what tests them. Does nothing where it
# is there and python/pyproject.toml has not changed. --quiet says nothing when all is well.
#
# SPDX-License-Identifier: Apache-2.0 OR MIT
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=tools/packages.sh
source tools/packages.sh

venv=build/venv
stamp=$venv/made-for
logs=build/logs
wanted=$(sha256sum python/pyproject.toml)
[[ ! -x $venv/bin/ruff || "$(cat "$stamp" 2>/dev/null)" != "$wanted" ]] || exit 0

packages_install "${PACKAGES_VENV[@]}"
mkdir -p "$logs"
printf 'set-up: Python packages into %s ... ' "$venv"
rm -rf "$venv"
if /usr/bin/env -u PYTHONPATH python3 -m venv "$venv" >"$logs/setup-venv.log" 2>&1 &&
    "$venv/bin/pip" install --quiet --disable-pip-version-check -e 'python[test,lint]' >>"$logs/setup-venv.log" 2>&1; then
    printf '%s\n' "$wanted" >"$stamp"
    echo ok
else
    echo failed
    tail -n 20 "$logs/setup-venv.log" >&2
    exit 1
fi
