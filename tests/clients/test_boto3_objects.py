"""boto3: objects and buckets."""

import datetime

from harness.checks import contains, equal, is_etag, refused
from harness.world import content


def test_put_get_head_delete(place):
    s3, bucket = place.client(), place.bucket()
    for size in (0, 1, 65_536, 3_000_001):
        body, key = content(size, size), f"dir/{size}"
        put = s3.put_object(Bucket=bucket, Key=key, Body=body)
        is_etag(put["ETag"], body)
        got = s3.get_object(Bucket=bucket, Key=key)
        equal(got["Body"].read() == body, True, "the body")
        head = s3.head_object(Bucket=bucket, Key=key)
        equal((head["ETag"], head["ContentLength"]), (put["ETag"], size))
        equal(head["ContentType"], "binary/octet-stream")
        age = datetime.datetime.now(datetime.timezone.utc) - head["LastModified"]
        equal(abs(age.total_seconds()) < 120, True, f"an age of {age}")
        equal(s3.delete_object(Bucket=bucket, Key=key)["ResponseMetadata"]["HTTPStatusCode"], 204)
        refused("NoSuchKey", s3.get_object, Bucket=bucket, Key=key)
        refused("404", s3.head_object, Bucket=bucket, Key=key)
        # Deleting what is not there is no error.
        s3.delete_object(Bucket=bucket, Key=key)


def test_names(place):
    s3, bucket = place.client(), place.bucket()
    names = ["a b", "a+b", "a%2Bb", "ü/ß/日本", "x/y/z.txt", "a&b=c?d#e", "quote'\"<>", "~tilde!*()", "dots/..x/.y"]
    for name in names:
        s3.put_object(Bucket=bucket, Key=name, Body=name.encode())
    for name in names:
        equal(s3.get_object(Bucket=bucket, Key=name)["Body"].read(), name.encode(), name)
    equal([one["Key"] for one in s3.list_objects_v2(Bucket=bucket)["Contents"]], sorted(names, key=str.encode))


def test_metadata_and_headers(place):
    s3, bucket = place.client(), place.bucket()
    headers = {
        "ContentType": "application/x-root",
        "CacheControl": "no-cache",
        "ContentDisposition": 'attachment; filename="run7.root"',
        "ContentEncoding": "identity",
        "ContentLanguage": "de",
    }
    s3.put_object(Bucket=bucket, Key="a", Body=b"x", Metadata={"run": "7", "Detector": "atlas"}, **headers)
    head = s3.head_object(Bucket=bucket, Key="a")
    equal(head["Metadata"], {"run": "7", "detector": "atlas"})
    for name, value in headers.items():
        equal(head[name], value, name)
    got = s3.get_object(Bucket=bucket, Key="a", ResponseContentType="text/plain", ResponseCacheControl="max-age=1")
    equal((got["ContentType"], got["CacheControl"]), ("text/plain", "max-age=1"))


def test_ranges(place):
    s3, bucket, body = place.client(), place.bucket(), content(3_000_000)
    s3.put_object(Bucket=bucket, Key="a", Body=body)
    for text, part in [
        ("bytes=0-0", body[:1]),
        ("bytes=100000-299999", body[100_000:300_000]),
        ("bytes=2999990-", body[-10:]),
        ("bytes=-1000", body[-1000:]),
        ("bytes=2999999-9999999", body[-1:]),
    ]:
        got = s3.get_object(Bucket=bucket, Key="a", Range=text)
        equal(got["ResponseMetadata"]["HTTPStatusCode"], 206, text)
        equal(got["Body"].read() == part, True, text)
        contains(got["ContentRange"], "/3000000")
    refused("InvalidRange", s3.get_object, Bucket=bucket, Key="a", Range="bytes=3000000-")


def test_copies(place):
    s3, bucket, other = place.client(), place.bucket(), place.bucket()
    body = content(1_000_000)
    s3.put_object(Bucket=bucket, Key="a b/ü", Body=body, Metadata={"run": "7"}, ContentType="text/x")
    source = {"Bucket": bucket, "Key": "a b/ü"}
    copied = s3.copy_object(Bucket=other, Key="copy", CopySource=source)
    is_etag(copied["CopyObjectResult"]["ETag"], body)
    head = s3.head_object(Bucket=other, Key="copy")
    equal((head["Metadata"], head["ContentType"]), ({"run": "7"}, "text/x"))
    s3.copy_object(Bucket=other, Key="new", CopySource=source, MetadataDirective="REPLACE", Metadata={"run": "8"})
    equal(s3.head_object(Bucket=other, Key="new")["Metadata"], {"run": "8"})
    refused("InvalidRequest", s3.copy_object, Bucket=bucket, Key="a b/ü", CopySource=source)
    s3.copy_object(Bucket=bucket, Key="a b/ü", CopySource=source, MetadataDirective="REPLACE", Metadata={"run": "9"})
    equal(s3.head_object(Bucket=bucket, Key="a b/ü")["Metadata"], {"run": "9"})
    refused("NoSuchKey", s3.copy_object, Bucket=other, Key="x", CopySource={"Bucket": bucket, "Key": "none"})
    equal(s3.get_object(Bucket=other, Key="copy")["Body"].read() == body, True, "the copy")


def test_delete_many(place):
    s3, bucket = place.client(), place.bucket()
    for number in range(40):
        s3.put_object(Bucket=bucket, Key=f"d/{number:02}", Body=b"x")
    which = [{"Key": f"d/{number:02}"} for number in range(0, 40, 2)] + [{"Key": "d/none"}]
    answer = s3.delete_objects(Bucket=bucket, Delete={"Objects": which})
    equal(len(answer["Deleted"]), 21)
    equal(answer.get("Errors", []), [])
    quiet = s3.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": "d/01"}], "Quiet": True})
    equal(quiet.get("Deleted", []), [])
    equal(s3.list_objects_v2(Bucket=bucket)["KeyCount"], 19)
    many = [{"Key": str(number)} for number in range(1001)]
    refused("MalformedXML", s3.delete_objects, Bucket=bucket, Delete={"Objects": many})


def test_conditional_writes(place):
    s3, bucket = place.client(), place.bucket()
    first = s3.put_object(Bucket=bucket, Key="a", Body=b"1", IfNoneMatch="*")["ETag"]
    refused("PreconditionFailed", s3.put_object, Bucket=bucket, Key="a", Body=b"2", IfNoneMatch="*")
    refused("PreconditionFailed", s3.put_object, Bucket=bucket, Key="a", Body=b"2", IfMatch='"' + "0" * 32 + '"')
    second = s3.put_object(Bucket=bucket, Key="a", Body=b"2", IfMatch=first)["ETag"]
    refused(("NoSuchKey", "PreconditionFailed"), s3.put_object, Bucket=bucket, Key="b", Body=b"2", IfMatch=first)
    refused("304", s3.get_object, Bucket=bucket, Key="a", IfNoneMatch=second)
    refused("PreconditionFailed", s3.get_object, Bucket=bucket, Key="a", IfMatch=first)
    late = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(hours=1)
    refused("PreconditionFailed", s3.get_object, Bucket=bucket, Key="a", IfUnmodifiedSince=late - datetime.timedelta(days=2))
    equal(s3.get_object(Bucket=bucket, Key="a", IfMatch=second)["Body"].read(), b"2")
    source = {"Bucket": bucket, "Key": "a"}
    refused("PreconditionFailed", s3.copy_object, Bucket=bucket, Key="c", CopySource=source, CopySourceIfMatch=first)
    s3.copy_object(Bucket=bucket, Key="c", CopySource=source, CopySourceIfMatch=second)


def test_tagging(place):
    s3, bucket = place.client(), place.bucket()
    s3.put_object(Bucket=bucket, Key="a", Body=b"x", Tagging="run=7&of=a%20b")
    tags = {tag["Key"]: tag["Value"] for tag in s3.get_object_tagging(Bucket=bucket, Key="a")["TagSet"]}
    equal(tags, {"run": "7", "of": "a b"})
    equal(s3.get_object(Bucket=bucket, Key="a")["TagCount"], 2)
    s3.put_object_tagging(Bucket=bucket, Key="a", Tagging={"TagSet": [{"Key": "only", "Value": "one"}]})
    equal(s3.get_object_tagging(Bucket=bucket, Key="a")["TagSet"], [{"Key": "only", "Value": "one"}])
    twelve = [{"Key": str(number), "Value": ""} for number in range(12)]
    refused(("BadRequest", "InvalidTag"), s3.put_object_tagging, Bucket=bucket, Key="a", Tagging={"TagSet": twelve})
    s3.delete_object_tagging(Bucket=bucket, Key="a")
    equal(s3.get_object_tagging(Bucket=bucket, Key="a")["TagSet"], [])


def test_buckets(place):
    s3, bucket = place.client(), place.bucket()
    equal(s3.head_bucket(Bucket=bucket)["ResponseMetadata"]["HTTPStatusCode"], 200)
    equal(bucket in [one["Name"] for one in s3.list_buckets()["Buckets"]], True, "the bucket in the list")
    refused(("BucketAlreadyOwnedByYou", "BucketAlreadyExists"), s3.create_bucket, Bucket=bucket)
    refused("InvalidBucketName", place.client(parameter_validation=False).create_bucket, Bucket="Not_A_Bucket")
    refused("404", s3.head_bucket, Bucket="none-such-bucket")
    refused("NoSuchBucket", s3.put_object, Bucket="none-such-bucket", Key="a", Body=b"x")
    s3.put_object(Bucket=bucket, Key="a/b", Body=b"x")
    refused("BucketNotEmpty", s3.delete_bucket, Bucket=bucket)
    s3.delete_object(Bucket=bucket, Key="a/b")
    s3.delete_bucket(Bucket=bucket)
    refused("NoSuchBucket", s3.list_objects_v2, Bucket=bucket)


def test_what_is_not_supported_says_so(place):
    s3, bucket = place.client(), place.bucket()
    s3.put_object(Bucket=bucket, Key="a", Body=b"x")
    refused("NotImplemented", s3.put_bucket_website, Bucket=bucket, WebsiteConfiguration={"IndexDocument": {"Suffix": "i"}})
    refused("NotImplemented", s3.put_bucket_accelerate_configuration, Bucket=bucket, AccelerateConfiguration={"Status": "Enabled"})
    refused("NotImplemented", s3.put_object, Bucket=bucket, Key="k", Body=b"x", ServerSideEncryption="aws:kms")
    refused("404", s3.head_object, Bucket=bucket, Key="k")
