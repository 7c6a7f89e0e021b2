# A tape is read with the cartridge alone: no server, no catalogue.
set -euo pipefail
mkdir tree
head -c 200000 /dev/urandom >tree/one
"$KIST" demo --quiet --from tree data >/dev/null
vid=KS0001
rm -rf data/catalogue
"$KIST" tape dump "$vid" records --instance data >list
grep -q "file mark" list
test "$(head -c 10 records/a-000000000000.record)" = "VOL1$vid"
"$KIST" tape dump "$vid" --instance data --json | grep -q '"check":"good"'
