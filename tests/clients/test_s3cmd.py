"""s3cmd of Debian."""

from harness.checks import contains, equal, until
from harness.cold import go_cold
from harness.suite import needs
from harness.world import content


def s3cmd(place, *arguments):
    host = place.endpoint.split("//")[1]
    lines = [
        "[default]", f"access_key = {place.server.access}", f"secret_key = {place.server.secret}",
        f"host_base = {host}", f"host_bucket = {host}", "use_https = False", "signature_v2 = False",
        "bucket_location = us-east-1", "progress_meter = False",
    ]
    place.file("s3cfg", "\n".join(lines).encode())
    return place.run("s3cmd", "-c", place.directory / "s3cfg", *arguments)


def test_put_get_ls_info(place):
    bucket, file = place.bucket(), place.file("a", content(200_000))
    s3cmd(place, "put", "--add-header=x-amz-meta-run:7", file, f"s3://{bucket}/d/a b").exits()
    contains(s3cmd(place, "ls", "-r", f"s3://{bucket}").exits().out, "200000", f"s3://{bucket}/d/a b")
    contains(s3cmd(place, "info", f"s3://{bucket}/d/a b").exits().out, "200000", "STANDARD", "x-amz-meta-run: 7")
    s3cmd(place, "get", f"s3://{bucket}/d/a b", "back").exits()
    equal((place.directory / "back").read_bytes() == file.read_bytes(), True, "what came back")
    s3cmd(place, "cp", f"s3://{bucket}/d/a b", f"s3://{bucket}/copy").exits()
    s3cmd(place, "del", f"s3://{bucket}/d/a b").exits()
    equal(len(s3cmd(place, "ls", "-r", f"s3://{bucket}").exits().out.splitlines()), 1)


def test_sync_and_parts(place):
    bucket = place.bucket()
    for number in range(12):
        place.file(f"tree/{number % 2}/{number}", content(5000 * number, number))
    place.file("tree/big", content(20_000_000))
    s3cmd(place, "sync", "--multipart-chunk-size-mb=5", "tree/", f"s3://{bucket}/tree/").exits()
    equal("upload:" in s3cmd(place, "sync", "tree/", f"s3://{bucket}/tree/").exits().out, False, "a second sync")
    s3cmd(place, "sync", f"s3://{bucket}/tree/", "back/").exits()
    for file in (place.directory / "tree").rglob("*"):
        if file.is_file():
            back = place.directory / "back" / file.relative_to(place.directory / "tree")
            equal(back.read_bytes() == file.read_bytes(), True, str(back))


@needs("kist")
def test_restore(place):
    bucket, file = place.bucket(), place.file("a", content(200_000))
    s3cmd(place, "put", "--storage-class=GLACIER", file, f"s3://{bucket}/a").exits()
    contains(s3cmd(place, "info", f"s3://{bucket}/a").exits().out, "GLACIER")
    go_cold(place, bucket, ["a"])
    equal(s3cmd(place, "get", "--force", f"s3://{bucket}/a", "back").code != 0, True, "a get of what is cold")
    s3cmd(place, "restore", "--restore-days=1000", "--restore-priority=standard", f"s3://{bucket}/a").exits()
    until("it can be got", lambda: s3cmd(place, "get", "--force", f"s3://{bucket}/a", "back").code == 0, 120)
    equal((place.directory / "back").read_bytes() == file.read_bytes(), True, "what came back")
