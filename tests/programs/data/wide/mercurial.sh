# mercurial, which is python3 with C modules: commits, branches, merge, log, verify.
export HGRCPATH=/dev/null HGUSER=a
hg init work
cd work
for i in $(seq 1 10); do
    seq "$i" $((i * 300)) > "f$i"
    hg add -q "f$i"
    hg commit -q -d "$i 0" -m "commit $i"
done
hg update -q -r 4 && echo more >> f2 && hg commit -q -d '20 0' -m 'other head'
hg merge -q && hg commit -q -d '21 0' -m merged
hg log -T '{rev} {node|short} {desc}\n'
hg annotate -l f2 | tail -n 1
hg verify -q && hg archive -q ../out && ls ../out | wc -l
