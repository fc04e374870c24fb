# SPDX-License-Identifier: Apache-2.0 OR MIT
# A program for tests/programs: loops, arrays, strings, functions, pipes and background jobs of bash.
# What it prints depends on nothing but this file. Usage: bash workload.sh
set -euo pipefail

declare -a numbers=()
for ((i = 0; i < 20000; i++)); do
    numbers+=("item$((i * 7919 % 10007))")
done
echo "array: ${#numbers[@]} ${numbers[0]} ${numbers[9999]} ${numbers[-1]}"

declare -A counts=()
for item in "${numbers[@]}"; do
    key=${item: -2}
    counts[$key]=$((${counts[$key]:-0} + 1))
done
for key in $(printf '%s\n' "${!counts[@]}" | sort | head -n 5); do
    echo "count $key ${counts[$key]}"
done

text=""
for ((i = 0; i < 3000; i++)); do
    text+="line $i of text; "
done
upper=${text^^}
replaced=${upper//LINE/row}
echo "strings: ${#text} ${#replaced} ${replaced:1000:40}"
echo "cut: ${replaced%%3*} ${replaced##*;}"

fibonacci() {
    if (($1 < 2)); then
        echo "$1"
    else
        echo $(($(fibonacci $(($1 - 1))) + $(fibonacci $(($1 - 2)))))
    fi
}
echo "recursion in subshells: $(fibonacci 10)"

sum=0
while read -r number word; do
    sum=$((sum + number + ${#word}))
done < <(for ((i = 0; i < 5000; i++)); do echo "$i word$i"; done)
echo "read loop: $sum"

for job in 1 2 3 4; do
    (
        total=0
        for ((i = 0; i < 3000; i++)); do total=$((total + i * job)); done
        echo "job $job: $total" >"job.$job"
    ) &
done
wait
cat job.1 job.2 job.3 job.4

mapfile -t sorted < <(printf '%s\n' "${numbers[@]}" | sort -u | tail -n 3)
printf 'sorted: %q %q %q\n' "${sorted[@]}"
cat <<DOCUMENT | tr "[:lower:]" "[:upper:]"
here document with ${#numbers[@]} entries and $(fibonacci 7) substituted
DOCUMENT
[[ "$text" =~ line\ ([0-9]+)\ of ]] && echo "match: ${BASH_REMATCH[1]}"
