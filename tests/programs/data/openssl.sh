# SPDX-License-Identifier: Apache-2.0 OR MIT
# A program for tests/programs: digests, encryption there and back, a key that signs. Usage: bash openssl.sh
set -euo pipefail

seq 1 300000 >plain
openssl dgst -sha512 plain
openssl dgst -sha3-256 plain

key=$(printf '%064d' 7)
vector=$(printf '%032d' 9)
openssl enc -aes-256-ctr -K "$key" -iv "$vector" -in plain -out sealed
openssl dgst -sha256 sealed
openssl enc -d -aes-256-ctr -K "$key" -iv "$vector" -in sealed | cmp - plain
echo opened

openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out key.pem
openssl pkey -in key.pem -pubout -out public.pem
openssl dgst -sha256 -sign key.pem -out signature plain
openssl dgst -sha256 -verify public.pem -signature signature plain

openssl prime -generate -bits 64 >/dev/null
openssl prime 1000000007 | grep -o 'is.*'
