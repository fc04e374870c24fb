# SPDX-License-Identifier: Apache-2.0 OR MIT
# A program for tests/programs: gcc and g++ compile; the assembly is compared by its digest, and what was
# compiled runs. Usage: bash compile.sh c|c++
set -euo pipefail

if [[ "$1" == c ]]; then
    for name in larson free_all; do
        gcc -O2 -g -S "$name.c" -o "$name.s"
        sha256sum "$name.s"
    done
    gcc -O2 larson.c -o larson -pthread
    ./larson 0 8 500 100 5 42 2 | grep -o 'checksum.*'
else
    g++ -std=c++17 -O2 -S containers.cc -o containers.s
    sha256sum containers.s
    g++ containers.s -o containers -pthread
    ./containers
fi
