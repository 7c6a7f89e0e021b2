"""What the tests of grid doors share: an instance of Kist, a stock XRootD server in front of it, programs, demands."""

import json
import os
import pwd
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import zlib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
KIST = os.environ.get("KIST", str(ROOT / "target/release/kist"))
PLUGINS = Path(os.environ.get("KIST_XROOTD_PLUGINS", ROOT / "target/xrootd"))
# XRootD does not run as root; whoever else runs the tests runs it as themselves.
IS_ROOT = os.getuid() == 0
XROOTD_USER = "xrootd" if IS_ROOT else pwd.getpwuid(os.getuid()).pw_name
# A name server that does not answer would be waited for.
NO_NAMES = "xrd.network nodnr\n"
os.environ.setdefault("RES_OPTIONS", "timeout:1 attempts:1")
# What lives as long as the run.
KEPT = []
CLASSES = """
[[classes]]
name = "cold"
copies = ["vault-a"]
large = "1MiB"
pack = "16MiB"
pack_age = "1s"
residency = "tape"
"""


class Ran:
    """How a program ended."""

    def __init__(self, arguments, code, out, err):
        self.arguments, self.code, self.out, self.err = arguments, code, out, err

    def __str__(self):
        """Its command line, as far as one reads it."""
        return " ".join(self.arguments)[:2000]

    def exits(self, code=0):
        """Demands an exit code."""
        if self.code != code:
            raise AssertionError(f"{self} ended with {self.code}, wanted {code}:\n{self.out}{self.err}")
        return self

    def fails(self, *words):
        """Demands that it failed, and said so in these words."""
        said = self.out + self.err
        if self.code == 0 or not all(word.lower() in said.lower() for word in words):
            raise AssertionError(f"{self} ended with {self.code}, wanted a failure with {words}:\n{said}")
        return self


def run(arguments, env=None, stdin=None, seconds=120):
    """Runs a program to its end."""
    arguments = [str(argument) for argument in arguments]
    done = subprocess.run(arguments, env={**os.environ, **(env or {})}, input=stdin, capture_output=True, timeout=seconds)
    return Ran(arguments, done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace"))


def equal(found, wanted, about=""):
    """Demands equality."""
    if found != wanted:
        raise AssertionError(f"{about}: found {str(found)[:600]!r}, wanted {str(wanted)[:600]!r}")


def until(what, state, seconds=60):
    """Asks for a state again and again until it is true or the time is over; gives it."""
    end = time.monotonic() + seconds
    while not (found := state()):
        if time.monotonic() > end:
            raise AssertionError(f"not within {seconds} s: {what}")
        time.sleep(0.05)
    return found


def free_port():
    """A port that nobody has now."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


def adler32(data):
    """As `xrdfs query checksum` prints it."""
    return f"{zlib.adler32(data):08x}"


class Kist:
    """One instance."""

    def __init__(self, directory, settings="", trust='["sss"]'):
        self.directory = Path(directory)
        self.key_file = self.directory.with_suffix(".key")
        self.log = self.directory.with_suffix(".log")
        self.socket = self.directory.parent / "s"
        self.process = None
        initial = [KIST, "init", self.directory, "--demo", "--listen", "127.0.0.1:0", "--save-key", self.key_file]
        run([*initial, "--cartridges", "4", "--cartridge-size", "8GB"]).exits()
        file = self.directory / "kist.toml"
        user = f'[xrootd]\nsocket = "{self.socket}"\nuser = "{XROOTD_USER}"\ngroup = "{XROOTD_USER}"\ntrust = {trust}\n'
        file.write_text(file.read_text() + CLASSES + user + settings)

    @property
    def key(self):
        """The administrator's key."""
        return self.key_file.read_text().strip()

    def start(self):
        """Starts the server and waits until it answers."""
        self.process = subprocess.Popen(
            [KIST, "serve", "--stop-with-stdin", "--another-port", "--log", "info", self.directory],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log.open("ab"),
        )
        if not self.process.stdout.readline():
            raise AssertionError(f"kist did not start:\n{self.log.read_text()[-3000:]}")
        until("the socket", self.socket.exists)

    def kill(self):
        """Ends it as a power cut does."""
        process, self.process = self.process, None
        process.kill()
        process.wait(60)

    def pause(self, stops):
        """Lets it hang, or go on."""
        self.process.send_signal(signal.SIGSTOP if stops else signal.SIGCONT)
        tasks = Path(f"/proc/{self.process.pid}/task")

        def hangs():
            return all("T" == stat.read_text().rpartition(")")[2].split()[0] for stat in tasks.glob("*/stat"))

        until("it hangs" if stops else "it goes on", lambda: hangs() == stops, 20)

    def stop(self):
        """Stops it cleanly."""
        if self.process:
            process, self.process = self.process, None
            process.stdin.close()
            equal(process.wait(120), 0, f"kist's end\n{self.log.read_text()[-3000:]}")

    def command(self, *arguments, stdin=None):
        """Runs a command as the administrator."""
        env = {"KIST_INSTANCE": str(self.directory), "KIST_KEY_FILE": str(self.key_file)}
        return run([KIST, *arguments], env=env, stdin=stdin)

    def put(self, path, data):
        """Stores bytes."""
        with tempfile.NamedTemporaryFile(dir=self.directory.parent) as file:
            file.write(data)
            file.flush()
            self.command("put", file.name, path).exits()

    def stat(self, path):
        """All about a file; empty if there is none."""
        ran = self.command("stat", path, "--json")
        return json.loads(ran.out) if ran.code == 0 else {}

    def go_cold(self, *paths):
        """Has files go to tape and leave the pool."""
        self.command("migrate", "--now").exits()
        for path in paths:
            until(f"{path} is on tape only", lambda path=path: self.stat(path).get("locality") == "NEARLINE", 120)


class Xrootd:
    """A stock server: with Kist's plugins, or on a plain directory."""

    def __init__(self, directory, config, port):
        self.directory, self.port = Path(directory), port
        self.directory.mkdir(parents=True, exist_ok=True)
        self.file = self.directory / "xrootd.cfg"
        self.file.write_text(config)
        self.process = None
        # What this server shows to others from which it fetches.
        self.env = dict(os.environ)
        if IS_ROOT:
            shutil.chown(self.directory, XROOTD_USER, XROOTD_USER)

    @classmethod
    def before(cls, kist, directory, more="", keytab=None, options=()):
        """In front of an instance, configured by `kist xrootd config`."""
        port = free_port()
        options = [*options, "--port", port, "--plugins", PLUGINS, "--admin-dir", directory]
        if keytab:
            options += ["--sss-keytab", keytab]
        config = kist.command("xrootd", "config", *options).exits().out
        made = cls(directory, config + NO_NAMES + more, port)
        if keytab:
            made.env |= {"XrdSecSSSKT": str(keytab), "XrdSecPROTOCOL": "sss"}
        return made

    @classmethod
    def plain(cls, directory, data):
        """On a plain directory."""
        port = free_port()
        where = f"all.export /\noss.localroot {data}\nxrd.port {port}\nall.adminpath {directory}\nall.pidpath {directory}\n"
        if IS_ROOT:
            shutil.chown(data, XROOTD_USER, XROOTD_USER)
        return cls(directory, where + NO_NAMES + "xrootd.chksum max 2 adler32\n", port)

    @property
    def url(self):
        """With one slash at the end: a path follows."""
        return f"root://127.0.0.1:{self.port}/"

    def start(self):
        """Starts it and waits until it answers."""
        as_user = ["-R", XROOTD_USER] if IS_ROOT else []
        log = (self.directory / "xrootd.log").open("ab")
        self.process = subprocess.Popen(["xrootd", *as_user, "-c", self.file], stdout=log, stderr=log, cwd=self.directory, env=self.env)

        def answers():
            if self.process.poll() is not None:
                raise AssertionError(f"xrootd ended:\n{self.log()}")
            with socket.socket() as probe:
                return probe.connect_ex(("127.0.0.1", self.port)) == 0

        until("xrootd listens", answers, 30)

    def log(self):
        """The end of its log."""
        return (self.directory / "xrootd.log").read_text(errors="replace")[-6000:]

    def lives(self):
        """Demands that it was not ended by anything."""
        if self.process and self.process.poll() is not None:
            raise AssertionError(f"xrootd ended with {self.process.returncode}:\n{self.log()}")

    def stop(self):
        """Ends it."""
        if self.process:
            process, self.process = self.process, None
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(20)


def keytab():
    """The keys of protocol sss: the same in all of a run, since the Python client reads them once."""
    if "XrdSecSSSKT" not in os.environ:
        at = tempfile.TemporaryDirectory(prefix="kist-grid-keys-")
        KEPT.append(at)
        file = Path(at.name) / "sss.keytab"
        add = ["xrdsssadmin", "-k", "kist", "-u", "anybody", "-g", "anygroup", "add", file]
        run(add, stdin=b"y\n").exits()
        file.chmod(0o600)
        os.environ |= {"XrdSecSSSKT": str(file), "XrdSecPROTOCOL": "sss"}
    return Path(os.environ["XrdSecSSSKT"])


class Place:
    """Kist and XRootD in front of it, for one test, in a directory of its own."""

    def __init__(self, settings="", more="", trust='["sss"]'):
        # Not below TMPDIR: XRootD runs as another user, who has to get there.
        base = os.environ.get("KIST_GRID_TMP", "/dev/shm" if Path("/dev/shm").is_dir() else "/tmp")
        self.at = Path(tempfile.mkdtemp(prefix="kist-grid-", dir=base))
        self.at.chmod(0o755)
        self.kist = Kist(self.at / "kist", settings, trust)
        self.keytab = self.at / "sss.keytab"
        shutil.copy(keytab(), self.keytab)
        self.keytab.chmod(0o600)
        self.client_keytab = keytab()
        if IS_ROOT:
            shutil.chown(self.keytab, XROOTD_USER, XROOTD_USER)
        self.xrootd = Xrootd.before(self.kist, self.at / "xrootd", more, self.keytab)
        self.others = []

    def __enter__(self):
        try:
            self.kist.start()
            # Everybody may do everything below /open, and nobody anything elsewhere but its owner.
            self.kist.command("mkdir", "-p", "/open").exits()
            self.kist.command("acl", "set", "/open", "anyone=tlrcwsp").exits()
            self.xrootd.start()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, kind, *_):
        if kind:
            print(f"---- xrootd\n{self.xrootd.log()[-1500:] if self.xrootd.process else ''}\n---- kist\n{self.kist.log.read_text()[-1500:]}")
        for one in [self.xrootd, *self.others]:
            one.stop()
        try:
            self.kist.stop()
        finally:
            shutil.rmtree(self.at, ignore_errors=True)

    @property
    def env(self):
        """What clients need to come in by sss."""
        return {"XrdSecSSSKT": str(self.client_keytab), "XrdSecPROTOCOL": "sss", "XRD_CONNECTIONRETRY": "2",
                "XRD_REQUESTTIMEOUT": "90", "XRD_STREAMTIMEOUT": "60"}

    def url(self, path, **given):
        """A URL of the server, with opaque data."""
        more = "&".join(f"{name}={value}" for name, value in given.items())
        return self.xrootd.url + path + ("?" + more if more else "")

    def xrdcp(self, *arguments, env=None, seconds=120):
        """Runs xrdcp."""
        return run(["xrdcp", "--nopbar", *arguments], env={**self.env, **(env or {})}, seconds=seconds)

    def xrdfs(self, *arguments, env=None, seconds=120):
        """Runs xrdfs."""
        return run(["xrdfs", f"127.0.0.1:{self.xrootd.port}", *arguments], env={**self.env, **(env or {})}, seconds=seconds)

    def file(self, name, data):
        """A local file."""
        path = self.at / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        return path

    def audit(self):
        """The audit log."""
        return self.kist.command("audit", "show", "--json").out


def random_bytes(count, seed=1):
    """The same bytes each time."""
    import random

    return random.Random(seed).randbytes(count)


def number_in(text):
    """The first number in a text."""
    return re.search(r"\d+", text).group()
