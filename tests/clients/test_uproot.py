"""uproot reads a TTree that it wrote, in whole and at half of its entries, over HTTP ranges: from the pool, after a recall, and
with two drives of the pool lost; the answers are those of the local file, and the rates stand beside it."""

import os
import time
import warnings

import numpy
import requests
import uproot

from harness.checks import equal
from harness.kist import Kist
from harness.suite import needs

# A tenth of what `make hunt-clients` reads.
BYTES = int(os.environ.get("KIST_UPROOT_BYTES", 10**8))
BRANCHES = {"run": "i4", "event": "i8", "energy": "f8", "x": "f8", "y": "f8", "z": "f8", "time": "f8", "charge": "f4", "cell": "i4"}
ENTRY_BYTES = sum(numpy.dtype(kind).itemsize for kind in BRANCHES.values())
# Entries of a basket of each branch: half of a tree is every second run of so many.
STEP = 125_000


def write(path):
    """Writes the tree; numbers are at random, so that they compress little."""
    random = numpy.random.default_rng(1)
    with uproot.recreate(path, compression=None) as file:
        tree = file.mktree("events", {name: numpy.dtype(kind) for name, kind in BRANCHES.items()})
        for at in range(0, BYTES // ENTRY_BYTES, STEP):
            tree.extend({name: numbers(random, name, kind, at) for name, kind in BRANCHES.items()})


def numbers(random, name, kind, at):
    if name == "event":
        return numpy.arange(at, at + STEP)
    if kind.startswith("i"):
        return random.integers(0, 1 << 30, STEP, dtype=kind)
    return random.random(STEP, dtype=kind)


def read(where, part, **how):
    """Reads the whole tree or half of its entries; gives a sum for each branch, bytes, and seconds."""
    started = time.monotonic()
    sums, count = dict.fromkeys(BRANCHES, 0), 0
    with uproot.open(where, **how) as file:
        tree = file["events"]
        for begin in range(0, tree.num_entries, STEP * (1 if part == "all" else 2)):
            arrays = tree.arrays(entry_start=begin, entry_stop=begin + STEP, library="np")
            for name, values in arrays.items():
                # The bits themselves are summed: the same to the last one, or not the same.
                sums[name] = (sums[name] + int(values.view(f"u{values.itemsize}").sum(dtype="u8"))) % 2**64
                count += values.nbytes
    return sums, count, time.monotonic() - started


@needs("kist")
def test_whole_and_half_over_ranges(place):
    warnings.filterwarnings("ignore", module="uproot")
    local = place.directory / "events.root"
    write(local)
    equal(local.stat().st_size >= BYTES * 0.95, True, "the size of the tree")
    server = Kist(place.directory / "kist")
    server.start()
    try:
        compare(place, server, local)
    finally:
        server.stop()


def compare(place, server, local):
    """Reads it from everywhere and shows the rates."""
    s3, bucket = place.client(server, signature_version="s3v4"), place.bucket(server)
    with local.open("rb") as file:
        started = time.monotonic()
        put = requests.put(data_url(server, bucket), data=file, headers=bearer(server), timeout=600)
        equal(put.status_code, 201, put.text)
        shown = [f"put {rate(local.stat().st_size, time.monotonic() - started)}"]
    wanted = {}
    for part in ("all", "half"):
        sums, count, seconds = read(local, part)
        wanted[part] = sums
        shown.append(f"local file, {part}: {rate(count, seconds)}")

    def everywhere(state):
        presigned = s3.generate_presigned_url("get_object", Params={"Bucket": bucket, "Key": "events.root"})
        doors = {"/data": (data_url(server, bucket), {"client_kwargs": {"headers": bearer(server)}}), "S3": (presigned, {})}
        for part in ("all", "half"):
            for door, (url, how) in doors.items():
                if (part, door) == ("all", "S3") and state != "pool":
                    continue
                sums, count, seconds = read({url: None}, part, **how)
                equal(sums, wanted[part], f"{state}, {part}, {door}")
                shown.append(f"{state}, {door}, {part}: {rate(count, seconds)}")

    everywhere("pool")
    path = f"/{bucket}/events.root"
    server.command("migrate", "--now").exits()
    server.command("wait").exits()
    server.command("evict", path).exits()
    equal(requests.get(data_url(server, bucket), headers=bearer(server), timeout=60).status_code, 409, "GET of what is on tape only")
    started = time.monotonic()
    server.command("stage", "--wait", path).exits()
    shown.append(f"recall: {rate(local.stat().st_size, time.monotonic() - started)}")
    everywhere("recalled")
    server.lose_drives(2)
    everywhere("two drives lost")
    server.return_drives(2)
    print("\n".join(f"        {line}" for line in shown))


def data_url(server, bucket):
    return f"{server.url}/data/{bucket}/events.root"


def bearer(server):
    return {"Authorization": f"Bearer {server.key}"}


def rate(count, seconds):
    return f"{count / seconds / 1e6:,.0f} MB/s"
