#!/usr/bin/env python3
"""Writes clusters of Kinetic drives as libkineticio does, for tests of Kist's import.

It shares no code with Kist: its own MurmurHash3, CRC-32C, GF(256) arithmetic and Cauchy matrix, the standard
library only. What it writes follows what is published about libkineticio: keys, versions, tags, placement,
padding chunks stored empty, metadata and attributes as copies.

A cluster is a directory:
  cluster.json   the three documents in one
  drives.bin     all entries; each is: u32 drive, then key, version, tag and value, each behind its u32 length
                 (big-endian), in between, before the value, i32 algorithm
  paths          one line a file: path, tab, the name of its bytes in files/
  attributes     one line an attribute: path, tab, name, tab, value
  files/         the bytes of each file

Usage: libkineticio_writer.py OUT DATA PARITY CHUNK_KIB DRIVES FIRST SIZE...
FIRST is 0 or 1: how far behind the drive of its hash a stripe begins. SIZE is bytes, or blocks as 1b, 2b+1,
1b-1.
"""

import json
import os
import random
import re
import struct
import sys

CLUSTER = "Grid"
CRC32_ALGORITHM = 6


def murmur3(data, seed=0):
    mask = 0xFFFFFFFF

    def rotl(x, r):
        return ((x << r) | (x >> (32 - r))) & mask

    h = seed
    whole = len(data) // 4 * 4
    for i in range(0, whole, 4):
        k = struct.unpack_from("<I", data, i)[0]
        k = rotl(k * 0xCC9E2D51 & mask, 15) * 0x1B873593 & mask
        h = (rotl(h ^ k, 13) * 5 + 0xE6546B64) & mask
    k = 0
    for i, byte in enumerate(data[whole:]):
        k |= byte << 8 * i
    h ^= rotl(k * 0xCC9E2D51 & mask, 15) * 0x1B873593 & mask
    h ^= len(data)
    h = (h ^ h >> 16) * 0x85EBCA6B & mask
    h = (h ^ h >> 13) * 0xC2B2AE35 & mask
    return h ^ h >> 16


def crc_tables():
    one = []
    for n in range(256):
        for _ in range(8):
            n = n >> 1 ^ (0x82F63B78 if n & 1 else 0)
        one.append(n)
    # Two bytes at a time: the loop in Python is what takes the time.
    two = [one[n & 255] >> 8 ^ one[(one[n & 255] ^ n >> 8) & 255] for n in range(65536)]
    return one, two


ONE, TWO = crc_tables()


def crc32c(data):
    crc = 0xFFFFFFFF
    even = len(data) // 2 * 2
    for (word,) in struct.iter_unpack("<H", data[:even]):
        crc = crc >> 16 ^ TWO[(crc ^ word) & 0xFFFF]
    for byte in data[even:]:
        crc = crc >> 8 ^ ONE[(crc ^ byte) & 255]
    return crc ^ 0xFFFFFFFF


def gf_mul(a, b):
    product = 0
    while b:
        if b & 1:
            product ^= a
        a <<= 1
        if a & 0x100:
            a ^= 0x11D
        b >>= 1
    return product


INVERSE = [0] * 256
for x in range(1, 256):
    if not INVERSE[x]:
        y = next(y for y in range(1, 256) if gf_mul(x, y) == 1)
        INVERSE[x], INVERSE[y] = y, x


def cauchy_row(row, data):
    """Row `row` (from `data` on) of ISA-L's gf_gen_cauchy1_matrix."""
    return [INVERSE[row ^ column] for column in range(data)]


TIMES = {}


def times(weight, chunk):
    if weight not in TIMES:
        TIMES[weight] = bytes(gf_mul(weight, value) for value in range(256))
    return chunk.translate(TIMES[weight])


def parities(chunks, parity):
    data = len(chunks)
    if data == 1:
        return [chunks[0]] * parity
    out = []
    for row in range(data, data + parity):
        total = 0
        for weight, chunk in zip(cauchy_row(row, data), chunks):
            total ^= int.from_bytes(times(weight, chunk), "little")
        out.append(total.to_bytes(len(chunks[0]), "little"))
    return out


class Cluster:
    def __init__(self, data, parity, chunk_kib, drives, first, out):
        self.data, self.parity, self.chunk = data, parity, chunk_kib * 1024
        self.drives, self.first, self.out = drives, first, out
        self.random = random.Random(f"{data} {parity} {chunk_kib} {drives} {first}")

    def version(self, size):
        raw = self.random.getrandbits(128)
        text = f"{raw:032x}"
        uuid = "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))
        return (f"{size:010d}" + uuid).encode()

    def entry(self, drive, key, version, value, tagged=True):
        tag = str(crc32c(value)).encode() if tagged else b""
        record = [struct.pack(">I", drive)]
        for part in (key, version, tag):
            record += [struct.pack(">I", len(part)), part]
        record += [struct.pack(">iI", CRC32_ALGORITHM, len(value)), value]
        self.out.write(b"".join(record))

    def stripe(self, value, data):
        """The chunks of a value; those that are padding alone are empty."""
        if not value:
            return [b""] * (data + self.parity)
        length = min(len(value), self.chunk)
        cut = [value[i * length : (i + 1) * length] for i in range(data)]
        padded = [chunk.ljust(length, b"\0") for chunk in cut]
        return [full if chunk else b"" for chunk, full in zip(cut, padded)] + parities(padded, self.parity)

    def drive(self, key, chunk):
        return (murmur3(key) + self.first + chunk) % self.drives

    def put(self, key, value, data, handed_off=(), outdated=(), left_out=()):
        chunks, version = self.stripe(value, data), self.version(len(value))
        before = self.version(len(value))
        for number, chunk in enumerate(chunks):
            drive = self.drive(key, number)
            if number in left_out:
                continue
            if number in handed_off:
                # On the drives behind the stripe, as far as there are any.
                other = self.drive(key, len(chunks) + list(handed_off).index(number))
                name = b"handoff=" + key + b"version=" + version + b"chunk=%d" % number
                self.entry(other, name, version, chunk)
                self.entry(other, b"indicator:" + key, b"indicator", b"")
            elif number in outdated:
                self.entry(drive, key, before, bytes(byte ^ 1 for byte in chunk))
            else:
                self.entry(drive, key, version, chunk)

    def file(self, path, content, attributes=(), without_blocks=(), **how):
        name = CLUSTER.encode()
        block = self.data * self.chunk
        for number, start in enumerate(range(0, len(content), block)):
            if number not in without_blocks:
                key = name + b":data:" + path + b"_%010d" % number
                self.put(key, content[start : start + block], self.data, **how)
        self.put(name + b":metadata:" + path, b"", 1)
        for attribute, value in attributes:
            self.put(name + b":attribute:" + path + b":" + attribute, value, 1)


def size_of(text, block):
    blocks, rest = re.fullmatch(r"(?:(\d+)b)?([+-]?\d+)?", text).groups()
    return int(blocks or 0) * block + int(rest or 0)


def main():
    out, (data, parity, chunk_kib, drives, first) = sys.argv[1], map(int, sys.argv[2:7])
    os.makedirs(os.path.join(out, "files"))
    block = data * chunk_kib * 1024
    paths, attributes = [], []

    def content(size):
        return b"" if size == 0 else random.Random(size).randbytes(size)

    with open(os.path.join(out, "drives.bin"), "wb") as raw:
        cluster = Cluster(data, parity, chunk_kib, drives, first, raw)

        def add(path, bytes_, **how):
            given = [(b"user.eos.n", b"%d" % len(paths)), (b"user.long:colon", b"v" * 300)]
            cluster.file(path.encode(), bytes_, attributes=given, **how)
            name = f"{len(paths):04d}"
            with open(os.path.join(out, "files", name), "wb") as file:
                file.write(bytes_)
            paths.append(f"{path}\t{name}")
            attributes.extend(f"{path}\t{key.decode()}\t{value.decode()}" for key, value in given)

        for text in sys.argv[7:]:
            add(f"00000000/{text}", content(size_of(text, block)))
        few = content(min(block, 8192) + 7)
        # The keys of the second stand among those of the first.
        add("named", content(min(2 * block, 3000)))
        add("named_0000000001", few)
        # Stripes that were written while as many drives as there are parities were away.
        add("handed-off", few, handed_off=range(parity))
        add("handed-off-parity", few, handed_off=range(data, data + parity))
        add("not-handed-off", few, left_out=range(parity))
        if data > parity:
            add("outdated", few, outdated=range(data, data + parity))
            add("outdated-data", few, outdated=range(parity))
        if block <= 65536:
            sparse = bytearray(content(3 * block + 5))
            sparse[block : 2 * block] = bytes(block)
            add("sparse", bytes(sparse), without_blocks=[1])

    names = [f"wwn-{number}" for number in range(drives)]
    port = 8123
    documents = {
        "location_comment": "one file serves all three",
        "location": [{"wwn": n, "inet4": ["127.0.0.1", "127.0.0.1"], "port": port} for n in names],
        "security": [{"wwn": n, "userId": 1, "key": "asdfasdf"} for n in names],
        "cluster": [
            {
                "clusterID": CLUSTER,
                "numData": data,
                "numParity": parity,
                "chunkSizeKB": chunk_kib,
                "timeout": 30,
                "minReconnectInterval": 15,
                "drives": [{"wwn": n} for n in names],
            }
        ],
        "configuration": {"cacheCapacityMB": 2048, "maxReadaheadWindow": 4},
    }
    with open(os.path.join(out, "cluster.json"), "w") as file:
        json.dump(documents, file, indent=1)
    for name, lines in (("paths", paths), ("attributes", attributes)):
        with open(os.path.join(out, name), "w") as file:
            file.writelines(line + "\n" for line in lines)


if __name__ == "__main__":
    main()
