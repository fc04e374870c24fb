# pari/gp: factors, matrices, series; its stack is one block.
gp -q -f <<'G'
print(factor(2^101 - 1));
print(matdet(matrix(60, 60, i, j, (i * j) % 17 + (i == j))));
print(#Str(5000!));
s = 0; for (i = 1, 200000, s = (s + i^3) % 1000003); print(s);
print(polcoeff(prod(i = 1, 200, 1 - x^i), 100));
v = vecsort(vector(50000, i, i * 7919 % 50021)); print(v[1], " ", v[25000]);
print(nextprime(10^40));
G
