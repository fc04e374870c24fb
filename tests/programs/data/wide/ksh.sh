# ksh93: arrays, compound variables, floating point.
ksh93 <<'K'
typeset -A seen
integer i
for ((i = 0; i < 30000; i++)); do seen[$((i * 7919 % 1009))]=$i; done
print "seen ${#seen[@]} ${seen[5]}"
float x=0
for ((i = 1; i < 20000; i++)); do ((x += 1.0 / i)); done
printf 'harmonic %.9f\n' x
text=$(for ((i = 0; i < 5000; i++)); do print -n "$i;"; done)
print "text ${#text} ${text//[0-4]/x}" | cksum
K
