# openssh: keys made, turned into other formats, a file signed and checked.
ssh-keygen -q -t ed25519 -N '' -C work -f key
ssh-keygen -q -t rsa -b 2048 -N '' -C work -f rsa
ssh-keygen -e -m PKCS8 -f rsa.pub | head -n 1
ssh-keygen -l -f key.pub | cut -d ' ' -f 1,3,4
seq 1 10000 > data
ssh-keygen -q -Y sign -f key -n file data 2>/dev/null
printf 'me %s\n' "$(cut -d ' ' -f 1,2 key.pub)" > allowed
ssh-keygen -Y verify -f allowed -I me -n file -s data.sig < data | sed 's/SHA256:.*/KEY/'
eval "$(ssh-agent -s)" > /dev/null
trap 'kill "$SSH_AGENT_PID"' EXIT
for i in $(seq 1 20); do ssh-keygen -q -t ed25519 -N '' -C "k$i" -f "k$i" && ssh-add -q "k$i"; done
ssh-add -l | wc -l
