"""How disks of tests/disks are made bad, and how it is counted that they were."""

import ctypes
import fcntl
import glob
import mmap
import os
import re
import struct
import time

from checking import run
from machine import DATA, DEBUG, PARITY, read, write

# scsi_debug has one place for medium errors, at the same blocks of all its disks.
PARAMETERS = "/sys/module/scsi_debug/parameters/"
MEDIUM_ERRORS = "2"
SECTOR = 512
# Of a page.
BAD_SECTORS = 8


def sectors_of(file):
    """The sectors of the disk on which a file stands, as ranges put together; empty if it is not there."""
    if not os.path.exists(file):
        return set()
    # FS_IOC_FIEMAP (linux: include/uapi/linux/fiemap.h), where a program for each of hundreds of files would take seconds.
    head, extent, most = struct.Struct("=QQLLLL"), struct.Struct("=QQQQQLLLL"), 64
    answer = bytearray(head.pack(0, 2**64 - 1, 1, 0, most, 0) + bytes(most * extent.size))
    with open(file, "rb") as opened:
        fcntl.ioctl(opened, 0xC020660B, answer)
    sectors = set()
    for at in range(head.unpack_from(answer)[3]):
        _, physical, length, *_ = extent.unpack_from(answer, head.size + at * extent.size)
        sectors.update(range(physical // SECTOR, (physical + length) // SECTOR))
    return sectors


def extents(machine, number):
    return glob.glob(machine.place(number) + "/extents/*/*")


def extent_alone(machine, disk, since):
    """An extent of a disk, made since then, that every whole read of its file reads, and a sector within it on which no other disk has
    an extent."""
    others = set()
    for number in range(len(machine.disks)):
        if number != disk.number:
            for file in extents(machine, number):
                others |= sectors_of(file)
    is_data = re.compile(r"\.0\.(\d+)$")
    for file in extents(machine, disk.number):
        mine = sectors_of(file)
        # A shard of data, and no copy of a segment: of those the first alone is read.
        shard = int(is_data.search(file).group(1))
        if os.path.getmtime(file) < since or not PARITY < shard < DATA:
            continue
        # In its middle, so that nothing else is near.
        for first in sorted(mine)[len(mine) // 2:: BAD_SECTORS]:
            page = set(range(first, first + BAD_SECTORS))
            if page <= mine and not page & others:
                return file, first
    raise AssertionError("every extent shares its sectors with one of another disk")


class MediumErrors:
    """The sectors from `first` on cannot be read, until the end."""

    def __init__(self, first):
        self.first = first

    def __enter__(self):
        write(PARAMETERS + "medium_error_start", str(self.first))
        write(PARAMETERS + "medium_error_count", str(BAD_SECTORS))
        write(DEBUG + "opts", MEDIUM_ERRORS)
        return self

    def __exit__(self, *_):
        write(DEBUG + "opts", "0")
        return False

    def fired(self, disk):
        """How often the kernel said so of this disk."""
        names = [os.path.basename(path) for path in disk.paths()]
        said = re.findall(r"critical medium error, dev (\w+), sector", run("dmesg"))
        return sum(said.count(name) for name in names)


def time_of_a_read(disk):
    """Of 256 KiB past all caches; the middle of five."""
    times = []
    memory = mmap.mmap(-1, 256 * 1024)
    file = os.open(disk.device, os.O_RDONLY | os.O_DIRECT)
    for _ in range(5):
        begin = time.monotonic()
        os.preadv(file, [memory], 0)
        times.append(time.monotonic() - begin)
    os.close(file)
    return sorted(times)[2]


def sectors_written(disk):
    minor = run("dmsetup", "info", "-c", "--noheadings", "-o", "minor", disk.layer).strip()
    return int(read(f"/sys/block/dm-{minor}/stat").split()[6])


class SgHeader(ctypes.Structure):
    """Of SG_IO (linux: include/scsi/sg.h, `struct sg_io_hdr`)."""
    _fields_ = [
        ("interface_id", ctypes.c_int), ("direction", ctypes.c_int), ("cdb_length", ctypes.c_ubyte),
        ("sense_length", ctypes.c_ubyte), ("segments", ctypes.c_ushort), ("length", ctypes.c_uint),
        ("data", ctypes.c_void_p), ("cdb", ctypes.c_void_p), ("sense", ctypes.c_void_p), ("timeout", ctypes.c_uint),
        ("flags", ctypes.c_uint), ("pack_id", ctypes.c_int), ("user", ctypes.c_void_p), ("status", ctypes.c_ubyte),
        ("masked", ctypes.c_ubyte), ("message", ctypes.c_ubyte), ("sense_written", ctypes.c_ubyte),
        ("host_status", ctypes.c_ushort), ("driver_status", ctypes.c_ushort), ("left", ctypes.c_int),
        ("duration", ctypes.c_uint), ("info", ctypes.c_uint)]


def test_predictions(disk, on):
    """MODE SELECT of the page of informational exceptions: with TEST disks say that they expect to fail, each of scsi_debug's."""
    page = bytes([0x1C, 0x0A, 0x04 if on else 0x08, 0, 0, 0, 0, 0, 0, 0, 0, 0])
    data = ctypes.create_string_buffer(bytes(4) + page)
    cdb = ctypes.create_string_buffer(bytes([0x15, 0x10, 0, 0, 16, 0]), 6)
    sense = ctypes.create_string_buffer(32)
    header = SgHeader(interface_id=ord("S"), direction=-2, cdb_length=6, sense_length=32, length=16, timeout=10_000,
                      data=ctypes.addressof(data), cdb=ctypes.addressof(cdb), sense=ctypes.addressof(sense))
    with open(disk.paths()[0], "rb") as file:
        fcntl.ioctl(file, 0x2285, header)
    if header.status or header.host_status or header.driver_status & 0xf:
        raise AssertionError(f"MODE SELECT: {header.status:02x} {header.host_status:x} {sense.raw.hex()}")
