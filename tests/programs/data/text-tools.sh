# SPDX-License-Identifier: Apache-2.0 OR MIT
# A program for tests/programs: sort, uniq, cut, awk, sed and grep on 200,000 lines.
# Usage: bash text-tools.sh
set -euo pipefail

awk 'BEGIN {
    state = 7
    for (i = 0; i < 200000; i++) {
        state = state * 16807 % 2147483647
        print state, "line", i % 977, "of text"
    }
}' >lines
sort --parallel=2 -S 1M -n -o sorted lines
sha256sum sorted
sort -k3,3 -k1,1n sorted | tail -n 3
cut -d' ' -f3 sorted | sort | uniq -c | sort -k1,1rn -k2,2 | sed -n 1,3p
awk '{ sum[$3] += $1 } END { for (key in sum) print key, sum[key] }' sorted | sort -n | sha256sum
sed -E 's/([0-9]+) line ([0-9]+)/\2-\1/' sorted | grep -cE '^9.*(11|22) of'
