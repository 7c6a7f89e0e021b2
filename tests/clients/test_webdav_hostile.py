"""What no client sends, at the WebDAV listener and what is mounted below it: it is refused, holds nothing and nobody up."""

import base64
import json
import random
import re
import threading
import time

from harness.checks import contains, equal, until
from harness.raw import Line, ask, calm, head, tree
from harness.suite import needs
from harness.world import content

TAPE = "/.well-known/wlcg-tape-rest-api"
LOCKINFO = (
    "<D:lockinfo xmlns:D='DAV:' {1}><D:lockscope><D:exclusive/></D:lockscope><D:locktype><D:write/></D:locktype>"
    "<D:owner>{0}</D:owner></D:lockinfo>"
)
LOCK = LOCKINFO.format("", "")
# Bodies of the methods that take one, with room for what stands in it and for attributes of its root.
XML = {
    "PROPFIND": "<D:propfind xmlns:D='DAV:' {1}><D:prop>{0}</D:prop></D:propfind>",
    "PROPPATCH": "<D:propertyupdate xmlns:D='DAV:' {1}><D:set><D:prop>{0}</D:prop></D:set></D:propertyupdate>",
    "LOCK": LOCKINFO,
}
# Heads that began with the first of these tests; the last one looks what became of them.
BEGUN = []


def made(place, directory):
    """A directory with a file in it; gives the administrator's server."""
    server = place.server
    server.command("mkdir", "-p", directory).exits()
    equal(ask(server, "PUT", f"{directory}/f", body="123456789")[0], 201)
    return server


def several(cases):
    """Runs cases and says all that went otherwise than wanted, with their names."""
    wrong = [f"{name}: {found}, wanted {wanted}" for name, found, wanted in cases
             if found not in (wanted if isinstance(wanted, tuple) else (wanted,))]
    if wrong:
        raise AssertionError("\n".join(wrong))


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
        for method, path in [("PUT", "/stops/new"), ("PUT", "/stops/f"), ("MKCOL", "/stops/d"), ("PROPFIND", "/stops"), ("PROPPATCH", "/stops/f"),
                             ("LOCK", "/stops/f"), ("POST", "/stops/f"), ("POST", f"{TAPE}/v1/stage"), ("POST", f"{TAPE}/v1/archiveinfo")]:
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
            if time.monotonic() - began > 20:
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
            line.send(head("PUT", "/bodies/f", "Content-Length: 30", chunked, key=server.key) + b"9\r\n123456789\r\n0\r\n\r\n" + b"x" * 30)
            equal(line.answer()[0], 204)
        equal(ask(server, "GET", "/bodies/f")[2], "123456789")
        several(cases)


def xml_bombs():
    """Bodies; each may cost what it weighs, and not more."""
    entities = "<!DOCTYPE a [<!ENTITY a 'ha'>" + "".join(f"<!ENTITY a{n} '{f'&a{n - 1};' * 10}'>" for n in range(1, 10)) + "]>"
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
                cases.append((f"seconds of {name} with {method}", time.monotonic() - began < 5, True))
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
                cases.append((f"{name} at archiveinfo", ask(server, "POST", f"{TAPE}/v1/archiveinfo", kind, body=body)[0], (0, 400, 413)))
            if name == "nothing":
                continue
            macaroon = "Content-Type: application/macaroon-request"
            cases.append((f"{name} for a macaroon", ask(server, "POST", "/json/f", macaroon, body=body)[0], (0, 400, 413)))
        for name, body in {"33 caveats": {"caveats": ["activity:LIST"] * 33}, "50,000 caveats": {"caveats": [""] * 50_000},
                           "a caveat of 200 kB": {"caveats": ["name:" + "x" * 200_000]}, "no caveat": {"caveats": ["x"]},
                           "no validity": {"validity": "-PT1H"}, "any validity": {"validity": "P" + "9" * 10_000 + "Y"},
                           "a path elsewhere": {"caveats": ["path:/other"]}, "another type": {"caveats": "activity:LIST"}}.items():
            found = ask(server, "POST", "/json/f", "Content-Type: application/macaroon-request", body=json.dumps(body))[0]
            cases.append((name, found, (400, 403, 413)))
        equal(len(json.loads(ask(server, "POST", f"{TAPE}/v1/archiveinfo", kind, body=paths)[2])), 10_000, "as many as there may be")
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
        for conditions in ("(", "()", "x", "(<a)", "<a>", "(Not)", "([])x", "(<a>) </b> (<c>)", "(" * 8_000, "(<a>" * 3_000, "<http://[>(<a>)", "([a)", "</\x80>(<a>)"):
            case("PUT", "/nonsense/f", 400, f"If: {conditions}", body="x")
        case("PUT", "/nonsense/f", 400, "If: " + "(<urn:x>)" * 4_000, body="x")
        case("PUT", "/nonsense/f", (412, 423), "If: " + "(<a>)" * 3_000, body="x")
        case("PUT", "/nonsense/f", (412, 423), "If: " + "</nonsense/f>" + "([\"1\"])" * 1_500, body="x")
        case("PUT", "/nonsense/f", 400, "If: </nonsense/../f> (<a>)", body="x")
        for to in ("", "nonsense", "//", "/nonsense/../x", "/nonsense/%2e%2e/x", "/nonsense/%00", "/nonsense/%ff", "/nonsense/%", "/.kist/x", "/.well-known/x",
                   "/%2ewell-known/x", "http://", "http://kist", "http://kist:99999/x", "file:///nonsense/x", "javascript:x", "http://kist/nonsense/\udcff",
                   "/" + "n" * 256, "/nonsense" + "/a" * 3_000, "http://[::1/nonsense", "/nonsense/%2F..", "ftp://kist/nonsense/x"):
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
def test_tricks_with_paths(place):
    server = made(place, "/paths")
    paths = ["/paths/..", "/paths/../f", "/paths/./f", "/paths/%2e%2e/f", "/paths/%2E%2e", "/paths/.%2e/f", "/paths/%2e", "/paths/a%2ff", "/paths/a%2F..%2Ff",
             "/paths/%00", "/paths/f%00", "/paths/%ff%fe", "/paths/%c0%ae%c0%ae/f", "/paths/%", "/paths/%2", "/paths/%zz", "/paths/%u002e", "/" + "n" * 256,
             "/" + "%41" * 256, "/paths" + "/abc" * 1_400, "/.kist", "/.kist/x", "/%2ekist/x", "/%2e%6bist", "//.kist//x", "/.well-known", "/.well-known/x",
             "/%2ewell-known/x", "//.well-known//x", "/.well-known%2fx", "/.well-known/", "/.well-known/../f", "/.well-known/wlcg-tape-rest-api/../../paths/f",
             "/.well-known/wlcg-tape-rest-apix", "/%2e%77ell-known/wlcg-tape-rest-api/v1/stage", "/paths/\udcff", "/paths\\..\\f" "/..", "/..", "/." , "paths/f", "*"]
    cases = []
    with calm(server):
        for path in paths:
            for method in ("PUT", "GET", "PROPFIND", "DELETE", "MKCOL", "LOCK", "MOVE"):
                lines = ["Destination: /paths/gone"] if method == "MOVE" else []
                body = {"PUT": "x", "LOCK": LOCK}.get(method)
                found = ask(server, method, path, *lines, body=body)[0]
                cases.append((f"{method} {path[:70]!r}", found, (400, 403, 404, 405, 409, 414, 501)))
        cases.append(("an address of 20 kB", ask(server, "GET", "/" + "a/" * 10_000)[0], (400, 414)))
        cases.append(("a query of 20 kB", ask(server, "GET", "/paths/f?" + "a" * 20_000)[0], 414))
        for query in ("after=%ff", "after=..", "after=" + "x" * 5_000, "after=a&after=b", "after=%2e%2e%2f", "%00", "after"):
            cases.append((f"the page with {query[:20]}", ask(server, "GET", f"/paths/?{query}")[0], (200, 400)))
        several(cases)
    # What the address says is told, and never as markup.
    status, header, page = ask(server, "GET", "/paths/%3Cscript%3Ealert(1)%3C%2Fscript%3E", "Accept: text/html")
    equal((status, "<script>" in page), (404, False))
    equal(ask(server, "PUT", "/paths/%3Cscript%3E%22%26'%0D%0A", body="x")[0] in (201, 400), True)
    for path, lines in (("/paths/", ("Accept: text/html",)), ("/paths", ("Depth: 1",))):
        equal("<script>" in ask(server, "PROPFIND" if lines[0][0] == "D" else "GET", path, *lines)[2], False, path)
    header = ask(server, "GET", "/paths/%3Cscript%3E%22%26'%0D%0A/")[1]
    equal("script>\"&'\r\n" in header, False, "no header is made of a name")


@needs("kist")
def test_listings_of_what_changes_and_that_nobody_reads(place):
    server = made(place, "/listed")
    for at in range(40):
        server.command("mkdir", "-p", f"/listed/d{at}/e").exits()
    many = "<D:propertyupdate xmlns:D='DAV:'><D:set><D:prop><x xmlns='urn:x'>{}</x></D:prop></D:set></D:propertyupdate>".format("x" * 60_000)
    for at in range(40):
        equal(ask(server, "PROPPATCH", f"/listed/d{at}", body=many)[0], 207)
    over = threading.Event()
    failed = []

    def change():
        chance = random.Random(1)
        while not over.is_set():
            at, to = chance.randrange(40), chance.randrange(40)
            for request in [("PUT", f"/listed/d{at}/e/f"), ("MOVE", f"/listed/d{at}/e", f"Destination: /listed/d{to}/e"), ("DELETE", f"/listed/d{at}/e"), ("MKCOL", f"/listed/d{at}/e")]:
                status = ask(server, request[0], request[1], *request[2:], body="x" if request[0] == "PUT" else None)[0]
                if status >= 500 or status == 0:
                    failed.append((request, status))

    asked = "<D:propfind xmlns:D='DAV:'><D:allprop/></D:propfind>"
    with calm(server, 200, changes=True):
        changing = threading.Thread(target=change)
        changing.start()
        try:
            for _ in range(15):
                status, _, answer = ask(server, "PROPFIND", "/listed", "Depth: infinity", body=asked)
                equal(status, 207)
                contains(answer, "</D:multistatus>")
            # Listings and parts that nobody takes: those who come later get theirs, their own caller's too.
            equal(ask(server, "PUT", "/listed/large", body=content(20_000_000))[0], 201)
            unread = []
            for at in range(40):
                line = Line(server)
                line.socket.setsockopt(1, 8, 4096)
                if at % 2:
                    line.send(head("PROPFIND", "/listed", "Depth: infinity", key=server.key))
                else:
                    line.send(head("GET", "/listed/large", "Range: bytes=0-9999999,10000000-19999999", key=server.key))
                unread.append(line)
            time.sleep(0.5)
            for _ in range(5):
                began = time.monotonic()
                equal(ask(server, "PROPFIND", "/listed/f", "Depth: 0")[0], 207, "beside answers that nobody takes")
                if time.monotonic() - began > 5:
                    raise AssertionError(f"who asks about one file waited for {time.monotonic() - began:.0f} s")
            other = json.loads(server.command("key", "create", "other", "--admin", "--json").exits().out)["secret"]
            equal(ask(server, "PROPFIND", "/listed", "Depth: 1", key=other)[0], 207, "somebody else's listing")
            for line in unread:
                line.socket.close()
        finally:
            over.set()
            changing.join()
    equal(failed, [], "changes beside listings")


@needs("kist")
def test_as_many_locks_as_there_may_be_and_one_more(place):
    server = made(place, "/locks")
    server.command("mkdir", "/locks/many").exits()
    secret = json.loads(server.command("key", "create", "locker", "--admin", "--json").exits().out)["secret"]
    before = tree(server)
    tokens = []
    body = LOCKINFO.format("o" * 4_000, "").replace("exclusive", "shared")
    began = time.monotonic()
    with Line(server) as line:
        for at in range(1_001):
            line.send(head("LOCK", "/locks/f", f"Content-Length: {len(body)}", key=secret, close=False) + body.encode())
            status, header, answer = line.answer()
            equal(status, 200 if at < 1_000 else 423, f"lock {at}: {answer[:300]}")
            if status == 200:
                tokens.append(re.search("lock-token: (<.*>)", header)[1])
    equal(len(tokens), 1_000)
    # One beyond makes no empty file either.
    equal(ask(server, "LOCK", "/locks/many/new", body=body, key=secret)[0] >= 400, True)
    equal(tree(server), before, "what there is")
    # They hold, and cost others nothing.
    equal(ask(server, "DELETE", "/locks/f")[0], 423)
    equal(ask(server, "DELETE", "/locks")[0], 423)
    equal(ask(server, "PUT", "/locks/many/x", body="x")[0], 201)
    equal(ask(server, "COPY", "/locks/many/x", "Destination: /locks/f")[0], 423)
    equal(ask(server, "DELETE", "/locks/many/x")[0], 204)
    status, _, listed = ask(server, "PROPFIND", "/locks", "Depth: infinity")
    equal((status, listed.count("<D:locktoken>")), (207, 1_000))
    stranger = json.loads(server.command("key", "create", "stranger", "--json").exits().out)["secret"]
    found = ask(server, "UNLOCK", "/locks/f", f"Lock-Token: {tokens[0]}", key=stranger)[0]
    equal(found in (403, 404, 409), True, f"a token is its owner's alone: {found}")
    with Line(server) as line:
        for token in tokens:
            line.send(head("UNLOCK", "/locks/f", f"Lock-Token: {token}", key=secret, close=False))
            equal(line.answer()[0], 204)
    if time.monotonic() - began > 60:
        raise AssertionError("a thousand locks took more than a minute")
    with calm(server):
        pass


@needs("kist")
def test_copies_and_moves_into_themselves_and_over_locks(place):
    server = made(place, "/tree")
    server.command("mkdir", "-p", "/tree/a/b/c").exits()
    for path in ("/tree/a/g", "/tree/a/b/h"):
        equal(ask(server, "PUT", path, body=path)[0], 201)
    cases = []
    with calm(server):
        for method in ("COPY", "MOVE"):
            for source, to in [("/tree/a", "/tree/a"), ("/tree/a/", "/tree/a"), ("/tree/a", "/tree/a/b"), ("/tree/a", "/tree/a/b/c/d"), ("/tree/a", "/tree/a/new"),
                               ("/tree/a/b", "/tree/a"), ("/tree/a/b", "/tree"), ("/tree/a/b/h", "/tree/a/b"), ("/tree/a/b/h", "/tree/a"), ("/tree/a/b/h", "/tree"),
                               ("/", "/tree/a/x"), ("/", "/"), ("/tree", "/"), ("/tree/f", "/"), ("/tree/f", "/tree/f"), ("/tree/f", "/tree/f/x"), ("/tree/f", "/tree/none/x")]:
                for overwrite in ("T", "F"):
                    found = ask(server, method, source, f"Destination: {to}", f"Overwrite: {overwrite}")[0]
                    cases.append((f"{method} {source} {to} {overwrite}", found, (403, 409, 412)))
        cases.append(("DELETE /", ask(server, "DELETE", "/")[0], (400, 403, 409)))
        several(cases)
    # Over what somebody else has locked, anywhere in it.
    secret = json.loads(server.command("key", "create", "holder", "--admin", "--json").exits().out)["secret"]
    cases, token = [], {}
    before = tree(server)
    for path in ("/tree/a/b/h", "/tree/f"):
        status, header, _ = ask(server, "LOCK", path, body=LOCK, key=secret)
        equal(status, 200)
        token[path] = re.search("lock-token: (<.*>)", header)[1]
    for method, source, *lines in [
        ("MOVE", "/tree/a", "Destination: /tree/z"), ("MOVE", "/tree/f", "Destination: /tree/a", "Overwrite: T"), ("COPY", "/tree/a/g", "Destination: /tree/f"),
        ("COPY", "/tree/a/g", "Destination: /tree/a/b", "Overwrite: T"), ("MOVE", "/tree/a/g", "Destination: /tree/f"), ("DELETE", "/tree/a"), ("DELETE", "/tree"),
        ("PUT", "/tree/f"), ("PROPPATCH", "/tree/f"), ("MOVE", "/tree/a/b", "Destination: /tree/y"), ("LOCK", "/tree"), ("LOCK", "/tree/f"),
        ("PUT", "/tree/f", f"If: ({token['/tree/f']})"), ("DELETE", "/tree/f", f"If: ({token['/tree/f']})"),
    ]:
        body = {"PUT": "x", "LOCK": LOCK, "PROPPATCH": XML["PROPPATCH"].format("<x/>", "")}.get(method)
        cases.append((f"{method} {source} {lines}", ask(server, method, source, *lines, body=body)[0], 423))
    equal(tree(server), before, "what there is")
    for path, held in token.items():
        cases.append((f"UNLOCK {path}", ask(server, "UNLOCK", path, f"Lock-Token: {held}", key=secret)[0], 204))
    several(cases)


def forged(server, macaroon, token):
    """Credentials that are none, each with what is wrong with it."""
    key = server.key

    def bearer(text):
        return (f"Authorization: Bearer {text}",), ""

    def basic(name, secret):
        return (f"Authorization: Basic {base64.b64encode(f'{name}:{secret}'.encode()).decode()}",), ""

    raw = base64.urlsafe_b64decode(macaroon + "=" * (-len(macaroon) % 4))
    at = raw.index(b"activity:")

    def again(data):
        return bearer(base64.urlsafe_b64encode(data).decode().rstrip("="))

    def flipped(where):
        return again(raw[:where] + bytes([raw[where] ^ 1]) + raw[where + 1:])

    header, payload, signature = token.split(".")

    def jwt(head_of, body_of, signed=signature):
        packed = [base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in (head_of, body_of)]
        return bearer(f"{packed[0]}.{packed[1]}.{signed}")

    claims = {"iss": "https://issuer.example", "sub": "root", "exp": int(time.time()) + 999, "scope": "storage.modify:/", "aud": "any", "wlcg.ver": "1.0"}
    authz = f"authz={key}"
    return {
        "a key cut short": bearer(key[:-1]), "a key with a letter more": bearer(key + "A"), "a key in other case": bearer(key.swapcase()),
        "a key with one letter changed": bearer(key[:-1] + ("A" if key[-1] != "A" else "B")), "a key twice": bearer(f"{key} {key}"),
        "a key in quotes": bearer(f'"{key}"'), "no key": bearer(""), "blanks": bearer("   "), "a slash": bearer("/"), "100 kB": bearer("a" * 50_000),
        "NUL-like escapes": bearer("%00"), "letters beyond ASCII": bearer("\udcc3\udcbc"), "another scheme": ((f"Authorization: Token {key}",), ""),
        "no scheme": ((f"Authorization: {key}",), ""), "Digest": (('Authorization: Digest username="root", nonce="", response=""',), ""),
        "Negotiate": (("Authorization: Negotiate YII=",), ""), "AWS": (("Authorization: AWS4-HMAC-SHA256 Credential=x/y, SignedHeaders=host, Signature=0",), ""),
        "two headers": ((f"Authorization: Bearer {key}", f"Authorization: Bearer {key}"), ""), "a good header and a bad one": ((f"Authorization: Bearer {key}", "Authorization: Bearer x"), ""),
        "authz twice": ((), f"{authz}&{authz}"), "authz twice, the second empty": ((), f"{authz}&authz="), "authz and the header": ((f"Authorization: Bearer {key}",), authz),
        "authz empty": ((), "authz="), "authz of escapes": ((), "authz=%ff%fe"), "authz with half an escape": ((), "authz=%4"), "authz of a blank": ((), "authz=Bearer%20"),
        "authz in a fragment": ((), f"x=1#{authz}") , "authz in capitals": ((), f"AUTHZ=x&authz={key}x"),
        "Basic with another's name": basic("nobody", key), "Basic without a name": basic("", key), "Basic with a name in capitals": basic("ROOT", key),
        "Basic without a key": basic("root", ""), "Basic without a colon": (("Authorization: Basic " + base64.b64encode(key.encode()).decode(),), ""),
        "Basic that is no base64": (("Authorization: Basic !!!",), ""), "Basic of 30 kB": basic("a" * 20_000, "b"), "Basic with a macaroon and a wrong name": basic("eve", macaroon),
        "a macaroon cut short": bearer(macaroon[:-8]), "a macaroon with more behind it": bearer(macaroon + "AAAA"), "a macaroon whose signature is changed": flipped(len(raw) - 3),
        "a macaroon whose identifier is changed": flipped(40), "a macaroon for more": again(raw.replace(b"activity:LIST", b"activity:STAG")),
        "a macaroon whose path is another": again(raw.replace(b"path:/credentials", b"path:/credentialz")), "a macaroon without its caveats": again(raw[: at - 8] + raw[-40:]),
        "a macaroon from elsewhere": again(raw.replace(b"location kist", b"location kisu")), "a macaroon that ends later": again(raw.replace(b"before:2", b"before:3")),
        "a macaroon of NULs": again(b"\0" * 300), "a macaroon of lengths": again(b"ffff" * 100), "a macaroon in JSON": bearer(base64.urlsafe_b64encode(b'{"v":2,"l":"kist"}').decode().rstrip("=")),
        "a macaroon of version 2 that ends at once": again(b"\x02"), "a macaroon of version 2 of lengths": again(b"\x02\x01\xff\xff\xff\xff\xff\xff\xff\xff\x7f"), "a macaroon of 100 kB": again(raw[:20] + b"x" * 30_000),
        "a token of nobody's": jwt({"alg": "RS256"}, claims), "a token that is not signed": jwt({"alg": "none"}, claims, ""), "a token signed with a name": jwt({"alg": "HS256"}, claims),
        "a token whose key is in it": jwt({"alg": "RS256", "jwk": {"kty": "oct", "k": "AA"}}, claims), "a token whose key is at an address": jwt({"alg": "RS256", "jku": "http://127.0.0.1:1/"}, claims),
        "a token with a key of a path": jwt({"alg": "RS256", "kid": "../../../../dev/null"}, claims), "a token of dots": bearer("..."), "a token of one dot": bearer("."), "a token of many": bearer("a." * 2_000),
        "a token that is no JSON": bearer("e30.e30.e30"), "a token of depth": jwt({"alg": "RS256"}, {"a": [[[[[[[[]]]]]]]]}), "a token of numbers": jwt({"alg": 1}, {"iss": 1, "exp": "x"}),
        "a token of an issuer inside": jwt({"alg": "ES256"}, claims | {"iss": "http://169.254.169.254/"}),
    }


@needs("kist")
def test_credentials_that_are_none(place):
    server = made(place, "/credentials")
    kind = "Content-Type: application/macaroon-request"
    told = ask(server, "POST", "/credentials", kind, body='{"caveats":["activity:LIST,READ_METADATA"]}')
    macaroon = json.loads(told[2])["macaroon"]
    equal(ask(server, "PROPFIND", "/credentials", key=macaroon)[0], 207, "the one that is good")
    cases = []
    with calm(server):
        for name, (lines, query) in forged(server, macaroon, "e30.e30.AAAA").items():
            for method, path in (("PROPFIND", "/credentials"), ("DELETE", "/credentials/f"), ("POST", f"{TAPE}/v1/archiveinfo")):
                found = ask(server, method, f"{path}?{query}" if query else path, *lines, key=None)[0]
                # A fragment, and bytes beyond ASCII, are refused as what they are; a header that is too long as well.
                cases.append((f"{name} with {method} {path}", found, (400, 401, 431)))
        # A macaroon gives what its caveats say and nothing else.
        for method, path, wanted, *lines in [("GET", "/credentials/f", (401, 403)), ("DELETE", "/credentials/f", (401, 403)), ("PUT", "/credentials/g", (401, 403)), ("PROPFIND", "/", (401, 403, 404)),
                                             ("PROPFIND", "/xml", (401, 403, 404)), ("MOVE", "/credentials/f", (401, 403), "Destination: /credentials/g"), ("LOCK", "/credentials/f", (401, 403)),
                                             ("COPY", "/credentials/f", (401, 403), "Destination: /credentials/g"), ("POST", "/credentials", (400, 401, 403), kind), ("PROPPATCH", "/credentials/f", (401, 403))]:
            body = {"PUT": "x", "LOCK": LOCK, "POST": "{}", "PROPPATCH": XML["PROPPATCH"].format("<x/>", "")}.get(method)
            for how in ("header", "address"):
                where = path if how == "header" else f"{path}?authz={macaroon}"
                found = ask(server, method, where, *lines, body=body, key=macaroon if how == "header" else None)[0]
                cases.append((f"the macaroon in the {how} with {method} {path}", found, wanted))
        several(cases)


@needs("kist")
def test_clients_that_vanish_in_each_method(place):
    server = made(place, "/vanish")
    server.command("mkdir", "-p", "/vanish/d/e").exits()
    equal(ask(server, "PUT", "/vanish/large", body=content(30_000_000))[0], 201)
    body = b"x" * 300_000
    xml = XML["PROPFIND"].format("<D:getetag/>", "").encode()
    requests = [
        ("GET", "/vanish/large", (), b""), ("GET", "/vanish/large", ("Range: bytes=0-9,1000-20000000",), b""), ("HEAD", "/vanish/large", ("Want-Digest: md5",), b""),
        ("GET", "/vanish/", ("Accept: text/html",), b""), ("OPTIONS", "/", (), b""), ("PUT", "/vanish/new", ("Content-Length: 900000",), body),
        ("PUT", "/vanish/new", ("Transfer-Encoding: chunked",), b"493e0\r\n" + body + b"\r\n"), ("PUT", "/vanish/f", ("Content-Length: 900000",), body),
        ("PUT", "/vanish/new", ("Content-Length: 900000", "Expect: 100-continue"), b""), ("MKCOL", "/vanish/new", ("Content-Length: 9",), b""),
        ("PROPFIND", "/vanish", ("Depth: infinity",), b""), ("PROPFIND", "/vanish", (f"Content-Length: {len(xml)}",), xml[:50]), ("PROPPATCH", "/vanish/f", ("Content-Length: 99",), b"<a>"),
        ("LOCK", "/vanish/f", ("Content-Length: 99",), b"<a>"), ("UNLOCK", "/vanish/f", ("Lock-Token: <urn:x>",), b""), ("POST", "/vanish/f", ("Content-Length: 99",), b"{"),
        ("POST", f"{TAPE}/v1/stage", ("Content-Length: 99",), b'{"files":['), ("POST", f"{TAPE}/v1/archiveinfo", ("Content-Length: 99",), b"{"), ("GET", f"{TAPE}/v1/stage/1", (), b""),
        ("COPY", "/vanish/none", ("Destination: /vanish/x",), b""), ("MOVE", "/vanish/none", ("Destination: /vanish/x",), b""), ("DELETE", "/vanish/none", (), b""),
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


@needs("kist")
def test_heads_that_stopped_have_ended(place):
    server = made(place, "/ended")
    for line, begun in BEGUN:
        until("a head that does not end is ended", line.is_closed, max(1, begun + 45 - time.monotonic()))
        line.socket.close()
    with calm(server):
        pass
