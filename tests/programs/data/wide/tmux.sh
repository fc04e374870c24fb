# tmux: a server of its own with windows and panes, whose contents are read back.
t() { tmux -f /dev/null -L work "$@"; }
trap 't kill-server 2>/dev/null || true' EXIT
t new-session -d -x 120 -y 40 -s s 'seq 1 2000; echo ready-one; exec sleep 300'
t set-option -g history-limit 5000
for i in $(seq 1 6); do t new-window -d -t s: "seq $i 700; echo ready-$i; exec sleep 300"; done
t split-window -d -t s:1 'echo pane; exec sleep 300'
t list-windows -t s | wc -l
t list-panes -s -t s | wc -l
for _ in $(seq 1 200); do
    if t capture-pane -p -t s:6 | grep -q ready-6 && t capture-pane -p -t s:0 | grep -q ready-one; then break; fi
    sleep 0.1
done
t capture-pane -p -t s:0 | tail -n 5 | sha256sum
t capture-pane -p -S - -t s:6 | sed '/^$/d' | sha256sum
t set-buffer "$(seq 1 3000)"
t show-buffer | sha256sum
t kill-server
