"""Stock clients of XRootD through a stock server with Kist's plugins."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time

from world import IS_ROOT, XROOTD_USER, Place, Xrootd, adler32, equal, random_bytes, run, until


def long(test):
    """Marks a test that takes longer than seconds."""
    test.long = True
    return test


def client(url, flags=None):
    """A file of the Python client, opened for reading, and the module."""
    try:
        from XRootD.client import File  # pylint: disable=import-outside-toplevel,import-error
        from XRootD.client.flags import OpenFlags  # pylint: disable=import-outside-toplevel,import-error
    except ImportError as error:
        from main import Skipped  # pylint: disable=import-outside-toplevel

        raise Skipped("python3-xrootd is missing") from error
    file = File()
    status, _ = file.open(url, flags if flags is not None else OpenFlags.READ)
    return file, status, OpenFlags


def test_files_and_checksums_both_ways(place):
    for name, count in [("empty", 0), ("small", 17), ("64k", 65536), ("2m", (2 << 20) + 1), ("large", 40_000_001)]:
        data = random_bytes(count, count)
        there, back = f"/open/files/{name}", place.at / f"back-{name}"
        place.xrdcp("--cksum", "adler32", place.file(name, data), place.url(there)).exits()
        equal(place.kist.stat(there)["size"], count, there)
        place.xrdcp("--cksum", "adler32", place.url(there), back).exits()
        equal(back.read_bytes() == data, True, f"{there} came back")
        equal(place.xrdfs("query", "checksum", there).exits().out.split(), ["adler32", adler32(data)], there)
        crc = place.xrdfs("query", "checksum", f"{there}?cks.type=crc32c").exits().out.split()
        equal(crc, ["crc32c", place.kist.stat(there)["crc32c"]], "the CRC-32C of the catalogue")
    # A checksum that the client was given is compared with what arrived.
    place.xrdcp("--cksum", "adler32:00000001", place.file("small", b"x"), place.url("/open/files/bad")).fails("checksum")


def test_what_is_there_already_is_replaced_only_on_demand(place):
    one, two = place.file("one", b"one"), place.file("two", b"two")
    place.xrdcp(one, place.url("/open/again")).exits()
    place.xrdcp(two, place.url("/open/again")).fails("exists")
    place.xrdcp("-f", two, place.url("/open/again")).exits()
    equal(place.xrdfs("cat", "/open/again").exits().out, "two", "the new bytes")


def test_trees_both_ways(place):
    tree = place.at / "tree"
    for number in range(60):
        at = tree / f"d{number % 4}" / "deep"
        at.mkdir(parents=True, exist_ok=True)
        (at / f"f{number}").write_bytes(random_bytes(number * 997, number))
    place.xrdfs("mkdir", "/open/trees").exits()
    place.xrdcp("-r", "--parallel", "4", tree, place.url("/open/trees/")).exits()
    back = place.at / "trees-back"
    back.mkdir()
    place.xrdcp("-r", "--parallel", "4", place.url("/open/trees/tree"), back).exits()
    run(["diff", "-r", tree, back / "tree"]).exits()
    listed = place.xrdfs("ls", "-l", "-R", "/open/trees").exits().out.splitlines()
    equal(len([line for line in listed if line.startswith("-")]), 60, "files in the listing")


def test_names(place):
    fs = place.xrdfs
    fs("mkdir", "-p", "/open/names/a/b").exits()
    fs("mkdir", "-p", "/open/names/a/b").exits()
    fs("mkdir", "/open/names/a").fails("exist")
    fs("mkdir", "/open/names/x/y").fails("no such file")
    place.xrdcp(place.file("f", b"f"), place.url("/open/names/a/f")).exits()
    fs("rmdir", "/open/names/a").fails("not empty")
    fs("rmdir", "/open/names/a/f").fails()
    fs("rm", "/open/names/a/b").fails()
    fs("mv", "/open/names/a/f", "/open/names/a/b/g").exits()
    equal(fs("cat", "/open/names/a/b/g").exits().out, "f", "moved")
    place.xrdcp(place.file("f", b"h"), place.url("/open/names/a/h")).exits()
    fs("mv", "/open/names/a/h", "/open/names/a/b/g").fails("exists")
    fs("chmod", "/open/names/a/h", "rwxrwxrwx").fails("not supported")
    fs("truncate", "/open/names/a/h", "0").fails("not supported")
    fs("rm", "/open/names/a/h").exits()
    fs("stat", "/open/names/a/h").fails("no such file")
    fs("rm", "/open/names/a/b/g").exits()
    fs("rmdir", "/open/names/a/b").exits()
    for name in ["/open/names/späße €", "/open/names/a b?c", "/open/names/" + "n" * 200]:
        place.xrdcp(place.file("f", name.encode()), place.xrootd.url + name.replace("?", "%3f")).exits()
    equal(len(fs("ls", "/open/names").exits().out.splitlines()), 4, "names")


def test_names_with_line_ends_spoil_no_listing(place):
    place.kist.command("mkdir", "-p", "/open/lines").exits()
    for name in ("a\n..", "b\r\nc%", "d%0Ae"):
        place.kist.command("put", place.file("line", b"x"), f"/open/lines/{name}").exits()
    listed = place.xrdfs("ls", "/open/lines").exits().out.split("\n")
    equal(sorted(line for line in listed if line), [f"/open/lines/{name}" for name in ("a%0A..", "b%0D%0Ac%25", "d%0Ae")], "a name is a line")
    equal(len(place.xrdfs("ls", "-l", "/open/lines").exits().out.splitlines()), 3, "with all of it")
    # What can be asked for is had.
    place.xrdcp(place.url("/open/lines/d%0Ae"), "-").exits()


def test_no_file_of_the_host_is_reached(place):
    # XRootD keeps extended attributes of paths itself, in the file system of its host.
    mine = place.at / "of-the-host"
    mine.write_bytes(b"x")
    if IS_ROOT:
        shutil.chown(mine, XROOTD_USER, XROOTD_USER)
    os.setxattr(mine, "user.U.own", b"secret")
    place.kist.put("/open/attributes", b"a")
    for path in (str(mine), "/open/attributes"):
        for asked in (["set", "a=b"], ["del", "own"], ["get", "own"], ["list"]):
            told = place.xrdfs("xattr", path, *asked)
            equal("secret" in told.out + told.err, False, f"{path} {asked}")
            told.fails()
    equal(os.listxattr(mine), ["user.U.own"], "the file of the host")
    # Nobody's way is barred by such a question.
    began = time.monotonic()
    place.xrdcp("-f", place.file("free", b"b"), place.url("/open/attributes")).exits()
    equal(time.monotonic() - began < 3, True, "at once")


def test_the_plugin_alone_keeps_the_host_apart():
    # The same, also where the configuration has lost the line about it.
    with Place(more="ofs.xattr uset on\n") as place:
        mine = place.at / "of-the-host"
        mine.write_bytes(b"x")
        if IS_ROOT:
            shutil.chown(mine, XROOTD_USER, XROOTD_USER)
        os.setxattr(mine, "user.U.own", b"secret")
        for asked in (["set", "a=b"], ["del", "own"], ["get", "own"], ["list"]):
            told = place.xrdfs("xattr", str(mine), *asked)
            equal("secret" in told.out + told.err, False, asked)
        equal(os.listxattr(mine), ["user.U.own"], "the file of the host")
        place.xrootd.lives()


def test_a_directory_of_many_is_listed_in_pages(place):
    tree = place.at / "many"
    tree.mkdir()
    for number in range(2501):
        (tree / f"f{number:04}").write_bytes(b"")
    place.kist.command("put", tree, "/open/many").exits()
    lines = place.xrdfs("ls", "-l", "/open/many").exits().out.splitlines()
    equal(len({line.split()[-1] for line in lines}), 2501, "lines")


def test_space(place):
    space = place.xrdfs("query", "space", "/open").exits().out
    figures = dict(part.split("=") for part in space.strip().strip("\0").split("&"))
    equal(0 < int(figures["oss.free"]) <= int(figures["oss.space"]), True, space)
    place.xrdfs("statvfs", "/open").exits()


def test_reads_in_any_order(place):
    data = random_bytes(9_000_000, 9)
    place.kist.put("/open/order", data)
    file, status, _ = client(place.url("/open/order"))
    equal(status.ok, True, status)
    for offset, size in [(0, 100), (100, 1 << 20), (8_999_990, 10), (8_999_990, 100), (5, 5), (4_000_000, 3_000_000), (9_000_000, 5), (0, 9_000_000)]:
        status, got = file.read(offset, size)
        equal(status.ok, True, status)
        equal(got == data[offset : offset + size], True, f"{size} bytes at {offset}")
    chunks = [(n * 37_001 % 8_000_000, 1 + n * 13 % 5_000) for n in range(500)]
    status, vector = file.vector_read(chunks=chunks)
    equal(status.ok, True, status)
    for (offset, size), chunk in zip(chunks, vector.chunks):
        equal(chunk.buffer == data[offset : offset + size], True, f"a piece at {offset}")
    status, _ = file.vector_read(chunks=[(8_999_999, 2)])
    equal(status.ok, False, "a piece behind the end")
    file.close()


def test_what_is_kept_is_not_changed(place):
    place.kist.put("/open/kept", b"kept")
    file, status, flags = client(place.url("/open/kept"))
    file.close()
    _, status, _ = client(place.url("/open/kept"), flags.UPDATE)
    equal((status.ok, "not supported" in status.message.lower()), (False, True), status.message)
    # A new file is written once, from its beginning to its end.
    file, status, _ = client(place.url("/open/twice"), flags.NEW)
    equal(status.ok, True, status)
    equal(file.write(b"abcdef", 0)[0].ok, True, "the first bytes")
    file.write(b"X", 2)
    equal(file.close()[0].ok, False, "a file whose bytes were written twice")
    equal(place.kist.stat("/open/twice"), {}, "nothing is kept of it")
    # Bytes are missing.
    file, _, _ = client(place.url("/open/hole"), flags.NEW)
    equal(file.write(b"abc", 10)[0].ok, True, "bytes ahead wait")
    equal(file.close()[0].ok, False, "a file with a hole")
    equal(place.kist.stat("/open/hole"), {}, "nothing is kept of it")
    # Out of order within the window.
    file, _, _ = client(place.url("/open/window"), flags.NEW)
    for at in (3, 9, 6, 0):
        equal(file.write(b"abc", at)[0].ok, True, "within the window")
    equal(file.close()[0].ok, True, "complete")
    equal(place.xrdfs("cat", "/open/window").exits().out, "abc" * 4, "in order")
    # Another client is not given a new file as its own, neither to write nor to update.
    file, _, _ = client(place.url("/open/own"), flags.NEW)
    file.write(b"abc", 0)
    _, status, _ = client(place.url("/open/own"), flags.DELETE)
    equal((status.ok, "busy" in status.message.lower()), (False, True), status.message)
    _, status, _ = client(place.url("/open/own"), flags.UPDATE)
    equal(status.ok, False, "an update of it")
    equal(file.close()[0].ok, True, "the first client's file")
    equal(place.xrdfs("cat", "/open/own").exits().out, "abc", "its bytes")
    # Sync promises what only the close can keep.
    file, _, _ = client(place.url("/open/sync"), flags.NEW)
    file.write(b"abc", 0)
    equal(file.sync()[0].ok, False, "a sync")
    file.close()


def test_a_client_that_goes_away_leaves_nothing(place):
    place.kist.put("/open/before", b"what was there before")
    script = (
        "import sys, time\nfrom XRootD.client import File\nfrom XRootD.client.flags import OpenFlags\n"
        "f = File()\ns, _ = f.open(sys.argv[1], OpenFlags.DELETE | OpenFlags.MAKEPATH)\nassert s.ok, s\n"
        "assert f.write(b'x' * 5000000, 0)[0].ok\nprint('written', flush=True)\ntime.sleep(600)\n"
    )
    client(place.url("/open/before"))[0].close()
    for path in ("/open/gone", "/open/before"):
        process = subprocess.Popen([sys.executable, "-c", script, place.url(path)], stdout=subprocess.PIPE, env=place.env | {"PATH": "/usr/bin"})
        equal(process.stdout.readline(), b"written\n", "the client")
        process.kill()
        process.wait()
        until("XRootD lets go", lambda: f"disc" in place.xrootd.log().splitlines()[-1] or place.xrootd.log(), 10)
    time.sleep(1)
    equal(place.kist.stat("/open/gone"), {}, "nothing is kept")
    equal(place.xrdfs("cat", "/open/before").exits().out, "what was there before", "what was there stays")
    # The path can be written again at once.
    place.xrdcp("-f", place.file("f", b"new"), place.url("/open/before")).exits()


def test_who_opens_after_an_overwrite_gets_the_new_version(place):
    # XRootD gives a second client the open file of the first: not once it is another file.
    old, new = random_bytes(6_000_000, 1), random_bytes(3_000_000, 2)
    path = "/open/overwritten"
    place.kist.put(path, old)
    file, status, _ = client(place.url(path))
    equal(status.ok, True, status)
    equal(file.read(0, 1000)[1] == old[:1000], True, "the old version")
    place.xrdcp("-f", place.file("new", new), place.url(path)).exits()

    def reads(wanted):
        for _ in range(2):
            back = place.at / "overwritten-back"
            place.xrdcp("-f", "--cksum", "adler32", place.url(path), back).exits()
            equal(back.read_bytes() == wanted, True, "the version that was acknowledged last")
        second, status, _ = client(place.url(path))
        equal(status.ok, True, status)
        status, got = second.read(100, 2_000_000)
        equal((status.ok, got == wanted[100:2_000_100]), (True, True), f"in this process too: {status}")
        return second

    second = reads(new)
    # Over another door as well.
    third = random_bytes(2_500_000, 3)
    place.kist.command("rm", path).exits()
    place.kist.put(path, third)
    last = reads(third)
    # Who has an old one gets its bytes, or an error.
    for one, data in [(file, old), (second, new)]:
        status, got = one.read(2_000_000, 1000)
        equal(not status.ok or got == data[2_000_000:2_001_000], True, f"bytes of another version: {status}")
        one.close()
    reads(third).close()
    last.close()
    place.xrdfs("rm", path).exits()
    place.xrdfs("cat", path).fails("no such file")


def test_nobody_shares_what_they_may_not_read(place):
    # XRootD gives a second client the open file of the first, without asking its storage.
    place.kist.command("mkdir", "-p", "/mine").exits()
    place.kist.command("acl", "set", "/mine", "user:nobody=tlrcw").exits()
    place.kist.put("/mine/secret", b"secret")
    stranger = {"XrdSecPROTOCOL": "host", "XrdSecSSSKT": "/nowhere"}
    key = place.kist.key
    file, status, _ = client(place.url("/mine/secret", authz=f"Bearer%20{key}"))
    equal(status.ok, True, status)
    equal(file.read(0, 6)[1], b"secret", "the administrator reads")
    other = place.xrdcp(place.url("/mine/secret", authz="Bearer%20nonsense"), "-")
    other.fails("permission denied")
    equal("secret" in other.out, False, "nothing was told")
    for path in ("/mine/none",):
        place.xrdcp(place.url(path, authz=f"Bearer%20{key}"), "-").fails("no such file")
    file.close()
    del stranger


def test_keys_and_names(place):
    put = place.file("k", b"by key")
    place.kist.command("mkdir", "-p", "/keys").exits()
    place.xrdcp(put, place.url("/keys/a")).fails("permission denied")
    place.xrdcp(put, place.url("/keys/a", authz=f"Bearer%20{place.kist.key}")).exits()
    place.xrdcp(put, place.url("/keys/b", authz="Bearer%20x.y.z")).fails("permission denied")
    equal(place.kist.stat("/keys/a")["owner"], "admin", "the owner")
    lines = [json.loads(line) for line in place.audit().splitlines()]
    puts = [line for line in lines if line["what"] == "/keys/a" and line["verb"] == "put"]
    equal([(line["who"], line["how"], line["outcome"]) for line in puts], [("admin", "key", "done")], "the audit log")
    refused = [line for line in lines if line["outcome"] == "refused" and line["how"] == "token"]
    equal(bool(refused), True, "a refused token is written down")
    equal(any(place.kist.key in json.dumps(line) for line in lines), False, "no key in the log")


def test_staging(place):
    data = [random_bytes(300_000 + n, n) for n in range(3)]
    paths = [f"/open/cold/{n}" for n in range(3)]
    for path, bytes_of in zip(paths, data):
        name = place.file("cold", bytes_of)
        place.kist.command("put", "--class", "cold", name, path).exits()
    place.kist.go_cold(*paths)
    flags = place.xrdfs("stat", paths[0]).exits().out
    equal("Offline" in flags and "BackUpExists" in flags, True, flags)
    began = time.monotonic()
    place.xrdcp(place.url(paths[0]), place.at / "x").fails("no data available")
    equal(time.monotonic() - began < 5, True, "an error at once")
    # Options 0 is no stage, evict is none either.
    place.xrdfs("prepare", "-e", paths[0]).exits()
    place.xrdfs("prepare", *paths).exits()
    equal(place.kist.stat(paths[0])["locality"], "NEARLINE", "options 0")
    request = place.xrdfs("prepare", "-s", paths[0], paths[1]).exits().out.strip().strip("\0")
    equal(request.isdigit(), True, f"the number of the request: {request!r}")

    def answers():
        said = json.loads(place.xrdfs("query", "prepare", request, *paths).exits().out.strip().strip("\0"))
        equal(said["request_id"], request, "the request")
        return {line["path"]: line for line in said["responses"]}

    until("they are online", lambda: all(answers()[path]["online"] for path in paths[:2]), 60)
    found = answers()
    equal((found[paths[0]]["has_reqid"], found[paths[0]]["error_text"]), (True, ""), found)
    equal((found[paths[2]]["has_reqid"], found[paths[2]]["online"], found[paths[2]]["on_tape"]), (False, False, True), found)
    place.xrdcp(place.url(paths[0]), place.at / "staged").exits()
    equal((place.at / "staged").read_bytes() == data[0], True, "the staged bytes")
    flags = place.xrdfs("stat", paths[0]).exits().out
    equal(("Offline" in flags, "BackUpExists" in flags), (False, True), flags)
    place.xrdfs("prepare", "-e", paths[0]).exits()
    until("it left the pool", lambda: place.kist.stat(paths[0])["locality"] == "NEARLINE", 10)
    place.xrdfs("prepare", "-a", request).exits()
    place.xrdfs("prepare", "-a", "999999").fails("request")
    place.xrdfs("prepare", "-s", "/open/cold/none").fails("no such file")
    place.xrdfs("prepare", "-s", "/keys/none").fails("may not stage")
    place.xrdfs("query", "prepare", "nonsense", paths[0]).fails("nonsense")


def test_how_a_request_stands_for_as_many_paths_as_it_can_have(place):
    place.kist.put("/open/asked", b"a")
    request = place.xrdfs("prepare", "-s", "/open/asked").exits().out.strip().strip("\0")
    # Their answer is longer than a frame of the socket.
    paths = ["/open/asked"] + [f"/open/asked-{n:04}/{'f' * 60}" for n in range(9_999)]
    said = json.loads(place.xrdfs("query", "prepare", request, *paths).exits().out.strip().strip("\0"))
    equal(said["request_id"], request, "the request")
    equal([line["path"] for line in said["responses"]] == paths, True, "all of them, in order")
    equal([line["has_reqid"] for line in said["responses"]].count(True), 1, "files of the request")
    said = json.loads(place.xrdfs("query", "prepare", request).exits().out.strip().strip("\0"))
    equal([line["path"] for line in said["responses"]], ["/open/asked"], "its files, if none is named")


@long
def test_an_open_of_a_cold_file_waits_if_configured():
    with Place(settings='nearline = "stall"\npin = "1h"\n') as place:
        name = place.file("cold", b"cold")
        place.kist.command("put", "--class", "cold", name, "/open/cold").exits()
        place.kist.go_cold("/open/cold")
        place.xrdcp(place.url("/open/cold"), place.at / "back").exits()
        equal((place.at / "back").read_bytes(), b"cold", "after a while it is there")
        equal(len(requests_of(place)), 1, "one request")


@long
def test_an_open_of_a_cold_file_ends_when_its_recall_does():
    with Place(settings='nearline = "stall"\npin = "1h"\n') as place:
        name = place.file("cold", b"cold")
        place.kist.command("put", "--class", "cold", name, "/open/cold").exits()
        place.kist.go_cold("/open/cold")
        drives = json.loads(place.kist.command("drive", "ls", "--json").exits().out)
        drives = [str(drive["name"]) for drive in (drives if isinstance(drives, list) else drives["drives"])]
        for drive in drives:
            place.kist.command("drive", "down", drive).exits()
        # Many at once, by several spellings of the path.
        urls = [place.xrootd.url + slashes + "open/cold" for slashes in ("/", "//", "///")] * 4
        copies = [(url, number) for number, url in enumerate(urls)]
        found = []

        def copy(url, number):
            found.append(place.xrdcp(url, place.at / f"cold-back-{number}", seconds=100))

        threads = [threading.Thread(target=copy, args=one) for one in copies]
        for thread in threads:
            thread.start()
        request = until("it is asked for", lambda: requests_of(place), 20)[0]
        time.sleep(6)
        place.kist.command("request", "cancel", str(request["id"])).exits()
        for thread in threads:
            thread.join()
        for ran in found:
            ran.fails("input/output error")
        equal((len(found), len(requests_of(place))), (len(urls), 1), "copies that ended, and requests")
        equal("it was cancelled" in place.xrootd.log(), True, "the reason is in the log")
        # Who stages it gets it at once.
        for drive in drives:
            place.kist.command("drive", "up", drive).exits()
        place.kist.command("stage", "/open/cold").exits()
        until("it is there", lambda: place.kist.stat("/open/cold")["locality"] != "NEARLINE", 60)
        place.xrdcp(urls[0], place.at / "cold-staged").exits()
        equal((place.at / "cold-staged").read_bytes(), b"cold", "its bytes")


def requests_of(place):
    """All requests to bring files back."""
    said = json.loads(place.kist.command("request", "ls", "--json").exits().out)
    return said if isinstance(said, list) else said["requests"]


def test_a_read_with_two_drives_lost():
    with Place() as place:
        data = random_bytes(20_000_000, 3)
        place.kist.put("/open/whole", data)
        pool = place.kist.directory / "pool"
        for number in range(2):
            shutil.move(pool / f"d{number}", pool / f"d{number}-away")
        place.xrdcp("--cksum", "adler32", place.url("/open/whole"), place.at / "back").exits()
        equal((place.at / "back").read_bytes() == data, True, "the bytes")
        file, _, _ = client(place.url("/open/whole"))
        status, vector = file.vector_read(chunks=[(n * 1_900_001, 4_000) for n in range(10)])
        equal(status.ok, True, status)
        for n, chunk in enumerate(vector.chunks):
            equal(chunk.buffer == data[n * 1_900_001 :][:4_000], True, "a piece")
        file.close()


def test_copies_between_two_servers(place):
    second = Xrootd.before(place.kist, place.at / "second", keytab=place.keytab)
    second.start()
    try:
        for name, count in [("empty", 0), ("small", 1000), ("large", 30_000_000)]:
            data = random_bytes(count, 5)
            place.kist.put(f"/open/tpc-{name}", data)
            to = f"{second.url}/open/copied-{name}"
            place.xrdcp("--tpc", "only", place.url(f"/open/tpc-{name}"), to).exits()
            equal(place.kist.stat(f"/open/copied-{name}")["adler32"], adler32(data), "the copy")
        place.xrdcp("--tpc", "only", "--cksum", "adler32:source", "-f", place.url("/open/tpc-large"), f"{second.url}/open/copied-large").exits()
        place.xrdcp("--tpc", "only", place.url("/open/tpc-large"), f"{second.url}/open/copied-large").fails("exists")
        place.xrdcp("--tpc", "only", place.url("/open/tpc-large"), f"{second.url}/closed/x").fails("permission denied")
        place.xrdcp("--tpc", "only", place.url("/open/tpc-none"), f"{second.url}/open/copied-none").fails()
        equal(place.kist.stat("/open/copied-none"), {}, "nothing is kept of a copy that failed")
        second.lives()
    finally:
        second.stop()
    left = list((place.at / "second" / "kist-tpc").glob("*"))
    equal(left, [], "files of copies that are over")


def test_copies_go_through_no_directory_of_somebody_else(place):
    ours, link = place.at / "ours", place.at / "link"
    ours.mkdir()
    link.symlink_to(ours)
    ours.chmod(0o755)
    if IS_ROOT:
        shutil.chown(ours, XROOTD_USER, XROOTD_USER)
    cases = [(ours, "readable by all"), (link, "a link")]
    if IS_ROOT:
        theirs = place.at / "theirs"
        theirs.mkdir(mode=0o700)
        shutil.chown(theirs, "daemon")
        cases.append((theirs, "somebody else's"))
    for number, (directory, about) in enumerate(cases):
        server = Xrootd.before(place.kist, place.at / f"tpc-{number}", f"kist.tpcdir {directory}\n", keytab=place.keytab)
        try:
            # It listens before it has read all of its configuration.
            server.start()
        except AssertionError:
            pass
        try:
            until(f"it ends for a directory that is {about}", lambda server=server: server.process.poll() is not None, 20)
            equal("kist.tpcdir" in server.log(), True, f"it says why: {server.log()}")
        finally:
            server.stop()
    ours.chmod(0o700)
    server = Xrootd.before(place.kist, place.at / "tpc-own", f"kist.tpcdir {ours}\n", keytab=place.keytab)
    server.start()
    try:
        place.kist.put("/open/tpc-own", b"own")
        place.xrdcp("--tpc", "only", place.url("/open/tpc-own"), f"{server.url}/open/tpc-own-copied").exits()
        # What comes into its place later is not believed either.
        ours.chmod(0o777)
        place.xrdcp("--tpc", "only", place.url("/open/tpc-own"), f"{server.url}/open/tpc-not-own").fails()
        equal(place.kist.stat("/open/tpc-not-own"), {}, "nothing is kept")
    finally:
        server.stop()


def test_a_copy_that_breaks_off_leaves_nothing(place):
    broken = place.at / "copier"
    broken.write_text('#!/bin/sh\nfor last; do :; done\nhead -c 100000 /dev/zero >"$last"\nexit 5\n')
    broken.chmod(0o755)
    second = Xrootd.before(place.kist, place.at / "third", f"ofs.tpc pgm {broken}\n", keytab=place.keytab)
    second.start()
    try:
        place.kist.put("/open/half", random_bytes(1_000_000))
        place.xrdcp("--tpc", "only", place.url("/open/half"), f"{second.url}/open/half-copied").fails()
        equal(place.kist.stat("/open/half-copied"), {}, "nothing is kept")
    finally:
        second.stop()


def all_at_once(count, work):
    """Runs many at once; gives what they returned."""
    results = [None] * count

    def one(number):
        try:
            results[number] = work(number)
        except Exception as error:  # pylint: disable=broad-except
            results[number] = error

    threads = [threading.Thread(target=one, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


@long
def test_two_hundred_clients():
    with Place() as place:
        data = random_bytes(3_000_000, 8)
        place.kist.put("/open/shared", data)
        source = place.file("source", data)

        def work(number):
            if number % 2:
                place.xrdcp(source, place.url(f"/open/many/{number}"), seconds=500).exits()
                return place.kist.stat(f"/open/many/{number}")["adler32"] == adler32(data)
            # Half of them read the same file, and so share XRootD's open file.
            back = place.at / f"back-{number}"
            place.xrdcp(place.url("/open/shared"), back, seconds=500).exits()
            same = back.read_bytes() == data
            back.unlink()
            return same

        wrong = [result for result in all_at_once(200, work) if result is not True]
        equal(wrong, [], "clients")
        place.xrootd.lives()


@long
def test_kist_is_killed_in_the_middle_of_transfers():
    with Place() as place:
        data = random_bytes(60_000_000, 4)
        source = place.file("source", data)
        for number in range(4):
            place.kist.put(f"/open/read-{number}", data)
        for turn in range(3):
            outcome = {}

            def work(number, turn=turn, outcome=outcome):
                if number < 4:
                    back = place.at / f"back-{number}"
                    ran = place.xrdcp("-f", place.url(f"/open/read-{number}"), back, seconds=200)
                    outcome[number] = (ran.code, back.read_bytes() == data if ran.code == 0 else None)
                else:
                    path = f"/open/put-{turn}-{number}"
                    ran = place.xrdcp(source, place.url(path), seconds=200)
                    outcome[number] = (ran.code, path)

            threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
            for thread in threads:
                thread.start()
            time.sleep(0.1 + 0.2 * turn)
            place.kist.kill()
            time.sleep(0.5)
            place.kist.start()
            for thread in threads:
                thread.join()
            for number, (code, what) in outcome.items():
                if number < 4:
                    equal(what in (True, None), True, f"bytes of reader {number}")
                elif code == 0:
                    equal(place.kist.stat(what).get("adler32"), adler32(data), f"an acknowledged put of {what}")
                else:
                    stored = place.kist.stat(what)
                    # The acknowledgement may be lost, half a file may not be there.
                    equal(stored.get("adler32", adler32(data)), adler32(data), f"a put that failed, {what}")
            readers = [outcome[number][0] for number in range(4)]
            equal(readers, [0] * 4, "reads go on after the restart")
            place.xrootd.lives()
        place.xrdcp(source, place.url("/open/after")).exits()


@long
def test_a_kist_that_hangs_and_one_that_is_away():
    with Place(more="kist.timeout 3\nkist.connect 2\n") as place:
        place.kist.put("/open/a", b"a")
        place.xrdfs("stat", "/open/a").exits()
        place.kist.pause(True)
        try:
            began = time.monotonic()
            place.xrdfs("stat", "/open/a", env={"XRD_REQUESTTIMEOUT": "60"}).fails("host is down")
            # Once kist.timeout, for the right to stat and the stat are not asked for one after the other.
            equal(time.monotonic() - began < 5.5, True, "an error after a named time")
        finally:
            place.kist.pause(False)
        until("it answers again", lambda: place.xrdfs("stat", "/open/a").code == 0, 20)
        place.kist.stop()
        place.xrdfs("stat", "/open/a").fails("host is down")
        place.xrdcp(place.file("f", b"f"), place.url("/open/f")).fails("host is down")
        place.kist.start()
        place.xrdfs("stat", "/open/a").exits()
        # XRootD itself is started anew.
        place.xrootd.stop()
        place.xrootd.start()
        place.xrdcp(place.file("f", b"f"), place.url("/open/f")).exits()
        place.xrootd.lives()


def test_xrootd_is_killed_in_the_middle_of_a_put():
    with Place() as place:
        source = place.file("source", random_bytes(200_000_000, 4))
        process = subprocess.Popen(["xrdcp", "--nopbar", source, place.url("/open/half")], env=place.env | {"PATH": "/usr/bin", "XRD_CONNECTIONRETRY": "1", "XRD_STREAMERRORWINDOW": "5"}, stderr=subprocess.DEVNULL)
        time.sleep(0.2)
        place.xrootd.process.send_signal(signal.SIGKILL)
        place.xrootd.process.wait()
        equal(process.wait(120) != 0, True, "the client hears of it")
        time.sleep(0.5)
        equal(place.kist.stat("/open/half"), {}, "nothing is kept")
        place.xrootd.start()
        place.xrdcp("-f", place.file("f", b"f"), place.url("/open/half")).exits()


assert IS_ROOT or XROOTD_USER


def authority(at):
    """An authority of certificates in a directory of its own, as the grid has them; gives a function that signs."""
    ca = at / "certificates"
    ca.mkdir(parents=True)
    new = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    run([*new, "-subj", "/C=CH/O=Lab/CN=Authority", "-keyout", at / "ca.key", "-out", ca / "ca.pem"]).exits()
    run(["openssl", "rehash", ca]).exits()

    def sign(name, subject):
        cert, key = at / f"{name}.pem", at / f"{name}.key"
        by = ["-CA", ca / "ca.pem", "-CAkey", at / "ca.key", "-addext", "basicConstraints=critical,CA:FALSE"]
        usage = ["-addext", "keyUsage=critical,digitalSignature,keyEncipherment", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
        run([*new, "-subj", subject, *by, *usage, "-keyout", key, "-out", cert]).exits()
        return cert, key

    return ca, sign


def test_certificates():
    mapping = '\n[[identity.certificates]]\nsubject = "CN=anna,O=Lab,C=CH"\nname = "anna"\ngroups = ["lab"]\n'
    place = Place(settings=mapping)
    ca, sign = authority(place.at / "x509")
    host, host_key = sign("host", "/C=CH/O=Lab/CN=localhost")
    for file in [host, host_key]:
        if IS_ROOT:
            shutil.chown(file, XROOTD_USER, XROOTD_USER)
    gsi = f"sec.protocol gsi -certdir:{ca} -cert:{host} -key:{host_key} -crl:0 -gmapopt:nomap -moninfo:1 -d:1\n"
    place.xrootd.file.write_text(place.xrootd.file.read_text().replace("sec.protocol sss", f"{gsi}sec.protocol sss"))
    with place:
        place.kist.command("mkdir", "-p", "/lab").exits()
        place.kist.command("acl", "set", "/lab", "group:lab=tlrcw").exits()

        def shows(name, subject):
            cert, key = sign(name, subject)
            key.chmod(0o400)
            return {"X509_CERT_DIR": str(ca), "X509_USER_CERT": str(cert), "X509_USER_KEY": str(key), "XrdSecPROTOCOL": "gsi",
                    "X509_USER_PROXY": str(place.at / f"{name}.proxy"), "XrdSecGSISRVNAMES": "*"}

        anna, bert = shows("anna", "/C=CH/O=Lab/CN=anna"), shows("bert", "/C=CH/O=Lab/CN=bert")
        for who in (anna, bert):
            given = ["-cert", who["X509_USER_CERT"], "-key", who["X509_USER_KEY"], "-certdir", ca, "-f", who["X509_USER_PROXY"]]
            run(["xrdgsiproxy", "init", "-valid", "1:00", "-bits", "2048", *given], env=who, stdin=b"\n").exits()
        source = place.file("f", b"by certificate")
        place.xrdcp(source, place.url("/lab/a"), env=anna).exits()
        equal(place.kist.stat("/lab/a")["owner"], "anna", "the owner")
        place.xrdcp(source, place.url("/lab/b"), env=bert).fails("permission denied")
        lines = [json.loads(line) for line in place.audit().splitlines()]
        equal(any("/C=CH/O=Lab/CN=bert" in line["note"] for line in lines), True, "the refused subject is written down")


def test_tokens_over_tls():
    place = Place()
    ca, sign = authority(place.at / "x509")
    host, host_key = sign("host", "/CN=localhost")
    host_key.chmod(0o400)
    for file in [host, host_key]:
        if IS_ROOT:
            shutil.chown(file, XROOTD_USER, XROOTD_USER)
    tls = ["--tls-certificate", host, "--tls-key", host_key, "--tls-ca", ca]
    place.xrootd = Xrootd.before(place.kist, place.at / "tls", keytab=place.keytab, options=tls)
    with place:
        url = f"roots://localhost:{place.xrootd.port}/"
        env = {"X509_CERT_DIR": str(ca), "XrdSecPROTOCOL": "ztn"}
        place.kist.command("mkdir", "-p", "/mine").exits()
        source = place.file("f", b"by token")
        place.xrdcp(source, f"{url}/mine/a", env=env | {"BEARER_TOKEN": place.kist.key}).exits()
        equal(place.kist.stat("/mine/a")["owner"], "admin", "the owner")
        place.xrdcp(source, f"{url}/mine/b", env=env | {"BEARER_TOKEN": "none.of.ours"}).fails("permission denied")


def test_names_of_sss_and_of_nobody():
    with Place(trust="[]") as place:
        # Not trusted: nobody in particular, whatever XRootD says.
        place.xrdcp(place.file("f", b"f"), place.url("/open/a")).exits()
        equal(place.kist.stat("/open/a")["owner"], "", "nobody's")
        place.kist.command("mkdir", "-p", "/named").exits()
        place.kist.command("acl", "set", "/named", "authenticated=tlrcw").exits()
        place.xrdcp(place.file("f", b"f"), place.url("/named/a")).fails("permission denied")


def test_what_clients_of_xrootd_can_send(place):
    """Nothing of it ends the server's process."""
    import random
    import socket
    import struct

    def login():
        raw = socket.create_connection(("127.0.0.1", place.xrootd.port), 20)
        raw.sendall(struct.pack(">IIIII", 0, 0, 0, 4, 2012))
        return raw

    chance = random.Random(5)
    for bad in [b"/open/\xff\xfe", b"/open/" + b"x" * 4000, b"/open/a\0b", b"/open/%00", b"open", b"/open/../../etc/passwd", b""]:
        for command in ["stat", "ls", "rm", "mkdir", "rmdir", "cat"]:
            ran = subprocess.run(["xrdfs", f"127.0.0.1:{place.xrootd.port}", command, bad.replace(b"\0", b"")], env=place.env | {"PATH": "/usr/bin"}, capture_output=True, timeout=60, check=False)
            equal(ran.returncode < 100, True, ran)
        place.xrootd.lives()
    for _ in range(200):
        raw = login()
        try:
            for _ in range(chance.randrange(1, 5)):
                request = chance.choice([3000 + chance.randrange(34), chance.randrange(65536)])
                body = chance.randbytes(chance.randrange(100))
                length = chance.choice([len(body), len(body), 0xFFFFFFFF, 1 << 30])
                raw.sendall(struct.pack(">HH", chance.randrange(65536), request) + chance.randbytes(16) + struct.pack(">I", length) + body)
        except OSError:
            pass
        raw.close()
    place.xrootd.lives()
    place.xrdfs("stat", "/open").exits()
    # What comes with a path.
    source = place.file("f", b"f")
    for given in ["oss.asize=nonsense", "oss.asize=-1", "oss.asize=18446744073709551616", "authz=%ff", "authz=" + "x" * 3000, "tpc.key=x", "tpc.key=x&tpc.src=y", "tpc.stage=copy", "cks.type=nonsense", "&&&&==="]:
        place.xrdcp("-f", source, place.url("/open/given") + "?" + given, seconds=60)
        place.xrdfs("query", "checksum", "/open/given?" + given)
        place.xrootd.lives()
    place.xrdcp("-f", source, place.url("/open/given")).exits()
