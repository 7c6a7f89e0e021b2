"""URLs that boto3 signs and anybody uses, and other programs' signatures."""

import requests

from harness.checks import contains, equal
from harness.world import content


def signed(place, call, seconds=60, **parameters):
    return place.client(signature_version="s3v4").generate_presigned_url(call, Params=parameters, ExpiresIn=seconds)


def test_get_and_put(place):
    bucket, body = place.bucket(), content(400_000)
    put = requests.put(signed(place, "put_object", Bucket=bucket, Key="a b"), data=body, timeout=60)
    equal(put.status_code, 200, put.text)
    url = signed(place, "get_object", Bucket=bucket, Key="a b")
    equal(requests.get(url, timeout=60).content == body, True, "the body")
    part = requests.get(url, headers={"Range": "bytes=10-19"}, timeout=60)
    equal((part.status_code, part.content), (206, body[10:20]))
    equal(requests.head(signed(place, "head_object", Bucket=bucket, Key="a b"), timeout=60).headers["Content-Length"], "400000")


def test_refusals(place):
    bucket = place.bucket()
    place.client().put_object(Bucket=bucket, Key="a", Body=b"x")
    url = signed(place, "get_object", Bucket=bucket, Key="a")
    for wrong in (
        url.replace("/a?", "/b?"),
        url.replace("X-Amz-Expires=60", "X-Amz-Expires=61"),
        url[:-1] + ("0" if url[-1] != "0" else "1"),
    ):
        answer = requests.get(wrong, timeout=60)
        equal(answer.status_code, 403, wrong)
        contains(answer.text, "<Code>SignatureDoesNotMatch</Code>")
    put = requests.put(url, data=b"y", timeout=60)
    equal(put.status_code, 403, "a URL that was signed for GET")
    long = signed(place, "get_object", seconds=604_801, Bucket=bucket, Key="a")
    equal(requests.get(long, timeout=60).status_code in (400, 403), True, "more than seven days")
    equal(requests.get(f"{place.endpoint}/{bucket}/a", timeout=60).status_code, 403, "no signature")
