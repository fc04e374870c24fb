# zsh: associative arrays, sorting, globs, functions.
zsh -f <<'Z'
typeset -A count
for i in {1..20000}; do (( count[k$(( i * 7919 % 997 ))] += i )); done
print "keys ${#count} first ${count[k1]} last ${count[k996]}"
words=(${(f)"$(for i in {1..3000}; do print "word-$(( i * 31 % 2999 ))"; done)"})
print "sorted ${${(o)words}[1]} ${${(O)words}[1]} unique ${#${(u)words}}"
for i in {1..40}; do print x > "file-$i.txt"; done
print "files ${#$(echo *.txt)} ${(j:,:)${(@)$(echo file-1?.txt)}}"
text=; for i in {1..2000}; do text+="abc$i "; done
print "replaced ${#${text//abc/xy}}"
Z
