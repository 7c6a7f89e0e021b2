#!/usr/bin/env bash
# A recorded run of the real server over a virtual library that takes the time of real drives, run again in the twin: do
# completion time and mounts agree within 5 %?
#
#   benches/twin_replay.sh [DIRECTORY=/dev/shm/kist-twin-replay]
#
# SCALE=30 is how much faster than a real library its time runs, WAVES=20 how often files are asked for, FILES=900 how many of
# 1 MB (and half as many of 2 MB) are on tape, DRIVES=3, SIZE=100MB a cartridge, EVERY=10 seconds between two waves, WANTED=30
# files a wave. First the tapes are filled; then the server is started anew, and what is compared begins: in each wave WANTED
# files that are spread over all tapes are asked for, by two users, and some are put, which go to tape meanwhile. KEEP=1 leaves
# the instance there. Needs a build; exits non-zero if completion or mounts deviate by more than BAR=5 %.
set -euo pipefail
root="$(cd "$(dirname "$0")/.." && pwd)"
kist="${KIST:-${CARGO_TARGET_DIR:-$root/target}/release/kist}"
directory="${1:-/dev/shm/kist-twin-replay}"
scale="${SCALE:-30}"
waves="${WAVES:-20}"
files="${FILES:-900}"
drives="${DRIVES:-3}"
every="${EVERY:-10}"
wanted="${WANTED:-30}"
bar="${BAR:-5}"
mkdir -p "$directory"
directory="$(cd "$directory" && pwd)"
instance="$directory/instance"
server=
finish() {
    [ -z "$server" ] || { kill -INT "$server" 2>/dev/null && wait "$server" || true; }
    [ -n "${KEEP:-}" ] || rm -rf -- "$directory"
}
trap finish EXIT

start() {
    "$kist" serve "$instance" 2>>"$directory/server.log" &
    server=$!
    export KIST_INSTANCE="$instance" KIST_KEY_FILE="$directory/admin.key"
    until "$kist" status >/dev/null 2>&1; do kill -0 "$server"; sleep 0.1; done
}

stop() {
    kill -INT "$server"
    wait "$server" || true
    server=
}

# Bytes that do not compress: AES in counter mode over zeros, begun at the file's number.
synthetic() ( # number, length
    set +o pipefail
    openssl enc -aes-128-ctr -K 000102030405060708090a0b0c0d0e0f -iv "$(printf '%016x%016x' "$1" 0)" \
        -nosalt -in /dev/zero 2>/dev/null | head -c "$2"
)

tree() { # directory, files, bytes, number
    mkdir -p "$1"
    synthetic "$4" $(($2 * $3)) | split -b "$3" -a 5 -d - "$1/file-"
}

rm -rf -- "$instance" "$directory/admin.key" "$directory/tree"
"$kist" init "$instance" --drives 3 --data 2 --parity 1 --cartridges 30 --cartridge-size "${SIZE:-100MB}" \
    --tape-drives "$drives" --listen 127.0.0.1:0 --pack-size 8MB --timing "${DRIVE:-LTO-8}" --time-scale "$scale" \
    --save-key "$directory/admin.key" >/dev/null
sed -i -e 's/copies = .*/copies = ["vault-a"]/' -e 's/^dismount_delay = .*/dismount_delay = "1s"/' \
    -e 's/^recall_age = .*/recall_age = "2s"/' -e 's/^pack_age = .*/pack_age = "3s"/' \
    -e 's/^mount_age = .*/mount_age = "5s"/' "$instance/kist.toml"

tree "$directory/tree/a" "$files" 1000000 1
tree "$directory/tree/b" $((files / 2)) 2000000 2
tree "$directory/new" $((waves * 3)) 1000000 3
start
"$kist" put --quiet "$directory/tree" /old
"$kist" migrate --now >/dev/null
"$kist" wait --quiet
"$kist" evict /old >/dev/null
stop
rm -rf -- "$directory/tree"

sleep 1
since="$(date -u +%Y-%m-%dT%H:%M:%SZ)"
sleep 1
start
sleep 2
# Every file once, in an order that is the same in every run.
{ for at in $(seq 0 $((files - 1))); do printf '/old/a/file-%05d\n' "$at"; done
  for at in $(seq 0 $((files / 2 - 1))); do printf '/old/b/file-%05d\n' "$at"; done
} | shuf --random-source=<(synthetic 9 10000000) >"$directory/order"
requests=()
for wave in $(seq 0 $((waves - 1))); do
    mapfile -t chosen < <(tail -n +$((wave * wanted + 1)) "$directory/order" | head -n "$wanted")
    half=$((wanted / 2))
    "$kist" stage --quiet --wait "${chosen[@]:0:half}" >/dev/null & requests+=($!)
    "$kist" stage --quiet --wait "${chosen[@]:half}" >/dev/null & requests+=($!)
    for new in 0 1 2; do
        name="$(printf 'file-%05d' $((wave * 3 + new)))"
        "$kist" put --quiet "$directory/new/$name" "/new/$name"
    done
    sleep "$every"
done
for request in "${requests[@]}"; do wait "$request"; done
"$kist" wait --quiet
sleep 15
stop
until="$(date -u +%Y-%m-%dT%H:%M:%SZ)"

echo "$drives drives at $scale times their speed; the twin's library is the same"
"$kist" twin replay "$instance" --since "$since" --until "$until" | tee "$directory/replay.txt"
"$kist" twin replay "$instance" --since "$since" --until "$until" --json >"$directory/replay.json"
echo
echo "with one drive less:"
"$kist" twin replay "$instance" --since "$since" --until "$until" --set drives=$((drives - 1)) |
    grep -E '^(completion|mounts  |all )'
awk -v bar="$bar" '/^(completion|mounts|all) / && $(NF) == "%" {
        deviation = $(NF - 1) < 0 ? -$(NF - 1) : $(NF - 1)
        seen++; if (deviation > bar) { print $1 " deviates by more than " bar " %"; bad = 1 } }
    END { exit bad || seen < 3 }' "$directory/replay.txt"
