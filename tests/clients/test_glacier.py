"""boto3: classes whose objects go to tape and come back when somebody asks. A day of S3's is a few seconds here."""

import re
from email.utils import parsedate_to_datetime

from harness.checks import contains, equal, refused, until
from harness.cold import go_cold, is_cold, locality
from harness.kist import DAY_SECONDS
from harness.suite import needs
from harness.world import content


def restore(s3, bucket, key, days, tier="Standard"):
    request = {"Days": days, "GlacierJobParameters": {"Tier": tier}}
    return s3.restore_object(Bucket=bucket, Key=key, RestoreRequest=request)["ResponseMetadata"]["HTTPStatusCode"]


def restored(s3, bucket, key):
    """The expiry of a restore that is done, or nothing."""
    header = s3.head_object(Bucket=bucket, Key=key).get("Restore", "")
    found = re.fullmatch('ongoing-request="false", expiry-date="(.*)"', header)
    if not found and header not in ("", 'ongoing-request="true"'):
        raise AssertionError(f"x-amz-restore: {header}")
    return parsedate_to_datetime(found[1]) if found else None


@needs("kist")
def test_round_trip(place):
    s3, bucket, body = place.client(), place.bucket(), content(2_000_000)
    s3.put_object(Bucket=bucket, Key="run/a", Body=body, StorageClass="GLACIER", Metadata={"run": "7"})
    head = s3.head_object(Bucket=bucket, Key="run/a")
    equal((head["StorageClass"], "Restore" in head), ("GLACIER", False))
    go_cold(place, bucket, ["run/a"])
    answer = refused("InvalidObjectState", s3.get_object, Bucket=bucket, Key="run/a")
    equal((answer["ResponseMetadata"]["HTTPStatusCode"], answer["StorageClass"]), (403, "GLACIER"))
    refused("InvalidObjectState", s3.get_object, Bucket=bucket, Key="run/a", Range="bytes=0-9")
    head = s3.head_object(Bucket=bucket, Key="run/a")
    equal((head["ContentLength"], head["Metadata"]), (len(body), {"run": "7"}))

    equal(restore(s3, bucket, "run/a", 1), 202, "a restore that was asked for")
    expiry = until("the restore is done", lambda: restored(s3, bucket, "run/a"), 120)
    equal(s3.head_object(Bucket=bucket, Key="run/a")["StorageClass"], "GLACIER", "the class after a restore")
    equal(restore(s3, bucket, "run/a", 1000), 200, "one that is restored already")
    longer = until("a later expiry", lambda: (at := restored(s3, bucket, "run/a")) and at > expiry and at)
    got = s3.get_object(Bucket=bucket, Key="run/a")
    equal(got["Body"].read() == body, True, "the body")
    contains(got["Restore"], 'ongoing-request="false"')
    equal(restored(s3, bucket, "run/a"), longer, "reading does not change the expiry")


@needs("kist")
def test_expiry_evicts(place):
    s3, bucket, body = place.client(), place.bucket(), content(300_000)
    s3.put_object(Bucket=bucket, Key="a", Body=body, StorageClass="DEEP_ARCHIVE")
    go_cold(place, bucket, ["a"])
    equal(restore(s3, bucket, "a", 1, "Bulk"), 202)
    # It may have come and gone between two looks, but not before it was there.
    until("the object comes back", lambda: restored(s3, bucket, "a") or locality(place, f"/{bucket}/a") != "NEARLINE", 120)
    until("the object goes", lambda: locality(place, f"/{bucket}/a") == "NEARLINE", 60 + 2 * DAY_SECONDS)
    until("a GET is refused again", lambda: is_cold(s3, bucket, "a"))
    equal("Restore" in s3.head_object(Bucket=bucket, Key="a"), False, "x-amz-restore after the expiry")
    equal(restore(s3, bucket, "a", 1000, "Expedited"), 202)
    until("it comes back once more", lambda: restored(s3, bucket, "a"), 120)
    equal(s3.get_object(Bucket=bucket, Key="a")["Body"].read() == body, True, "the body")


@needs("kist")
def test_listings(place):
    s3, bucket = place.client(), place.bucket()
    for key, how in {"cold": "GLACIER", "back": "GLACIER", "deep": "DEEP_ARCHIVE", "hot": "STANDARD"}.items():
        s3.put_object(Bucket=bucket, Key=key, Body=key.encode() * 1000, StorageClass=how)
    go_cold(place, bucket, ["cold", "back", "deep"])
    restore(s3, bucket, "back", 1000)
    until("the restore is done", lambda: restored(s3, bucket, "back"), 120)
    for call in (s3.list_objects_v2, s3.list_objects):
        found = {one["Key"]: one for one in call(Bucket=bucket, OptionalObjectAttributes=["RestoreStatus"])["Contents"]}
        classes = {key: one["StorageClass"] for key, one in found.items()}
        equal(classes, {"cold": "GLACIER", "back": "GLACIER", "deep": "DEEP_ARCHIVE", "hot": "STANDARD"})
        status = {key: one["RestoreStatus"] for key, one in found.items() if "RestoreStatus" in one}
        equal(list(status), ["back"])
        equal(status["back"]["IsRestoreInProgress"], False)
        equal("RestoreExpiryDate" in status["back"], True)
        plain = call(Bucket=bucket)["Contents"]
        equal(any("RestoreStatus" in one for one in plain), False, "nobody asked")


@needs("kist")
def test_refusals(place):
    s3, bucket = place.client(), place.bucket()
    s3.put_object(Bucket=bucket, Key="hot", Body=b"x")
    refused("InvalidObjectState", restore, s3, bucket, "hot", 1)
    refused("NoSuchKey", restore, s3, bucket, "none", 1)
    s3.put_object(Bucket=bucket, Key="cold", Body=b"x" * 100, StorageClass="GLACIER")
    refused(("InvalidArgument", "MalformedXML"), restore, s3, bucket, "cold", 0)
    refused(("InvalidArgument", "MalformedXML"), restore, s3, bucket, "cold", 1, "Never")
    refused("InvalidStorageClass", s3.put_object, Bucket=bucket, Key="x", Body=b"x", StorageClass="NOWHERE")
    go_cold(place, bucket, ["cold"])
    refused("InvalidObjectState", s3.copy_object, Bucket=bucket, Key="copy", CopySource={"Bucket": bucket, "Key": "cold"})


@needs("kist")
def test_twice_while_it_is_under_way(place):
    """Of two requests at once the second is told that one is under way, or that all is there already."""
    s3, bucket = place.client(), place.bucket()
    s3.put_object(Bucket=bucket, Key="a", Body=content(1_000_000), StorageClass="GLACIER")
    go_cold(place, bucket, ["a"])
    equal(restore(s3, bucket, "a", 1000), 202)
    try:
        equal(restore(s3, bucket, "a", 1000), 200)
    except s3.exceptions.ClientError as error:
        equal((error.response["Error"]["Code"], error.response["ResponseMetadata"]["HTTPStatusCode"]), ("RestoreAlreadyInProgress", 409))
    until("the restore is done", lambda: restored(s3, bucket, "a"), 120)


@needs("kist")
def test_lifecycle_rules_move_objects(place):
    s3, bucket, body = place.client(), place.bucket(), content(200_000)
    rule = {
        "ID": "archive", "Status": "Enabled", "Filter": {"Prefix": "runs/"},
        "Transitions": [{"Days": 1, "StorageClass": "GLACIER"}],
    }
    s3.put_bucket_lifecycle_configuration(Bucket=bucket, LifecycleConfiguration={"Rules": [rule]})
    equal(s3.get_bucket_lifecycle_configuration(Bucket=bucket)["Rules"], [rule])
    for key in ("runs/a", "other/a"):
        s3.put_object(Bucket=bucket, Key=key, Body=body)

    def moved():
        return s3.head_object(Bucket=bucket, Key="runs/a").get("StorageClass") == "GLACIER"

    until("the rule moved the object", moved, 60 + 2 * DAY_SECONDS)
    go_cold(place, bucket, ["runs/a"])
    refused("InvalidObjectState", s3.get_object, Bucket=bucket, Key="runs/a")
    equal(s3.get_object(Bucket=bucket, Key="other/a")["Body"].read() == body, True, "an object of no rule")
    restore(s3, bucket, "runs/a", 1000)
    until("the restore is done", lambda: restored(s3, bucket, "runs/a"), 120)
    equal(s3.get_object(Bucket=bucket, Key="runs/a")["Body"].read() == body, True, "the body")
