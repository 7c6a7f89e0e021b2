"""The pages of docs/quick-start: every block of code is run as it stands, and its output compared."""

import re
import sys
from pathlib import Path

from harness.checks import equal
from harness.cold import go_cold
from harness.suite import needs
from harness.world import content

PAGES = Path(__file__).resolve().parent.parent.parent / "docs/quick-start"
BLOCK = re.compile(r"^```(python|sh|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
BUCKETS = ("results", "mirror", "backup", "cold")
RESTORES = re.compile("restore-object|restore_object|backend restore|enable-restore")


def blocks(page):
    """Pairs of a block of code and the output that stands behind it."""
    found = []
    for kind, text in BLOCK.findall((PAGES / f"{page}.md").read_text()):
        if kind == "text":
            found[-1][2] = text
        else:
            found.append([kind, text, ""])
    return found


def dated(text):
    """With every date and every duration the same."""
    text = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "2026-01-01 00:00:00", text)
    return re.sub(r" in \d+:\d\d\b", " in 0:00", text)


def follow(place, page):
    """Does what a page says, in a directory with the files of which it speaks. Before a block that restores all that is
    of a cold class goes to tape."""
    s3 = place.client()
    place.file("run7.root", b"root" + content(299_996))
    place.file("tree/a", b"a file")
    found = blocks(page)
    equal(bool(found), True, f"{page}.md has blocks of code")
    for kind, text, wanted in found:
        if RESTORES.search(text):
            for bucket in buckets_of(s3, text):
                listed = s3.list_objects_v2(Bucket=bucket).get("Contents", [])
                go_cold(place, bucket, [one["Key"] for one in listed if one["StorageClass"] == "GLACIER"])
        program = [sys.executable, "-c"] if kind == "python" else ["bash", "-euo", "pipefail", "-c"]
        ran = place.run(*program, text).exits()
        equal(dated(ran.out), dated(wanted), f"the output of\n{text}")
    for bucket in buckets_of(s3, "".join(text for _, text, _ in found)):
        for listed in s3.get_paginator("list_objects_v2").paginate(Bucket=bucket):
            for one in listed.get("Contents", []):
                s3.delete_object(Bucket=bucket, Key=one["Key"])
        s3.delete_bucket(Bucket=bucket)


def buckets_of(s3, text):
    """The buckets that a text names and that are there."""
    there = [one["Name"] for one in s3.list_buckets()["Buckets"]]
    return [bucket for bucket in BUCKETS if bucket in text and bucket in there]


@needs("kist")
def test_all_pages_are_run(_):
    followed = {"aws", "boto3", "s3fs", "rclone", "restic"}
    equal({page.stem for page in PAGES.glob("*.md")} - {"README"}, followed)


@needs("kist")
def test_aws(place):
    follow(place, "aws")


@needs("kist")
def test_boto3(place):
    follow(place, "boto3")


@needs("kist")
def test_s3fs(place):
    follow(place, "s3fs")


@needs("kist", "rclone")
def test_rclone(place):
    follow(place, "rclone")


@needs("kist", "restic")
def test_restic(place):
    follow(place, "restic")
