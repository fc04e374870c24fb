# bc: many digits.
BC_LINE_LENGTH=0 bc -l <<'B'
scale = 120
4 * a(1)
e(1)
2 ^ 4000 % 10 ^ 50
define f(n) { if (n < 2) return 1; return n * f(n - 1) }
length(f(900))
s = 0; for (i = 1; i < 1500; i++) s += sqrt(i)
s
B
