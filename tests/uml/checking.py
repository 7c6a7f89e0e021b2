"""What the checks of tests/scsi and tests/disks have in common. They run inside a User-Mode Linux of tests/uml/boot.sh, as its
root; HERE is the directory that the host prepared."""

import os
import subprocess
import sys
import time
import traceback

HERE = sys.argv[1]
SCRATCH = "/run/tmp"


def run(*command, ok=(0,), **more):
    """Runs a program; gives what it printed."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, **more)
    print("  $", " ".join(command), "->", done.returncode, flush=True)
    if done.returncode not in ok:
        raise AssertionError(f"{command}: {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done.stdout


def expect(is_so, what):
    if not is_so:
        raise AssertionError(what)


def chosen(checks):
    """The checks that were asked for."""
    with open(os.path.join(HERE, "checks")) as file:
        asked = file.read().split()
    unknown = set(asked) - {check.__name__ for check in checks}
    if unknown:
        sys.exit(f"no such check: {unknown}; there are {[check.__name__ for check in checks]}")
    return [check for check in checks if not asked or check.__name__ in asked]


def run_all(checks, machine, prepare):
    """Runs the checks, each after `prepare`; prints `ok NAME` or `FAILED NAME` for each, and ends with 1 if one failed."""
    failed = 0
    for check in checks:
        begin = time.monotonic()
        try:
            prepare()
            check(machine)
            print(f"ok     {check.__name__} {time.monotonic() - begin:.1f} s", flush=True)
        except Exception:
            failed += 1
            print(f"FAILED {check.__name__}", flush=True)
            traceback.print_exc()
            sys.stderr.flush()
    sys.exit(1 if failed else 0)
