"""rclone, and what it knows of cold storage."""

import json

from harness.checks import contains, equal, until
from harness.cold import go_cold
from harness.suite import needs
from harness.world import content


def rclone(place, *arguments):
    env = {
        "RCLONE_CONFIG": str(place.directory / "no-config"),
        "RCLONE_CONFIG_KIST_TYPE": "s3",
        "RCLONE_CONFIG_KIST_PROVIDER": "Other",
        "RCLONE_CONFIG_KIST_ENV_AUTH": "true",
        "RCLONE_CONFIG_KIST_ENDPOINT": place.endpoint,
        "RCLONE_CONFIG_KIST_REGION": "us-east-1",
        "RCLONE_RETRIES": "1",
        "RCLONE_LOW_LEVEL_RETRIES": "1",
    }
    return place.run("rclone", *arguments, env=env)


def tree(place):
    for number in range(20):
        place.file(f"tree/{number % 3}/a file {number}", content(3000 * number, number))
    place.file("tree/big", content(12_000_000))
    return place.directory / "tree"


@needs("rclone")
def test_sync_and_check(place):
    bucket, local = place.bucket(), tree(place)
    chunks = ("--s3-upload-cutoff", "6Mi", "--s3-chunk-size", "5Mi")
    rclone(place, "sync", *chunks, local, f"kist:{bucket}/tree").exits()
    rclone(place, "check", local, f"kist:{bucket}/tree").exits()
    rclone(place, "check", "--download", local, f"kist:{bucket}/tree").exits()
    (local / "1/a file 1").unlink()
    place.file("tree/2/a file 2", b"changed")
    contains(rclone(place, "check", local, f"kist:{bucket}/tree").err, "differences found")
    again = rclone(place, "sync", "-v", local, f"kist:{bucket}/tree").exits().err
    equal((again.count(": Copied"), again.count(": Deleted")), (1, 1), again)
    rclone(place, "check", local, f"kist:{bucket}/tree").exits()
    rclone(place, "sync", f"kist:{bucket}/tree", "back").exits()
    rclone(place, "check", local, "back").exits()
    listed = json.loads(rclone(place, "lsjson", "--files-only", "-R", f"kist:{bucket}/tree").exits().out)
    # Modification times are metadata of the objects.
    equal(abs(sum(one["Size"] for one in listed) - sum(f.stat().st_size for f in local.rglob("*") if f.is_file())), 0)
    rclone(place, "copy", f"kist:{bucket}/tree", f"kist:{bucket}/copy").exits()
    rclone(place, "check", f"kist:{bucket}/tree", f"kist:{bucket}/copy").exits()
    rclone(place, "purge", f"kist:{bucket}/copy").exits()
    equal(rclone(place, "lsf", f"kist:{bucket}").exits().out, "tree/\n")


def states(place, where):
    """What `restore-status` says, by name."""
    shown = rclone(place, "backend", "restore-status", "-o", "all", where).exits().out
    return {one["Remote"]: one for one in json.loads(shown)}


@needs("rclone", "kist")
def test_cold_storage(place):
    bucket = place.bucket()
    for name in ("a", "b"):
        place.file(f"cold/{name}", content(200_000, ord(name)))
    rclone(place, "copy", "--s3-storage-class", "GLACIER", "cold", f"kist:{bucket}/cold").exits()
    place.client().put_object(Bucket=bucket, Key="cold/hot", Body=b"x")
    go_cold(place, bucket, ["cold/a", "cold/b"])
    failed = rclone(place, "copy", f"kist:{bucket}/cold/a", "back")
    equal(failed.code != 0, True, "a copy of what is cold")
    contains(failed.err, "Object in GLACIER, restore first")
    before = states(place, f"kist:{bucket}/cold")
    equal({name: one["StorageClass"] for name, one in before.items()}, {"a": "GLACIER", "b": "GLACIER", "hot": "STANDARD"})
    asked = json.loads(
        rclone(place, "backend", "restore", f"kist:{bucket}/cold", "-o", "priority=Standard", "-o", "lifetime=1000").exits().out
    )
    equal({one["Remote"]: one["Status"] for one in asked if one["Status"] == "OK"}, {"a": "OK", "b": "OK"})

    def done():
        now = states(place, f"kist:{bucket}/cold")
        return all((now[name]["RestoreStatus"] or {}).get("RestoreExpiryDate") for name in ("a", "b"))

    until("both are restored", done, 120)
    rclone(place, "copy", f"kist:{bucket}/cold", "back").exits()
    for name in ("a", "b"):
        equal((place.directory / "back" / name).read_bytes() == content(200_000, ord(name)), True, name)
