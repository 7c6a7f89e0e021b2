#!/usr/bin/env bash
# Seagate's client library for Java on two drives of `kist drive serve`: what of Open Kinetic it can say, over plain TCP
# and TLS. The library comes from Maven's repository, once; sources in tests/kinetic.
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
root="$(cd "$here/.." && pwd)"
KIST="${KIST:-${CARGO_TARGET_DIR:-$root/target}/release/kist}"
built="${CARGO_TARGET_DIR:-$root/target}/kinetic-java"

for program in java javac mvn openssl; do
    command -v "$program" >/dev/null || { echo "$program is missing: make needs-test installs it" >&2; exit 1; }
done
if [ ! -e "$built/lib/kinetic-client-0.8.0.4.jar" ]; then
    mkdir -p "$built"
    # What is there already needs no network.
    fetch=(mvn --quiet --batch-mode --file "$here/kinetic/pom.xml" dependency:copy-dependencies "-DoutputDirectory=$built/lib.new")
    "${fetch[@]}" --offline >/dev/null 2>&1 || "${fetch[@]}"
    rm -rf -- "$built/lib"
    mv -- "$built/lib.new" "$built/lib"
fi

work="$(mktemp -d)"
drives=()
finish() {
    for drive in "${drives[@]}"; do kill "$drive" 2>/dev/null || true; done
    for drive in "${drives[@]}"; do wait "$drive" 2>/dev/null || true; done
    rm -rf -- "$work"
}
trap finish EXIT

javac -cp "$built/lib/*" -d "$work/classes" "$here/kinetic/Check.java"
openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -addext subjectAltName=DNS:localhost,IP:127.0.0.1 \
    -keyout "$work/key.pem" -out "$work/certificate.pem" 2>/dev/null

serve() {
    "$KIST" drive format --path "$work/$1" --size 1GB >/dev/null
    "$KIST" drive serve --path "$work/$1" --listen 127.0.0.1:0 --tls-listen 127.0.0.1:0 \
        --certificate "$work/certificate.pem" --key "$work/key.pem" >"$work/$1.out" 2>"$work/$1.err" &
    drives+=($!)
    for _ in $(seq 600); do
        grep -q '^serving ' "$work/$1.out" && return
        kill -0 "${drives[-1]}" 2>/dev/null || { cat "$work/$1.err" >&2; exit 1; }
        sleep 0.05
    done
    echo "the drive does not serve" >&2
    exit 1
}

serve first
serve second
port() { sed -n "s|^serving .* $2://127.0.0.1:\([0-9]*\).*|\1|p" "$work/$1.out"; }
java --add-opens java.base/sun.nio.ch=ALL-UNNAMED -Xmx256m -cp "$built/lib/*:$work/classes" Check 127.0.0.1 \
    "$(port first kinetic)" "$(port first kinetics)" "$(port second kinetic)"
# Both end in good order.
for drive in "${drives[@]}"; do
    kill "$drive"
    wait "$drive" || { echo "a drive ended with $?" >&2; cat "$work"/*.err >&2; exit 1; }
done
drives=()
echo "ok drives end in good order"
