# vim: edits, macros, sorting and a script, without a terminal.
seq 1 20000 | awk '{ print "line", $1 * 7919 % 20011, "of text" }' > in.txt
vim -es -u NONE -i NONE -N in.txt <<'V' || true
%s/\v(\d+) of/\1:of/g
g/7:/m0
sort n /line /
1,100>
normal! ggqaA!jq500@a
let g:d = {} | for i in range(20000) | let g:d[i * 31 % 9973] = repeat('x', i % 50) | endfor
call append(0, 'keys ' . len(g:d) . ' ' . strlen(join(values(g:d), '')))
w! out.txt
undo | undo | redo
q!
V
head -n 2 out.txt
sha256sum out.txt
