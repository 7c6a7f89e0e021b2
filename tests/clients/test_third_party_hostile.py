"""Third-party copies that somebody asks for to get at what is not theirs, or to wear the server down."""

import json
import re
import socket
import threading
import time
import zlib
from contextlib import contextmanager, suppress

from harness.checks import equal, until
from harness.kist import Kist
from harness.raw import Line, ask, calm, head
from harness.suite import needs

# One address of this machine may be reached, its others not.
OPEN = '\n[third_party_copy]\nallow = ["127.0.0.1/32"]\nhttp = true\n'
BODY = b"what another server has" * 100
DIGEST = f"Digest: adler32={zlib.adler32(BODY):08x}\r\n".encode()
PLAIN = b"HTTP/1.1 200 OK\r\n" + DIGEST + b"Content-Length: %d\r\n\r\n" % len(BODY)


class Other:
    """Another server. It keeps each head that it gets, and `answers` with bytes, or does with the connection what it likes."""

    def __init__(self, answers=None, address="127.0.0.1", port=0):
        self.heads, self.open, self.over = [], 0, threading.Event()
        self.answers = answers or (lambda first, _: PLAIN + (b"" if first.startswith(b"HEAD") else BODY))
        self.socket = socket.create_server(
            (address, port), family=socket.AF_INET6 if ":" in address else socket.AF_INET, backlog=512
        )
        self.port = self.socket.getsockname()[1]
        self.url = f"http://{f'[{address}]' if ':' in address else address}:{self.port}/f"
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        while not self.over.is_set():
            with suppress(OSError):
                connection, _ = self.socket.accept()
                threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection):
        data = b""
        with connection, suppress(OSError):
            while b"\r\n\r\n" not in data and (more := connection.recv(65536)):
                data += more
            first, _, rest = data.partition(b"\r\n\r\n")
            self.heads.append(first)
            length = re.search(rb"(?i)\r\ncontent-length: (\d+)", first)
            if length and int(length[1]):
                connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
                while len(rest) < int(length[1]) and (more := connection.recv(65536)):
                    rest += more
            answer = self.answers(first, connection)
            if answer is not None:
                connection.sendall(answer)

    def close(self):
        """Listens no more."""
        self.over.set()
        with suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()


@contextmanager
def opened(place, *others):
    """A server that may reach some, with a directory and a file in it; ends with the others."""
    server = Kist(place.directory / "kist", settings=OPEN)
    server.start()
    try:
        server.command("mkdir", "/tpc").exits()
        equal(ask(server, "PUT", "/tpc/f", body="123456789")[0], 201)
        yield server
    finally:
        for other in others:
            other.close()
        server.stop()


def copied(server, path, *lines):
    """How a COPY ended: its status, or the last line of its answer."""
    status, _, answer = ask(server, "COPY", path, *lines)
    lines = [line for line in re.sub(r"\r\n[0-9a-f]*\r\n", "\n", answer).splitlines() if line.strip() not in ("", "0")]
    return lines[-1] if status == 202 and lines else str(status)


def places(port):
    """Addresses of what may not be reached, as somebody might write them who wants to get there all the same."""
    hosts = [
        "127.0.0.2",
        "127.2",
        "2130706434",
        "0x7f000002",
        "0x7f.0.0.2",
        "0177.0.0.2",
        "127.0.0.2.",
        "[::1]",
        "[::ffff:127.0.0.2]",
        "[::127.0.0.2]",
        "[64:ff9b::7f00:2]",
        "[2002:7f00:2::]",
        "0.0.0.0",
        "[::]",
        "0",
        "10.0.0.1",
        "192.168.0.1",
        "172.16.0.1",
        "100.64.0.1",
        "169.254.169.254",
        "[fe80::1]",
        "[fd00::1]",
        "[fe80::1%25lo]",
        "224.0.0.1",
        "255.255.255.255",
        "localhost.",
        "127.0.0.1@127.0.0.2",
        "127.0.0.2#@127.0.0.1",
        "127.0.0.2\\@127.0.0.1",
        "%31%32%37.0.0.2",
        "１２７.0.0.2",
    ]
    return [f"http://{host}:{port}/f" for host in hosts] + [
        f"file:///etc/passwd#{port}",
        f"gopher://127.0.0.1:{port}/f",
        f"ftp://127.0.0.1:{port}/f",
        f"//127.0.0.2:{port}/f",
        f"http:127.0.0.2:{port}/f",
        "http://127.0.0.1:22/f",
        "http://127.0.0.1:6379/f",
        "http://127.0.0.1:0/f",
        "http://127.0.0.1:65536/f",
        "http://127.0.0.1:/f",
        "http://",
        "http:///f",
        "unix:/run/x",
    ]


@needs("kist")
def test_the_inner_network_by_address_and_by_redirect(place):
    two = Other(address="127.0.0.2")
    canaries = [two]
    for address in ("::1", "127.0.0.3"):
        with suppress(OSError):
            canaries.append(Other(address=address, port=two.port))
    where = {}

    def away(first, _):
        code = 302 if first.startswith((b"GET", b"HEAD")) else 307
        return f"HTTP/1.1 {code} Found\r\nLocation: ".encode() + where["to"].encode() + b"\r\nContent-Length: 0\r\n\r\n"

    first = Other(away)
    with opened(place, first, *canaries) as server, calm(server):
        wrong = []
        for url in places(two.port):
            for lines in [(f"Source: {url}",), (f"Destination: {url}",)]:
                ended = copied(server, "/tpc/f" if lines[0][0] == "D" else "/tpc/x", *lines)
                if not ended.startswith(("failure: ", "400", "403", "409", "502")):
                    wrong.append((lines, ended))
            where["to"] = url
            for lines in [(f"Source: {first.url}",), (f"Destination: {first.url}",)]:
                ended = copied(
                    server, "/tpc/f" if lines[0][0] == "D" else "/tpc/x", *lines, "TransferHeaderAuthorization: Bearer secret"
                )
                if not ended.startswith("failure: "):
                    wrong.append((f"redirect to {url}", lines, ended))
        equal(wrong, [], "what was reached")
        equal([canary.heads for canary in canaries], [[] for _ in canaries], "nothing was asked for")
        # Without end, to itself, and to another server that may be reached, which gets no credential.
        where["to"] = first.url
        equal(copied(server, "/tpc/x", f"Source: {first.url}")[:9], "failure: ")
        third = Other()
        where["to"] = third.url
        secret = ("TransferHeaderAuthorization: Bearer secret", "TransferHeaderCookie: secret")
        equal(copied(server, "/tpc/x", f"Source: {first.url}", *secret), "success: Created")
        equal([b"secret" in one for one in third.heads], [False] * len(third.heads), "the credential stays at home")
        equal(ask(server, "DELETE", "/tpc/x")[0], 204)
        third.close()


@needs("kist")
def test_names_that_lead_inside(place):
    inner = Other()
    six = None
    with suppress(OSError):
        six = Other(address="::1", port=inner.port)
    others = [other for other in (inner, six) if other]
    names = [
        "localhost",
        "LOCALHOST",
        "ip6-localhost",
        "localhost.localdomain",
        "x.localhost",
        socket.gethostname(),
        "127.0.0.1.nip.invalid",
        "metadata.google.internal",
    ]
    place.kist("mkdir", "/inside").exits()
    server = place.server
    try:
        with calm(server):
            for name in names:
                for scheme in ("http", "https"):
                    ended = copied(server, "/inside/x", f"Source: {scheme}://{name}:{inner.port}/f")
                    equal(ended[:9], "failure: ", name)
            equal([other.heads for other in others], [[] for _ in others], "nothing was asked for")
    finally:
        for other in others:
            other.close()


@needs("kist")
def test_headers_that_are_smuggled(place):
    other = Other()
    with opened(place, other) as server, calm(server, changes=True):
        source = f"Source: {other.url}"
        for line in (
            "TransferHeaderX: a\r\n b",
            "TransferHeaderX: a\rb",
            "TransferHeaderX: a\nTransferHeaderY: b",
            "TransferHeaderX: a\0b",
            "TransferHeaderX y: z",
            "TransferHeaderX\t: z",
            "TransferHeaderX\r\n : z",
            "TransferHeader(X): z",
            "TransferHeaderX:y: z\r\n\r\n",
        ):
            before = len(other.heads)
            ended = copied(server, "/tpc/x", source, line)
            for one in other.heads[before:]:
                # What looks like one header to us and is taken for one is sent on as one.
                equal(
                    b"\nX: a\r\n b" in one or b"\0" in one or b"\nb" in one.lower().replace(b"\nbytes", b""),
                    False,
                    f"{line!r}: {one!r}",
                )
            if not ended.startswith(("400", "success", "0")):
                raise AssertionError(f"{line!r}: {ended}")
        before = len(other.heads)
        own = [
            "Host: evil",
            "Content-Length: 5",
            "Transfer-Encoding: chunked",
            "Connection: upgrade",
            "Upgrade: websocket",
            "Expect: 100-continue",
            "Range: bytes=0-1",
            "TE: trailers",
            "If-None-Match: *",
            "If-Match: x",
            "If-Modified-Since: Fri, 27 Nov 2026 20:00:00 GMT",
            "Accept-Encoding: gzip",
            "Trailer: x",
            "Proxy-Authorization: x",
            "Keep-Alive: 1",
        ]
        for line in own:
            equal(copied(server, "/tpc/x", source, f"TransferHeader{line}"), "success: Created", line)
            equal(
                copied(
                    server,
                    "/tpc/f",
                    f"Destination: {other.url}",
                    f"TransferHeader{line}",
                    "RequireChecksumVerification: false",
                )[:8]
                in ("success:", "failure:"),
                True,
                line,
            )
        for one in other.heads[before:]:
            lines = one.decode("latin-1").lower().split("\r\n")[1:]
            said = dict(line.split(": ", 1) for line in lines)
            equal(len(said), len(lines), f"each header once: {one!r}")
            equal(said["host"], f"127.0.0.1:{other.port}")
            has = [
                name
                for name in (
                    "transfer-encoding",
                    "upgrade",
                    "te",
                    "if-none-match",
                    "if-match",
                    "if-modified-since",
                    "trailer",
                    "proxy-authorization",
                    "keep-alive",
                    "range",
                )
                if name in said
            ]
            equal(has, [], f"what is a connection's own: {one!r}")
            equal(said.get("content-length", "0") in ("0", "9"), True, f"the length: {one!r}")
        equal(copied(server, "/tpc/y", source, *[f"TransferHeaderX{n}: 1" for n in range(65)]), "400", "too many")
        for lines in [
            ("Source: ",),
            (source, source),
            (source, f"Destination: {other.url}"),
            (source, "X-Number-Of-Streams: x"),
            (source, "X-Number-Of-Streams: -1"),
            (source, "SciTag: 0"),
            (source, "SciTag: 99999999999999999999"),
            (source, "Overwrite: x"),
            (source, "RequireChecksumVerification: perhaps"),
            (source, "Credential: gridsite"),
            (source, "Credential: oauth2"),
            (source, "Digest: adler32=x"),
        ]:
            equal(copied(server, "/tpc/y", *lines)[:3] in ("400", "fai"), True, lines)
        equal(copied(server, "/tpc/y", source, "Digest: adler32=00000001")[:9], "failure: ")
        for streams in ("0", "9" * 18):
            equal(copied(server, "/tpc/y", source, f"X-Number-Of-Streams: {streams}")[:8], "success:", streams)
        # From and to itself: one copy waits for no place that the other holds.
        own = f"{server.webdav}/tpc/f"
        key = f"TransferHeaderAuthorization: Bearer {server.key}"
        equal(copied(server, "/tpc/f", f"Source: {own}", key)[:8] in ("success:", "failure:"), True)
        equal(ask(server, "GET", "/tpc/f")[2], "123456789")


@needs("kist")
def test_floods_and_servers_that_never_end(place):
    over = threading.Event()

    def stall(data):
        def answer(_, connection):
            connection.sendall(data)
            over.wait(60)

        return answer

    def endless(data, piece):
        def answer(_, connection):
            connection.sendall(data)
            while not over.is_set():
                connection.sendall(piece)

        return answer

    length = b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n" + DIGEST + b"\r\n"
    chunks = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n" + DIGEST + b"\r\n"
    kinds = {
        "nothing": stall(b""),
        "half a head": stall(b"HTTP/1.1 200 OK\r\nX: "),
        "a head and nothing": stall(length),
        "a part": stall(length + b"x" * 300_000),
        "a head without end": endless(b"HTTP/1.1 200 OK\r\n", b"X: y\r\n" * 100),
        "100 without end": endless(b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 100),
        "an extension without end": endless(chunks + b"1;", b"x" * 1000),
        "trailers without end": endless(chunks + b"0\r\n", b"X: y\r\n" * 100),
    }
    others = {name: Other(answers) for name, answers in kinds.items()}
    good = Other()
    with opened(place, good, *others.values()) as server, calm(server, 400):
        lines = []
        for name, other in others.items():
            for at in range(30):
                line = Line(server)
                ways = {
                    0: (f"/tpc/x{at}", f"Source: {other.url}"),
                    1: ("/tpc/f", f"Destination: {other.url}"),
                    2: (f"/tpc/x{at}", f"Source: {other.url}"),
                }
                path, where = ways[at % 3]
                line.send(head("COPY", path, where, *["X-Number-Of-Streams: 8"] * (at % 3 == 2), key=server.key))
                lines.append(line)
        # 240 copies of one caller that go nowhere: other work goes on, and another's copies find a place.
        secret = json.loads(server.command("key", "create", "other", "--admin", "--json").exits().out)["secret"]
        began = time.monotonic()
        for _ in range(5):
            equal(ask(server, "PROPFIND", "/tpc", "Depth: 1")[0], 207)
            equal(ask(server, "PUT", "/tpc/f", body="123456789", key=secret)[0], 204)
        if time.monotonic() - began > 40:
            raise AssertionError(f"a flood of copies holds others up for {time.monotonic() - began:.0f} s")

        def another():
            status, _, answer = ask(server, "COPY", "/tpc/good", f"Source: {good.url}", key=secret)
            return status == 202 and "success: Created" in answer

        until("another's copy", another, 30)
        equal(ask(server, "DELETE", "/tpc/good")[0], 204)
        for line in lines:
            line.socket.close()
        over.set()


@needs("kist")
def test_copies_that_do_not_go_on_keep_nobody_from_a_server(place):
    over = threading.Event()
    stalls = Other(lambda *_: over.wait(60) and None)
    good = Other()
    with opened(place, good, stalls) as server, calm(server, 200):
        lines = [Line(server) for _ in range(300)]
        for at, line in enumerate(lines):
            line.send(head("COPY", f"/tpc/x{at}", f"Source: {stalls.url}", key=server.key))
        until("copies stand still", lambda: len(stalls.heads) >= 40)
        secret = json.loads(server.command("key", "create", "other", "--admin", "--json").exits().out)["secret"]
        # The same host, by another caller.
        status, _, answer = ask(server, "COPY", "/tpc/good", f"Source: {good.url}", key=secret)
        equal((status, "success: Created" in answer), (202, True), answer)
        equal(ask(server, "DELETE", "/tpc/good")[0], 204)
        for line in lines:
            line.socket.close()
        over.set()
