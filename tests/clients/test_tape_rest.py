"""The Tape REST API end to end: gfal2's commands, and curl for what gfal2 does not do."""

import json
import re
import shutil
import time
import zlib
from pathlib import Path

from harness.checks import contains, equal, until
from harness.cold import go_cold, locality
from harness.kist import Kist
from harness.suite import needs
from harness.world import content

# The Python that Debian's gfal2 is made for, whatever comes first in PATH.
GFAL = {"GFAL_PYTHONBIN": "/usr/bin/python3"}
ROOT = "/.well-known/wlcg-tape-rest-api"


def gfal(place, command, *arguments, server=None, code=0, how=()):
    """Runs a command of gfal2 with the administrator's key as token."""
    env = {"BEARER_TOKEN": (server or place.server).key, **GFAL}
    return place.run(f"gfal-{command}", *how, *arguments, env=env).exits(code)


def dav(place, path):
    """As gfal2 writes an address in clear."""
    return place.server.webdav.replace("http://", "dav://") + path


def tape(place, method, path, body=None, code=200, key=None):
    """One call of the API with curl; gives what it answers."""
    sent = ("-H", "Content-Type: application/json", "-d", json.dumps(body)) if body is not None else ()
    ran = place.run(
        "curl",
        "-sS",
        "-X",
        method,
        "-H",
        f"Authorization: Bearer {key or place.server.key}",
        *sent,
        "-w",
        "\n%{http_code}",
        f"{place.server.webdav}{ROOT}{path}",
    ).exits()
    answer, _, status = ran.out.rpartition("\n")
    equal(int(status), code, f"{method} {path}: {answer[:300]}")
    return json.loads(answer) if answer else None


def cold(place, count):
    """Files that are on tape only: their paths."""
    bucket, s3 = place.bucket(), place.client()
    for at in range(count):
        s3.put_object(Bucket=bucket, Key=f"f{at}", Body=content(100_000 + at, seed=at), StorageClass="GLACIER")
    go_cold(place, bucket, [f"f{at}" for at in range(count)])
    return [f"/{bucket}/f{at}" for at in range(count)]


@needs("kist")
def test_gfal_brings_a_list_online_and_lets_it_go(place):
    paths = cold(place, 3)
    listed = place.file("list", "".join(f"{dav(place, path)}\n" for path in paths).encode())
    one = dav(place, paths[0])
    contains(gfal(place, "xattr", one, "user.status").out, "NEARLINE")
    contains(gfal(place, "xattr", one, "taperestapi.version").out, "v1")
    contains(gfal(place, "xattr", one, "taperestapi.uri").out, f"{ROOT}/v1")
    contains(
        gfal(place, "xattr", one, "taperestapi.sitename").out, json.loads(json.dumps(tape(place, "GET", "")))["sitename"]
    )
    # Its sum is known without staging.
    contains(gfal(place, "sum", one, "ADLER32").out, f"{zlib.adler32(content(100_000, seed=0)):08x}")
    told = gfal(place, "bringonline", "--from-file", listed, "--polling-timeout", "90").out
    for path in paths:
        contains(told, f"{path} READY")
        equal(locality(place, path), "ONLINE_AND_NEARLINE", path)
    contains(gfal(place, "xattr", one, "user.status").out, "ONLINE_AND_NEARLINE")
    back = place.directory / "back"
    gfal(place, "copy", one, f"file://{back}")
    equal(back.read_bytes() == content(100_000, seed=0), True, "the bytes")
    told = gfal(place, "archivepoll", "--from-file", listed, "--polling-timeout", "30").out
    for path in paths:
        contains(told, path)
    # Without a request's id, with one that is nobody's, and with that of the stage.
    gfal(place, "evict", one)
    gfal(place, "evict", one, "no-such-request")
    stage = tape(place, "POST", "/v1/stage", {"files": [{"path": path} for path in paths]}, 201)["requestId"]
    polled = until("all are there", lambda: done(tape(place, "GET", f"/v1/stage/{stage}")))
    equal({file["state"] for file in polled["files"]}, {"COMPLETED"})
    gfal(place, "evict", one, stage)
    equal(tape(place, "GET", f"/v1/stage/{stage}")["id"], stage, "a release keeps the request")


def done(polled):
    """A request all of whose files have ended."""
    return polled if all(file.get("finishedAt") for file in polled["files"]) else None


@needs("kist")
def test_what_gfal_says_of_files_that_cannot_come(place):
    [path] = cold(place, 1)
    none = dav(place, f"{path}-none")
    listed = place.file("list", f"{dav(place, path)}\n{none}\n".encode())
    # It ends with 0 all the same: what it prints counts (trap 6).
    told = gfal(place, "bringonline", "--from-file", listed, "--polling-timeout", "90")
    contains(told.out + told.err, f"{path}-none")
    equal(re.search(r"-none.*(FAILED|failed|No such|no such)", told.out + told.err) is not None, True, told.out + told.err)
    equal(locality(place, path), "ONLINE_AND_NEARLINE", "the other one came")
    equal(place.run("gfal-xattr", none, "user.status", env={"BEARER_TOKEN": place.server.key, **GFAL}).code != 0, True)
    # A credential that is none.
    env = {"BEARER_TOKEN": "nobody", **GFAL}
    for command in ("bringonline", "archivepoll", "evict"):
        ran = place.run(f"gfal-{command}", dav(place, path), env=env, patience=60)
        said = ran.out + ran.err
        equal(ran.code != 0 or "40" in said or "ermission" in said or "uth" in said, True, f"{command}: {said}")


@needs("kist")
def test_curl_for_what_gfal_does_not_do(place):
    paths = cold(place, 2)
    discovery = tape(place, "GET", "")
    equal(set(discovery) - {"description"}, {"sitename", "endpoints"})
    equal([(end["uri"], end["version"]) for end in discovery["endpoints"]], [(f"{place.server.webdav}{ROOT}/v1", "v1")])
    equal(tape(place, "POST", "/v1/archiveinfo", {"paths": paths}), [{"path": path, "locality": "TAPE"} for path in paths])
    files = [
        {"path": path, "diskLifetime": "PT1H", "targetedMetadata": {"default": {"activity": "x", "priority": 80}}}
        for path in paths
    ]
    stage = tape(place, "POST", "/v1/stage", {"files": files}, 201)["requestId"]
    again = tape(place, "POST", "/v1/stage", {"files": files[::-1]}, 201)["requestId"]
    # One that has ended meanwhile is another request's business.
    equal(again == stage or done(tape(place, "GET", f"/v1/stage/{stage}")) is not None, True, "the same submission")
    began = time.time()
    polled = until("all are there", lambda: done(tape(place, "GET", f"/v1/stage/{stage}")))
    equal(set(polled) - {"completedAt"}, {"id", "createdAt", "startedAt", "files"})
    equal(polled["createdAt"] <= began + 2 and isinstance(polled["createdAt"], int), True, "when it was made")
    info = tape(place, "POST", "/v1/archiveinfo", {"paths": [*paths, "/none"]})
    equal([line.get("locality") for line in info], ["DISK_AND_TAPE", "DISK_AND_TAPE", None])
    equal(set(info[2]), {"path", "error"})
    # A path that is not of the request: nothing is done. Then one of them, all, and the request itself.
    tape(place, "POST", f"/v1/stage/{stage}/cancel", {"paths": [paths[0], "/none"]}, 400)
    tape(place, "POST", f"/v1/release/{stage}", {"paths": paths})
    tape(place, "DELETE", f"/v1/stage/{stage}")
    tape(place, "GET", f"/v1/stage/{stage}", code=404)
    tape(place, "POST", "/v1/release/gfal2-placeholder-id", {"paths": paths})
    # A list in place of an object, and somebody who may stage nothing, not even what is no path.
    tape(place, "POST", "/v1/stage", {"files": [[paths[0], None, None]]}, 400)
    nobody = json.loads(place.kist("key", "create", "stages-nothing", "--json").exits().out)["secret"]
    for path in (paths[0], "/none", "no path"):
        tape(place, "POST", "/v1/stage", {"files": [{"path": path}]}, 403, key=nobody)


@needs("kist")
def test_a_stage_goes_on_after_a_restart(place):
    server = Kist(place.directory / "kist")
    server.start()
    place.server = server
    try:
        [path] = cold(place, 1)
        stage = tape(place, "POST", "/v1/stage", {"files": [{"path": path}]}, 201)["requestId"]
        server.stop()
        server.start()
        polled = until("it came", lambda: done(tape(place, "GET", f"/v1/stage/{stage}")))
        equal([file["state"] for file in polled["files"]], ["COMPLETED"])
    finally:
        server.stop()


def pair(place, tls):
    """Two servers that take the same key, and may reach each other."""
    one, two = (Kist(place.directory / f"{name}-{tls}", tls=tls) for name in ("one", "two"))
    authorities = place.directory / f"authorities-{tls}.pem"
    authorities.write_bytes(b"".join(Path(server.ca).read_bytes() for server in (one, two) if server.ca))
    for server in (one, two):
        server.configure(
            '\n[third_party_copy]\nallow = ["127.0.0.0/8"]\nhttp = true\n' + f'authorities = ["{authorities}"]\n' * tls
        )
    one.start()
    shutil.copy(one.directory / "keys.toml", two.directory)
    shutil.copy(one.key_file, two.key_file)
    two.start()
    return one, two


@needs("kist")
def test_gfal_copies_between_two(place):
    body = content(3_000_000)
    for tls in (True, False):
        one, two = pair(place, tls)
        try:
            for server in (one, two):
                server.command("mkdir", "/tpc").exits()
            one.command("put", place.file("a", body), "/tpc/a").exits()
            hosts = [server.webdav.replace("http", "dav", 1) for server in (one, two)]
            for mode in ("pull", "push", "streamed"):
                how = ["-vvv", "-D", "HTTP PLUGIN:INSECURE=true", "-K", "ADLER32", "--copy-mode", mode]
                ran = gfal(place, "copy", f"{hosts[0]}/tpc/a", f"{hosts[1]}/tpc/{mode}", server=one, how=how)
                back = place.directory / f"{mode}-{tls}"
                two.command("get", f"/tpc/{mode}", back).exits()
                equal(back.read_bytes() == body, True, mode)
                # What gfal2 did is what it was told to do, and no streamed copy in its place.
                did = {"pull": "> COPY /tpc/pull ", "push": "> COPY /tpc/a ", "streamed": "> PUT /tpc/streamed "}[mode]
                contains(ran.out + ran.err, did)
        finally:
            one.stop()
            two.stop()
