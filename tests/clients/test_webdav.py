"""WebDAV: litmus, davix, gfal2 and curl."""

import hashlib
import json
import re
import zlib

from harness.checks import contains, equal
from harness.cold import go_cold, locality
from harness.kist import Kist
from harness.suite import needs
from harness.world import content

# The suites of litmus 0.13. What it warns of is no failure: see docs/reference/webdav.md.
# The Python that Debian's gfal2 is made for, whatever comes first in PATH.
GFAL = {"GFAL_PYTHONBIN": "/usr/bin/python3"}
SUITES = ("basic", "copymove", "props", "locks", "http")


def bearer(server):
    return "-H", f"Authorization: Bearer {server.key}"


def curl(place, *arguments, server=None):
    """Runs curl with the administrator's key; gives status and body."""
    ran = place.run("curl", "-sS", "-w", "\\n%{http_code}", *bearer(server or place.server), *arguments).exits()
    body, _, status = ran.out.rpartition("\n")
    return int(status), body


@needs("kist")
def test_litmus(place):
    made = json.loads(place.kist("key", "create", "litmus", "--admin", "--json").exits().out)
    place.kist("mkdir", "/litmus-tests").exits()
    for suite in SUITES:
        ran = place.run(
            "litmus", f"{place.server.webdav}/litmus-tests/", "litmus", made["secret"], env={"TESTS": suite}, cwd=place.directory
        )
        contains(ran.out, f"<- summary for `{suite}'")
        summary = re.search(r"of (\d+) tests run: (\d+) passed, (\d+) failed", ran.out)
        if not summary or summary[3] != "0" or ran.code != 0:
            raise AssertionError(f"litmus {suite} ended with {ran.code}:\n{ran.out[-4000:]}")


@needs("kist")
def test_davix(place):
    server = Kist(place.directory / "kist", tls=True)
    server.start()
    try:
        davix_commands(place, server)
    finally:
        server.stop()


def davix_commands(place, server):
    body = content(3_000_000)
    file, back = place.file("a", body), place.directory / "back"
    url = f"{server.webdav}/dir"
    how = (*bearer(server), "-k")
    place.run("davix-mkdir", *how, url).exits()
    place.run("davix-put", *how, file, f"{url}/a").exits()
    equal("a" in place.run("davix-ls", *how, url).exits().out.split(), True, "the listing")
    contains(place.run("davix-ls", "-l", *how, url).exits().out, "3000000")
    place.run("davix-get", *how, f"{url}/a", back).exits()
    equal(back.read_bytes() == body, True, "the bytes")
    # davix-mv 0.8.4 ends with 255 however it went.
    place.run("davix-mv", *how, f"{url}/a", f"{url}/b")
    equal(place.run("davix-get", *how, f"{url}/a", back).code != 0, True, "what was moved is gone")
    place.run("davix-rm", *how, f"{url}/b").exits()
    equal(place.run("davix-ls", *how, url).exits().out.split(), [], "an empty directory")


@needs("kist")
def test_gfal(place):
    """gfal2 speaks plain WebDAV at dav://, and finds the token in the environment."""
    body = content(200_000)
    file, back = place.file("a", body), place.directory / "back"
    root = place.server.webdav.replace("http://", "dav://")
    env = {"BEARER_TOKEN": place.server.key, **GFAL}

    def gfal(command, *arguments, code=0):
        return place.run(f"gfal-{command}", *arguments, env=env).exits(code)

    gfal("mkdir", "-p", f"{root}/gfal/deep")
    gfal("copy", f"file://{file}", f"{root}/gfal/deep/a")
    contains(gfal("ls", "-l", f"{root}/gfal/deep").out, "200000", "a")
    contains(gfal("stat", f"{root}/gfal/deep/a").out, "Size: 200000")
    adler = f"{zlib.adler32(body):08x}"
    contains(gfal("sum", f"{root}/gfal/deep/a", "ADLER32").out, adler)
    contains(gfal("sum", f"{root}/gfal/deep/a", "MD5").out, hashlib.md5(body).hexdigest())
    gfal("copy", "-f", f"{root}/gfal/deep/a", f"file://{back}")
    equal(back.read_bytes() == body, True, "the bytes")
    gfal("rename", f"{root}/gfal/deep/a", f"{root}/gfal/deep/b")
    gfal("rm", f"{root}/gfal/deep/b")
    equal(place.run("gfal-stat", f"{root}/gfal/deep/b", env=env).code != 0, True, "what was removed is gone")


@needs("kist")
def test_files_on_tape_are_refused_at_once(place):
    bucket, s3, body = place.bucket(), place.client(), content(300_000)
    s3.put_object(Bucket=bucket, Key="cold", Body=body, StorageClass="GLACIER")
    go_cold(place, bucket, ["cold"])
    url = f"{place.server.webdav}/{bucket}/cold"
    status, told = curl(place, url)
    equal((status, json.loads(told)["type"]), (503, "not-staged"))
    contains(curl(place, "-I", url)[1].lower(), "kist-locality: nearline", "content-length: 300000")
    contains(curl(place, "-D", "-", "-o", "/dev/null", url)[1].lower(), "retry-after: 3600")
    contains(curl(place, "-H", "Accept: text/html", url)[1], "<h1>503", "NEARLINE")
    env = {"BEARER_TOKEN": place.server.key, **GFAL}
    dav = url.replace("http://", "dav://")
    refused = place.run("gfal-copy", dav, f"file://{place.directory}/back", env=env, patience=60)
    equal(refused.code != 0, True, "gfal-copy of a file on tape")
    refused = place.run("davix-get", *bearer(place.server), url, patience=60)
    equal(refused.code != 0, True, "davix-get of a file on tape")
    equal(locality(place, f"/{bucket}/cold"), "NEARLINE", "nothing was staged")


@needs("kist")
def test_what_is_put_at_one_door_is_seen_at_all(place):
    bucket, s3 = place.bucket(), place.client()
    root = f"{place.server.webdav}/{bucket}"
    file = place.file("a", b"webdav")
    equal(curl(place, "-T", file, "-H", "Content-Type: text/x-test", f"{root}/a")[0], 201)
    got = s3.get_object(Bucket=bucket, Key="a")
    equal((got["Body"].read(), got["ContentType"]), (b"webdav", "text/x-test"))
    s3.put_object(Bucket=bucket, Key="b", Body=b"s3", ContentType="text/y-test")
    contains(curl(place, "-D", "-", f"{root}/b")[1], "text/y-test", "s3")
    equal(place.kist("cat", f"/{bucket}/b").code in (0, 2), True)
    told = curl(place, "-X", "PROPFIND", "-H", "Depth: 1", f"{root}/")[1]
    contains(told, f"<D:href>/{bucket}/a</D:href>", f"<D:href>/{bucket}/b</D:href>")
    # A lock holds against S3 too.
    info = (
        "<D:lockinfo xmlns:D='DAV:'><D:lockscope><D:exclusive/></D:lockscope>"
        "<D:locktype><D:write/></D:locktype></D:lockinfo>"
    )
    status, answer = curl(place, "-D", "-", "-X", "LOCK", "-d", info, f"{root}/a")
    equal(status, 200)
    token = re.search("(?i)lock-token: <(.*)>", answer)[1]
    try:
        s3.put_object(Bucket=bucket, Key="a", Body=b"other")
        raise AssertionError("a locked object was overwritten")
    except s3.exceptions.ClientError as error:
        equal(error.response["Error"]["Code"], "OperationAborted")
    equal(curl(place, "-X", "DELETE", f"{root}/a")[0], 423)
    equal(curl(place, "-X", "UNLOCK", "-H", f"Lock-Token: <{token}>", f"{root}/a")[0], 204)
    equal(curl(place, "-X", "DELETE", f"{root}/a")[0], 204)


@needs("kist")
def test_ranges_digests_and_conditions(place):
    place.kist("mkdir", "/ranges").exits()
    body = content(1_000_000)
    url = f"{place.server.webdav}/ranges/f"
    file = place.file("f", body)
    adler = f"{zlib.adler32(body):08x}"
    equal(curl(place, "-T", file, "-H", "Digest: adler32=00000001", url)[0], 400)
    equal(curl(place, "-I", url)[0], 404)
    md5 = hashlib.md5(body).hexdigest()
    equal(curl(place, "-T", file, "-H", f"Digest: adler32={adler},md5={md5}", url)[0], 201)
    contains(curl(place, "-I", "-H", "Want-Digest: ADLER32", url)[1].lower(), f"digest: adler32={adler}")
    got = place.run("curl", "-sS", *bearer(place.server), "-r", "10-19,999990-", url).exits().raw
    contains(got.decode("latin-1"), "Content-Range: bytes 10-19/1000000", "Content-Range: bytes 999990-999999/1000000")
    equal(body[10:20] in got and body[999990:] in got, True, "both parts")
    tag = re.search('(?i)etag: (".*")', curl(place, "-I", url)[1])[1]
    equal(curl(place, "-H", f"If-None-Match: {tag}", url)[0], 304)
    equal(curl(place, "-T", file, "-H", 'If-Match: "0"', url)[0], 412)
    equal(curl(place, "-T", file, "-H", "If-None-Match: *", url)[0], 412)
    equal(curl(place, "-T", file, "-H", f"If-Match: {tag}", url)[0], 204)


@needs("kist")
def test_conditions_and_locks_that_a_reader_found_wanting(place):
    place.kist("mkdir", "-p", "/found/private").exits()
    root = f"{place.server.webdav}/found"
    file = place.file("f", b"one")
    equal(curl(place, "-T", file, f"{root}/f")[0], 201)
    tag = re.search('(?i)etag: (".*")', curl(place, "-I", f"{root}/f")[1])[1]
    # A tag in If holds when the file gets its name; where it could not, it is refused.
    equal(curl(place, "-T", file, "-H", f"If: ([{tag}])", f"{root}/f")[0], 204)
    equal(curl(place, "-T", place.file("g", b"two"), "-H", 'If: (["0"])', f"{root}/f")[0], 412)
    equal(curl(place, "-X", "DELETE", "-H", f"If: ([{tag}])", f"{root}/f")[0], 400)
    equal(curl(place, "-X", "DELETE", "-H", "If-None-Match: *", f"{root}/f")[0], 400)
    source = "Source: https://example.org/x"
    equal(curl(place, "-X", "COPY", "-H", source, "-H", "If-Match: *", f"{root}/f")[0], 400)
    # XML of a namespace as long as the body, for each of thousands of elements.
    body = f"<D:propfind xmlns:D='DAV:' xmlns:p='{'x' * 200_000}'><D:prop>{'<p:a/>' * 4000}</D:prop></D:propfind>"
    equal(curl(place, "-X", "PROPFIND", "-d", f"@{place.file('xml', body.encode())}", f"{root}/")[0], 400)
    # A lock reaches what its holder may change, and nothing else; to read a token is not to hold it.
    keys = {name: json.loads(place.kist("key", "create", name, "--json").exits().out)["secret"] for name in ("anna", "bert")}
    place.kist("acl", "set", "/found", "user:anna=rlw", "user:bert=rl").exits()
    place.kist("acl", "set", "/found/private", "user:bert=rlw").exits()

    def by(name, *arguments):
        ran = place.run("curl", "-sS", "-w", "\\n%{http_code}", "-H", f"Authorization: Bearer {keys[name]}", *arguments).exits()
        body, _, status = ran.out.rpartition("\n")
        return int(status), body

    info = (
        "<D:lockinfo xmlns:D='DAV:'><D:lockscope><D:exclusive/></D:lockscope>"
        "<D:locktype><D:write/></D:locktype></D:lockinfo>"
    )
    status, answer = by("anna", "-D", "-", "-X", "LOCK", "-d", info, f"{root}/")
    equal(status, 200)
    token = re.search("(?i)lock-token: <(.*)>", answer)[1]
    equal(by("bert", "-T", file, f"{root}/private/f")[0], 201, "what anna may not change is not locked")
    equal(curl(place, "-T", file, f"{root}/new")[0], 423, "not even by an admin")
    equal(curl(place, "-T", file, f"{place.server.url}/data/found/deep/new")[0], 423, "nor with directories that are made")
    contains(place.kist("lock", "ls").exits().out, "/found", "anna", "exclusive", "all below")
    equal(by("bert", "-X", "UNLOCK", "-H", f"Lock-Token: <{token}>", f"{root}/")[0], 409)
    place.kist("lock", "rm", "/found").exits()
    contains(place.kist("lock", "ls").exits().out, "nothing is locked")
    equal(curl(place, "-T", file, f"{root}/new")[0], 201)
    # A tree that cannot be copied whole leaves nothing of it, and nothing of others.
    status, told = curl(place, "-X", "COPY", "-H", f"Destination: {root}/copy", f"{root}/")
    equal(status, 403, told)
