"""Runs the tests, one after the other, and says how they ended."""

import importlib
import inspect
import sys
import time
import traceback
from pathlib import Path

from world import Place

HERE = Path(__file__).resolve().parent


class Skipped(Exception):
    """A test that has a reason not to run."""


def collect(words, quick):
    """All tests whose names contain a word; `quick`: none that is marked `long`."""
    found = []
    for file in sorted(HERE.glob("test_*.py")):
        module = importlib.import_module(file.stem)
        tests = [test for name, test in vars(module).items() if name.startswith("test_") and inspect.isfunction(test)]
        for test in sorted(tests, key=lambda test: test.__code__.co_firstlineno):
            name = f"{file.stem.removeprefix('test_')}.{test.__name__.removeprefix('test_')}"
            if (not words or any(word in name for word in words)) and not (quick and getattr(test, "long", False)):
                found.append((name, test))
    return found


def main(arguments):
    """Runs the command line; gives the exit code."""
    tests = collect([word for word in arguments if not word.startswith("--")], "--quick" in arguments)
    if "--list" in arguments:
        print("\n".join(name for name, _ in tests))
        return 0
    failed = skipped = 0
    if not tests:
        return 0 if "--quick" in arguments else 1
    with Place() as shared:
        for name, test in tests:
            began = time.monotonic()
            try:
                # Who takes nothing makes a place of its own.
                test(*([shared] if inspect.signature(test).parameters else []))
                how = "ok"
                shared.xrootd.lives()
            except Exception as error:  # pylint: disable=broad-except
                if error.__class__.__name__ == "Skipped":
                    how, skipped = f"skipped: {error}", skipped + 1
                else:
                    how, failed = "FAILED", failed + 1
                    traceback.print_exc(file=sys.stdout)
                    print(f"---- xrootd\n{shared.xrootd.log()[-1500:]}\n---- kist\n{shared.kist.log.read_text()[-1500:]}")
            print(f"{how:7} {name} ({time.monotonic() - began:.1f} s)", flush=True)
    print(f"{len(tests) - failed - skipped} passed, {failed} failed" + f", {skipped} skipped" * bool(skipped))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
