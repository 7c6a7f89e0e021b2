"""Collects the tests, runs them one after the other, and says how they ended."""

import importlib
import inspect
import sys
import threading
import time
import traceback
from pathlib import Path

from .tools import GO, Builds
from .world import Elsewhere, World

HERE = Path(__file__).resolve().parent.parent
LOCK = threading.Lock()


class Skipped(Exception):
    """A test that has a reason not to run."""


def needs(*what):
    """Marks a test that needs `rclone`, `restic`, or `kist`: more than any S3 server has."""

    def mark(test):
        test.needs = what
        return test

    return mark


def collect(words):
    """All tests whose names contain a word, in the order in which they stand."""
    sys.path.insert(0, str(HERE))
    found = []
    for file in sorted(HERE.glob("test_*.py")):
        module = importlib.import_module(file.stem)
        tests = [test for name, test in vars(module).items() if name.startswith("test_") and inspect.isfunction(test)]
        for test in sorted(tests, key=lambda test: test.__code__.co_firstlineno):
            name = f"{file.stem.removeprefix('test_')}.{test.__name__.removeprefix('test_')}"
            if not words or any(word in name for word in words):
                found.append((name, test, getattr(test, "needs", ())))
    return found


def main(arguments):
    """Runs the command line; gives the exit code."""
    endpoint = None
    if "--endpoint" in arguments:
        at = arguments.index("--endpoint")
        endpoint = arguments[at + 1]
        del arguments[at : at + 2]
    listing = "--list" in arguments
    tests = collect([word for word in arguments if not word.startswith("--")])
    if listing:
        print("\n".join(name for name, _, _ in tests))
        return 0
    builds = Builds()
    wanted = [name for name in GO if any(name in needs for _, _, needs in tests)]
    if wanted and not builds.skipped:
        builds.start(wanted)
    world = Elsewhere(endpoint) if endpoint else World()
    with world:
        counts = run_all(tests, world, builds)
    print(f"{counts['ok']} passed, {counts['FAILED']} failed" + (f", {counts['skipped']} skipped" * bool(counts["skipped"])))
    return 1 if counts["FAILED"] or not counts["ok"] else 0


def run_all(tests, world, builds):
    """Runs them; gives how many ended how. Those of clients written in Go run beside the others, one after the
    other: they wait for their builds, and restic looks only once a minute whether what it asked for is there."""
    counts = {"ok": 0, "FAILED": 0, "skipped": 0}

    def run_each(some):
        for name, test, needed in some:
            how, line = run_one(name, test, needed, world, builds)
            with LOCK:
                counts[how] += 1
                print(line, flush=True)

    beside = threading.Thread(target=run_each, args=([one for one in tests if of_go(one)],))
    beside.start()
    run_each([one for one in tests if not of_go(one)])
    beside.join()
    return counts


def of_go(test):
    """Whether a test needs a client that is written in Go."""
    return any(need in GO for need in test[2])


def run_one(name, test, needed, world, builds):
    """Runs one test; gives how it ended and a line about it."""
    started = time.monotonic()
    try:
        prepare(needed, world, builds)
        started = time.monotonic()
        test(world.for_test(name))
        how, why = "ok", ""
    except Skipped as reason:
        how, why = "skipped", f": {reason}"
    except Exception:
        how, why = "FAILED", f"\n{traceback.format_exc()}{world.trouble()}"
    return how, f"{how:8}{name} ({time.monotonic() - started:.1f} s){why}"


def prepare(needed, world, builds):
    """Waits for what a test needs."""
    for need in sorted(needed, key=GO.__contains__):
        if need == "kist":
            if isinstance(world, Elsewhere):
                raise Skipped("not of Kist")
        elif builds.skipped:
            raise Skipped("built from Go: KIST_CLIENTS_GO=1, or make hunt-clients")
        else:
            builds.wait(need)
