"""curl: signatures of its own, ranges, and HTTP/2."""

from harness.checks import contains, equal
from harness.suite import needs
from harness.world import REGION, content


def curl(place, *arguments):
    user = f"{place.server.access}:{place.server.secret}"
    return place.run("curl", "-sS", "--aws-sigv4", f"aws:amz:{REGION}:s3", "--user", user, *arguments)


def test_sigv4(place):
    bucket, body = place.bucket(), content(100_000)
    file = place.file("a", body)
    url = f"{place.endpoint}/{bucket}/dir/a"
    sign = ("-H", "x-amz-content-sha256: UNSIGNED-PAYLOAD")
    put = curl(place, "-T", file, *sign, "-w", "%{http_code}", url).exits()
    equal(put.out, "200")
    equal(curl(place, *sign, url).exits().raw == body, True, "the body")
    equal(curl(place, *sign, "-r", "100-199", url).exits().raw, body[100:200])
    contains(curl(place, *sign, "-I", url).exits().out.lower(), "content-length: 100000", "etag: ")
    contains(curl(place, *sign, f"{place.endpoint}/{bucket}?list-type=2&prefix=dir%2F").exits().out, "<Key>dir/a</Key>")
    equal(curl(place, *sign, "-X", "DELETE", "-w", "%{http_code}", url).exits().out, "204")
    contains(curl(place, *sign, url).exits().out, "<Code>NoSuchKey</Code>")


def test_a_body_that_is_not_what_was_signed(place):
    bucket = place.bucket()
    file = place.file("a", content(1000))
    answer = curl(
        place, "-T", file, "-H", f"x-amz-content-sha256: {'0' * 64}", f"{place.endpoint}/{bucket}/a"
    ).exits()
    contains(answer.out, "<Code>XAmzContentSHA256Mismatch</Code>")


def test_presigned(place):
    # In us-east-1 boto3 presigns with version 2 unless it is told otherwise.
    s3, bucket = place.client(signature_version="s3v4"), place.bucket()
    s3.put_object(Bucket=bucket, Key="a", Body=b"presigned")
    url = s3.generate_presigned_url("get_object", Params={"Bucket": bucket, "Key": "a"})
    equal(place.run("curl", "-sS", url).exits().out, "presigned")


@needs("kist")
def test_http2(place):
    # In us-east-1 boto3 presigns with version 2 unless it is told otherwise.
    s3, bucket = place.client(signature_version="s3v4"), place.bucket()
    s3.put_object(Bucket=bucket, Key="a", Body=b"two")
    url = s3.generate_presigned_url("get_object", Params={"Bucket": bucket, "Key": "a"})
    got = place.run("curl", "-sS", "--http2-prior-knowledge", "-w", " %{http_version}", url).exits()
    equal(got.out, "two 2")
