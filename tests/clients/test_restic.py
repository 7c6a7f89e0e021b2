"""restic: a repository in a bucket, hot and cold."""

import filecmp
import json

from harness.checks import contains, equal, refused
from harness.cold import go_cold
from harness.kist import DAY_SECONDS
from harness.suite import needs
from harness.world import content

# restic counts in days of 24 hours and the server in the short days of these tests: so many last for hours.
DAYS = 50_000 // DAY_SECONDS


def restic(place, repository, *arguments, cold=False):
    env = {"RESTIC_REPOSITORY": repository, "RESTIC_PASSWORD": "secret", "RESTIC_CACHE_DIR": str(place.directory / "cache")}
    options = ["-o", "s3.bucket-lookup=path"]
    if cold:
        env["RESTIC_FEATURES"] = "s3-restore"
        options += ["-o", "s3.storage-class=GLACIER", "-o", "s3.enable-restore=true", "-o", f"s3.restore-days={DAYS}"]
        options += ["-o", "s3.restore-timeout=10m", "-o", "s3.restore-tier=Standard"]
    return place.run("restic", *options, *arguments, env=env, patience=400)


def tree(place, seed):
    for number in range(12):
        place.file(f"tree/{number % 3}/{number}", content(150_000, 100 * seed + number))


def same(place):
    """Whether what was restored is what was backed up."""
    differing = filecmp.dircmp(place.directory / "tree", place.directory / "back" / place.directory.relative_to("/") / "tree")
    equal((differing.left_only, differing.right_only, differing.diff_files), ([], [], []))
    for sub in differing.subdirs.values():
        equal((sub.left_only, sub.right_only, sub.diff_files), ([], [], []))


def names(place):
    return str(place.directory / "tree")


@needs("restic")
def test_backup_forget_check_restore(place):
    repository = f"s3:{place.endpoint}/{place.bucket()}/repo"
    restic(place, repository, "init").exits()
    for seed in range(3):
        tree(place, seed)
        restic(place, repository, "backup", names(place)).exits()
    equal(len(json.loads(restic(place, repository, "snapshots", "--json").exits().out)), 3)
    restic(place, repository, "forget", "--keep-last", "1", "--prune").exits()
    contains(restic(place, repository, "check", "--read-data").exits().out, "no errors were found")
    restic(place, repository, "restore", "latest", "--target", place.directory / "back").exits()
    same(place)


@needs("restic", "kist")
def test_packs_that_are_cold(place):
    """Packs go to a class that is kept on tape, the repository's own records stay at hand; both restore and prune ask for
    the packs that they need."""
    s3, bucket = place.client(), place.bucket()
    repository = f"s3:{place.endpoint}/{bucket}/repo"
    restic(place, repository, "init", cold=True).exits()
    for seed in range(2):
        tree(place, seed)
        restic(place, repository, "backup", names(place), cold=True).exits()
    listed = [one for page in s3.get_paginator("list_objects_v2").paginate(Bucket=bucket) for one in page["Contents"]]
    packs = [one["Key"] for one in listed if one["StorageClass"] == "GLACIER"]
    equal(all(key.startswith("repo/data/") for key in packs) and bool(packs), True, f"{packs} are cold")
    # Each backup has one pack of directories besides, which restic keeps at hand like its indexes and snapshots.
    at_hand = [one["Key"] for one in listed if one["StorageClass"] == "STANDARD" and "/data/" in one["Key"]]
    equal(len(at_hand), 2, f"{at_hand} are at hand")
    go_cold(place, bucket, packs)
    for key in packs:
        refused("InvalidObjectState", s3.get_object, Bucket=bucket, Key=key)
    restic(place, repository, "restore", "latest", "--target", place.directory / "back", cold=True).exits()
    same(place)
    restic(place, repository, "forget", "--keep-last", "1", "--prune", "--max-unused", "0", cold=True).exits()
    contains(restic(place, repository, "check", cold=True).exits().out, "no errors were found")
