#!/usr/bin/env python3
"""Tests read_cartridge.py on cartridges written here from the documentation: run it with python3."""

import base64
import io
import json
import os
import struct
import subprocess
import sys
import tarfile
import tempfile
import unittest
import zlib

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
from read_cartridge import FRAMES_START, crc32c  # noqa: E402

VID, UUID, BLOCK = "KP0001", "30a91a08-daae-48d1-ae75-69804e61d2ea", 4096
TIME = "2026-01-02T03:04:05.000000000Z"


def seal(block):
    block = block.ljust(60, b"\0")
    return block + struct.pack("<I", crc32c(block))


class Tape:
    """Writes one record file."""

    def __init__(self, letter):
        self.letter, self.frames, self.count, self.payload = letter, b"", 0, 0

    def put(self, kind, data):
        offset = FRAMES_START + len(self.frames)
        head = struct.pack(
            "<4sHBBIIQQQ6ss", b"KREC", 1, kind, 0, len(data), crc32c(data), self.count, offset, self.payload,
            VID.encode(), self.letter.encode(),
        )
        self.frames += seal(head) + data + b"\0" * (-len(data) % 8)
        self.count += 1
        self.payload += len(data)

    def mark(self, count=1):
        for _ in range(count):
            self.put(2, b"")

    def write(self, data):
        """Writes blocks and returns the first one's number."""
        first = self.count
        for at in range(0, len(data), BLOCK):
            self.put(1, data[at:at + BLOCK])
        return first

    def save(self, directory):
        head = seal(struct.pack("<8sIs3x6s", b"KISTTREC", 1, self.letter.encode(), VID.encode()))
        end = FRAMES_START + len(self.frames)
        letter, vid = self.letter.encode(), VID.encode()
        mark = struct.pack("<4sHs1x5Q6s", b"KMRK", 1, letter, 3, 0, self.count, end, self.payload, vid)
        pages = b"".join(page.ljust(4096, b"\0") for page in (head, b"", seal(mark)))
        with open(os.path.join(directory, f"partition-{self.letter}.rec"), "wb") as file:
            file.write(pages + self.frames)


def label(tape):
    tape.put(1, f"VOL1{VID}L{'':13}{'LTFS':13}{'Kist':14}{'':28}4".encode())
    tape.mark()
    tape.put(1, f'''<?xml version="1.0" encoding="UTF-8"?><ltfslabel version="2.4.0"><creator>test</creator>
        <formattime>{TIME}</formattime><volumeuuid>{UUID}</volumeuuid>
        <location><partition>{tape.letter}</partition></location>
        <partitions><index>a</index><data>b</data></partitions>
        <blocksize>{BLOCK}</blocksize><compression>false</compression></ltfslabel>'''.encode())
    tape.mark()


def position(name, at):
    return f"<{name}><partition>{at[0]}</partition><startblock>{at[1]}</startblock></{name}>" if at else ""


def index(tape, generation, previous, tree):
    """Writes an index construct and returns where the index starts."""
    tape.mark()
    at = (tape.letter, tape.count)
    tape.write(f'''<?xml version="1.0" encoding="UTF-8"?><ltfsindex version="2.4.0"><creator>test</creator>
        <volumeuuid>{UUID}</volumeuuid><generationnumber>{generation}</generationnumber>
        <updatetime>{TIME}</updatetime>{position("location", at)}
        {position("previousgenerationlocation", previous)}
        <directory><fileuid>1</fileuid><name>{VID}</name><contents>{tree}</contents></directory>
        </ltfsindex>'''.encode())
    tape.mark()
    return at


def directory(name, inside):
    return f"<directory><name>{name}</name><contents>{inside}</contents></directory>"


def file(name, length, extents=(), link=None, **attributes):
    pairs = "".join(f"<xattr><key>kist.{k}</key><value>{v}</value></xattr>" for k, v in attributes.items())
    listed = "".join(
        f"<extent><fileoffset>{offset}</fileoffset><partition>b</partition><startblock>{block}</startblock>"
        f"<byteoffset>{skip}</byteoffset><bytecount>{count}</bytecount></extent>"
        for offset, block, skip, count in extents
    )
    symlink = f'<symlink percentencoded="true">{link}</symlink>' if link else ""
    return (f'<file><name percentencoded="true">{name}</name><length>{length}</length>'
            f"<extendedattributes>{pairs}</extendedattributes>"
            f"<extentinfo>{listed}</extentinfo>{symlink}</file>")


def adler(data):
    return f"{zlib.adler32(data):08x}"


def pack(members):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, data, pax in members:
            info = tarfile.TarInfo(name)
            info.size, info.pax_headers = len(data), {"KIST.adler32": adler(data), **pax}
            tar.addfile(info, io.BytesIO(data))
    return out.getvalue()


BIG = bytes(range(256)) * 40 + b"tail"
SMALL = b"small file"


def build(parent, wrong_adler=False, more=""):
    """A volume of two generations; returns the cartridge's directory and the block of the big file."""
    a, b = Tape("a"), Tape("b")
    label(a)
    label(b)
    first = index(b, 1, None, "")
    big = b.write(BIG)
    shared = b.write(b"xxxx" + SMALL + b"yyyy")
    old = b.write(b"old version")
    members = [
        (".kist/pack-7.manifest", b"manifest", {"KIST.container": "7"}),
        ("data/m1", b"member one", {"KIST.file_id": "11"}),
        ("data/m2~13", b"member two, newer", {"KIST.file_id": "13", "KIST.path": "/data/m2"}),
        ("data/m2", b"member two", {"KIST.file_id": "12"}),
    ]
    tar = pack(members)
    packed = b.write(tar)
    stated = "00000000" if wrong_adler else adler(BIG)
    files = (
        file("big", len(BIG), [(0, big, 0, len(BIG))], adler32=stated, file_id=5)
        + file("small%3A", 4 + len(SMALL), [(4, shared, 4, len(SMALL))], adler32=adler(bytes(4) + SMALL))
        + file("name~3", 11, [(0, old, 0, 11)], path="/data/big", file_id=3)
        + file("again", 11, [(0, old, 0, 11)], path="/data/big", file_id=3)
        + file("link", 0, link="big")
        + file("empty", 0, mtime=1_000_000_000_000_000_001, mode="640")
        + more
    )
    packs = file("0000000000000007.tar", len(tar), [(0, packed, 0, len(tar))], adler32=adler(tar))
    tree = directory("data", files + directory("void", "")) + directory(".kist", directory("packs", packs))
    second = index(b, 2, first, tree)
    index(a, 2, second, tree)
    path = os.path.join(parent, VID)
    os.mkdir(path)
    identity = struct.pack("<8sII6s2xQQQQ", b"KISTCART", 1, 0, VID.encode(), 1 << 20, 1 << 30, 0, 0)
    with open(os.path.join(path, "cartridge.kist"), "wb") as out:
        out.write(seal(identity))
    a.save(path)
    b.save(path)
    return path, big


def keep_objects(path, letter, count):
    """Cuts a partition behind its first objects, as a write that failed leaves it."""
    name = os.path.join(path, f"partition-{letter}.rec")
    with open(name, "rb") as file:
        data = file.read()
    end = FRAMES_START
    for _ in range(count):
        end += 64 + (struct.unpack_from("<I", data, end + 8)[0] + 7) // 8 * 8
    mark = seal(struct.pack("<4sHs1x5Q6s", b"KMRK", 1, letter.encode(), 4, 0, count, end, 0, VID.encode()))
    with open(name, "wb") as file:
        file.write(data[:8192] + mark.ljust(4096, b"\0") + data[FRAMES_START:end])


def flip(path, offset):
    with open(path, "r+b") as file:
        file.seek(offset)
        byte = file.read(1)[0]
        file.seek(offset)
        file.write(bytes([byte ^ 1]))


class Openness(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        self.addCleanup(self.scratch.cleanup)
        self.out = os.path.join(self.scratch.name, "out")

    def run_tool(self, path, *options):
        command = [sys.executable, os.path.join(HERE, "read_cartridge.py"), path, self.out, *options]
        done = subprocess.run(command, capture_output=True, text=True)
        self.assertIn(done.returncode, (0, 1), done.stderr)
        summary = json.loads(done.stdout)
        self.assertEqual(done.returncode, 1 if summary["errors"] else 0)
        return summary

    def content(self, name):
        with open(os.path.join(self.out, name), "rb") as file:
            return file.read()

    def test_everything_is_restored(self):
        path, _ = build(self.scratch.name)
        summary = self.run_tool(path, "--verify")
        sizes = len(BIG) + 4 + len(SMALL) + 11 + 10 + 17 + 10
        self.assertEqual(summary, {"files": 8, "packs": 1, "bytes": sizes, "indexes": 3, "generation": 2,
                                   "warnings": ["data/big: file 3 stands on the tape twice"], "errors": []})
        self.assertEqual(self.content("data/big"), BIG)
        self.assertEqual(self.content("data/big~3"), b"old version")
        self.assertEqual(self.content("data/small:"), bytes(4) + SMALL)
        self.assertEqual(self.content("data/m1"), b"member one")
        self.assertEqual(self.content("data/m2"), b"member two, newer")
        self.assertEqual(self.content("data/m2~12"), b"member two")
        self.assertEqual(os.readlink(os.path.join(self.out, "data/link")), "big")
        empty = os.stat(os.path.join(self.out, "data/empty"))
        self.assertEqual((empty.st_size, empty.st_mode & 0o777), (0, 0o640))
        self.assertEqual(empty.st_mtime_ns, 1_000_000_000_000_000_001)
        self.assertTrue(os.path.isdir(os.path.join(self.out, "data/void")))
        self.assertFalse(os.path.exists(os.path.join(self.out, ".kist/staging")))

    def test_a_name_that_others_refuse_is_read_and_told(self):
        exact = base64.b64encode("/data/x\ufffe".encode()).decode()
        xattr = f'<xattr><key>kist.path</key><value type="base64">{exact}</value></xattr>'
        strange = file("x%EF%BF%BE", 0).replace("<extendedattributes>", "<extendedattributes>" + xattr)
        path, _ = build(self.scratch.name, more=strange)
        summary = self.run_tool(path)
        self.assertEqual(summary["errors"], [])
        self.assertIn("other programs may refuse the name 'x\\ufffe'", summary["warnings"])
        self.assertEqual(self.content("data/x\ufffe"), b"")

    def test_wrong_adler_is_an_error_and_the_rest_is_restored(self):
        path, _ = build(self.scratch.name, wrong_adler=True)
        summary = self.run_tool(path)
        self.assertEqual(len(summary["errors"]), 1)
        self.assertIn("Adler-32", summary["errors"][0])
        self.assertEqual(self.content("data/m1"), b"member one")

    def test_damage_in_header_or_payload_is_an_error_and_the_rest_is_restored(self):
        for within in (3, 100):
            with tempfile.TemporaryDirectory() as scratch:
                path, big = build(scratch)
                self.out = os.path.join(scratch, "out")
                command = [sys.executable, os.path.join(HERE, "read_cartridge.py"), "--list", path]
                listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
                rows = [json.loads(line) for line in listed.splitlines()]
                target = ("b", big + 1)
                offset = next(row["offset"] for row in rows if (row["partition"], row["block"]) == target)
                flip(os.path.join(path, "partition-b.rec"), offset + within)
                summary = self.run_tool(path)
                self.assertEqual(len(summary["errors"]), 1, summary)
                self.assertEqual(self.content("data/small:"), bytes(4) + SMALL)

    def test_another_vid_is_refused(self):
        path, _ = build(self.scratch.name)
        other = os.path.join(self.scratch.name, "KP0002")
        os.rename(path, other)
        self.assertIn("belongs to", self.run_tool(other)["errors"][0])

    def list_files(self, path):
        command = [sys.executable, os.path.join(HERE, "list_files.py"), path]
        done = subprocess.run(command, capture_output=True, text=True)
        return done.returncode, done.stdout.splitlines(), done.stderr

    def test_files_are_listed_as_often_as_they_stand_there(self):
        path, _ = build(self.scratch.name)
        status, lines, errors = self.list_files(path)
        self.assertEqual((status, errors), (0, ""))
        rows = [json.loads(line) for line in lines]
        self.assertEqual(rows.pop()["read"]["files"], len(rows))
        self.assertEqual(sum(row["id"] == 3 for row in rows), 2)

    def test_a_labelling_that_was_cut_short_is_no_fault_and_a_missing_index_is_one(self):
        for letter, count, expected in (("b", 0, 3), ("b", 1, 3), ("b", 3, 3), ("b", 6, 3), ("b", 7, 0), ("a", 0, 3)):
            with tempfile.TemporaryDirectory() as scratch:
                path, _ = build(scratch)
                if letter == "b":
                    keep_objects(path, "a", 4)
                keep_objects(path, letter, count)
                status, lines, errors = self.list_files(path)
                self.assertEqual(status, expected, (letter, count, lines, errors))
        path, _ = build(self.scratch.name)
        keep_objects(path, "b", 7)
        status, _, errors = self.list_files(path)
        self.assertEqual(status, 1)
        self.assertIn("newer than any", errors)


if __name__ == "__main__":
    unittest.main()
