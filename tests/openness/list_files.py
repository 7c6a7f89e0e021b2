#!/usr/bin/env python3
"""Lists every file of a virtual cartridge of Kist, without Kist: one JSON line each with id, path and length,
in the end one with what was read for that.

    list_files.py CARTRIDGE_DIR

The labels, all indexes and every byte of every file are read and each Adler-32 compared, as by
read_cartridge.py, of which this is another form: nothing is written, and the archives of small files are
opened in memory, by Python alone. A file that stands on the tape twice is listed twice. Exits with 1 if
anything was wrong, and with 3 if the cartridge is blank or its labelling was cut short.
"""

import io
import json
import sys
import tarfile
import zlib

import read_cartridge
from read_cartridge import Wrong, compare_adler


class Nothing:
    """Where bytes go that only their checksum is wanted of."""

    @staticmethod
    def write(_piece):
        pass


class Lister:
    """Reads one file of the index after the other."""

    def __init__(self, volume):
        self.volume = volume
        self.errors = []
        self.read = {"indexes": volume.indexes, "packs": 0, "files": 0, "bytes": 0}

    def attempt(self, what, action, *arguments):
        try:
            action(*arguments)
        except (Wrong, OSError, tarfile.TarError, ValueError) as error:
            self.errors.append(f"{what}: {error}")

    def row(self, identity, path, length):
        self.read["files"] += 1
        print(json.dumps({"id": identity, "path": path, "length": length}))

    def entry(self, path, element):
        if read_cartridge.plain(element.tag) == "directory":
            return
        attributes = read_cartridge.xattrs(element)
        is_pack = path[:2] == [".kist", "packs"] and len(path) == 3 and path[2].endswith(".tar")
        exact = attributes.get("kist.path")
        target = exact.decode().lstrip("/") if exact else "/".join(path)
        size = 0
        sink = io.BytesIO() if is_pack else Nothing
        if read_cartridge.child(element, "symlink") is None:
            size = read_cartridge.number(element, "length")
            adler = self.volume.read_extents(element, size, sink)
            compare_adler(target, attributes.get("kist.adler32", b"").decode(), adler)
            self.read["bytes"] += size
        if is_pack:
            self.read["packs"] += 1
            self.pack(path[2], sink)
        elif not target.startswith(".kist/"):
            self.row(int(attributes.get("kist.file_id", b"0")), "/" + target, size)

    def pack(self, name, archive):
        data = archive.getbuffer()
        archive.seek(0)
        with tarfile.open(fileobj=archive, mode="r:") as members:
            for member in members:
                self.attempt(f"{name}: {member.name}", self.member, data, member)

    def member(self, data, member):
        pax = member.pax_headers
        if member.isdir():
            return
        if member.isfile():
            content = data[member.offset_data:member.offset_data + member.size]
            if len(content) != member.size:
                raise Wrong("the archive is cut short")
            compare_adler(member.name, pax.get("KIST.adler32"), zlib.adler32(content))
        if "KIST.file_id" in pax or "KIST.container" not in pax:
            target = (pax.get("KIST.path") or member.name).strip("/")
            self.row(int(pax.get("KIST.file_id", "0")), "/" + target, member.size)


def is_labelled(partitions):
    """A labelling writes the label and the first index to the data partition, each between two file marks, in
    one go from a formatted tape; nothing is archived before that."""
    return len(partitions["a"]) > 0 and len(partitions["b"].marks) >= 4


def main():
    (cartridge,) = sys.argv[1:]
    try:
        partitions, vid = read_cartridge.open_cartridge(cartridge, False)
        if not is_labelled(partitions):
            sys.exit(3)
        lister = Lister(read_cartridge.Volume(partitions, vid))
        root = read_cartridge.child(lister.volume.newest.root, "directory")
        for path, element in read_cartridge.walk(root, []):
            lister.attempt("/".join(path), lister.entry, path, element)
    except (Wrong, OSError, ValueError) as error:
        print(error, file=sys.stderr)
        sys.exit(1)
    for error in lister.errors:
        print(error, file=sys.stderr)
    print(json.dumps({"read": lister.read}))
    sys.exit(1 if lister.errors else 0)


if __name__ == "__main__":
    main()
