"""What no client sends, at the WebDAV listener and what is mounted below it: bodies, headers and clients that go away."""

import base64
import json
import re
import time

from harness.checks import equal
from harness.raw import BEGUN, LOCK, TAPE, XML, Line, ask, calm, head, made, several
from harness.suite import needs
from harness.world import content


@needs("kist")
def test_heads_and_bodies_that_stop_hold_nobody_up(place):
    server = made(place, "/stops")
    begun = time.monotonic()
    for at in range(100):
        line = Line(server)
        line.send(head("PROPFIND", "/stops", key=server.key)[: 10 + at])
        BEGUN.append((line, begun))
    with calm(server, 300):
        stopped = []
        for method, path in [
            ("PUT", "/stops/new"),
            ("PUT", "/stops/f"),
            ("MKCOL", "/stops/d"),
            ("PROPFIND", "/stops"),
            ("PROPPATCH", "/stops/f"),
            ("LOCK", "/stops/f"),
            ("POST", "/stops/f"),
            ("POST", f"{TAPE}/v1/stage"),
            ("POST", f"{TAPE}/v1/archiveinfo"),
        ]:
            for how in ("Content-Length: 200000", "Transfer-Encoding: chunked"):
                for _ in range(8):
                    line = Line(server)
                    kind = ["Content-Type: application/macaroon-request"] if path == "/stops/f" else []
                    piece = b"<a>" if "Length" in how else b"3\r\n<a>\r\n"
                    line.send(head(method, path, how, *kind, key=server.key) + piece)
                    stopped.append(line)
        # 144 bodies stand still: everybody else goes on.
        for _ in range(20):
            began = time.monotonic()
            equal(ask(server, "PUT", "/stops/f", body="123456789")[0], 204)
            equal(ask(server, "PROPFIND", "/stops", "Depth: 1")[0], 207)
            equal(ask(server, "POST", f"{TAPE}/v1/archiveinfo", body='{"paths":["/stops/f"]}')[0], 200)
            if time.monotonic() - began > 60:
                raise AssertionError("bodies that stop hold up others")
        for line in stopped:
            line.socket.close()


@needs("kist")
def test_bodies_that_are_no_bodies(place):
    server = made(place, "/bodies")
    chunked = "Transfer-Encoding: chunked"
    garbage = {
        "no number": (b"zz\r\nx\r\n", chunked),
        "negative": (b"-1\r\nx\r\n", chunked),
        "a size beyond 64 bits": (b"fffffffffffffffff\r\nx\r\n", chunked),
        "a size as large as can be": (b"ffffffffffffffff\r\nx", chunked),
        "no line end": (b"1\r\nxx\r\n0\r\n\r\n", chunked),
        "an extension without end": (b"1;" + b"a" * 200_000 + b"\r\nx\r\n0\r\n\r\n", chunked),
        "trailers without end": (b"1\r\nx\r\n0\r\n" + b"A: b\r\n" * 20_000 + b"\r\n", chunked),
        "two lengths": (b"xx", "Content-Length: 1", "Content-Length: 2"),
        "a list of lengths": (b"xx", "Content-Length: 1, 2"),
        "negative length": (b"", "Content-Length: -1"),
        "signed length": (b"x", "Content-Length: +1"),
        "hexadecimal length": (b"x", "Content-Length: 0x1"),
        "too long a number": (b"x", "Content-Length: 99999999999999999999999"),
        "another coding": (b"1\r\nx\r\n0\r\n\r\n", "Transfer-Encoding: gzip, chunked"),
        "another coding in a line of its own": (b"1\r\nx\r\n0\r\n\r\n", "Transfer-Encoding: gzip", chunked),
        "chunked not last": (b"1\r\nx\r\n0\r\n\r\n", "Transfer-Encoding: chunked, gzip"),
        "chunked twice": (b"1\r\nx\r\n0\r\n\r\n", "Transfer-Encoding: chunked, chunked"),
        "a coding of NUL": (b"1\r\nx\r\n0\r\n\r\n", "Transfer-Encoding: chunked\0"),
        "coded": (b"x", "Content-Length: 1", "Content-Encoding: gzip"),
        "a part": (b"x", "Content-Length: 1", "Content-Range: bytes 0-0/2"),
    }
    cases = []
    with calm(server, changes=True):
        for name, (body, *lines) in garbage.items():
            with Line(server) as line:
                line.send(head("PUT", "/bodies/torn", *lines, key=server.key) + body)
                # Nothing comes of one whose end is not there: the client goes.
                if name in ("a size as large as can be", "too long a number"):
                    line.socket.shutdown(1)
                status = line.answer()[0]
            cases.append((name, status, (0, 400, 408, 413, 431, 501)))
            cases.append((f"what was stored of {name}", ask(server, "HEAD", "/bodies/torn")[0], 404))
        # Of a length and chunks only the chunks count (RFC 9112, 6.3), and what stands behind them is a request of its own.
        with Line(server) as line:
            line.send(
                head("PUT", "/bodies/f", "Content-Length: 30", chunked, key=server.key)
                + b"9\r\n123456789\r\n0\r\n\r\n"
                + b"x" * 30
            )
            equal(line.answer()[0], 204)
        equal(ask(server, "GET", "/bodies/f")[2], "123456789")
        several(cases)


def xml_bombs():
    """Bodies; each may cost what it weighs, and not more."""
    entities = (
        "<!DOCTYPE a [<!ENTITY a 'ha'>" + "".join(f"<!ENTITY a{n} '{f'&a{n - 1};' * 10}'>" for n in range(1, 10)) + "]>"
    )
    many = "".join(f" a{n}='' " for n in range(20_000))
    names = "".join(f" xmlns:n{n}='u'" for n in range(8_000))
    long = "u" * 200_000
    return {
        "entities": (entities, "&a9;", ""),
        "an external entity": ("<!DOCTYPE a [<!ENTITY x SYSTEM 'file:///etc/passwd'>]>", "&x;", ""),
        "a parameter entity": ("<!DOCTYPE a [<!ENTITY % x SYSTEM 'http://127.0.0.1/x'> %x;]>", "", ""),
        "an entity that is not declared": ("", "<a>&nbsp;</a>", ""),
        "depth": ("", "<a>" * 20_000 + "</a>" * 20_000, ""),
        "depth that does not end": ("", "<a>" * 60_000, ""),
        "elements": ("", "<a/>" * 50_000, ""),
        "bytes": ("", "<a>" + "x" * (256 << 10) + "</a>", ""),
        "attributes": ("", f"<a {many}/>", ""),
        "namespaces": ("", f"<a {names}>{'<b/>' * 4000}</a>", ""),
        "one namespace for all": ("", f"<a xmlns='{long}'>{'<b/>' * 4000}</a>", ""),
        "one namespace for all that is asked for": ("", "<u:b/>" * 200, f"xmlns:u='{long}'"),
        "one language for all": ("", f"<a xml:lang='{long}'>{'<b/>' * 4000}</a>", ""),
        "one language for all that is set": ("", "<b/>" * 200, f"xml:lang='{long}'"),
        "another encoding": ("<?xml version='1.0' encoding='utf-16'?>", "", ""),
        "no UTF-8": ("", "<a>\udcff</a>", ""),
        "a prefix of nothing": ("", "<q:a/>", ""),
        "a comment that does not end": ("", "<!-- ", ""),
        "a section that does not end": ("", "<![CDATA[", ""),
        "a name that does not end": ("", "<" + "a" * 100_000, ""),
        "an end without a beginning": ("", "</b>", ""),
        "two roots": ("<a/>", "", ""),
    }


@needs("kist")
def test_xml_that_is_none_or_too_much(place):
    server = made(place, "/xml")
    cases = []
    with calm(server, 60):
        for name, (before, inner, attributes) in xml_bombs().items():
            for method, form in XML.items():
                body = (before + form.format(inner, attributes)).encode("utf-8", "surrogateescape")
                began = time.monotonic()
                status, _, answer = ask(server, method, "/xml/f", "Depth: 0", body=body)
                cases.append((f"{name} with {method} ({answer[:80]!r})", status, (400, 413)))
                cases.append((f"seconds of {name} with {method}", time.monotonic() - began < 30, True))
        # Nobody's requests are read no differently.
        for name, (before, inner, attributes) in xml_bombs().items():
            body = (before + XML["PROPFIND"].format(inner, attributes)).encode("utf-8", "surrogateescape")
            cases.append((f"{name} of nobody", ask(server, "PROPFIND", "/xml/f", body=body, key=None)[0], (400, 401, 413)))
        several(cases)


@needs("kist")
def test_json_that_is_none_or_too_much(place):
    server = made(place, "/json")
    paths = json.dumps({"paths": ["/json/f"] * 10_000})
    bodies = {
        "depth": "[" * 100_000,
        "depth in a member": '{"files":' + "[" * 50_000 + "]" * 50_000 + "}",
        "no member that is known": '{"' + "a" * 300_000 + '":1}',
        "a member twice": '{"files":[],"files":[],"paths":[],"paths":[]}',
        "numbers without end": '{"files":' + "9" * 200_000 + "}",
        "no UTF-8": b'{"files":[{"path":"\xff"}]}',
        "half a surrogate": '{"files":[{"path":"\\ud800"}],"paths":["\\ud800"]}',
        "NUL": '{"files":[{"path":"/json/\\u0000"}],"caveats":["\\u0000"]}',
        "nothing": "",
        "null": "null",
        "one file too many": json.dumps({"files": [{"path": f"/json/{n}"} for n in range(10_001)]}),
        "more bytes than any": b" " * 65_000_000,
    }
    kind = "Content-Type: application/json"
    cases = []
    with calm(server, 400):
        for name, body in bodies.items():
            found = ask(server, "POST", f"{TAPE}/v1/stage", kind, body=body)[0]
            # A server that has refused need not read the rest: then the connection may break.
            cases.append((f"{name} at stage", found, 201 if name == "NUL" else (0, 400, 413)))
            if name not in ("one file too many",):
                cases.append(
                    (
                        f"{name} at archiveinfo",
                        ask(server, "POST", f"{TAPE}/v1/archiveinfo", kind, body=body)[0],
                        (0, 400, 413),
                    )
                )
            if name == "nothing":
                continue
            macaroon = "Content-Type: application/macaroon-request"
            cases.append((f"{name} for a macaroon", ask(server, "POST", "/json/f", macaroon, body=body)[0], (0, 400, 413)))
        for name, body in {
            "33 caveats": {"caveats": ["activity:LIST"] * 33},
            "50,000 caveats": {"caveats": [""] * 50_000},
            "a caveat of 200 kB": {"caveats": ["name:" + "x" * 200_000]},
            "no caveat": {"caveats": ["x"]},
            "no validity": {"validity": "-PT1H"},
            "any validity": {"validity": "P" + "9" * 10_000 + "Y"},
            "a path elsewhere": {"caveats": ["path:/other"]},
            "another type": {"caveats": "activity:LIST"},
        }.items():
            found = ask(server, "POST", "/json/f", "Content-Type: application/macaroon-request", body=json.dumps(body))[0]
            cases.append((name, found, (400, 403, 413)))
        equal(
            len(json.loads(ask(server, "POST", f"{TAPE}/v1/archiveinfo", kind, body=paths)[2])),
            10_000,
            "as many as there may be",
        )
        several(cases)


@needs("kist")
def test_headers_of_nonsense(place):
    server = made(place, "/nonsense")
    away = "Destination: /nonsense/away"
    cases = []

    def case(method, path, wanted, *lines, body=None):
        found, header, answer = ask(server, method, path, *lines, body=body)
        if found == 202:
            # A copy with another server, which fails before anything is sent anywhere.
            found = 502 if "\nfailure: " in answer else answer
        cases.append((f"{method} {path} {[line[:90] for line in lines]}", found, wanted))
        return header

    with calm(server):
        for depth in ("2", "-1", "", "0, 1", "infinit", "1\t1", "١", "0x0", "9" * 10_000):
            case("PROPFIND", "/nonsense", 400, f"Depth: {depth}")
            case("COPY", "/nonsense/f", 400, f"Depth: {depth}", away)
        case("PROPFIND", "/nonsense", 400, "Depth: 0", "Depth: infinity")
        for method in ("DELETE", "MOVE"):
            case(method, "/nonsense", 400, "Depth: 0", away)
        case("COPY", "/nonsense", 400, "Depth: 1", away)
        case("LOCK", "/nonsense", 400, "Depth: 1", body=LOCK)
        for conditions in (
            "(",
            "()",
            "x",
            "(<a)",
            "<a>",
            "(Not)",
            "([])x",
            "(<a>) </b> (<c>)",
            "(" * 8_000,
            "(<a>" * 3_000,
            "<http://[>(<a>)",
            "([a)",
            "</\x80>(<a>)",
        ):
            case("PUT", "/nonsense/f", 400, f"If: {conditions}", body="x")
        case("PUT", "/nonsense/f", 400, "If: " + "(<urn:x>)" * 4_000, body="x")
        case("PUT", "/nonsense/f", (412, 423), "If: " + "(<a>)" * 3_000, body="x")
        case("PUT", "/nonsense/f", (412, 423), "If: " + "</nonsense/f>" + '(["1"])' * 1_500, body="x")
        case("PUT", "/nonsense/f", 400, "If: </nonsense/../f> (<a>)", body="x")
        for to in (
            "",
            "nonsense",
            "//",
            "/nonsense/../x",
            "/nonsense/%2e%2e/x",
            "/nonsense/%00",
            "/nonsense/%ff",
            "/nonsense/%",
            "/.kist/x",
            "/.well-known/x",
            "/%2ewell-known/x",
            "http://",
            "http://kist",
            "http://kist:99999/x",
            "file:///nonsense/x",
            "javascript:x",
            "http://kist/nonsense/\udcff",
            "/" + "n" * 256,
            "/nonsense" + "/a" * 3_000,
            "http://[::1/nonsense",
            "/nonsense/%2F..",
            "ftp://kist/nonsense/x",
        ):
            case("MOVE", "/nonsense/f", (400, 403, 502), f"Destination: {to}")
            case("COPY", "/nonsense/f", (400, 403, 502), f"Destination: {to}")
        case("MOVE", "/nonsense/f", 400)
        case("MOVE", "/nonsense/f", 400, away, away)
        for overwrite in ("", "yes", "TF", "T, F"):
            case("MOVE", "/nonsense/f", 400, away, f"Overwrite: {overwrite}")
        case("MOVE", "/nonsense/f", 400, away, "Overwrite: T", "Overwrite: F")
        for token in ("", "x", "<>", "<urn:uuid:0", "<" + "x" * 20_000 + ">", "<a>, <b>"):
            case("UNLOCK", "/nonsense/f", (400, 409), f"Lock-Token: {token}")
        for mtime in ("x", "1e999", "99999999999999999999", "١"):
            case("PUT", "/nonsense/f", 400, f"X-OC-Mtime: {mtime}", body="x")
        for digest in ("adler32=", "adler32=xyz", "md5=////", "adler32=00000001, adler32=00000002", "crc32c=x"):
            case("PUT", "/nonsense/f", 400, f"Digest: {digest}", body="x")
        case("PUT", "/nonsense/f", 400, "Content-Type: " + "x" * 300, body="x")
        case("PUT", "/nonsense/f", 400, "ArchiveMetadata: !", body="x")
        case("PUT", "/nonsense/f", 400, "ArchiveMetadata: " + base64.b64encode(b'"' + b"x" * 9_000 + b'"').decode(), body="x")
        case("GET", "/nonsense/f", (400, 431), *[f"X-{n}: 1" for n in range(200)])
        case("GET", "/nonsense/f", (400, 431), "X: " + "x" * 100_000)
        case("GET", "/nonsense/f", 400, "X: a\0b")
        case("GET", "/nonsense/f", 400, "X : b")
        case("GET", "/nonsense/f", 400, "X\r\n folded: b")
        for method in ("SEARCH", "REPORT", "PATCH", "TRACE", "get", "X" * 60_000):
            case(method, "/nonsense/f", (400, 405, 431))
        case("CONNECT", "kist:443", (400, 405))
        # These are understood as far as they say something, and bounded.
        for seconds in ("Second-" + "9" * 1_000, "Infinite", "Second--1", "x", "Second-", "Second-1, Second-2", "\udcff"):
            found, header, _ = ask(server, "LOCK", "/nonsense/f", f"Timeout: {seconds}", body=LOCK)
            cases.append((f"LOCK with Timeout {seconds[:40]!r}", found, 200))
            token = re.search("lock-token: (<.*>)", header)
            cases.append(("UNLOCK", ask(server, "UNLOCK", "/nonsense/f", f"Lock-Token: {token[1]}")[0] if token else 0, 204))
        several(cases)


@needs("kist")
def test_ranges_without_end(place):
    server = made(place, "/ranges-hostile")
    url, body = "/ranges-hostile/large", content(200_000)
    equal(ask(server, "PUT", url, body=body)[0], 201)
    cases = []
    with calm(server, 60):
        for name, value, wanted in [
            ("as many as there may be", ",".join(f"{n}-{n}" for n in range(1_024)), 206),
            ("one more", ",".join(f"{n}-{n}" for n in range(1_025)), 416),
            ("10,000", ",".join("0-0" for _ in range(10_000)), 416),
            ("all of it twice", "0-,0-", 416),
            ("all of it a thousand times", ",".join(["0-"] * 1_000), 416),
            ("behind the end", "200000-,200001-", 416),
            ("backwards", "9-0", (200, 416)),
            ("beyond 64 bits", "99999999999999999999999-", (200, 416)),
            ("from the end, more than there is", "-99999999999999999999999", (200, 206, 416)),
            ("nothing", "", (200, 416)),
            ("commas", "," * 20_000, (200, 416)),
            ("another unit", "1-2", 200),
            ("from the end, nothing", "-0", (200, 416)),
        ]:
            unit = "lines" if name == "another unit" else "bytes"
            found, _, answer = ask(server, "GET", url, f"Range: {unit}={value}")
            cases.append((f"{name} ({answer[:60]!r})", found, wanted))
        cases.append(("twice", ask(server, "GET", url, "Range: bytes=0-0", "Range: bytes=1-1")[0], (200, 400, 416)))
        several(cases)


@needs("kist")
def test_clients_that_vanish_in_each_method(place):
    server = made(place, "/vanish")
    server.command("mkdir", "-p", "/vanish/d/e").exits()
    equal(ask(server, "PUT", "/vanish/large", body=content(30_000_000))[0], 201)
    body = b"x" * 300_000
    xml = XML["PROPFIND"].format("<D:getetag/>", "").encode()
    requests = [
        ("GET", "/vanish/large", (), b""),
        ("GET", "/vanish/large", ("Range: bytes=0-9,1000-20000000",), b""),
        ("HEAD", "/vanish/large", ("Want-Digest: md5",), b""),
        ("GET", "/vanish/", ("Accept: text/html",), b""),
        ("OPTIONS", "/", (), b""),
        ("PUT", "/vanish/new", ("Content-Length: 900000",), body),
        ("PUT", "/vanish/new", ("Transfer-Encoding: chunked",), b"493e0\r\n" + body + b"\r\n"),
        ("PUT", "/vanish/f", ("Content-Length: 900000",), body),
        ("PUT", "/vanish/new", ("Content-Length: 900000", "Expect: 100-continue"), b""),
        ("MKCOL", "/vanish/new", ("Content-Length: 9",), b""),
        ("PROPFIND", "/vanish", ("Depth: infinity",), b""),
        ("PROPFIND", "/vanish", (f"Content-Length: {len(xml)}",), xml[:50]),
        ("PROPPATCH", "/vanish/f", ("Content-Length: 99",), b"<a>"),
        ("LOCK", "/vanish/f", ("Content-Length: 99",), b"<a>"),
        ("UNLOCK", "/vanish/f", ("Lock-Token: <urn:x>",), b""),
        ("POST", "/vanish/f", ("Content-Length: 99",), b"{"),
        ("POST", f"{TAPE}/v1/stage", ("Content-Length: 99",), b'{"files":['),
        ("POST", f"{TAPE}/v1/archiveinfo", ("Content-Length: 99",), b"{"),
        ("GET", f"{TAPE}/v1/stage/1", (), b""),
        ("COPY", "/vanish/none", ("Destination: /vanish/x",), b""),
        ("MOVE", "/vanish/none", ("Destination: /vanish/x",), b""),
        ("DELETE", "/vanish/none", (), b""),
        ("COPY", "/vanish/new", ("Source: https://192.0.2.1/f",), b""),
    ]
    with calm(server, 300):
        for _ in range(3):
            for method, path, lines, piece in requests:
                for cut in (False, True):
                    line = Line(server)
                    line.send(head(method, path, *lines, key=server.key) + piece)
                    if cut:
                        # Resets the connection: nothing that is under way is taken any more.
                        line.socket.setsockopt(1, 13, b"\1\0\0\0\0\0\0\0")
                    line.socket.close()
