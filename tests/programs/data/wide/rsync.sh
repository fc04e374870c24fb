# rsync: a tree copied, changed, and copied again with deltas, checksums and deletion.
mkdir -p a/sub
for i in $(seq 1 300); do seq 1 $((i * 20)) > "a/sub/$i"; done
seq 1 400000 > a/large
rsync -a a/ b/ && diff -r a b
sed -i 's/12345/changed/' a/large && rm a/sub/7 && echo new > a/sub/new
rsync -a --no-whole-file --checksum --delete --stats a/ b/ | grep -E '^(Number of (created|deleted)|Matched data)'
diff -r a b && echo same
rsync -an --itemize-changes a/ c/ | wc -l
