# gforth: words, memory of its own and from ALLOCATE.
cat > work.fs <<'F'
: squares ( n -- sum ) 0 swap 0 ?do i i * + 1000003 mod loop ;
: blocks ( n -- sum ) 0 swap 0 ?do i 3000 mod 8 + allocate throw dup i swap ! dup @ rot + 1000003 mod swap free throw loop ;
: grow ( -- n ) 16 allocate throw 2000 1 do i 64 * resize throw i over i 64 * 8 - + ! loop dup 2000 1 - 64 * 8 - + @ swap free throw ;
: fib ( n -- f ) dup 2 < if drop 1 else dup 1- recurse swap 2 - recurse + then ;
100000 squares . 100000 blocks . grow . 24 fib . cr bye
F
gforth work.fs
