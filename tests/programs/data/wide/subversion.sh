# subversion: a repository of its own, commits, branch, merge, log.
svnadmin create repo
url=file://$PWD/repo
svn -q mkdir -m start "$url/trunk" "$url/branches"
svn -q checkout "$url/trunk" work
cd work
for i in $(seq 1 12); do
    seq "$i" $((i * 300)) > "f$i"
    svn -q add "f$i"
    svn -q commit -m "commit $i"
done
svn -q copy -m branch "$url/trunk" "$url/branches/b"
svn -q switch "$url/branches/b"
echo more >> f3 && svn -q commit -m 'on the branch'
svn -q switch "$url/trunk" && svn -q merge "$url/branches/b" && svn -q commit -m merged
svn -q update && svn log -q "$url" | grep -c '^r'
svn diff -c 15 "$url" | grep -c '^[+-]'
svn blame "$url/trunk/f3" | tail -n 1 | tr -s ' ' | cut -d ' ' -f 2,4
svnadmin verify -q ../repo && svnadmin dump -q ../repo | grep -c '^Node-path'
