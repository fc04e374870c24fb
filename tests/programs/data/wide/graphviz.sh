# graphviz: two layouts of one graph.
{ echo 'digraph g {'; for i in $(seq 1 100); do echo "n$i -> n$((i * 7 % 100 + 1)); n$((i / 3 + 1)) -> n$i [label=\"e$i\"];"; done; echo '}'; } > g.dot
dot -Tsvg g.dot | sha256sum
neato -Tplain g.dot | wc -l
