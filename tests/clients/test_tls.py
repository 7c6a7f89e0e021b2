"""Over TLS, where clients send bodies unsigned with their checksum behind them: the default of most."""

import requests

from harness.checks import contains, equal, refused
from harness.kist import Kist
from harness.suite import needs
from harness.world import content


@needs("kist")
def test_clients_over_tls(place):
    server = Kist(place.directory / "kist", tls=True)
    server.start()
    try:
        contains(server.endpoint, "https://")
        unsigned_bodies(place, server)
        curl_speaks_http2(place, server)
    finally:
        server.stop()


def unsigned_bodies(place, server):
    s3, bucket, body = place.client(server), place.bucket(server), content(3_000_000)
    seen = []
    s3.meta.events.register("before-send.s3.PutObject", lambda request, **_: seen.append(dict(request.headers)))
    with open(place.file("a", body), "rb") as file:
        s3.put_object(Bucket=bucket, Key="a", Body=file)
    sent = {name.lower(): value.decode() if isinstance(value, bytes) else value for name, value in seen[0].items()}
    equal(sent["x-amz-content-sha256"], "STREAMING-UNSIGNED-PAYLOAD-TRAILER")
    contains(sent["x-amz-trailer"], "x-amz-checksum-")
    got = s3.get_object(Bucket=bucket, Key="a", ChecksumMode="ENABLED")
    equal(got["Body"].read() == body, True, "the body")
    env = place.environment(server) | {"AWS_CA_BUNDLE": server.ca}
    big = place.file("big", content(20_000_000))
    place.run("aws", "s3", "cp", "--no-progress", big, f"s3://{bucket}/big", env=env).exits()
    equal(place.run("aws", "s3", "cp", f"s3://{bucket}/big", "-", env=env).exits().raw == big.read_bytes(), True, "aws")
    refused("NoSuchKey", s3.get_object, Bucket=bucket, Key="none")


def curl_speaks_http2(place, server):
    bucket = place.bucket(server)
    place.client(server).put_object(Bucket=bucket, Key="a", Body=b"two")
    url = place.client(server, signature_version="s3v4").generate_presigned_url("get_object", Params={"Bucket": bucket, "Key": "a"})
    got = place.run("curl", "-sS", "--cacert", server.ca, "-w", " %{http_version}", url).exits()
    equal(got.out, "two 2")
    equal(place.run("curl", "-sS", url).code, 60, "an authority that nobody knows")
    answer = requests.get(
        f"{server.url}/data/{bucket}/a", headers={"Authorization": f"Bearer {server.key}"}, verify=server.ca, timeout=60
    )
    equal(answer.content, b"two")
