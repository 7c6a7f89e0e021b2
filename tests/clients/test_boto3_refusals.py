"""boto3: what is not offered is refused and nothing is done; what is answered can be taken at its word."""

import base64
import concurrent.futures
import hashlib
import http.client
import urllib.parse

from harness.checks import contains, equal, refused
from harness.world import content

PART = 5 << 20


def test_what_is_not_known(place):
    s3, bucket = place.client(), place.bucket()
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    new = place.bucket()[:-1] + "new"
    tags = {"Tags": [{"Key": "a", "Value": "b"}]}
    refused("NotImplemented", s3.create_bucket, Bucket=new, CreateBucketConfiguration=tags)
    refused("NotImplemented", s3.create_bucket, Bucket=new, ObjectOwnership="BucketOwnerEnforced")
    refused("404", s3.head_bucket, Bucket=new)
    source = {"Bucket": bucket, "Key": "k"}
    for key, more in [
        ("checksum", {"ChecksumAlgorithm": "SHA256"}),
        ("if-none-match", {"IfNoneMatch": "*"}),
    ]:
        refused("NotImplemented", s3.copy_object, Bucket=bucket, Key=key, CopySource=source, **more)
        refused("404", s3.head_object, Bucket=bucket, Key=key)
    refused("NotImplemented", s3.delete_object, Bucket=bucket, Key="k", IfMatch="*")
    one = {"Objects": [{"Key": "k", "ETag": "0"}]}
    refused("NotImplemented", s3.delete_objects, Bucket=bucket, Delete=one)
    refused("NotImplemented", s3.put_object, Bucket=bucket, Key="k", Body=b"y", WebsiteRedirectLocation="/")
    refused(("InvalidArgument", "NotImplemented"), s3.list_objects_v2, Bucket=bucket, OptionalObjectAttributes=["Color"])
    names = {"ObjectAttributes": ["ETag", "Color"]}
    refused("InvalidArgument", s3.get_object_attributes, Bucket=bucket, Key="k", **names)
    refused("AccessDenied", s3.put_object, Bucket=bucket, Key="k", Body=b"y", ExpectedBucketOwner="111122223333")
    equal(s3.get_object(Bucket=bucket, Key="k", RequestPayer="requester")["Body"].read(), b"x")


def test_newer_checksums(place):
    s3, bucket, body = place.client(), place.bucket(), content(20_000)
    digests = {"SHA512": hashlib.sha512, "MD5": hashlib.md5}
    for algorithm, digest in digests.items():
        name = f"Checksum{algorithm}"
        right, wrong = (base64.b64encode(digest(of).digest()).decode() for of in (body, body + b"x"))
        refused("BadDigest", s3.put_object, Bucket=bucket, Key=algorithm, Body=body, **{name: wrong})
        refused("404", s3.head_object, Bucket=bucket, Key=algorithm)
        equal(s3.put_object(Bucket=bucket, Key=algorithm, Body=body, **{name: right})[name], right)
        got = s3.get_object(Bucket=bucket, Key=algorithm, ChecksumMode="ENABLED")
        equal((got[name], got["Body"].read() == body), (right, True))
    for algorithm, length in {"XXHASH64": 8, "XXHASH3": 8, "XXHASH128": 16}.items():
        value = {f"Checksum{algorithm}": base64.b64encode(bytes(length)).decode()}
        refused("NotImplemented", s3.put_object, Bucket=bucket, Key=algorithm, Body=body, **value)
        refused("404", s3.head_object, Bucket=bucket, Key=algorithm)


def test_parts_are_read_by_number(place):
    """With the defaults of boto3, which compares what a GET brings with the checksum beside it."""
    s3, bucket = place.client(), place.bucket()
    bodies = [content(PART, 1), content(1000, 2)]
    for algorithm in (None, "CRC32", "SHA256"):
        how = {"ChecksumAlgorithm": algorithm} if algorithm else {}
        key = algorithm or "none"
        kind = {"ChecksumType": "FULL_OBJECT"} if algorithm == "CRC32" else {}
        upload = s3.create_multipart_upload(Bucket=bucket, Key=key, **how, **kind)["UploadId"]
        parts = []
        for number, body in enumerate(bodies, 1):
            answer = s3.upload_part(Bucket=bucket, Key=key, UploadId=upload, PartNumber=number, Body=body, **how)
            sums = {name: value for name, value in answer.items() if name.startswith("Checksum")}
            parts.append({"PartNumber": number, "ETag": answer["ETag"], **(sums if algorithm else {})})
        s3.complete_multipart_upload(Bucket=bucket, Key=key, UploadId=upload, MultipartUpload={"Parts": parts})
        for number, body in enumerate(bodies, 1):
            got = s3.get_object(Bucket=bucket, Key=key, PartNumber=number)
            equal(got["ResponseMetadata"]["HTTPStatusCode"], 206)
            equal((got["Body"].read() == body, got["PartsCount"]), (True, 2), f"part {number} of {key}")
        told = s3.get_object_attributes(Bucket=bucket, Key=key, ObjectAttributes=["ETag", "ObjectParts"])
        equal('"' in told["ETag"], False, told["ETag"])
        equal([part["Size"] for part in told["ObjectParts"]["Parts"]], [len(body) for body in bodies])


def test_two_ends_of_an_upload(place):
    s3, bucket = place.client(max_pool_connections=8), place.bucket()
    with concurrent.futures.ThreadPoolExecutor(3) as threads:
        for round_ in range(40):
            key = f"o{round_}"
            upload = s3.create_multipart_upload(Bucket=bucket, Key=key)["UploadId"]
            etag = s3.upload_part(Bucket=bucket, Key=key, UploadId=upload, PartNumber=1, Body=b"x")["ETag"]
            parts = {"Parts": [{"PartNumber": 1, "ETag": etag}]}
            end = {"Bucket": bucket, "Key": key, "UploadId": upload, "MultipartUpload": parts}
            ends = [threads.submit(s3.complete_multipart_upload, **end) for _ in range(3)]
            equal(len({end.result()["ETag"] for end in ends}), 1, key)


def test_directories_leave_nothing(place):
    s3, bucket = place.client(), place.bucket()
    s3.put_object(Bucket=bucket, Key="e/f/")
    s3.delete_object(Bucket=bucket, Key="e/f/")
    s3.put_object(Bucket=bucket, Key="e", Body=b"x")
    s3.put_object(Bucket=bucket, Key="d/o", Body=b"x")
    put = s3.put_object(Bucket=bucket, Key="d/")
    listed = s3.list_objects_v2(Bucket=bucket, Prefix="d/")["Contents"]
    equal((listed[0]["Key"], listed[0]["ETag"]), ("d/", put["ETag"]))
    equal(s3.head_object(Bucket=bucket, Key="d/")["ETag"], put["ETag"])


def test_errors_and_counts(place):
    s3, bucket = place.client(), place.bucket()
    answer = refused("NoSuchKey", s3.get_object, Bucket=bucket, Key="a&b")
    equal(answer["Error"].get("Resource"), f"/{bucket}/a&b")
    equal(bool(answer["ResponseMetadata"].get("RequestId")), True)
    equal(bool(answer["ResponseMetadata"].get("HostId")), True)
    s3.put_object(Bucket=bucket, Key="k", Body=b"x", Tagging="a=1&b=2")
    equal(s3.get_object(Bucket=bucket, Key="k")["TagCount"], 2)
    equal(s3.head_object(Bucket=bucket, Key="k").get("TagCount"), 2)
    tagged = s3.put_bucket_tagging(Bucket=bucket, Tagging={"TagSet": [{"Key": "a", "Value": "b"}]})
    equal(tagged["ResponseMetadata"]["HTTPStatusCode"], 204)
    missing = place.name.replace("_", "-").replace(".", "-")[:40] + "-missing"
    refused("NoSuchBucket", s3.get_bucket_lifecycle_configuration, Bucket=missing)
    s3.put_object(Bucket=bucket, Key="with\x01control", Body=b"x")
    keys = [one["Key"] for one in s3.list_objects_v2(Bucket=bucket)["Contents"]]
    equal("with\x01control" in keys, True, keys)


def test_nothing_behind_expect(place):
    """A PUT without bytes that waits for 100, and the next request on the connection, if there is one."""
    s3, bucket = place.client(signature_version="s3v4"), place.bucket()
    url = urllib.parse.urlsplit(s3.generate_presigned_url("put_object", {"Bucket": bucket, "Key": "k"}))
    connection = http.client.HTTPConnection(url.netloc, timeout=20)
    path = f"{url.path}?{url.query}"
    connection.request("PUT", path, body=b"", headers={"Expect": "100-continue", "Content-Length": "0"})
    answer = connection.getresponse()
    answer.read()
    equal((answer.status, answer.getheader("Connection")), (200, "close"))
    for _ in range(3):
        s3.put_object(Bucket=bucket, Key="empty", Body=b"")
        s3.put_object(Bucket=bucket, Key="full", Body=b"x")
    contains(s3.head_object(Bucket=bucket, Key="empty")["ETag"], "d41d8cd98f00b204e9800998ecf8427e")
