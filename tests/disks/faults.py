"""How disks of tests/disks are made bad, and how it is counted that they were."""

import glob
import os
import re
import time

from checking import run
from machine import DEBUG, read, write

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
    sectors = set()
    for first, last in re.findall(r"^\s*\d+: \[\d+\.\.\d+\]: (\d+)\.\.(\d+)", run("xfs_bmap", file), re.M):
        sectors.update(range(int(first), int(last) + 1))
    return sectors


def extents(machine, number):
    return glob.glob(machine.place(number) + "/extents/*/*")


def extent_alone(machine, disk):
    """An extent of a disk and a sector within it on which no other disk has an extent."""
    others = set()
    for number in range(len(machine.disks)):
        if number != disk.number:
            for file in extents(machine, number):
                others |= sectors_of(file)
    for file in extents(machine, disk.number):
        mine = sectors_of(file)
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
    begin = time.monotonic()
    run("dd", f"if={disk.device}", "of=/dev/null", "bs=1M", "count=1", "iflag=direct", "status=none")
    return time.monotonic() - begin


def sectors_written(disk):
    minor = run("dmsetup", "info", "-c", "--noheadings", "-o", "minor", disk.layer).strip()
    return int(read(f"/sys/block/dm-{minor}/stat").split()[6])
