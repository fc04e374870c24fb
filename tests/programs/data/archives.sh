# SPDX-License-Identifier: Apache-2.0 OR MIT
# A program for tests/programs: tar, gzip and xz, there and back. Usage: bash archives.sh
set -euo pipefail

for ((i = 1; i <= 300; i++)); do
    mkdir -p "tree/$((i % 7))"
    seq "$i" $((i * 40)) >"tree/$((i % 7))/$i"
done
tar --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner -cf all.tar tree
sha256sum all.tar

gzip -n -9 <all.tar >all.tar.gz
gzip -dc all.tar.gz | sha256sum
sha256sum all.tar.gz

xz -T2 -6 <all.tar >all.tar.xz
xz -dc all.tar.xz | sha256sum
wc -c <all.tar.xz

mkdir unpacked
tar -xzf all.tar.gz -C unpacked
diff -r tree unpacked/tree
echo unpacked the same
