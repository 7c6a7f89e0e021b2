# The demonstration on a small tree, twice in the same instance: all on tape, evicted, refused, staged, compared.
set -euo pipefail
mkdir -p tree/a/b
for n in $(seq 1 60); do head -c "$((n * 1777))" /dev/urandom >"tree/a/$n.bin"; done
head -c 9000000 /dev/urandom >tree/a/b/large.bin
: >tree/a/empty
ln -s ../a/1.bin tree/a/b/link
# Another has the ports of the instance at the second run.
taken() { python3 -c 'import socket, time
both = [socket.create_server(("127.0.0.1", port)) for port in (7420, 7421)]
time.sleep(600)' & }
for n in 1 2; do
    if [ "$n" = 2 ]; then taken; trap 'kill %1' EXIT; fi
    "$KIST" demo --quiet --from tree data | tee out
    grep -q "refused: /demo-$n/a/" out
    grep -q "compared 63 files: every byte is the same" out
done
test ! -e data/run/server.json
