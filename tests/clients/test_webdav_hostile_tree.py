"""What no client asks of a tree: paths, listings, locks, copies into themselves; and what became of heads that stopped."""

import json
import random
import re
import threading
import time

from harness.checks import contains, equal, until
from harness.raw import BEGUN, LOCK, LOCKINFO, XML, Line, ask, calm, head, made, several, tree
from harness.suite import needs
from harness.world import content


@needs("kist")
def test_tricks_with_paths(place):
    server = made(place, "/paths")
    paths = [
        "/paths/..",
        "/paths/../f",
        "/paths/./f",
        "/paths/%2e%2e/f",
        "/paths/%2E%2e",
        "/paths/.%2e/f",
        "/paths/%2e",
        "/paths/a%2ff",
        "/paths/a%2F..%2Ff",
        "/paths/%00",
        "/paths/f%00",
        "/paths/%ff%fe",
        "/paths/%c0%ae%c0%ae/f",
        "/paths/%",
        "/paths/%2",
        "/paths/%zz",
        "/paths/%u002e",
        "/" + "n" * 256,
        "/" + "%41" * 256,
        "/paths" + "/abc" * 1_400,
        "/.kist",
        "/.kist/x",
        "/%2ekist/x",
        "/%2e%6bist",
        "//.kist//x",
        "/.well-known",
        "/.well-known/x",
        "/%2ewell-known/x",
        "//.well-known//x",
        "/.well-known%2fx",
        "/.well-known/",
        "/.well-known/../f",
        "/.well-known/wlcg-tape-rest-api/../../paths/f",
        "/.well-known/wlcg-tape-rest-apix",
        "/%2e%77ell-known/wlcg-tape-rest-api/v1/stage",
        "/paths/\udcff",
        "/paths\\..\\f" "/..",
        "/..",
        "/.",
        "paths/f",
        "*",
    ]
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
    many = (
        "<D:propertyupdate xmlns:D='DAV:'><D:set><D:prop><x xmlns='urn:x'>{}</x></D:prop></D:set></D:propertyupdate>".format(
            "x" * 60_000
        )
    )
    for at in range(40):
        equal(ask(server, "PROPPATCH", f"/listed/d{at}", body=many)[0], 207)
    over = threading.Event()
    failed = []

    def change():
        chance = random.Random(1)
        while not over.is_set():
            at, to = chance.randrange(40), chance.randrange(40)
            for request in [
                ("PUT", f"/listed/d{at}/e/f"),
                ("MOVE", f"/listed/d{at}/e", f"Destination: /listed/d{to}/e"),
                ("DELETE", f"/listed/d{at}/e"),
                ("MKCOL", f"/listed/d{at}/e"),
            ]:
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
                equal(ask(server, "PROPFIND", "/listed/f", "Depth: 0")[0], 207, "beside answers that nobody takes")
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
    # A path has at most 16 shared ones.
    paths = ["/locks/f", *(f"/locks/g{at}" for at in range(62))]
    for path in paths[1:]:
        equal(ask(server, "PUT", path, body="g")[0], 201)
    secret = json.loads(server.command("key", "create", "locker", "--admin", "--json").exits().out)["secret"]
    before = tree(server)
    tokens = []
    body = LOCKINFO.format("o" * 4_000, "").replace("exclusive", "shared")
    began = time.monotonic()
    with Line(server) as line:
        for at in range(1_001):
            line.send(head("LOCK", paths[at // 16], f"Content-Length: {len(body)}", key=secret, close=False) + body.encode())
            status, header, answer = line.answer()
            equal(status, 200 if at < 1_000 else 423, f"lock {at}: {answer[:300]}")
            if status == 200:
                tokens.append(re.search("lock-token: (<.*>)", header)[1])
    equal(len(tokens), 1_000)
    status, _, answer = ask(server, "LOCK", "/locks/f", body=body, key=secret)
    equal((status, "16 shared locks" in answer), (423, True), "one beyond those of a path")
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
        for at, token in enumerate(tokens):
            line.send(head("UNLOCK", paths[at // 16], f"Lock-Token: {token}", key=secret, close=False))
            equal(line.answer()[0], 204)
    if time.monotonic() - began > 120:
        raise AssertionError("a thousand locks took more than two minutes")
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
            for source, to in [
                ("/tree/a", "/tree/a"),
                ("/tree/a/", "/tree/a"),
                ("/tree/a", "/tree/a/b"),
                ("/tree/a", "/tree/a/b/c/d"),
                ("/tree/a", "/tree/a/new"),
                ("/tree/a/b", "/tree/a"),
                ("/tree/a/b", "/tree"),
                ("/tree/a/b/h", "/tree/a/b"),
                ("/tree/a/b/h", "/tree/a"),
                ("/tree/a/b/h", "/tree"),
                ("/", "/tree/a/x"),
                ("/", "/"),
                ("/tree", "/"),
                ("/tree/f", "/"),
                ("/tree/f", "/tree/f"),
                ("/tree/f", "/tree/f/x"),
                ("/tree/f", "/tree/none/x"),
            ]:
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
        ("MOVE", "/tree/a", "Destination: /tree/z"),
        ("MOVE", "/tree/f", "Destination: /tree/a", "Overwrite: T"),
        ("COPY", "/tree/a/g", "Destination: /tree/f"),
        ("COPY", "/tree/a/g", "Destination: /tree/a/b", "Overwrite: T"),
        ("MOVE", "/tree/a/g", "Destination: /tree/f"),
        ("DELETE", "/tree/a"),
        ("DELETE", "/tree"),
        ("PUT", "/tree/f"),
        ("PROPPATCH", "/tree/f"),
        ("MOVE", "/tree/a/b", "Destination: /tree/y"),
        ("LOCK", "/tree"),
        ("LOCK", "/tree/f"),
        ("PUT", "/tree/f", f"If: ({token['/tree/f']})"),
        ("DELETE", "/tree/f", f"If: ({token['/tree/f']})"),
    ]:
        body = {"PUT": "x", "LOCK": LOCK, "PROPPATCH": XML["PROPPATCH"].format("<x/>", "")}.get(method)
        cases.append((f"{method} {source} {lines}", ask(server, method, source, *lines, body=body)[0], 423))
    equal(tree(server), before, "what there is")
    for path, held in token.items():
        cases.append((f"UNLOCK {path}", ask(server, "UNLOCK", path, f"Lock-Token: {held}", key=secret)[0], 204))
    several(cases)


@needs("kist")
def test_heads_that_stopped_have_ended(place):
    server = made(place, "/ended")
    for line, begun in BEGUN:
        until("a head that does not end is ended", line.is_closed, max(1, begun + 45 - time.monotonic()))
        line.socket.close()
    with calm(server):
        pass
