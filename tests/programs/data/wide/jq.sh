# jq: a large document made, grouped, sorted, turned around.
jq -n '[range(40000) | {id: ., key: "k\(. * 7919 % 1009)", list: [range(. % 5)]}]' > in.json
jq -c 'group_by(.key) | map({key: .[0].key, n: length, sum: (map(.id) | add)}) | sort_by(-.n, .key) | .[:3][]' in.json
jq '[.[] | .list | length] | add' in.json
jq -S 'map(to_entries | from_entries) | map(select(.key | test("7$"))) | length' in.json
jq -r '.[] | [.id, .key] | @csv' in.json | sha256sum
