#!/usr/bin/env bash
# The long form of the stress and fork tests, for hours: `make soak` calls it after a build of the release and debug
# variants. SOAK_MINUTES (60) is shared among the cases, SOAK_SEED makes a run like an earlier one. Ends with
# "N passed, N failed"; the status is 0 only if nothing failed. Logs: build/logs/soak-*.log.
#
# SPDX-License-Identifier: Apache-2.0 OR MIT
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

minutes=${SOAK_MINUTES:-60}
seed=${SOAK_SEED:-$(date +%s)}
[[ "$minutes" =~ ^[1-9][0-9]*$ ]] || {
    echo "soak: SOAK_MINUTES must be a whole number from 1, not '$minutes'" >&2
    exit 2
}

release=build/release
preload=(env "LD_PRELOAD=$PWD/$release/libhakmem.so")
hardened=(env "LD_PRELOAD=$PWD/$release/libhakmem-hardened.so")
plain=$release/tests/stress/stress
checked=build/debug/tests/stress/stress_prefixed
forks=$release/tests/conformance/bin/conformance_fork
for file in "$release/libhakmem.so" "$release/libhakmem-hardened.so" "$plain" "$checked" "$forks"; do
    [[ -e "$file" ]] || {
        echo "soak: $file was not built. Run: make soak" >&2
        exit 1
    }
done

cases=9
seconds=$((minutes * 60 / cases))
stress=(--ops 1000000000000 --seconds "$seconds" --seed "$seed")
passed=0
failed=0
mkdir -p build/logs

soak() {
    local name=$1 log=build/logs/soak-$1.log
    shift
    printf '%s ... ' "$name"
    if "$@" >"$log" 2>&1 </dev/null; then
        printf 'ok: %s\n' "$(tail -n 1 "$log")"
        passed=$((passed + 1))
    else
        printf 'failed (status %d)\n' "$?"
        tail -n 30 "$log" | sed 's/^/    /'
        failed=$((failed + 1))
    fi
}

echo "soak: $cases cases of $seconds seconds each, and forks; seed $seed"
soak threads-8 "${preload[@]}" "$plain" --threads 8 "${stress[@]}"
soak threads-64 "${preload[@]}" "$plain" --threads 64 "${stress[@]}"
soak two-classes "${preload[@]}" "$plain" --threads 8 --sizes 3000,8000 "${stress[@]}"
soak short-lives "${preload[@]}" "$plain" --threads 16 --lives 100000 "${stress[@]}"
soak fork "${preload[@]}" "$plain" --threads 8 --fork "${stress[@]}"
soak purge-at-once env HAKMEM_SUPERSLAB_TTL_SEC=0 "${preload[@]}" "$plain" --threads 8 "${stress[@]}"
soak checked "$checked" --threads 8 "${stress[@]}"
soak hardened "${hardened[@]}" "$plain" --threads 8 "${stress[@]}"
soak hardened-small "${hardened[@]}" "$plain" --threads 4 --sizes 8,16,24,33,64,100,200,500,1000 "${stress[@]}"
soak forks-10000 env HAK_TEST_FORKS=10000 "${preload[@]}" "$forks"

echo "$passed passed, $failed failed"
[[ $failed -eq 0 ]]
