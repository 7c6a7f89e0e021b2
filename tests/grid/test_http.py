"""Third-party copies of Kist with Kist and with a stock XRootD's HTTP door, over TLS and in clear; davix with TLS and a token."""

import json
import re
import shutil
import signal
import subprocess
import tempfile
import zlib
from contextlib import contextmanager
from pathlib import Path

from test_xrootd import authority, long
from world import IS_ROOT, NO_NAMES, XROOTD_USER, Kist, Xrootd, equal, free_port, random_bytes, run

BODY = random_bytes(30_000_001, 9)
ADLER = f"{zlib.adler32(BODY):08x}"


class Dav:
    """A Kist at whose WebDAV address the tests ask."""

    def __init__(self, at, name, ca, certificate=None):
        at = at / name
        at.mkdir()
        self.kist = Kist(at / "kist", f'\n[third_party_copy]\nallow = ["127.0.0.0/8"]\nhttp = true\nauthorities = ["{ca}"]\n')
        file = self.kist.directory / "kist.toml"
        lines = '\\1\nwebdav_listen = "127.0.0.1:0"'
        if certificate:
            lines += f'\ntls = {{ certificate = "{certificate[0]}", key = "{certificate[1]}" }}'
        file.write_text(re.sub('(?m)^(listen = ".*")$', lines, file.read_text(), count=1))
        self.ca, self.name = ca, name
        self.is_tls = bool(certificate)

    def start(self):
        """Starts it, with a directory for copies."""
        self.kist.start()
        self.url = json.loads((self.kist.directory / "run/server.json").read_text())["webdav"] + "/tpc"
        equal(self.call("MKCOL", self.url)[0], 201)

    @property
    def key(self):
        """The administrator's key."""
        return self.kist.key

    def has(self, name):
        """What a file has, or None."""
        with tempfile.NamedTemporaryFile() as file:
            ran = curl(
                f"{self.url}/{name}",
                "-H",
                f"Authorization: Bearer {self.key}",
                "-o",
                file.name,
                "-w",
                "%{http_code}",
                ca=self.ca,
            )
            return Path(file.name).read_bytes() if ran.out == "200" else None

    def put(self, name, data):
        """Stores a file."""
        with tempfile.NamedTemporaryFile() as file:
            file.write(data)
            file.flush()
            equal(self.call("PUT", f"{self.url}/{name}", "-T", file.name)[0] in (201, 204), True, "put")

    def call(self, method, url, *options):
        """A call with the key: status and body."""
        ran = curl(url, "-X", method, "-H", f"Authorization: Bearer {self.key}", "-w", "\n%{http_code}", *options, ca=self.ca)
        body, _, status = ran.out.rpartition("\n")
        return int(status or 0), body

    def names(self):
        """What stands in the directory."""
        listed = self.call("PROPFIND", self.url, "-H", "Depth: 1")[1]
        return sorted(name for name in re.findall("<D:href>/tpc/([^<]*)</D:href>", listed) if name)

    def process(self):
        """What runs."""
        return self.kist.process

    def stop(self):
        """Ends it."""
        self.kist.stop()


class Stock:
    """A stock XRootD's HTTP door on a plain directory."""

    def __init__(self, at, ca, certificate):
        self.data, self.port, self.ca, self.key, self.name = at / "data", free_port(), ca, "", "xrootd"
        self.data.mkdir()
        directory = at / "stock"
        # Its HTTP handlers, and so third-party copy, are loaded only where there is TLS.
        self.server = Xrootd.plain(directory, self.data)
        self.server.file.write_text(
            self.server.file.read_text()
            + f"xrd.protocol XrdHttp:{self.port} libXrdHttp.so\nxrd.tls {certificate[0]} {certificate[1]}\n"
            f"xrd.tlsca certdir {ca}\nhttp.listingdeny no\nhttp.exthandler xrdtpc libXrdHttpTPC.so\n"
            "http.header2cgi Authorization authz\n"
            + NO_NAMES
        )

    def start(self):
        """Starts it."""
        self.server.start()

    def at(self, scheme):
        """Its address."""
        return f"{scheme}://127.0.0.1:{self.port}"

    def has(self, name):
        """What a file has, or None."""
        file = self.data / name
        return file.read_bytes() if file.exists() else None

    def put(self, name, data):
        """Stores a file."""
        (self.data / name).write_bytes(data)
        if IS_ROOT:
            shutil.chown(self.data / name, XROOTD_USER, XROOTD_USER)

    def names(self):
        """What stands in it."""
        return sorted(file.name for file in self.data.iterdir())

    def process(self):
        """What runs."""
        return self.server.process

    def stop(self):
        """Ends it."""
        self.server.stop()


def curl(url, *options, ca, seconds=90):
    """Runs curl; a server whose certificate the authority did not sign is none."""
    return run(["curl", "-sS", "--capath", ca, *options, url], seconds=seconds)


@contextmanager
def world():
    """Two Kists with TLS, one in clear, and a stock XRootD."""
    base = "/dev/shm" if Path("/dev/shm").is_dir() else "/tmp"
    at = Path(tempfile.mkdtemp(prefix="kist-grid-http-", dir=base))
    at.chmod(0o755)
    started = []
    try:
        ca, sign = authority(at / "x509")
        certificate, stock_certificate = sign("kist", "/CN=localhost"), sign("stock", "/CN=localhost")
        for file in stock_certificate if IS_ROOT else ():
            shutil.chown(file, XROOTD_USER, XROOTD_USER)
        stock_certificate[1].chmod(0o400)
        servers = (
            Dav(at, "one", ca, certificate),
            Dav(at, "two", ca, certificate),
            Dav(at, "clear", ca),
            Stock(at, ca, stock_certificate),
        )
        for server in servers:
            started.append(server)
            server.start()
        yield at, ca, servers
    finally:
        for server in started:
            server.stop()
        shutil.rmtree(at, ignore_errors=True)


def address(server, scheme):
    """Where the files of one server are, by http or https."""
    return server.url if isinstance(server, Dav) else server.at(scheme)


def command(active, passive, way, scheme, source, target, *headers):
    """The COPY by which `active` fetches (pull) or sends (push)."""
    here, there = (target, source) if way == "pull" else (source, target)
    told = [
        f"{'Source' if way == 'pull' else 'Destination'}: {address(passive, scheme)}/{there}",
        "Credential: none",
        *headers,
    ]
    told += [f"TransferHeaderAuthorization: Bearer {passive.key}"] * bool(passive.key) + [
        f"Authorization: Bearer {active.key}"
    ] * bool(active.key)
    options = [option for header in told for option in ("-H", header)]
    return ["-X", "COPY", *options], f"{address(active, 'https')}/{here}"


def ended(active, *arguments):
    """How one ended: the last line that it told."""
    options, url = command(active, *arguments)
    lines = [line for line in curl(url, *options, ca=active.ca).out.splitlines() if line.strip()]
    return lines[-1] if lines else "nothing was told"


def pairs(servers):
    """Who is asked, who is the other one, and how that is reached."""
    one, two, clear, stock = servers
    return [
        (one, two, "https"),
        (one, clear, "http"),
        (clear, one, "https"),
        (one, stock, "https"),
        (one, stock, "http"),
        (stock, one, "https"),
        (stock, clear, "http"),
    ]


@long
def test_third_party_copies_with_kist_and_xrootd():
    with world() as (_, _, servers):
        for number, (active, passive, scheme) in enumerate(pairs(servers)):
            for way in ("pull", "push"):
                about = f"{active.name} {way} {passive.name} {scheme}"
                source, target = (passive, active) if way == "pull" else (active, passive)
                name = f"{way}{number}"
                source.put(f"from-{name}", BODY)
                told = ended(active, passive, way, scheme, f"from-{name}", f"to-{name}")
                equal(told.startswith("success"), True, f"{about}: {told}")
                equal(target.has(f"to-{name}") == BODY, True, f"{about}: the bytes")
                # A file that is not there, and a name in a directory that is not.
                told = ended(active, passive, way, scheme, f"none-{name}", f"to-none-{name}")
                equal("success" in told, False, f"{about} of nothing: {told}")
                # A stock server that fetches what is not there leaves an empty file.
                equal(
                    target.has(f"to-none-{name}") in ((None,) if isinstance(target, Dav) else (None, b"")),
                    True,
                    f"{about} of nothing",
                )
                if isinstance(active, Dav) and way == "pull":
                    told = ended(active, passive, way, scheme, f"from-{name}", f"bad-{name}", "Digest: adler32=00000001")
                    equal(told.startswith("failure: "), True, f"{about} with another checksum: {told}")
                    told = ended(
                        active,
                        passive,
                        way,
                        scheme,
                        f"from-{name}",
                        f"good-{name}",
                        f"Digest: adler32={ADLER}",
                        "X-Number-Of-Streams: 4",
                    )
                    equal(told.startswith("success"), True, f"{about} with the checksum: {told}")
                    equal(target.has(f"bad-{name}"), None, f"{about}: nothing of what was wrong")
                    told = ended(active, passive, way, scheme, f"from-{name}", f"to-{name}", "Overwrite: F")
                    equal("success" in told, False, f"{about} over what is there: {told}")


@long
def test_a_copy_whose_client_goes_away_leaves_nothing():
    with world() as (_, _, servers):
        for number, (active, passive, scheme) in enumerate(pairs(servers)):
            for way in ("pull", "push"):
                source, target = (passive, active) if way == "pull" else (active, passive)
                source.put(f"from{number}{way}", BODY)
                before = target.names()
                # The other one stands still in the middle, and the client goes.
                passive.process().send_signal(signal.SIGSTOP)
                options, url = command(active, passive, way, scheme, f"from{number}{way}", f"to{number}{way}")
                asked = subprocess.Popen(
                    ["curl", "-sS", "-N", "--capath", active.ca, *options, url],
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                )
                try:
                    if isinstance(active, Dav):
                        asked.stdout.readline()
                    asked.terminate()
                    asked.wait(20)
                finally:
                    passive.process().send_signal(signal.SIGCONT)
                # A stock server keeps what it got, and looks for its client only with its next marker.
                if isinstance(active, Dav) and isinstance(target, Dav):
                    equal(target.names(), before, f"{active.name} {way} {passive.name} {scheme}")
                for server in (active, passive):
                    server.put(f"lives{number}{way}", b"x")


def test_davix_with_tls_and_a_token():
    with world() as (at, ca, servers):
        one = servers[0]
        made = one.call(
            "POST",
            one.url,
            "-H",
            "Content-Type: application/macaroon-request",
            "-d",
            '{"caveats":["activity:LIST,READ_METADATA,DOWNLOAD,UPLOAD,MANAGE,DELETE"]}',
        )
        macaroon = json.loads(made[1])["macaroon"]
        (at / "a").write_bytes(BODY)
        for token in (one.key, macaroon):
            how = ["--capath", ca, "-H", f"Authorization: Bearer {token}"]

            def davix(command, *arguments, how=how):
                return run([f"davix-{command}", *how, *arguments])

            davix("mkdir", f"{one.url}/dir").exits()
            davix("put", at / "a", f"{one.url}/dir/a").exits()
            equal(davix("ls", f"{one.url}/dir").exits().out.split(), ["a"])
            equal(str(len(BODY)) in davix("ls", "-l", f"{one.url}/dir").exits().out, True, "the size")
            # davix-mv 0.8.4 ends with 255 however it went.
            davix("mv", f"{one.url}/dir/a", f"{one.url}/dir/b")
            davix("get", f"{one.url}/dir/b", at / "back").exits()
            equal((at / "back").read_bytes() == BODY, True, "the bytes")
            davix("get", f"{one.url}/dir/a", at / "gone").fails()
            davix("rm", f"{one.url}/dir/b").exits()
            equal(one.call("DELETE", f"{one.url}/dir")[0], 204)
            equal(one.names(), [], "what stays")
        # Who knows no authority, and who has no token, gets nothing.
        (at / "none").mkdir()
        run(["davix-ls", "--capath", at / "none", "-H", f"Authorization: Bearer {one.key}", one.url]).fails()
        run(["davix-put", "--capath", ca, at / "a", f"{one.url}/x"]).fails()
        equal(one.has("x"), None)
