# gawk: associative arrays, regular expressions, sorting, big numbers.
seq 1 200000 | gawk '{ c[$1 * 7919 % 5003] += $1; t = t ($1 % 10); if (gsub(/7/, "x")) n++ }
    END { print length(c), c[17], length(t), n; m = asorti(c, s, "@ind_num_asc"); print m, s[1], s[m];
          for (i = 1; i <= 3000; i++) u = u sprintf("%d,", i * 31 % 2999); print split(u, p, ","), p[7] }'
gawk -M 'BEGIN { x = 1; for (i = 1; i <= 1000; i++) x *= i; print length(x "") }'
seq 1 50000 | gawk 'BEGIN { RS = "7\n" } { n += NF } END { print NR, n }'
