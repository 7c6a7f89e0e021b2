#!/bin/sh
# What a tape stream gets beside 16 clients, with and without its reserved rate:
#   benches/stream_share.sh [DIRECTORY [MIB [CLIENTS [RATE_MB]]]]
# DIRECTORY should lie on the disks in question; it needs about five times MIB.
set -eu
cd "$(dirname "$0")/.."
exec cargo run --release --quiet -p archive --example stream_share -- "$@"
