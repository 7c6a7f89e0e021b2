#!/usr/bin/env bash
# The rates of tape sessions against the drive's native rate: the real server on a virtual library that takes the time of
# real drives.
#
#   benches/tape_rate.sh [DIRECTORY=./kist-tape-rate] [BYTES=8000000000] [PHASES="whole gaps packs"]
#
#   whole   files of 2 GB (at most BYTES / 4), all recalled: at least 92 % of native from the first byte to the last
#   gaps    ten files (BYTES / 10 each), the fifth and the tenth left out: at least 85 %, see below
#   packs   files of 1 MB (BYTES / 4 in all) written in packs, all recalled: at least 90 %
#
# DRIVE=LTO-8 is the drive's model, SCALE=1 how much faster than a real one its time runs, POOL=DIR holds the pool: /dev/shm if
# it has room for one and a half times BYTES, else DIRECTORY, where the tapes are. Needs a release build (make build) and a
# machine that does nothing else. Exits non-zero if a rate is below its bar or a file does not come back as it was.
#
# A write has no bar: its session has three synchronous marks of 3 s each around the index, for which a few GB do not make up;
# the rate while the tape ran is shown.
#
# A rate counts the bytes of the files wanted, from the first byte that the drive gives to the last; what it reads between
# them is shown besides. With gaps, no order reaches the native rate: what lies between two wanted files is read through or
# gone over by a locate, and the bound that is printed takes the cheaper. Of ten files with two left out, the last needs no
# way behind it: 8 of 9 are wanted, 88.9 %.
set -euo pipefail
root="$(cd "$(dirname "$0")/.." && pwd)"
kist="${KIST:-${CARGO_TARGET_DIR:-$root/target}/release/kist}"
directory="${1:-./kist-tape-rate}"
bytes="${2:-8000000000}"
phases="${3:-whole gaps packs}"
drive="${DRIVE:-LTO-8}"
scale="${SCALE:-1}"
mkdir -p "$directory"
directory="$(cd "$directory" && pwd)"
if [ -z "${POOL:-}" ]; then
    room=$(df --output=avail -B1 /dev/shm 2>/dev/null | tail -1 || echo 0)
    POOL="$directory"
    [ "$room" -gt $((bytes / 2 * 3 + (1 << 30))) ] && POOL=/dev/shm
fi
pool="$(mktemp -d "$POOL/kist-pool.XXXXXX")"
server=
finish() {
    [ -z "$server" ] || { kill -INT "$server" 2>/dev/null && wait "$server" || true; }
    rm -rf -- "$pool" "$directory/instance" "$directory/tree"
}
trap finish EXIT
failed=0

# Bytes that do not compress and are the same at every call: AES in counter mode over zeros, begun at the file's number.
synthetic() ( # number, length
    set +o pipefail
    openssl enc -aes-128-ctr -K 000102030405060708090a0b0c0d0e0f -iv "$(printf '%016x%016x' "$1" 0)" \
        -nosalt -in /dev/zero 2>/dev/null | head -c "$2"
)

# One copy, packs of 1 GB, tapes that go home at once, and a pool in $pool. Flushes are as far apart as usual.
begin() {
    rm -rf -- "$directory/instance" "$directory/admin.key"
    "$kist" init "$directory/instance" --drives 3 --data 2 --parity 1 --cartridges 2 --cartridge-size 100GB --tape-drives 1 \
        --listen 127.0.0.1:0 --pack-size 1GB --timing "$drive" --time-scale "$scale" --save-key "$directory/admin.key" >/dev/null
    sed -i -e 's/copies = .*/copies = ["vault-a"]/' -e 's/^dismount_delay = .*/dismount_delay = "1s"/' \
        -e 's/^recall_age = .*/recall_age = "2s"/' "$directory/instance/kist.toml"
    mv "$directory/instance/pool" "$pool/pool"
    ln -s "$pool/pool" "$directory/instance/pool"
    "$kist" serve "$directory/instance" 2>"$directory/server.log" &
    server=$!
    export KIST_INSTANCE="$directory/instance" KIST_KEY_FILE="$directory/admin.key"
    until "$kist" status >/dev/null 2>&1; do kill -0 "$server"; sleep 0.1; done
}

end() {
    kill -INT "$server"
    wait "$server" || true
    server=
    rm -rf -- "$directory/instance" "$pool/pool"
}

# The sessions of a kind in the log: one line "key value ..." each.
sessions() { grep -a 'tape motion' "$directory/server.log" | grep -a "session=\"\?$1" | tr ' ' '\n' | tr -d '"' |
    awk -F= '/^bytes=/ { printf "\n" } NF == 2 { printf "%s %s ", $1, $2 } END { print "" }' | grep -a '^bytes'; }

# One row a session: useful and streamed bytes, rate and share of native, where the rest of the time went.
judge() { # phase, kind, least percent, bound percent
    sessions "$2" | awk -v phase="$1 $2" -v native="$native" -v scale="$scale" -v least="$3" -v bound="$4" '
        { for (at = 1; at < NF; at += 2) value[$at] = $(at + 1)
          if (value["bytes"] == 0) next
          share = value["seconds"] > 0 ? 100 * value["bytes"] / value["seconds"] / native : 0
          moved = value["seconds"] > 0 ? (value["read"] + value["written"]) / value["seconds"] : 0
          printf "%-16s %8.3f GB %7.1f MB/s = %5.1f %% of native (bound %5.1f %%, bar %s)  blocks %7.1f MB/s, streamed %.3f GB, " \
                 "locates %d (%.1f s), flushes %.1f s, while the tape ran %.1f MB/s, back-hitches %d, host too slow %.1f s\n",
                 phase, value["bytes"] / 1e9, value["bytes"] / value["seconds"] / 1e6, share, bound, least ? least " %" : "none",
                 moved / 1e6, value["streamed"] / 1e9, value["locates"], value["locating"], value["flushing"],
                 (value["streaming"] > 0 ? value["streamed"] / value["streaming"] / 1e6 : 0), value["backhitches"], value["waiting"]
          rows++; if (share < least) bad = 1 }
        END { if (!rows) { print phase ": no session was counted"; bad = 1 } exit bad }' || failed=1
}

# What is wanted of whole and gap bytes in all, in percent, if each gap is crossed the cheaper way.
bound() { # wanted bytes, gaps between them, bytes of a gap
    awk -v wanted="$1" -v gaps="$2" -v gap="$3" -v native="$native" 'BEGIN {
        through = gap / native
        locate = 4.29 + 0.0006192 * 168401 * gap / 57.7e9
        print 100 * (wanted / native) / (wanted / native + gaps * (through < locate ? through : locate)) }'
}

large() { # phase, file bytes, number of files, files left out ...
    local phase="$1" size="$2" count="$3" number skipped=" ${*:4} " wanted=() gaps=0 open=0
    begin
    for number in $(seq "$count"); do
        synthetic "$number" "$size" | "$kist" put --quiet --class large - "/rate/file-$number"
    done
    "$kist" migrate --now
    "$kist" wait --quiet
    judge "$phase" migrate 0 100
    "$kist" evict /rate >/dev/null
    for number in $(seq "$count"); do
        if [[ "$skipped" == *" $number "* ]]; then open=1; continue; fi
        [ ${#wanted[@]} -gt 0 ] && gaps=$((gaps + open))
        open=0
        wanted+=("/rate/file-$number")
    done
    "$kist" stage --quiet --wait "${wanted[@]}"
    sleep 2
    judge "$phase" recall "$bar" "$(bound $((size * ${#wanted[@]})) "$gaps" "$size")"
    for number in 1 $((count / 2 - 1)); do
        cmp <(synthetic "$number" "$size") <("$kist" get --quiet "/rate/file-$number" -) || failed=1
    done
    end
}

packs() {
    local count=$((bytes / 4 / 1000000))
    mkdir -p "$directory/tree"
    synthetic 1 $((count * 1000000)) | split -b 1000000 -a 5 -d - "$directory/tree/file-"
    begin
    "$kist" put --quiet "$directory/tree" /rate/tree
    "$kist" migrate --now
    "$kist" wait --quiet
    judge packs migrate 0 100
    "$kist" evict /rate >/dev/null
    "$kist" stage --quiet --wait /rate
    sleep 2
    judge packs recall 90 100
    "$kist" compare --quiet "$directory/tree" /rate/tree || failed=1
    end
    rm -rf -- "$directory/tree"
}

# MB/s at the scale of the model's clock, in which all spans are.
case "$drive" in
    LTO-7 | LTO-9-HH | LTO-8-HH) native=300000000 ;;
    LTO-8) native=360000000 ;;
    LTO-9) native=400000000 ;;
    *) native="${NATIVE:?set NATIVE to the bytes a second of $drive}" ;;
esac
echo "$drive at $scale times its speed, $((native / 1000000)) MB/s; pool in $pool, tapes in $directory"
for phase in $phases; do
    case "$phase" in
        whole)
            size=$((bytes / 4 < 2000000000 ? bytes / 4 : 2000000000))
            bar=92 large whole "$size" $((bytes / size))
            ;;
        gaps) bar=85 large gaps $((bytes / 10)) 10 5 10 ;;
        packs) packs ;;
        *) echo "no phase $phase: whole, gaps, packs" >&2; exit 2 ;;
    esac
done
[ "$failed" -eq 0 ]
