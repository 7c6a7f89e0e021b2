"""An instance of Kist and its server."""

import json
import os
import re
import shutil
import signal
import subprocess
from pathlib import Path

from .checks import until
from .tools import run

KIST = os.environ.get("KIST", "kist")
# A day of S3's in the tests, so that what is restored for a day goes cold again while one looks.
DAY_SECONDS = 3
CONFIG = f"""
[s3]
day = "{DAY_SECONDS}s"
classes = {{ GLACIER = "glacier", DEEP_ARCHIVE = "deep" }}

[[classes]]
name = "glacier"
copies = ["vault-a"]
large = "1MiB"
pack = "16MiB"
pack_age = "1s"
residency = "tape"

[[classes]]
name = "deep"
copies = ["vault-a", "vault-b"]
large = "1MiB"
pack = "16MiB"
pack_age = "1s"
residency = "tape"
"""


class Kist:
    """One instance; `start` may be called again after `stop`."""

    def __init__(self, directory, options=("--cartridges", "6", "--cartridge-size", "8GB"), settings="", tls=False):
        self.directory = Path(directory)
        self.key_file = self.directory.with_suffix(".key")
        self.ca = None
        self.endpoint = self.url = self.webdav = self.access = self.secret = None
        self._process = None
        self._log = self.directory.with_suffix(".log")
        arguments = [KIST, "init", self.directory, "--demo", "--listen", "127.0.0.1:0", "--save-key", self.key_file]
        run([*arguments, *options]).exits()
        self.replace('^(listen = ".*")$', '\\1\ns3_listen = "127.0.0.1:0"\nwebdav_listen = "127.0.0.1:0"')
        if tls:
            self.ca = str(self._certificate())
            self.replace("^(s3_listen = .*)$", '\\1\ntls = { certificate = "tls.pem", key = "tls.key" }')
        self.configure(CONFIG + settings)

    def _certificate(self):
        """Makes a certificate for this machine and signs it with an authority of its own; gives the authority's."""
        at, ca, ca_key = self.directory, self.directory / "ca.pem", self.directory / "ca.key"
        new = ["openssl", "req", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-x509"]
        names = ["-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost"]
        run([*new, "-subj", "/CN=the authority of a test", "-keyout", ca_key, "-out", ca]).exits()
        leaf = ["-CA", ca, "-CAkey", ca_key, "-addext", "basicConstraints=critical,CA:FALSE"]
        run([*new, "-subj", "/CN=localhost", *names, *leaf, "-keyout", at / "tls.key", "-out", at / "tls.pem"]).exits()
        return ca

    @property
    def key(self):
        """The administrator's bearer key."""
        return self.key_file.read_text().strip()

    def configure(self, more):
        """Adds to the configuration."""
        file = self.directory / "kist.toml"
        file.write_text(file.read_text() + more)

    def replace(self, pattern, new):
        """Changes lines of the configuration."""
        file = self.directory / "kist.toml"
        text, count = re.subn(pattern, new, file.read_text(), flags=re.MULTILINE)
        if not count:
            raise AssertionError(f"{pattern} is not in {file}")
        file.write_text(text)

    def start(self):
        """Starts the server and waits until it answers."""
        self._process = subprocess.Popen(
            [KIST, "serve", "--stop-with-stdin", "--log", "warn", self.directory],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log.open("wb"),
        )
        line = self._process.stdout.readline().decode()
        if not line:
            raise AssertionError(f"the server did not start:\n{self.log_end()}")
        state = json.loads(until("run/server.json", self._state))
        self.url, self.endpoint, self.webdav = state["url"], state["s3"], state["webdav"]
        if not self.access:
            made = json.loads(self.command("key", "create", "clients", "--admin", "--s3", "--json").exits().out)
            self.access, self.secret = made["id"], made["secret"]

    def _state(self):
        file = self.directory / "run" / "server.json"
        return file.read_text() if file.exists() else ""

    def stop(self):
        """Stops it cleanly."""
        if self._process:
            process, self._process = self._process, None
            process.stdin.close()
            code = process.wait(120)
            if code:
                raise AssertionError(f"the server ended with {code}:\n{self.log_end()}")

    @property
    def pid(self):
        """The process of the server."""
        return self._process.pid

    def hang_up(self):
        """Tells it to read again what may change."""
        self._process.send_signal(signal.SIGHUP)

    def command(self, *arguments, stdin=b""):
        """Runs a command with the administrator's key."""
        env = {"KIST_INSTANCE": str(self.directory), "KIST_KEY_FILE": str(self.key_file)}
        if self.ca:
            env["KIST_CA"] = self.ca
        return run([KIST, *arguments], env=env, stdin=stdin)

    def log_end(self):
        """The last lines of its log."""
        return "\n".join(self._log.read_text(errors="replace").splitlines()[-20:]) if self._log.exists() else ""

    def lose_drives(self, count):
        """Takes drives of the pool away while it runs: their directories are gone."""
        for number in range(count):
            at = self.directory / "pool" / f"d{number}"
            shutil.move(at, at.with_name(f"{at.name}-away"))

    def return_drives(self, count):
        """Gives them back."""
        for number in range(count):
            at = self.directory / "pool" / f"d{number}"
            shutil.move(at.with_name(f"{at.name}-away"), at)
