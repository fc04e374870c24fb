# dash: a loop with arithmetic, functions, pipes and here documents.
dash <<'D'
i=0 sum=0
while [ $i -lt 60000 ]; do i=$((i + 1)); sum=$((sum + i * 3 % 1000)); eval "v$((i % 500))=\$sum"; done
echo "sum $sum v17 $v17"
f() { if [ "$1" -lt 2 ]; then echo 1; else echo $(($(f $(($1 - 1))) + $(f $(($1 - 2))))); fi; }
echo "fib $(f 11)"
seq 1 20000 | while read -r line; do case $line in *77*) echo "$line" ;; esac; done | cksum
D
