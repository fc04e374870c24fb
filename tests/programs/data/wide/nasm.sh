# nasm: macros and many labels.
{
    echo 'bits 64'
    echo '%macro step 2'
    echo '  mov eax, %1'
    echo '  %%again: dec eax'
    echo '  jnz %%again'
    echo '  add ebx, %2'
    echo '%endmacro'
    for i in $(seq 1 4000); do echo "label$i: step $i, label$((i % 4000 + 1)) - label$i"; done
} > work.asm
nasm -f elf64 -O2 work.asm -o work.o
nasm -f bin -O2 work.asm -o work.bin -l work.lst
sha256sum work.bin
wc -l < work.lst
