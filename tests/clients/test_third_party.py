"""Third-party copy: Kist with Kist, with a server of Python's that misbehaves, and by gfal2."""

import http.server
import json
import threading
import time
import zlib

from harness.checks import contains, equal, until
from harness.kist import Kist
from harness.suite import needs
from harness.world import content

# Loopback has to be allowed by its network; in clear, since this is a laboratory.
OPEN = '\n[third_party_copy]\nallow = ["127.0.0.0/8"]\nhttp = true\n'
GFAL = {"GFAL_PYTHONBIN": "/usr/bin/python3"}


class Other:
    """A server of one file, which says of it what it is told to say and sends it as slowly as it is told."""

    def __init__(self, body, digest=None, pause=0.0, short=0):
        other = self
        self.seen, self.got = [], {}

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def head(self, status, length):
                self.send_response(status)
                self.send_header("Content-Length", str(length))
                if digest:
                    self.send_header("Digest", digest)
                self.end_headers()

            def do_HEAD(self):
                self.head(200, len(body))

            def do_GET(self):
                other.seen.append(dict(self.headers))
                self.head(200, len(body))
                for at in range(0, len(body) - short, 1 << 16):
                    self.wfile.write(body[at : min(at + (1 << 16), len(body) - short)])
                    time.sleep(pause)
                if short:
                    self.close_connection = True

            def do_PUT(self):
                other.got[self.path] = self.rfile.read(int(self.headers["Content-Length"]))
                self.send_response(201)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        class Quiet(http.server.ThreadingHTTPServer):
            def handle_error(self, *_):
                """Clients that go away are what some tests are about."""

        self.server = Quiet(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}/f"

    def close(self):
        self.server.shutdown()


def copy(place, server, path, *headers, patience=60):
    """Runs a COPY; gives status and body."""
    options = [option for header in headers for option in ("-H", header)]
    ran = place.run(
        "curl", "-sS", "-X", "COPY", "-H", f"Authorization: Bearer {server.key}", *options, "-w", "\n%{http_code}",
        f"{server.webdav}{path}", patience=patience,
    ).exits()
    body, _, status = ran.out.rpartition("\n")
    return int(status), body


def ending(answer):
    """The last line of an answer that has begun."""
    status, body = answer
    equal(status, 202, body)
    contains(body, "Perf Marker\n\tTimestamp: ", "Total Stripe Count: 1\nEnd\n")
    return body.strip().splitlines()[-1]


def names(server):
    """What stands in the directory of the copies."""
    lines = json.loads(server.command("ls", "/tpc", "--json").exits().out)
    return sorted(line["name"] for line in (lines["entries"] if isinstance(lines, dict) else lines))


@needs("kist")
def test_kist_and_kist(place):
    one, two = (Kist(place.directory / name, settings=OPEN) for name in ("one", "two"))
    for server in (one, two):
        server.start()
        server.command("mkdir", "/tpc").exits()
    try:
        body = content(5_000_000)
        one.command("put", place.file("a", body), "/tpc/a").exits()
        bearer = f"TransferHeaderAuthorization: Bearer {two.key}"
        equal(ending(copy(place, one, "/tpc/a", f"Destination: {two.webdav}/tpc/pushed", bearer)), "success: Created")
        bearer = f"TransferHeaderAuthorization: Bearer {one.key}"
        source = f"Source: {one.webdav}/tpc/a"
        equal(ending(copy(place, two, "/tpc/pulled", source, bearer)), "success: Created")
        equal(ending(copy(place, two, "/tpc/streams", source, bearer, "X-Number-Of-Streams: 4")), "success: Created")
        for name in ("pushed", "pulled", "streams"):
            back = place.directory / name
            two.command("get", f"/tpc/{name}", back).exits()
            equal(back.read_bytes() == body, True, name)
        # Nothing is replaced that must not be.
        equal(copy(place, two, "/tpc/pulled", source, bearer, "Overwrite: F")[0], 412)
        equal(copy(place, two, "/none/x", source, bearer)[0], 409)
        equal(copy(place, two, "/tpc/x", source, bearer, "Credential: gridsite")[0], 400)
        contains(ending(copy(place, two, "/tpc/x", source)), "failure:", "401")
        contains(ending(copy(place, two, "/tpc/x", f"Source: {one.webdav}/tpc/none", bearer)), "failure:", "404")
        equal("x" in names(two), False, "what failed left a name")
        # gfal2 drives both.
        env = {"BEARER_TOKEN": one.key, **GFAL}
        two.command("rm", "/tpc/pulled").exits()
        macaroon = place.run(
            "curl", "-sS", "-H", f"Authorization: Bearer {two.key}", "-H", "Content-Type: application/macaroon-request",
            "-d", '{"caveats":["activity:UPLOAD,LIST,READ_METADATA"]}', f"{two.webdav}/tpc/",
        ).exits().out
        equal(set(json.loads(macaroon)), {"macaroon", "uri"})
        dav = f"{one.webdav}/tpc/a".replace("http", "dav")
        equal(place.run("gfal-stat", dav, env=env).code, 0)
    finally:
        one.stop()
        two.stop()


@needs("kist")
def test_servers_that_misbehave(place):
    server = Kist(place.directory / "kist", settings=OPEN)
    server.start()
    body = content(3_000_000, seed=7)
    adler = f"adler32={zlib.adler32(body):08x}"
    others = []

    def other(**how):
        others.append(Other(body, **how))
        return others[-1]

    try:
        server.command("mkdir", "/tpc").exits()
        good, wrong, silent = other(digest=adler), other(digest="adler32=00000001"), other()
        equal(ending(copy(place, server, "/tpc/good", f"Source: {good.url}", "TransferHeaderX-Test: 1")), "success: Created")
        equal(good.seen[0].get("X-Test") or good.seen[0].get("x-test"), "1", "the header that was sent on")
        contains(ending(copy(place, server, "/tpc/wrong", f"Source: {wrong.url}")), "failure: checksum mismatch")
        contains(ending(copy(place, server, "/tpc/silent", f"Source: {silent.url}")), "failure:", "RequireChecksumVerification")
        lax = "RequireChecksumVerification: false"
        equal(ending(copy(place, server, "/tpc/lax", f"Source: {silent.url}", lax)), "success: Created")
        contains(ending(copy(place, server, "/tpc/wrong", f"Source: {wrong.url}", lax)), "failure: checksum mismatch")
        equal(ending(copy(place, server, "/tpc/said", f"Source: {silent.url}", f"Digest: {adler}")), "success: Created")
        short = other(digest=adler, short=100_000)
        contains(ending(copy(place, server, "/tpc/short", f"Source: {short.url}", lax)), "failure:")
        equal(ending(copy(place, server, "/tpc/good", f"Destination: {silent.url}", lax)), "success: Created")
        equal(silent.got["/f"] == body, True, "what was pushed")
        contains(ending(copy(place, server, "/tpc/good", f"Destination: {wrong.url}")), "failure: checksum mismatch")
        contains(ending(copy(place, server, "/tpc/x", "Source: http://127.0.0.1:1/f")), "failure: the other server")
        contains(ending(copy(place, server, "/tpc/x", "Source: http://10.1.2.3/f")), "failure:", "refused by this site's rules")
        # The client goes away: nothing stays.
        slow = other(digest=adler, pause=0.2)
        try:
            copy(place, server, "/tpc/slow", f"Source: {slow.url}", patience=3)
        except Exception as error:  # noqa: BLE001
            contains(str(error), "timed out")
        until("the slow copy has begun", lambda: slow.seen)
        time.sleep(5)
        equal(names(server), ["good", "lax", "said"], "what there is")
    finally:
        for each in others:
            each.close()
        server.stop()


@needs("kist")
def test_the_inner_network_is_not_reached_by_default(place):
    inner = Other(b"secret", digest="adler32=00000001")
    port = inner.server.server_port
    try:
        place.kist("mkdir", "/inner").exits()
        for url in (inner.url, f"https://127.0.0.1:{port}/f", f"https://localhost:{port}/f", "https://[::1]:8443/f",
                    "https://169.254.169.254/latest", "https://192.168.1.1/f", f"https://2130706433:{port}/f"):
            told = ending(copy(place, place.server, "/inner/x", f"Source: {url}"))
            contains(told, "failure: the ")
        equal(inner.seen, [], "nothing was asked for")
    finally:
        inner.close()
