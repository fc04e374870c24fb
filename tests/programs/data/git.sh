# SPDX-License-Identifier: Apache-2.0 OR MIT
# A program for tests/programs: sixty commits, log, merge, gc, fsck, blame, diff and grep of git. The
# environment fixes author and dates, so every object has the same name in every run. Usage: bash git.sh
set -euo pipefail

git init -q -b main repository
cd repository
git config user.name Somebody
git config user.email somebody@example.org

for ((i = 1; i <= 60; i++)); do
    for j in 1 2 3 4 5; do
        seq $((i * j)) $((i * j + 400)) >"file$j"
    done
    mkdir -p "dir$((i % 9))"
    seq "$i" >"dir$((i % 9))/f$i"
    git add -A
    git commit -qm "commit $i"
done
git log --stat

git branch side HEAD~20
git checkout -q side
echo only here >only
git add only
git commit -qm side
git merge -q -m merge main 2>&1
git rev-parse HEAD
git gc -q
git fsck --full 2>&1
git blame file3 | sed -n 1,20p
git diff HEAD~5 | sha256sum
git count-objects -v | grep -E '^(count|in-pack)'
git grep -c 33 | sed -n 1,5p
