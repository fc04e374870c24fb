# zstd, bzip2, lz4, brotli: there and back, several levels, several threads.
seq 1 120000 | awk '{ print $1, $1 * 7919 % 100003, "some text" }' > in
for level in 1 9 19; do zstd -q -f -$level -T2 in -o in.zst && zstd -q -d -c in.zst | cmp - in && wc -c < in.zst; done
bzip2 -9 -k -c in > in.bz2 && bzip2 -d -c in.bz2 | cmp - in && wc -c < in.bz2
lz4 -q -f -9 in in.lz4 && lz4 -q -d -c in.lz4 | cmp - in && wc -c < in.lz4
brotli -q 7 -f -o in.br in && brotli -d -c in.br | cmp - in && wc -c < in.br
echo 'all the same'
