# gnupg: symmetric encryption there and back, digests, armour.
export GNUPGHOME=$PWD/home
mkdir -m 700 home
seq 1 200000 > in
g() { gpg --batch --quiet --no-tty --yes --pinentry-mode loopback --passphrase word "$@" 2>/dev/null; }
trap 'gpgconf --kill all 2>/dev/null || true' EXIT
g --symmetric --cipher-algo AES256 --armor -o in.asc in
g -d -o out in.asc && cmp in out && echo opened
gpg --batch --print-md SHA512 < in | tr -d ' \n'
echo
g --quick-gen-key --default-new-key-algo ed25519 'A Name <a@example.org>'
g -u a@example.org --detach-sign -o in.sig in
g --verify in.sig in && echo good
