#!/usr/bin/env bash
# A tree of many small files and one large synthetic file, archived, evicted, staged and compared, while the server's
# anonymous resident memory is sampled ten times a second.
#
#   benches/scale.sh [DIRECTORY=./kist-scale] [FILES=100000] [LARGE_BYTES=8589934592]
#
# Needs a release build (make build) and, in DIRECTORY, about seven times the large file and a few GB. Exits non-zero
# if a byte differs or the memory passes 512 MiB.
set -euo pipefail
root="$(cd "$(dirname "$0")/.." && pwd)"
kist="${KIST:-${CARGO_TARGET_DIR:-$root/target}/release/kist}"
directory="${1:-./kist-scale}"
files="${2:-100000}"
large="${3:-8589934592}"
limit=$((512 << 20))
mkdir -p "$directory"
directory="$(cd "$directory" && pwd)"
instance="$directory/instance"
tree="$directory/tree"

# The same bytes at every call: AES in counter mode over zeros.
synthetic() ( set +o pipefail; openssl enc -aes-128-ctr -K 000102030405060708090a0b0c0d0e0f -iv 0 -nosalt -in /dev/zero 2>/dev/null | head -c "$large" )
step() { # name, command ...: prints seconds
    local name="$1" begin end
    shift
    begin=$(date +%s.%N)
    "$@"
    end=$(date +%s.%N)
    printf '%-34s %8.1f s\n' "$name" "$(echo "$end - $begin" | bc)"
}

python3 - "$tree" "$files" <<'PY'
import os, random, sys
tree, files = sys.argv[1], int(sys.argv[2])
generator = random.Random(1)
for number in range(files):
    directory = f"{tree}/{number % 100:02}/{number // 100 % 10}"
    if number < 1000:
        os.makedirs(directory, exist_ok=True)
    with open(f"{directory}/file-{number}", "wb") as out:
        out.write(generator.randbytes(int(generator.paretovariate(1.2) * 1500) % 60000))
PY

rm -rf -- "$instance"
"$kist" init "$instance" --demo --listen 127.0.0.1:0 --save-key "$directory/admin.key" --cartridge-size 100GB >/dev/null
"$kist" serve "$instance" 2>"$directory/server.log" &
server=$!
export KIST_INSTANCE="$instance" KIST_KEY_FILE="$directory/admin.key"
until "$kist" status >/dev/null 2>&1; do kill -0 "$server"; sleep 0.1; done
(
    most=0
    while read -r _ now _ < <(grep RssAnon "/proc/$server/status" 2>/dev/null); do
        [ "$now" -gt "$most" ] && most=$now && echo "$most" >"$directory/memory.kib"
        sleep 0.1
    done
) &
sampler=$!
trap 'kill $server $sampler 2>/dev/null || true' EXIT

step "put $files files" "$kist" put --quiet "$tree" /scale/tree
put_large() { synthetic | "$kist" put --quiet - /scale/large; }
step "put one file of $large bytes" put_large
"$kist" migrate --now
step "migrate, two copies" "$kist" wait --quiet
step "evict all" "$kist" evict /scale
step "stage all and wait" "$kist" stage --quiet --wait /scale
step "compare $files files" "$kist" compare --quiet "$tree" /scale/tree
compare_large() { cmp <(synthetic) <("$kist" get --quiet /scale/large -); }
step "compare the large file" compare_large
"$kist" status
kill -INT "$server"
wait "$server" || true
memory=$(($(cat "$directory/memory.kib") * 1024))
echo "server's anonymous memory, at most: $((memory >> 20)) MiB (limit $((limit >> 20)) MiB)"
[ "$memory" -lt "$limit" ]
