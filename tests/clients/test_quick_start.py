"""The pages of docs/quick-start: every block of code is run as it stands, and its output compared."""

import re
import sys
from pathlib import Path

from harness.checks import equal
from harness.cold import go_cold
from harness.kist import Kist
from harness.suite import needs
from harness.tools import GO
from harness.world import Place, content

PAGES = Path(__file__).resolve().parent.parent.parent / "docs/quick-start"
BLOCK = re.compile(r"^```(python|sh|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# The buckets that each page makes. A test sends to tape and removes what is in these, and nothing else: the pages of clients
# that are written in Go run beside the others, on the same server.
BUCKETS = {
    "aws": {"results"},
    "boto3": {"results"},
    "s3fs": {"results"},
    "rclone": {"mirror"},
    "restic": {"backup", "cold"},
}
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
    """Does what a page says, in a directory with the files of which it speaks. Before a block that restores, all that the
    page has put in a cold class goes to tape. At the end its buckets are removed."""
    s3 = place.client()
    place.file("run7.root", b"root" + content(299_996))
    place.file("tree/a", b"a file")
    found = blocks(page)
    equal(bool(found), True, f"{page}.md has blocks of code")
    for kind, text, wanted in found:
        if RESTORES.search(text):
            for bucket in BUCKETS[page]:
                listed = s3.list_objects_v2(Bucket=bucket).get("Contents", [])
                go_cold(place, bucket, [one["Key"] for one in listed if one["StorageClass"] == "GLACIER"])
        program = [sys.executable, "-c"] if kind == "python" else ["bash", "-euo", "pipefail", "-c"]
        ran = place.run(*program, text).exits()
        equal(dated(ran.out), dated(wanted), f"the output of\n{text}")
    for bucket in BUCKETS[page]:
        for listed in s3.get_paginator("list_objects_v2").paginate(Bucket=bucket):
            for one in listed.get("Contents", []):
                s3.delete_object(Bucket=bucket, Key=one["Key"])
        s3.delete_bucket(Bucket=bucket)


@needs("kist")
def test_all_pages_are_run(_):
    equal({page.stem for page in PAGES.glob("*.md")} - {"README"}, set(BUCKETS))


@needs("kist")
def test_pages_that_run_at_once_share_no_bucket(_):
    beside = set().union(*(BUCKETS[page] for page in BUCKETS if page in GO))
    others = set().union(*(BUCKETS[page] for page in BUCKETS if page not in GO))
    equal(beside & others, set())


@needs("kist")
def test_a_page_leaves_the_buckets_of_others_alone(place):
    """restic ended with "The specified key does not exist" while it waited for a pack in the bucket `cold`. The test of the
    page of s3fs, which ran beside it, looked for the names of buckets anywhere in the text of its page, found the word `cold`
    in the key `results/cold`, took restic's bucket for its own, and removed it."""
    server = Kist(place.directory / "kist")
    server.start()
    try:
        s3 = place.client(server)
        others = set().union(*BUCKETS.values()) - BUCKETS["s3fs"]
        for bucket in others:
            s3.create_bucket(Bucket=bucket)
            s3.put_object(Bucket=bucket, Key="kept", Body=b"by another")
        follow(Place(server, place.directory, place.name), "s3fs")
        equal({one["Name"] for one in s3.list_buckets()["Buckets"]}, others, "the buckets at the end")
        for bucket in others:
            equal(s3.get_object(Bucket=bucket, Key="kept")["Body"].read(), b"by another", f"what is in {bucket}")
    finally:
        server.stop()


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
