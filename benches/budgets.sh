#!/usr/bin/env bash
# The budgets of the design beside today's figures and this machine's limits, printed and written into
# docs/reference/performance.md between its marks.
#
#   benches/budgets.sh [DISK_DIRECTORY=/tmp]
#
# Needs a release build (make build). What is measured in memory is measured in a tmpfs of huge pages, in a mount
# namespace of its own, where the system lets us make one: the program is to be measured, not the kernel's handing
# out of pages. Else in /dev/shm. Syncs are measured in DISK_DIRECTORY. Nothing is left behind.
set -euo pipefail
root="$(cd "$(dirname "$0")/.." && pwd)"
kist="${KIST:-${CARGO_TARGET_DIR:-$root/target}/release/kist}"
disk="${1:-${TMPDIR:-/tmp}}"
page="$root/docs/reference/performance.md"

if [ -z "${KIST_BENCH_INSIDE:-}" ]; then
    memory="$(mktemp -d)"
    trap 'rmdir "$memory"' EXIT
    inside='mount -t tmpfs -o huge=always,size=80% tmpfs "$1" && shift && exec "$@"'
    if unshare --map-root-user --mount sh -c 'mount -t tmpfs -o huge=always tmpfs "$1"' sh "$memory" 2>/dev/null; then
        KIST_BENCH_INSIDE="$memory" unshare --map-root-user --mount sh -c "$inside" sh "$memory" "$0" "$disk"
    else
        KIST_BENCH_INSIDE=/dev/shm "$0" "$disk"
    fi
    exit
fi

memory="$KIST_BENCH_INSIDE"
catalogue="$(mktemp -d "$memory/kist-catalogue-XXXXXX")"
output="$(mktemp "$memory/kist-output-XXXXXX")"
trap 'rm -rf "$catalogue" "$output"' EXIT
echo "== the catalogue alone, 1,000,000 files"
(cd "$root" && cargo run --quiet --release --locked -p store --example store_speed -- "$catalogue" 1000000) | tee "$output"
rm -rf "$catalogue"
echo "== budgets"
"$kist" bench all --dir "$memory" --disk "$disk" --write "$page" --with "$output"
