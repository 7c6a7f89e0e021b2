#!/usr/bin/env bash
# Builds MinIO and versitygw with Go, then measures Kist beside them on drives in memory; see `kist bench --help`.
set -euo pipefail
root="$(cd "$(dirname "$0")/.." && pwd)"
kist="${KIST:-${CARGO_TARGET_DIR:-$root/target}/release/kist}"
bin="$root/target/s3-peers"
minio=github.com/minio/minio@v0.0.0-20260212201848-7aac2a2c5b7c
versitygw=github.com/versity/versitygw/cmd/versitygw@v1.8.0

if [ -z "${KIST_BENCH_INSIDE:-}" ]; then
    command -v go >/dev/null || { echo "go is missing: install Go, 1.25 or newer, then again" >&2; exit 1; }
    mkdir -p "$bin"
    for module in "$minio" "$versitygw"; do
        name="$(basename "${module%@*}")"
        [ "$(cat "$bin/$name.version" 2>/dev/null)" = "$module" ] && continue
        echo "== building $name"
        GOBIN="$bin" GOFLAGS=-mod=mod go install "$module"
        echo "$module" >"$bin/$name.version"
    done
    # Memory of its own where this is allowed, in small pages, as it is mounted when nothing else is asked for.
    memory="$(mktemp -d)"
    trap 'rmdir "$memory"' EXIT
    inside='mount -t tmpfs -o size=85%,nr_inodes=0 tmpfs "$1" && shift && exec "$@"'
    if unshare --map-root-user --mount sh -c 'mount -t tmpfs tmpfs "$1"' sh "$memory" 2>/dev/null; then
        KIST_BENCH_INSIDE="$memory" unshare --map-root-user --mount sh -c "$inside" sh "$memory" "$0" "$@"
    else
        KIST_BENCH_INSIDE=/dev/shm "$0" "$@"
    fi
    exit
fi

"$kist" bench s3 --json --dir "$KIST_BENCH_INSIDE" --peer "minio=$bin/minio" --peer "versitygw=$bin/versitygw" \
    --write "$root/docs/reference/performance.md" "$@" | tee "$root/target/bench-s3.json"
