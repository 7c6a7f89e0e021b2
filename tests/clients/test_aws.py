"""The aws command line, with its defaults."""

import json
import urllib.request

from harness.checks import contains, equal
from harness.world import content


def aws(place, *arguments):
    return place.run("aws", *arguments)


def test_cp_and_ls(place):
    bucket = place.bucket()
    file = place.file("a file & more", content(300_000))
    aws(place, "s3", "cp", file, f"s3://{bucket}/dir/a file & more", "--metadata", "run=7").exits()
    equal(aws(place, "s3", "ls", f"s3://{bucket}/").exits().out.split(), ["PRE", "dir/"])
    contains(aws(place, "s3", "ls", "--recursive", f"s3://{bucket}").exits().out, "300000 dir/a file & more")
    aws(place, "s3", "cp", f"s3://{bucket}/dir/a file & more", "back").exits()
    equal((place.directory / "back").read_bytes(), file.read_bytes())
    aws(place, "s3", "cp", f"s3://{bucket}/dir/a file & more", f"s3://{bucket}/copy").exits()
    equal(aws(place, "s3", "cp", f"s3://{bucket}/copy", "-").exits().raw, file.read_bytes())
    aws(place, "s3", "mv", f"s3://{bucket}/copy", f"s3://{bucket}/moved").exits()
    equal(aws(place, "s3", "ls", f"s3://{bucket}/copy").code, 1, "ls of what was moved")


def test_standard_input(place):
    bucket, body = place.bucket(), content(9_000_000)
    place.run("aws", "s3", "cp", "-", f"s3://{bucket}/from-input", stdin=body).exits()
    equal(aws(place, "s3", "cp", f"s3://{bucket}/from-input", "-").exits().raw, body)


def test_sync_both_ways(place):
    bucket = place.bucket()
    for number in range(25):
        place.file(f"tree/{number % 3}/{number}", content(1000 * number, number))
    aws(place, "s3", "sync", "tree", f"s3://{bucket}/tree").exits()
    equal(aws(place, "s3", "sync", "tree", f"s3://{bucket}/tree").exits().out, "", "a second sync")
    (place.directory / "tree/1/1").unlink()
    place.file("tree/2/new", b"new")
    again = aws(place, "s3", "sync", "--delete", "tree", f"s3://{bucket}/tree").exits().out
    equal(sorted(line.split(":")[0] for line in again.splitlines() if ":" in line), ["delete", "upload"])
    aws(place, "s3", "sync", f"s3://{bucket}/tree", "back").exits()
    for file in (place.directory / "tree").rglob("*"):
        if file.is_file():
            equal((place.directory / "back" / file.relative_to(place.directory / "tree")).read_bytes(), file.read_bytes())


def test_multipart_with_defaults(place):
    """64 MB: eight parts of 8 MiB, each with the default CRC64NVME or CRC32 in a trailer."""
    bucket, file = place.bucket(), place.file("big", content(64_000_000))
    aws(place, "s3", "cp", file, f"s3://{bucket}/big").exits()
    head = json.loads(aws(place, "s3api", "head-object", "--bucket", bucket, "--key", "big", "--checksum-mode", "ENABLED").exits().out)
    equal(head["ContentLength"], 64_000_000)
    contains(head["ETag"], '-8"')
    equal([name for name in head if name.startswith("Checksum") and name != "ChecksumType"] != [], True, "a checksum")
    aws(place, "s3", "cp", f"s3://{bucket}/big", "back").exits()
    equal((place.directory / "back").read_bytes() == file.read_bytes(), True, "what came back is the same")


def test_rm(place):
    bucket = place.bucket()
    for number in range(12):
        place.file(f"tree/{number}", b"x")
    aws(place, "s3", "sync", "tree", f"s3://{bucket}/tree").exits()
    aws(place, "s3", "rm", "--recursive", f"s3://{bucket}/tree", "--exclude", "*7").exits()
    equal(aws(place, "s3", "ls", "--recursive", f"s3://{bucket}").exits().out.split()[-1], "tree/7")
    equal(aws(place, "s3", "rb", f"s3://{bucket}").code, 1, "removing a bucket that is not empty")
    aws(place, "s3", "rb", "--force", f"s3://{bucket}").exits()
    equal(bucket in aws(place, "s3", "ls").exits().out, False, "the bucket is gone")


def test_presign(place):
    bucket = place.bucket()
    aws(place, "s3", "cp", place.file("a", b"presigned"), f"s3://{bucket}/a").exits()
    # Of itself version 1 of the program signs URLs of us-east-1 with version 2, which Kist refuses.
    place.file("config", b"[default]\ns3 =\n  signature_version = s3v4\n")
    env = {"AWS_CONFIG_FILE": str(place.directory / "config")}
    url = place.run("aws", "s3", "presign", f"s3://{bucket}/a", "--expires-in", "60", env=env).exits().out.strip()
    with urllib.request.urlopen(url) as answer:
        equal(answer.read(), b"presigned")


def test_checksum_modes(place):
    bucket, file = place.bucket(), place.file("a", content(100_000))
    for mode in ("when_supported", "when_required"):
        env = {"AWS_REQUEST_CHECKSUM_CALCULATION": mode, "AWS_RESPONSE_CHECKSUM_VALIDATION": mode}
        place.run("aws", "s3", "cp", file, f"s3://{bucket}/{mode}", env=env).exits()
        equal(place.run("aws", "s3", "cp", f"s3://{bucket}/{mode}", "-", env=env).exits().raw, file.read_bytes())
    for algorithm in ("CRC32", "CRC32C", "CRC64NVME", "SHA1", "SHA256"):
        if algorithm in ("CRC32C", "CRC64NVME"):
            continue  # These need a library of C that this aws does not bring.
        aws(place, "s3", "cp", "--checksum-algorithm", algorithm, file, f"s3://{bucket}/{algorithm}").exits()


def test_errors_are_clear(place):
    bucket = place.bucket()
    contains(aws(place, "s3", "cp", f"s3://{bucket}/none", "-").err, "404")
    contains(aws(place, "s3", "ls", f"s3://{bucket}-none").err, "NoSuchBucket")
    wrong = place.run("aws", "s3", "ls", env={"AWS_SECRET_ACCESS_KEY": "wrong" * 8})
    contains(wrong.err, "SignatureDoesNotMatch")
    wrong = place.run("aws", "s3", "ls", env={"AWS_ACCESS_KEY_ID": "KISTNOBODY"})
    contains(wrong.err, "InvalidAccessKeyId")
