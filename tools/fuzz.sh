#!/usr/bin/env bash
# Fuzzing: `make fuzz` calls it after a build of the preset fuzz, and of the preset afl where AFL++ is installed.
#
#   tools/fuzz.sh [TARGET...]    each target for its share of FUZZ_MINUTES (12), under both fuzzers at a time
#   tools/fuzz.sh keep           the smallest set of all inputs found so far becomes tests/fuzz/corpus
#
# Starts from tests/fuzz/corpus. What is found stays in build/fuzz-found for the next run, inputs that failed go to
# build/fuzz-failed. Ends with "N passed, N failed"; the status is 0 only if nothing failed.
#
# SPDX-License-Identifier: Apache-2.0 OR MIT
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

minutes=${FUZZ_MINUTES:-12}
[[ "$minutes" =~ ^[1-9][0-9]*$ ]] || {
    echo "fuzz: FUZZ_MINUTES must be a whole number from 1, not '$minutes'" >&2
    exit 2
}
bin=build/fuzz/tests/fuzz
afl_bin=build/afl/tests/fuzz
found=build/fuzz-found
failed_inputs=build/fuzz-failed
logs=build/logs
mapfile -t targets < <(find tests/fuzz -name 'fuzz_*.c' -printf '%f\n' | sed 's/^fuzz_//; s/\.c$//' | sort)

[[ -x $bin/fuzz_api ]] || {
    echo "fuzz: $bin/fuzz_api was not built. Run: make fuzz" >&2
    exit 1
}

keep() {
    local target fresh name
    for target in "${targets[@]}"; do
        fresh=$(mktemp -d)
        mkdir -p "$found/$target" "tests/fuzz/corpus/$target"
        "$bin/fuzz_$target" -set_cover_merge=1 -use_counters=0 "$fresh" "tests/fuzz/corpus/$target" "$found/$target" \
            >"$logs/fuzz-keep-$target.log" 2>&1
        rm -rf "tests/fuzz/corpus/$target"
        mkdir "tests/fuzz/corpus/$target"
        for name in "$fresh"/*; do
            cp "$name" "tests/fuzz/corpus/$target/$(sha1sum <"$name" | cut -c 1-12)"
        done
        echo "$target: $(find "$fresh" -type f | wc -l) inputs"
        rm -rf "$fresh"
    done
}

# A longer input than this finds nothing that a shorter one does not, but takes longer.
longest() {
    case $1 in
    elf | limits) echo 4096 ;;
    *) echo 1000 ;;
    esac
}

run_libfuzzer() {
    local target=$1 seconds=$2 words=()
    [[ ! -f tests/fuzz/$target.dict ]] || words=("-dict=tests/fuzz/$target.dict")
    "$bin/fuzz_$target" -max_total_time="$seconds" -max_len="$(longest "$target")" -timeout=60 -rss_limit_mb=3000 \
        -artifact_prefix="$failed_inputs/$target-" "${words[@]}" "$found/$target" "tests/fuzz/corpus/$target" \
        >"$logs/fuzz-$target.log" 2>&1
}

run_afl() {
    local target=$1 seconds=$2 out=build/fuzz-afl/$1 words=()
    [[ ! -f tests/fuzz/$target.dict ]] || words=(-x "tests/fuzz/$target.dict")
    rm -rf "$out"
    mkdir -p "$out"
    env AFL_NO_UI=1 AFL_SKIP_CPUFREQ=1 AFL_NO_AFFINITY=1 AFL_I_DONT_CARE_ABOUT_MISSING_CRASHES=1 \
        afl-fuzz -V "$seconds" -t 10000 -i "tests/fuzz/corpus/$target" -o "$out" "${words[@]}" \
        -- "$afl_bin/fuzz_$target" >"$logs/fuzz-afl-$target.log" 2>&1 || return 1
    local crash bad=0
    for crash in "$out"/default/crashes/id:* "$out"/default/hangs/id:*; do
        [[ -f $crash ]] || continue
        cp "$crash" "$failed_inputs/$target-afl-$(sha1sum <"$crash" | cut -c 1-12)"
        bad=1
    done
    return $bad
}

fuzz_one() {
    local target=$1 seconds=$2 afl=- status=0 afl_status=0
    mkdir -p "$found/$target" "$failed_inputs" "$logs"
    if [[ -x $afl_bin/fuzz_$target ]]; then
        run_afl "$target" "$seconds" &
        afl=$!
    fi
    run_libfuzzer "$target" "$seconds" || status=1
    [[ $afl == - ]] || wait "$afl" || afl_status=1
    if [[ $afl != - ]]; then # what AFL++ has found is libFuzzer's too, from the next run on
        "$bin/fuzz_$target" -merge=1 "$found/$target" "build/fuzz-afl/$target/default/queue" >/dev/null 2>&1 || true
    fi
    if [[ $status -eq 0 && $afl_status -eq 0 ]]; then
        printf '%s: ok: %s%s\n' "$target" "$(tail -n 1 "$logs/fuzz-$target.log")" "$(afl_runs "$target" "$afl")"
        return 0
    fi
    printf '%s: failed; inputs in %s\n' "$target" "$failed_inputs"
    grep -hE 'fuzz: FAILED|SUMMARY|ERROR|PROGRAM ABORT' "$logs/fuzz-$target.log" "$logs/fuzz-afl-$target.log" 2>/dev/null |
        head -n 8 | sed 's/^/    /' || true
    return 1
}

afl_runs() {
    local stats=build/fuzz-afl/$1/default/fuzzer_stats
    [[ $2 == - || ! -f $stats ]] || printf '; AFL++: %s runs' "$(sed -n 's/^execs_done *: //p' "$stats")"
}

if [[ ${1:-} == keep ]]; then
    keep
    exit 0
fi
[[ $# -eq 0 ]] || targets=("$@")
seconds=$((minutes * 60 / ${#targets[@]}))
echo "fuzz: ${#targets[@]} targets of $seconds seconds each$([[ -d $afl_bin ]] || echo ', without AFL++')"
passed=0
failed=0
for target in "${targets[@]}"; do
    if fuzz_one "$target" "$seconds"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
    fi
done
echo "$passed passed, $failed failed"
[[ $failed -eq 0 ]]
