"""One namespace: what is put through one door is seen through the others, with the same locality."""

import hashlib
import json

import requests

from harness.checks import contains, equal, refused
from harness.cold import go_cold
from harness.suite import needs
from harness.world import content


def data(place, method, path, **how):
    headers = {"Authorization": f"Bearer {place.server.key}"} | how.pop("headers", {})
    return requests.request(method, f"{place.server.url}/data{path}", headers=headers, timeout=60, **how)


@needs("kist")
def test_put_through_s3(place):
    s3, bucket, body = place.client(), place.bucket(), content(500_000)
    s3.put_object(Bucket=bucket, Key="run/a", Body=body, Metadata={"run": "7"}, ContentType="text/x")
    got = data(place, "GET", f"/{bucket}/run/a")
    equal((got.status_code, got.content == body, got.headers["Kist-Locality"]), (200, True, "ONLINE"))
    contains(place.kist("ls", f"/{bucket}/run").exits().out, "a")
    contains(place.kist("ls", "/").exits().out, bucket)
    stat = json.loads(place.kist("stat", f"/{bucket}/run/a", "--json").exits().out)
    equal((stat["size"], stat["locality"]), (len(body), "ONLINE"))
    place.kist("get", f"/{bucket}/run/a", place.directory / "a").exits()
    equal((place.directory / "a").read_bytes() == body, True, "kist get")


@needs("kist")
def test_put_through_data(place):
    s3, bucket, body = place.client(), place.bucket(), content(500_000)
    equal(data(place, "PUT", f"/{bucket}/run/a", data=body).status_code, 201)
    place.kist("put", place.file("b", b"put by kist"), f"/{bucket}/run/b").exits()
    found = s3.list_objects_v2(Bucket=bucket, Prefix="run/")["Contents"]
    equal([(one["Key"], one["Size"]) for one in found], [("run/a", len(body)), ("run/b", 11)])
    got = s3.get_object(Bucket=bucket, Key="run/a")
    equal(got["Body"].read() == body, True, "the body")
    equal(got["ETag"], found[0]["ETag"])
    equal(got["ETag"] != f'"{hashlib.md5(body).hexdigest()}"', True, "nobody computed an MD5")
    s3.delete_object(Bucket=bucket, Key="run/a")
    equal(data(place, "GET", f"/{bucket}/run/a").status_code, 404)
    equal(data(place, "DELETE", f"/{bucket}/run/b").status_code, 204)
    refused("404", s3.head_object, Bucket=bucket, Key="run/b")


@needs("kist")
def test_locality_is_the_same(place):
    s3, bucket = place.client(), place.bucket()
    s3.put_object(Bucket=bucket, Key="a", Body=content(300_000), StorageClass="GLACIER")
    go_cold(place, bucket, ["a"])
    equal(data(place, "HEAD", f"/{bucket}/a").headers["Kist-Locality"], "NEARLINE")
    equal(data(place, "GET", f"/{bucket}/a").status_code, 409)
    refused("InvalidObjectState", s3.get_object, Bucket=bucket, Key="a")
    place.kist("stage", "--wait", f"/{bucket}/a").exits()
    equal(data(place, "GET", f"/{bucket}/a").content == content(300_000), True, "staged by the other door")


@needs("kist")
def test_a_directory_is_no_object(place):
    s3, bucket = place.client(), place.bucket()
    s3.put_object(Bucket=bucket, Key="a/b", Body=b"x")
    answer = refused(("InvalidRequest", "OperationAborted", "Conflict", "KeyConflict", "ObjectAlreadyExists", "ExistingObjectIsDirectory"),
                     s3.put_object, Bucket=bucket, Key="a", Body=b"y")
    equal(answer["ResponseMetadata"]["HTTPStatusCode"], 409)
    refused("NoSuchKey", s3.get_object, Bucket=bucket, Key="a")
