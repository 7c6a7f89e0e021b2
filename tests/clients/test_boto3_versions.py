"""boto3: versions and what holds them."""

import datetime

from harness.checks import equal, refused
from harness.world import content


def versioned(place, **how):
    s3, bucket = place.client(), place.bucket(**how)
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    return s3, bucket


def soon(**how):
    return datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(**how)


def test_versions(place):
    s3, bucket = versioned(place)
    equal(s3.get_bucket_versioning(Bucket=bucket)["Status"], "Enabled")
    ids = [s3.put_object(Bucket=bucket, Key="d/a", Body=content(1000, n))["VersionId"] for n in range(3)]
    equal(len(set(ids)), 3)
    for number, version in enumerate(ids):
        got = s3.get_object(Bucket=bucket, Key="d/a", VersionId=version)
        equal((got["Body"].read() == content(1000, number), got["VersionId"]), (True, version))
    marker = s3.delete_object(Bucket=bucket, Key="d/a")
    equal(marker["DeleteMarker"], True)
    refused("NoSuchKey", s3.get_object, Bucket=bucket, Key="d/a")
    refused("MethodNotAllowed", s3.get_object, Bucket=bucket, Key="d/a", VersionId=marker["VersionId"])
    equal(s3.list_objects_v2(Bucket=bucket)["KeyCount"], 0)
    listed = s3.list_object_versions(Bucket=bucket)
    equal([one["VersionId"] for one in listed["Versions"]], ids[::-1])
    equal([(one["VersionId"], one["IsLatest"]) for one in listed["DeleteMarkers"]], [(marker["VersionId"], True)])
    pages = s3.get_paginator("list_object_versions").paginate(Bucket=bucket, PaginationConfig={"PageSize": 1})
    equal(sum(len(page.get("Versions", [])) + len(page.get("DeleteMarkers", [])) for page in pages), 4)
    s3.delete_object(Bucket=bucket, Key="d/a", VersionId=marker["VersionId"])
    equal(s3.get_object(Bucket=bucket, Key="d/a")["VersionId"], ids[2])
    s3.delete_object(Bucket=bucket, Key="d/a", VersionId=ids[2])
    equal(s3.get_object(Bucket=bucket, Key="d/a")["VersionId"], ids[1])
    copy = {"Bucket": bucket, "Key": "d/a", "VersionId": ids[0]}
    s3.copy_object(Bucket=bucket, Key="d/a", CopySource=copy)
    equal(s3.get_object(Bucket=bucket, Key="d/a")["Body"].read() == content(1000, 0), True, "an old version brought back")
    refused("BucketNotEmpty", s3.delete_bucket, Bucket=bucket)


def test_suspended(place):
    s3, bucket = place.client(), place.bucket()
    s3.put_object(Bucket=bucket, Key="a", Body=b"before")
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    kept = s3.put_object(Bucket=bucket, Key="a", Body=b"kept")["VersionId"]
    equal(s3.get_object(Bucket=bucket, Key="a", VersionId="null")["Body"].read(), b"before")
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Suspended"})
    for body in (b"one", b"two"):
        s3.put_object(Bucket=bucket, Key="a", Body=body)
    found = s3.list_object_versions(Bucket=bucket)["Versions"]
    equal([one["VersionId"] for one in found], ["null", kept])
    equal(s3.get_object(Bucket=bucket, Key="a")["Body"].read(), b"two")


def test_retention(place):
    s3, bucket = versioned(place, ObjectLockEnabledForBucket=True)
    version = s3.put_object(
        Bucket=bucket, Key="a", Body=b"x", ObjectLockMode="COMPLIANCE", ObjectLockRetainUntilDate=soon(hours=1)
    )["VersionId"]
    refused("AccessDenied", s3.delete_object, Bucket=bucket, Key="a", VersionId=version)
    refused("AccessDenied", s3.delete_object, Bucket=bucket, Key="a", VersionId=version, BypassGovernanceRetention=True)
    shorter = {"Mode": "COMPLIANCE", "RetainUntilDate": soon(minutes=1)}
    refused("AccessDenied", s3.put_object_retention, Bucket=bucket, Key="a", Retention=shorter)
    longer = {"Mode": "COMPLIANCE", "RetainUntilDate": soon(hours=2)}
    s3.put_object_retention(Bucket=bucket, Key="a", Retention=longer)
    equal(s3.get_object_retention(Bucket=bucket, Key="a")["Retention"]["Mode"], "COMPLIANCE")
    s3.delete_object(Bucket=bucket, Key="a")  # A marker hides it; it is still there.
    equal(s3.get_object(Bucket=bucket, Key="a", VersionId=version)["Body"].read(), b"x")


def test_governance_and_legal_hold(place):
    s3, bucket = versioned(place, ObjectLockEnabledForBucket=True)
    rule = {"ObjectLockEnabled": "Enabled", "Rule": {"DefaultRetention": {"Mode": "GOVERNANCE", "Days": 1}}}
    s3.put_object_lock_configuration(Bucket=bucket, ObjectLockConfiguration=rule)
    equal(s3.get_object_lock_configuration(Bucket=bucket)["ObjectLockConfiguration"], rule)
    version = s3.put_object(Bucket=bucket, Key="a", Body=b"x")["VersionId"]
    head = s3.head_object(Bucket=bucket, Key="a")
    equal(head["ObjectLockMode"], "GOVERNANCE")
    refused("AccessDenied", s3.delete_object, Bucket=bucket, Key="a", VersionId=version)
    s3.put_object_legal_hold(Bucket=bucket, Key="a", LegalHold={"Status": "ON"})
    equal(s3.get_object_legal_hold(Bucket=bucket, Key="a")["LegalHold"]["Status"], "ON")
    bypass = {"Bucket": bucket, "Key": "a", "VersionId": version, "BypassGovernanceRetention": True}
    refused("AccessDenied", s3.delete_object, **bypass)
    s3.put_object_legal_hold(Bucket=bucket, Key="a", LegalHold={"Status": "OFF"})
    s3.delete_object(**bypass)
    refused("404", s3.head_object, Bucket=bucket, Key="a")


def test_lifecycle_documents(place):
    s3, bucket = place.client(), place.bucket()
    refused("NoSuchLifecycleConfiguration", s3.get_bucket_lifecycle_configuration, Bucket=bucket)
    rules = [{
        "ID": "old", "Status": "Enabled", "Filter": {"Prefix": "logs/"}, "Expiration": {"Days": 30},
        "AbortIncompleteMultipartUpload": {"DaysAfterInitiation": 3},
    }]
    s3.put_bucket_lifecycle_configuration(Bucket=bucket, LifecycleConfiguration={"Rules": rules})
    equal(s3.get_bucket_lifecycle_configuration(Bucket=bucket)["Rules"], rules)
    s3.delete_bucket_lifecycle(Bucket=bucket)
    refused("NoSuchLifecycleConfiguration", s3.get_bucket_lifecycle_configuration, Bucket=bucket)
