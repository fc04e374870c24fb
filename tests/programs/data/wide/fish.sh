# fish: lists, string functions, functions with local variables.
fish --no-config -c '
set -l list
for i in (seq 1 3000); set -a list item-(math "$i * 7 % 2999"); end
echo count (count $list) first (string sub -s 6 $list | sort -n | head -n 3)
string join , $list | string replace -a item x | string length
function twice; for a in $argv; echo $a $a; end; end
twice $list | sha256sum
string match -r "^item-(\d)7\$" $list | count'
