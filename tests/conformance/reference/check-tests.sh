#!/usr/bin/env bash
# Conformance, the tests' own test: every program must pass with libc's allocator as it is, and fail
# with the defect that is made for it (mutant.c).
#
# usage: check-tests.sh FOLDER_OF_PROGRAMS MUTANT_LIBRARY STRESS_PROGRAM
#
# SPDX-License-Identifier: Apache-2.0 OR MIT
set -euo pipefail

if [[ $# -ne 3 ]]; then
    echo "usage: $0 FOLDER_OF_PROGRAMS MUTANT_LIBRARY STRESS_PROGRAM" >&2
    exit 2
fi
folder=$1 library=$2 stress=$3
export HAK_TEST_ANY_ALLOCATOR=1
failed=0 passed=0

# run MUTANT PROGRAM [ARGUMENT...]: its status; a hang counts as a failure of the program
run() {
    local mutant=$1
    shift
    (
        MUTANT=$mutant timeout 100 env LD_PRELOAD="$library" "$@"
        exit $? # so that no shell outside reports the signal
    ) >/dev/null 2>&1
}

expect_pass() {
    if run none "$@"; then
        passed=$((passed + 1))
    else
        echo "FAILED: ${*##*/} does not pass with a correct allocator"
        failed=$((failed + 1))
    fi
}

expect_fail() {
    if run "$@"; then
        echo "FAILED: ${*:2} does not notice the defect '$1' (tests ${HAK_TEST_FILTER-*})"
        failed=$((failed + 1))
    else
        passed=$((passed + 1))
    fi
}

stress_run=("$stress" --threads 4 --ops 60000 --seed 1 --max-bytes 64m)

for name in basic usable_size limits errno calloc_zero options loading small_stacks; do
    expect_pass "$folder/conformance_$name"
done
expect_pass "${stress_run[@]}"
HAK_TEST_FILTER='with_8*' expect_pass "$folder/conformance_fork"

export HAK_TEST_HANG_SECONDS=5 # they are made to hang here
while read -r program filter mutants; do
    for mutant in $mutants; do
        HAK_TEST_FILTER=$filter expect_fail "$mutant" "$folder/conformance_$program"
    done
done <<'TABLE'
basic * align8 malloc0-null malloc0-shared
aligned small* memalign-small
aligned memalign_and* aligned-odd
aligned posix* posix-null posix-any
aligned valloc* pvalloc-short valloc-16
usable_size * usable-more usable-unstable
limits * no-errno calloc-overflow reallocarray-overflow realloc-frees
realloc * realloc0-block realloc-loses
errno * free-errno
cxx_new every_delete* free-errno
calloc_zero * calloc-dirty
introspect * mallinfo-zero info-xml stats-stdout trim-nothing mallopt-zero
sized_free * free-lost
misuse * none
options * noise
startend before* late-null
startend ls* address-space
fork with_8* fork-lock
TABLE
for mutant in overlap align8 calloc-dirty usable-unstable realloc-loses realloc-frees; do
    expect_fail "$mutant" "${stress_run[@]}"
done

echo "$passed passed, $failed failed"
[[ $failed -eq 0 ]]
