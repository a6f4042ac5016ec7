#!/bin/sh
# Makes the certificates of this folder, which are committed: `sh make.sh` with OpenSSL 3. They are for tests only; their keys are
# public. Those that are not about time are valid from 2024 to 2126.
set -eu
cd "$(dirname "$0")"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
rm -f ./*.pem
touch "$work/index.txt"
cat > "$work/openssl.cnf" <<CONFIG
[ca]
default_ca = authority
[authority]
database = $work/index.txt
new_certs_dir = $work
default_md = sha256
policy = any
unique_subject = no
rand_serial = yes
copy_extensions = copy
[any]
commonName = supplied
[req]
distinguished_name = name
prompt = no
[name]
CN = ratekeeper test
CONFIG

# make NAME SUBJECT EXTENSION FROM UNTIL [ISSUER]: NAME.pem and NAME.key.pem, self-signed unless an issuer is named.
make() {
    openssl genpkey -quiet -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out "$1.key.pem"
    openssl req -new -config "$work/openssl.cnf" -key "$1.key.pem" -subj "/CN=$2" -addext "$3" -out "$work/$1.csr"
    if [ $# -gt 5 ]; then by="-cert $6.pem -keyfile $6.key.pem"; else by="-selfsign -keyfile $1.key.pem"; fi
    # shellcheck disable=SC2086
    openssl ca -batch -notext -config "$work/openssl.cnf" $by -in "$work/$1.csr" -startdate "$4" -enddate "$5" \
        -out "$1.pem" 2> "$work/log" || { cat "$work/log"; exit 1; }
}

here=subjectAltName=DNS:localhost,IP:127.0.0.1
from=20240101000000Z
until=21260101000000Z
for name in one two three; do make "$name" "$name" "$here" "$from" "$until"; done
make expired expired "$here" 20200101000000Z 20200201000000Z
make not-yet not-yet "$here" 21250101000000Z "$until"
# For what reads dates: both forms of time, and the first and last that are of interest.
make leap-day leap-day "$here" 20240229000000Z 20491231000000Z
make long-life long-life "$here" 19700101000000Z 40960101000000Z

make authority authority basicConstraints=critical,CA:TRUE "$from" "$until"
make localhost localhost subjectAltName=DNS:localhost "$from" "$until" authority
for name in loopback loopback-two loopback-three; do
    make "$name" "$name" subjectAltName=IP:127.0.0.1 "$from" "$until" authority
done
for name in limits.example plane.example node.example envoy.example.org other.example.org; do
    make "$name" "$name" "subjectAltName=DNS:$name" "$from" "$until" authority
done
