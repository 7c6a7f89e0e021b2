#!/usr/bin/env bash
# Measures Kist's doors beside nginx and a stock XRootD, all in the same memory; see `kist help bench doors`. `make
# needs-bench-doors` gets the peers; NGINX: where it unpacked nginx.
set -euo pipefail
root="$(cd "$(dirname "$0")/.." && pwd)"
target="${CARGO_TARGET_DIR:-$root/target}"
kist="${KIST:-$target/release/kist}"

if [ -z "${KIST_BENCH_INSIDE:-}" ]; then
    # Memory of its own where this is allowed. Not in a namespace of users, in which XRootD's own user does not exist.
    memory="$(mktemp -d)"
    trap 'rmdir "$memory"' EXIT
    inside='mount -t tmpfs -o size=85%,nr_inodes=0 tmpfs "$1" && shift && exec "$@"'
    if [ "$(id -u)" = 0 ] && unshare --mount sh -c 'mount -t tmpfs tmpfs "$1"' sh "$memory" 2>/dev/null; then
        KIST_BENCH_INSIDE="$memory" unshare --mount sh -c "$inside" sh "$memory" "$0" "$@"
    else
        KIST_BENCH_INSIDE=/dev/shm "$0" "$@"
    fi
    exit
fi

unpacked="${NGINX:-$target/nginx}/usr/sbin/nginx"
nginx=()
if ! command -v nginx >/dev/null && [ ! -x /usr/sbin/nginx ] && [ -x "$unpacked" ]; then nginx=(--nginx "$unpacked"); fi
"$kist" bench doors --json --dir "$KIST_BENCH_INSIDE" --plugins "$target/xrootd" "${nginx[@]}" \
    --write "$root/docs/reference/performance.md" "$@" | tee "$target/bench-doors.json"
