# binutils: as, ld, ar, nm, objdump, readelf, strip, objcopy on what the compiler makes.
for i in $(seq 1 30); do
    { for j in $(seq 1 40); do echo "int f${i}_$j(int x) { return x * $i + $j; }"; done; } > "u$i.c"
    gcc -g -c -O1 "u$i.c" -o "u$i.o"
done
ar rcs libu.a u*.o
nm libu.a | grep -c ' T '
ld -r -o all.o u*.o
objdump -d all.o | sha256sum
readelf -a -W all.o | wc -l
objdump --dwarf=info all.o | grep -c DW_TAG_subprogram
strip -g all.o -o small.o
objcopy -O binary -j .text small.o text.bin
sha256sum text.bin
