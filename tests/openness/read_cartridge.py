#!/usr/bin/env python3
"""Reads everything from a virtual cartridge of Kist, without Kist.

Written from docs/format/virtual-cartridge.md and the LTFS format specification; it shares no code with Kist
and needs only Python (3.9 or later) and GNU tar. It is the proof that an archive can be read in thirty years.

    read_cartridge.py CARTRIDGE_DIR OUT_DIR [--verify]
    read_cartridge.py --list CARTRIDGE_DIR

The first form restores the archived tree into OUT_DIR, which must be empty or absent, and prints a JSON
summary; it exits with 1 if anything was wrong. --verify also checks the CRC-32C of every large record, which
is slow in Python; the Adler-32 of every file is always checked. The second form lists the objects on tape as
JSON lines.

Of several versions of a file the newest gets the name, the others `name~<file id>`. Warnings tell what is
unusual but lost nothing that an index names: objects behind the last index, or an index partition that is
older than the data partition.
"""

import argparse
import base64
import bisect
import json
import os
import shutil
import struct
import subprocess
import sys
import tarfile
import unicodedata
import urllib.parse
import xml.etree.ElementTree as ElementTree
import zlib

FRAMES_START = 12288
HEADER = 64
RECORD, FILE_MARK, DAMAGED, ENCRYPTED = 1, 2, 3, 4
# What an encrypted record takes beside its bytes: which key, nonce and tag.
SEALED = 80
SMALL_RECORD = 4096
COPY_BYTES = 1 << 20
INDEX_HEAD = b"<ltfsindex"


class Wrong(Exception):
    """Something on the cartridge is not as it should be."""


def crc_table():
    table = []
    for value in range(256):
        for _ in range(8):
            value = (value >> 1) ^ (0x82F63B78 if value & 1 else 0)
        table.append(value)
    return table


CRC_TABLE = crc_table()


def crc32c(data):
    crc, table = 0xFFFFFFFF, CRC_TABLE
    for byte in data:
        crc = table[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    return crc ^ 0xFFFFFFFF


def sealed(block):
    return len(block) == 64 and struct.unpack_from("<I", block, 60)[0] == crc32c(block[:60])


class Partition:
    """The record file of one partition: where each object is, and its bytes."""

    def __init__(self, directory, letter, vid, verify):
        self.letter, self.vid, self.verify = letter, vid, verify
        self.path = os.path.join(directory, f"partition-{letter}.rec")
        self.file = open(self.path, "rb")
        self.size = os.fstat(self.file.fileno()).st_size
        self.offsets, self.lengths, self.kinds, self.crcs = [], [], bytearray(), []
        self.read_head()
        self.read_frames()
        self.marks = [n for n, kind in enumerate(self.kinds) if kind == FILE_MARK]

    def at(self, offset, length):
        return os.pread(self.file.fileno(), length, offset)

    def read_head(self):
        head = self.at(0, 64)
        if head[:8] != b"KISTTREC" or not sealed(head):
            raise Wrong(f"{self.path}: not a record file, or its head is damaged")
        version, letter, vid = struct.unpack_from("<IB3x6s", head, 8)
        if version != 1:
            raise Wrong(f"{self.path}: unknown version {version}")
        if chr(letter) != self.letter or vid != self.vid.encode():
            raise Wrong(f"{self.path}: belongs to {vid!r} partition {chr(letter)}")
        best = None
        for page in (4096, 8192):
            mark = self.at(page, 64)
            if mark[:4] == b"KMRK" and sealed(mark):
                counter, _cuts, objects, end, _payload = struct.unpack_from("<5Q", mark, 8)
                if best is None or counter > best[0]:
                    best = (counter, objects, end)
        if best is None:
            raise Wrong(f"{self.path}: both durable marks are damaged")
        self.durable_objects, self.durable_end = best[1], best[2]

    def header(self, offset):
        """The frame header at an offset, or None."""
        block = self.at(offset, HEADER)
        if block[:4] != b"KREC" or not sealed(block):
            return None
        version, kind, _flags, length, crc, number, own, _before, vid, letter = struct.unpack_from(
            "<HBBIIQQQ6sB", block, 4
        )
        if version != 1 and (version, kind) != (2, ENCRYPTED):
            raise Wrong(f"{self.path}: frame of unknown version {version} at byte {offset}")
        if own != offset or vid != self.vid.encode() or chr(letter) != self.letter:
            return None
        return kind, length, crc, number

    def read_frames(self):
        offset = FRAMES_START
        while True:
            number = len(self.offsets)
            found = self.header(offset)
            if found is None or found[3] != number:
                if number >= self.durable_objects:
                    return
                offset = self.skip_damage(number, offset)
                continue
            kind, length, crc, _ = found
            stored = length + SEALED if kind == ENCRYPTED else length
            end = offset + HEADER + (stored + 7) // 8 * 8
            if number >= self.durable_objects:
                # Behind the durable mark a frame counts only if all of it is there.
                payload = self.at(offset + HEADER, end - offset - HEADER)
                whole = len(payload) == end - offset - HEADER and not any(payload[stored:])
                if not whole or crc32c(payload[:stored]) != crc:
                    return
            self.offsets.append(offset)
            self.lengths.append(length)
            self.kinds.append(kind)
            self.crcs.append(crc)
            offset = end

    def skip_damage(self, number, start):
        """Takes durable objects without an intact header as damaged; returns where the next intact one is."""
        offset, after, limit = start + 8, self.durable_objects, min(self.durable_end, self.size)
        found = None
        while found is None and offset + HEADER <= limit:
            window = self.at(offset, min(COPY_BYTES, limit - offset))
            at = window.find(b"KREC")
            while at >= 0 and found is None:
                frame = self.header(offset + at) if (offset + at) % 8 == 0 else None
                if frame and number < frame[3] < self.durable_objects:
                    found, after = offset + at, frame[3]
                at = window.find(b"KREC", at + 1)
            offset += max(len(window) - 8, 8)
        for _ in range(number, after):
            self.offsets.append(start)
            self.lengths.append(0)
            self.kinds.append(DAMAGED)
            self.crcs.append(0)
        return self.durable_end if found is None else found

    def __len__(self):
        return len(self.offsets)

    def check(self, number):
        if not 0 <= number < len(self):
            raise Wrong(f"partition {self.letter}: there is no object {number}")

    def is_mark(self, number):
        return 0 <= number < len(self) and self.kinds[number] == FILE_MARK

    def record(self, number):
        self.check(number)
        if self.kinds[number] == DAMAGED:
            raise Wrong(f"partition {self.letter}: object {number} is damaged")
        if self.kinds[number] == ENCRYPTED:
            head = self.at(self.offsets[number] + HEADER, 64)
            key = head[16 : 16 + min(head[1], 32)].decode("utf-8", "replace")
            raise Wrong(f"partition {self.letter}: record {number} is encrypted, with the key '{key}'")
        if self.kinds[number] != RECORD:
            raise Wrong(f"partition {self.letter}: object {number} is a file mark, a record was expected")
        length = self.lengths[number]
        data = self.at(self.offsets[number] + HEADER, length)
        if len(data) != length:
            raise Wrong(f"partition {self.letter}: record {number} is cut short")
        if (self.verify or length <= SMALL_RECORD) and crc32c(data) != self.crcs[number]:
            raise Wrong(f"partition {self.letter}: record {number} has a wrong CRC-32C")
        return data

    def group(self, start):
        """The records from `start` up to the next file mark, joined, and that mark's number (or None)."""
        after = bisect.bisect_left(self.marks, start)
        end = self.marks[after] if after < len(self.marks) else None
        last = end if end is not None else len(self)
        return b"".join(self.record(number) for number in range(start, last)), end


def plain(tag):
    return tag.rsplit("}", 1)[-1]


def child(element, name):
    for one in element:
        if plain(one.tag) == name:
            return one
    return None


def text(element, name, default=None):
    one = child(element, name)
    if one is None:
        if default is None:
            raise Wrong(f"<{plain(element.tag)}> lacks <{name}>")
        return default
    value = one.text or ""
    return urllib.parse.unquote(value) if one.get("percentencoded") == "true" else value


def number(element, name):
    value = text(element, name)
    if not value.strip().isdigit():
        raise Wrong(f"<{name}> is not a number: {value!r}")
    return int(value)


def parse_xml(data, root):
    try:
        element = ElementTree.fromstring(data)
    except ElementTree.ParseError as error:
        raise Wrong(f"{root}: {error}") from error
    if plain(element.tag) != root:
        raise Wrong(f"expected <{root}>, found <{plain(element.tag)}>")
    if not element.get("version", "").startswith("2."):
        raise Wrong(f"<{root}> has version {element.get('version')!r}")
    return element


class Index:
    def __init__(self, data, letter, block, uuid):
        self.root = parse_xml(data, "ltfsindex")
        self.generation = number(self.root, "generationnumber")
        self.at = self.position("location")
        self.previous = self.position("previousgenerationlocation")
        if self.at != (letter, block):
            raise Wrong(f"the index at {letter}:{block} says that it stands at {self.at}")
        if text(self.root, "volumeuuid") != uuid:
            raise Wrong(f"the index at {letter}:{block} belongs to another volume")

    def position(self, name):
        element = child(self.root, name)
        return None if element is None else (text(element, "partition"), number(element, "startblock"))


class Volume:
    """Labels and indexes of both partitions."""

    def __init__(self, partitions, vid):
        self.partitions, self.warnings = partitions, []
        labels = {letter: self.label(letter, vid) for letter in "ab"}
        for field in ("volumeuuid", "blocksize", "formattime", "creator", "compression"):
            if text(labels["a"], field) != text(labels["b"], field):
                raise Wrong(f"the LTFS labels of the partitions differ in <{field}>")
        self.uuid = text(labels["a"], "volumeuuid")
        self.block_size = number(labels["a"], "blocksize")
        self.indexes = 0
        self.newest = self.find_newest()

    def label(self, letter, vid):
        part = self.partitions[letter]
        volume = part.record(0)
        if len(volume) != 80 or volume[:4] != b"VOL1" or volume[24:28] != b"LTFS" or volume[79:] != b"4":
            raise Wrong(f"partition {letter}: no VOL1 label of LTFS")
        if volume[4:10].decode("ascii", "replace") != vid:
            raise Wrong(f"partition {letter}: the VOL1 label names {volume[4:10]!r}")
        if not part.is_mark(1) or not part.is_mark(3):
            raise Wrong(f"partition {letter}: file marks are missing around the LTFS label")
        label = parse_xml(part.record(2), "ltfslabel")
        if text(child(label, "location"), "partition") != letter:
            raise Wrong(f"partition {letter}: the LTFS label is the other partition's")
        roles = child(label, "partitions")
        if (text(roles, "index"), text(roles, "data")) != ("a", "b"):
            raise Wrong("the LTFS label gives the partitions other roles")
        return label

    def index_at(self, letter, block):
        part = self.partitions[letter]
        if not part.is_mark(block - 1):
            raise Wrong(f"index at {letter}:{block}: no file mark before it")
        data, end = part.group(block)
        if end is None:
            raise Wrong(f"index at {letter}:{block}: no file mark behind it")
        return Index(data, letter, block, self.uuid), end

    def last_index(self, letter):
        """The last whole index of a partition; data that looks like one does not deceive its self pointer."""
        part = self.partitions[letter]
        for end, mark in zip(reversed(part.marks[1:]), reversed(part.marks[:-1])):
            try:
                if end == mark + 1 or INDEX_HEAD not in part.record(mark + 1)[:1024]:
                    continue
                index, end = self.index_at(letter, mark + 1)
            except Wrong as error:
                self.warnings.append(str(error))
                continue
            if end != len(part) - 1:
                behind = len(part) - 1 - end
                self.warnings.append(f"partition {letter}: {behind} objects behind the last index")
            return index
        return None

    def find_newest(self):
        on_index, on_data = self.last_index("a"), self.last_index("b")
        if on_data is None:
            raise Wrong("the data partition holds no index")
        if on_index is None:
            self.warnings.append("the index partition holds no index")
        elif on_index.generation > on_data.generation:
            raise Wrong("the index partition's index is newer than any of the data partition")
        elif on_index.generation == on_data.generation and on_index.previous != on_data.at:
            raise Wrong(f"the last index points back to {on_index.previous}, not to {on_data.at}")
        elif on_index.generation < on_data.generation:
            self.warnings.append("the index partition is older than the data partition")
        self.indexes = 1 + (on_index is not None)
        older = on_data
        while older.previous is not None:
            letter, block = older.previous
            if letter != "b" or block >= older.at[1]:
                raise Wrong(f"index {older.generation} points back to {older.previous}")
            previous, _ = self.index_at(letter, block)
            if previous.generation >= older.generation:
                raise Wrong(f"index {older.generation} points back to index {previous.generation}")
            older = previous
            self.indexes += 1
        return on_data

    def read_extents(self, element, length, out):
        """Writes a file's bytes to `out`, in the order of the file, and returns their Adler-32."""
        listed = child(element, "extentinfo")
        extents = []
        for one in listed if listed is not None else []:
            names = ("fileoffset", "startblock", "byteoffset", "bytecount")
            offset, block, skip, count = (number(one, name) for name in names)
            extents.append((offset, text(one, "partition"), block, skip, count))
        adler, at = 1, 0
        for offset, letter, block, skip, count in sorted(extents):
            fits = at <= offset and offset + count <= length and skip < self.block_size
            if not fits or letter not in self.partitions:
                raise Wrong("impossible extent")
            adler = self.zeros(out, offset - at, adler)
            at = offset + count
            while count > 0:
                data = self.partitions[letter].record(block)
                if len(data) > self.block_size or (len(data) < self.block_size and len(data) - skip < count):
                    raise Wrong(f"partition {letter}: record {block} has {len(data)} bytes within an extent")
                piece = data[skip:skip + count]
                out.write(piece)
                adler = zlib.adler32(piece, adler)
                count, block, skip = count - len(piece), block + 1, 0
        return self.zeros(out, length - at, adler)

    @staticmethod
    def zeros(out, count, adler):
        while count > 0:
            piece = bytes(min(count, COPY_BYTES))
            out.write(piece)
            adler = zlib.adler32(piece, adler)
            count -= len(piece)
        return adler


def xattrs(element):
    found = {}
    listed = child(element, "extendedattributes")
    for one in listed if listed is not None else []:
        value = child(one, "value")
        raw = value.text or "" if value is not None else ""
        is_base64 = value is not None and value.get("type") == "base64"
        found[text(one, "key")] = base64.b64decode(raw) if is_base64 else raw.encode()
    return found


def walk(directory, path):
    """All files and empty directories below a directory element, as (path, element)."""
    stack = [(directory, path)]
    while stack:
        element, path = stack.pop()
        contents = child(element, "contents")
        if path and (contents is None or len(contents) == 0):
            yield path, element
        for one in contents if contents is not None else []:
            below = path + [text(one, "name")]
            if plain(one.tag) == "directory":
                stack.append((one, below))
            elif plain(one.tag) == "file":
                yield below, one


def refused(name):
    """Whether an LTFS program may refuse a decoded name, and the volume with it (docs/format/tape.md, section 5)."""
    strange = any(unicodedata.category(c) == "Cc" or c in "\ufeff\ufffe\uffff" for c in name)
    return strange or len(name.encode()) > 255 or unicodedata.normalize("NFC", name) != name


def safe(parts):
    for part in parts:
        if part in ("", ".", "..") or "/" in part or "\0" in part:
            raise Wrong(f"illegal name in path {parts!r}")
    return parts


def adler_of(path):
    adler = 1
    with open(path, "rb") as file:
        while piece := file.read(COPY_BYTES):
            adler = zlib.adler32(piece, adler)
    return adler


def compare_adler(what, stated, found):
    if stated and stated.lower().zfill(8) != f"{found:08x}":
        raise Wrong(f"{what}: Adler-32 is {found:08x}, should be {stated}")


class Restore:
    """Stages every file below OUT_DIR/.kist/staging, then moves each to its archive path."""

    def __init__(self, out):
        self.out = out
        self.staging = os.path.join(out, ".kist", "staging")
        os.makedirs(self.staging)
        self.staged, self.packs, self.unpacked = [], [], 0
        self.errors, self.warnings = [], []

    def staging_path(self):
        return os.path.join(self.staging, f"{len(self.staged) + len(self.packs) + self.unpacked:08d}")

    def attempt(self, what, action, *arguments):
        try:
            action(*arguments)
        except (Wrong, OSError, tarfile.TarError, ValueError) as error:
            self.errors.append(f"{what}: {error}")

    def stage(self, volume, path, element):
        attributes = xattrs(element)
        exact = attributes.get("kist.path")
        # A part of a file that is larger than a tape keeps its name: `cat` joins them.
        whole = exact and "kist.segment_offset" not in attributes
        target = safe(exact.decode().lstrip("/").split("/") if whole else path)
        self.warnings += [f"other programs may refuse the name {name!r}" for name in path if refused(name)]
        if plain(element.tag) == "directory":
            os.makedirs(os.path.join(self.out, *target), exist_ok=True)
            return
        link = child(element, "symlink")
        staged = self.staging_path()
        size = 0
        if link is not None:
            os.symlink(text(element, "symlink"), staged)
        else:
            size = number(element, "length")
            with open(staged, "wb") as file:
                adler = volume.read_extents(element, size, file)
            compare_adler("/".join(path), attributes.get("kist.adler32", b"").decode(), adler)
            mode = attributes.get("kist.mode")
            os.chmod(staged, int(mode, 8) & 0o7777 if mode else 0o644)
            if "kist.mtime" in attributes:
                mtime = int(attributes["kist.mtime"])
                os.utime(staged, ns=(mtime, mtime))
        identity = int(attributes.get("kist.file_id", b"0"))
        is_pack = path[:2] == [".kist", "packs"] and len(path) == 3 and path[2].endswith(".tar")
        if is_pack:
            self.packs.append(path)
            place = os.path.join(self.out, *path)
            os.makedirs(os.path.dirname(place), exist_ok=True)
            os.rename(staged, place)
        else:
            self.staged.append((target, identity, staged, size, target[0] != ".kist"))

    def unpack(self, path):
        tar = os.path.join(self.out, *path)
        into = self.staging_path() + ".pack"
        os.makedirs(into)
        self.unpacked += 1
        options = ["--no-same-owner", "--warning=no-unknown-keyword"]
        done = subprocess.run(["tar", "-x", *options, "-f", tar, "-C", into], capture_output=True, text=True)
        if done.returncode != 0:
            raise Wrong(f"tar: {done.stderr.strip()}")
        with tarfile.open(tar, "r:") as members:
            for member in members:
                self.attempt(f"{path[2]}: {member.name}", self.stage_member, into, member)

    def stage_member(self, into, member):
        pax = member.pax_headers
        staged = os.path.join(into, *safe(member.name.strip("/").split("/")))
        exact = pax.get("KIST.path")
        target = safe((exact or member.name).strip("/").split("/"))
        if member.isdir():
            os.makedirs(os.path.join(self.out, *target), exist_ok=True)
            return
        if member.isfile():
            if os.path.getsize(staged) != member.size:
                raise Wrong("tar extracted another length")
            compare_adler(member.name, pax.get("KIST.adler32"), adler_of(staged))
        elif not os.path.islink(staged):
            raise Wrong("tar extracted nothing")
        is_file = "KIST.file_id" in pax or "KIST.container" not in pax
        self.staged.append((target, int(pax.get("KIST.file_id", "0")), staged, member.size, is_file))

    def place(self):
        """Moves all to their paths: of several versions the newest gets the name, the others `~<file id>`."""
        files = size = 0
        taken, versions = set(), set()
        self.staged.sort(key=lambda one: (one[0], -one[1]))
        for target, identity, staged, length, counts in self.staged:
            if identity and (tuple(target), identity) in versions:
                self.warnings.append(f"{'/'.join(target)}: file {identity} stands on the tape twice")
                continue
            versions.add((tuple(target), identity))
            if tuple(target) in taken:
                target = target[:-1] + [f"{target[-1]}~{identity}"]
            try:
                self.move(staged, target)
            except OSError as error:
                # A file has the name of a directory of another, which was there at another time.
                target = [".kist", "files", f"{identity:016x}"]
                self.attempt(f"{'/'.join(target)} ({error})", self.move, staged, target)
            taken.add(tuple(target))
            files += counts
            size += length if counts else 0
        shutil.rmtree(self.staging)
        return files, size

    def move(self, staged, target):
        place = os.path.join(self.out, *target)
        os.makedirs(os.path.dirname(place), exist_ok=True)
        if os.path.lexists(place):
            raise FileExistsError("the path is taken")
        os.rename(staged, place)


def open_cartridge(directory, verify):
    vid = os.path.basename(os.path.abspath(directory))
    path = os.path.join(directory, "cartridge.kist")
    with open(path, "rb") as file:
        identity = file.read()
    if identity[:8] != b"KISTCART" or not sealed(identity):
        raise Wrong(f"{path}: not a cartridge, or damaged")
    if struct.unpack_from("<I", identity, 8)[0] != 1:
        raise Wrong(f"{path}: unknown version")
    if identity[16:22] != vid.encode():
        raise Wrong(f"{path}: belongs to {identity[16:22]!r}, not to {vid}")
    return {letter: Partition(directory, letter, vid, verify) for letter in "ab"}, vid


def restore(directory, out, verify):
    summary = {"files": 0, "packs": 0, "bytes": 0, "indexes": 0, "generation": None}
    summary.update(warnings=[], errors=[])
    try:
        os.makedirs(out, exist_ok=True)
        if os.listdir(out):
            raise Wrong(f"{out} is not empty")
        partitions, vid = open_cartridge(directory, verify)
        volume = Volume(partitions, vid)
        summary.update(indexes=volume.indexes, generation=volume.newest.generation, warnings=volume.warnings)
        work = Restore(out)
        for path, element in walk(child(volume.newest.root, "directory"), []):
            work.attempt("/".join(path), work.stage, volume, path, element)
        for path in work.packs:
            work.attempt("/".join(path), work.unpack, path)
        summary["files"], summary["bytes"] = work.place()
        summary["packs"] = len(work.packs)
        summary["warnings"] += work.warnings
        summary["errors"] = work.errors
    except (Wrong, OSError, ValueError) as error:
        summary["errors"].append(str(error))
    return summary


def list_objects(directory):
    partitions, _ = open_cartridge(directory, True)
    for letter, part in partitions.items():
        for block in range(len(part)):
            row = {"partition": letter, "block": block, "offset": part.offsets[block]}
            if part.kinds[block] == FILE_MARK:
                row["kind"] = "file mark"
            elif part.kinds[block] == DAMAGED:
                row["kind"] = "damaged"
            else:
                row.update(kind="record", length=part.lengths[block], crc32c=f"{part.crcs[block]:08x}")
                part.record(block)
            print(json.dumps(row))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cartridge", metavar="CARTRIDGE_DIR")
    parser.add_argument("out", metavar="OUT_DIR", nargs="?")
    parser.add_argument("--verify", action="store_true", help="check the CRC-32C of large records too")
    parser.add_argument("--list", action="store_true", help="list the objects on tape instead")
    arguments = parser.parse_args()
    if arguments.list:
        try:
            list_objects(arguments.cartridge)
        except (Wrong, OSError) as error:
            sys.exit(str(error))
        return
    if arguments.out is None:
        parser.error("OUT_DIR is missing")
    summary = restore(arguments.cartridge, arguments.out, arguments.verify)
    print(json.dumps(summary, indent=2, ensure_ascii=False))
    sys.exit(1 if summary["errors"] else 0)


if __name__ == "__main__":
    main()
