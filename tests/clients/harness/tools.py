"""Programs: those of Debian and PyPI, and those that are built here."""

import os
import subprocess
import sys
import threading
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent
TARGET = Path(os.environ.get("KIST_CLIENTS_TARGET", HERE.parent.parent / "target"))
BIN = TARGET / "clients-bin"
GO = ("rclone", "restic")
# One program may take so long, in seconds; a client that hangs is a failure and not the end of all.
PATIENCE = 240


class Ran:
    """What a program did."""

    def __init__(self, done, arguments):
        self.code = done.returncode
        self.out = done.stdout.decode(errors="replace")
        self.err = done.stderr.decode(errors="replace")
        self.raw = done.stdout
        self.arguments = arguments

    def exits(self, code=0):
        """Demands an exit code."""
        if self.code != code:
            raise AssertionError(f"{self.arguments} ended with {self.code}:\n{self.out[-3000:]}\n{self.err[-3000:]}")
        return self


def run(arguments, env=None, cwd=None, stdin=b"", patience=PATIENCE):
    """Runs a program; only what `env` names is added to a plain environment."""
    arguments = [str(argument) for argument in arguments]
    plain = {name: os.environ[name] for name in ("HOME", "PATH", "LANG", "TMPDIR") if name in os.environ}
    plain["PATH"] = f"{BIN}:{Path(sys.executable).parent}:{plain.get('PATH', '')}"
    done = subprocess.run(
        arguments, input=stdin, capture_output=True, env=plain | (env or {}), cwd=cwd, timeout=patience, check=False
    )
    return Ran(done, arguments)


class Builds:
    """Builds the clients that are written in Go beside the tests that need none of them."""

    def __init__(self):
        self.problems = {}
        self.done = {name: threading.Event() for name in GO}
        # Minutes of building: a part of the hunts, or asked for by name.
        self.skipped = os.environ.get("KIST_CLIENTS_GO") != "1"

    def start(self, names):
        """Begins to build those that are named, one behind the other."""
        threading.Thread(target=self._build, args=(names,), daemon=True).start()

    def _build(self, names):
        for name in names:
            done = subprocess.run(
                [HERE / "build_go", name, BIN], stdin=subprocess.DEVNULL, capture_output=True, check=False
            )
            if done.returncode != 0:
                self.problems[name] = done.stderr.decode(errors="replace")[-2000:]
            self.done[name].set()

    def wait(self, name):
        """Waits for one of them."""
        self.done[name].wait()
        if name in self.problems:
            raise AssertionError(f"{name} could not be built: {self.problems[name]}")
