#!/usr/bin/env bash
# The long form of the stress, stateful, fork and fault tests and of the scheduler: `make soak` calls it after a build of the release and
# debug variants. SOAK_MINUTES (60) is shared among the cases, SOAK_SEED makes a run like an earlier one. Ends with a
# summary (operations, drift of resident memory, idle memory) and "N passed, N failed"; the status is 0 only if nothing
# failed. Logs: build/logs/soak-*.log. With SOAK_HARDENED_OPS (1000000000 for the promise of docs/hardened.md) it does
# nothing but that many operations of the stress under the hardened library.
#
# SPDX-License-Identifier: Apache-2.0 OR MIT
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

minutes=${SOAK_MINUTES:-60}
[[ "${SOAK_HARDENED_OPS:-1}" =~ ^[1-9][0-9]*$ ]] || {
    echo "soak: SOAK_HARDENED_OPS must be a whole number from 1, not '$SOAK_HARDENED_OPS'" >&2
    exit 2
}
seed=${SOAK_SEED:-$(date +%s)}
[[ "$minutes" =~ ^[1-9][0-9]*$ ]] || {
    echo "soak: SOAK_MINUTES must be a whole number from 1, not '$minutes'" >&2
    exit 2
}

release=build/release
preload=(env "LD_PRELOAD=$PWD/$release/libhakmem.so")
hardened=(env "LD_PRELOAD=$PWD/$release/libhakmem-hardened.so")
plain=$release/tests/stress/stress
threads=$release/tests/stress/stress_threads
checked=build/debug/tests/stress/stress_prefixed
forks=$release/tests/conformance/bin/conformance_fork
ways=${forks}_ways
signals=$release/tests/conformance/bin/conformance_signals
scheduler=$release/tests/sched/sched
for file in "$release/libhakmem.so" "$release/libhakmem-hardened.so" "$plain" "$threads" "$checked" "$forks" "$ways" "$signals" \
    "$scheduler"; do
    [[ -e "$file" ]] || {
        echo "soak: $file was not built. Run: make soak" >&2
        exit 1
    }
done

# Resident memory is judged in the cases that have a third of the time each: drift needs long averages.
cases=11
seconds=$((minutes * 60 * 2 / 3 / cases))
long=$((minutes * 60 / 3 / 2))
((seconds >= 4)) || seconds=4
((long >= 8)) || long=8
stress=(--ops 1000000000000 --seed "$seed")
short=("${stress[@]}" --seconds "$seconds")
passed=0
failed=0
logs=()
mkdir -p build/logs

soak() {
    local name=$1 log=build/logs/soak-$1.log
    shift
    printf '%s ... ' "$name"
    logs+=("$log")
    if "$@" >"$log" 2>&1 </dev/null; then
        printf 'ok: %s\n' "$(tail -n 1 "$log")"
        passed=$((passed + 1))
    else
        printf 'failed (status %d)\n' "$?"
        tail -n 30 "$log" | sed 's/^/    /'
        failed=$((failed + 1))
    fi
}

# Four threads, blocks freed by other threads, each thread replaced ten times.
if [[ -n "${SOAK_HARDENED_OPS:-}" ]]; then
    soak hardened-operations "${hardened[@]}" "$plain" --threads 4 --ops $(((SOAK_HARDENED_OPS + 3) / 4)) --lives 10 \
        --seed "$seed" --max-bytes 64m --sizes 8,16,24,33,64,100,200,500,1000
    echo "$passed passed, $failed failed"
    exit "$failed"
fi

echo "soak: $cases cases of $seconds seconds and 2 of $long, forks, threads; seed $seed"
soak footprint env HAKMEM_BACKGROUND_THREAD=1 "${preload[@]}" "$plain" --threads 8 --footprint --lives 200 \
    "${stress[@]}" --seconds "$long"
soak footprint-without-thread "${preload[@]}" "$plain" --threads 8 --footprint --lives 200 "${stress[@]}" \
    --seconds "$long"
soak threads-8 "${preload[@]}" "$plain" --threads 8 "${short[@]}"
soak threads-64 "${preload[@]}" "$plain" --threads 64 "${short[@]}"
soak two-classes "${preload[@]}" "$plain" --threads 8 --sizes 3000,8000 "${short[@]}"
soak one-superslab "${preload[@]}" "$plain" --threads 8 --sizes 3000,8000 --records 35 --fork "${short[@]}"
soak short-lives "${preload[@]}" "$plain" --threads 16 --lives 100000 "${short[@]}"
soak fork "${preload[@]}" "$plain" --threads 8 --fork "${short[@]}"
soak purge-at-once env HAKMEM_SUPERSLAB_TTL_SEC=0 "${preload[@]}" "$plain" --threads 8 "${short[@]}"
soak checked "$checked" --threads 8 "${short[@]}"
soak threads-100000 "${preload[@]}" "$threads" churn 100000 1
soak threads-100000-8 "${preload[@]}" "$threads" churn 100000 8
soak consumer "${preload[@]}" "$threads" consumer 10000000
soak stateful env "TEST_HAKMEM_PREFIXED=$PWD/$release/libhakmem-prefixed.so" "TEST_STATEFUL_EXAMPLES=$((seconds * 6))" \
    build/venv/bin/python -B -m pytest -q -p no:cacheprovider tests/stateful
soak scheduler "$scheduler" --seeds $((minutes * 3000)) --first "$seed"
soak hardened "${hardened[@]}" "$plain" --threads 8 "${short[@]}"
soak hardened-small "${hardened[@]}" "$plain" --threads 4 --sizes 8,16,24,33,64,100,200,500,1000 "${short[@]}"
soak forks-10000 env HAK_TEST_FORKS=10000 "${preload[@]}" "$forks"
soak forks-ways "${preload[@]}" "$ways"
soak signals "${preload[@]}" "$signals"

echo
awk '/^stress: [0-9]+ operations/ { operations += $2 } END { printf "%.0f operations\n", operations }' "${logs[@]}"
sed -n -E 's/^(footprint|threads): //p' "${logs[@]}"
echo "$passed passed, $failed failed"
[[ $failed -eq 0 ]]
