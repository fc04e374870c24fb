# file and less-known small tools: magic, diff, patch, sort of binary and text files.
for i in $(seq 1 60); do seq "$i" $((i * 50)) > "f$i"; gzip -n -k "f$i"; done
file f*.gz f* /usr/bin/bash | sed 's/, BuildID.*//' | sha256sum
for i in $(seq 1 60); do sed "s/${i}7/changed/" "f$i" > "g$i"; diff -u --label a --label b "f$i" "g$i" || true; done > all.diff
wc -l < all.diff
cp f50 h && { diff -u f50 g50 || true; } | patch -s h && cmp h g50 && echo patched
