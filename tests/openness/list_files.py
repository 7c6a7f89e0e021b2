#!/usr/bin/env python3
"""Lists every file of a virtual cartridge of Kist, without Kist: one JSON line each with id, path and length.

    list_files.py CARTRIDGE_DIR SCRATCH_DIR

Every file is read and its Adler-32 compared, as by read_cartridge.py, of which this is another form; a file
that stands on the tape twice is listed twice. Nothing is left in SCRATCH_DIR. Exits with 1 if anything was
wrong, and with 3 if the cartridge is blank.
"""

import json
import shutil
import sys

import read_cartridge


class Lister(read_cartridge.Restore):
    """Lists instead of moving files to their paths."""

    def place(self):
        for target, identity, _staged, length, is_file in self.staged:
            if is_file:
                print(json.dumps({"id": identity, "path": "/" + "/".join(target), "length": length}))
        return len(self.staged), 0


def main():
    cartridge, scratch = sys.argv[1:]
    read_cartridge.Restore = Lister
    try:
        summary = read_cartridge.restore(cartridge, scratch, False)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    if any("there is no object 0" in error for error in summary["errors"]):
        sys.exit(3)
    for error in summary["errors"]:
        print(error, file=sys.stderr)
    sys.exit(1 if summary["errors"] else 0)


if __name__ == "__main__":
    main()
