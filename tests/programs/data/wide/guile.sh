# guile: lists, hash tables, big numbers, strings; compiled as it is loaded.
cat > work.scm <<'S'
(use-modules (srfi srfi-1) (ice-9 regex))
(define table (make-hash-table))
(for-each (lambda (i) (hash-set! table (modulo (* i 7919) 4001) (number->string i))) (iota 60000))
(display (list "keys" (hash-count (const #t) table) (hash-ref table 17))) (newline)
(define (factorial n) (if (= n 0) 1 (* n (factorial (- n 1)))))
(display (string-length (number->string (factorial 1500)))) (newline)
(define words (map (lambda (i) (string-append "w" (number->string (modulo (* i 31) 9973)))) (iota 20000)))
(display (list "words" (length (delete-duplicates (list-head words 1000))) (last (sort words string<?)))) (newline)
(display (regexp-substitute/global #f "w1" (string-join (list-head words 300) " ") 'pre "X" 'post)) (newline)
S
XDG_CACHE_HOME=$PWD/cache guile --no-auto-compile -s work.scm
