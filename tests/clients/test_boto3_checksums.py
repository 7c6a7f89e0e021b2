"""boto3: checksums that the server verifies, keeps and gives back."""

import base64
import hashlib
import zlib

from harness.checks import contains, equal, refused
from harness.world import content


def crc32(body):
    return base64.b64encode(zlib.crc32(body).to_bytes(4, "big")).decode()


def crc(body, width, polynomial):
    """A reflected CRC, bit by bit, sharing nothing with the server's; slow, for small bodies."""
    mask = (1 << width) - 1
    value = mask
    for byte in body:
        value ^= byte
        for _ in range(8):
            value = (value >> 1) ^ (polynomial if value & 1 else 0)
    return base64.b64encode((value ^ mask).to_bytes(width // 8, "big")).decode()


def sums(body):
    return {
        "CRC32": crc32(body),
        "CRC32C": crc(body, 32, 0x82F63B78),
        "CRC64NVME": crc(body, 64, 0x9A6C9329AC4BC9B5),
        "SHA1": base64.b64encode(hashlib.sha1(body).digest()).decode(),
        "SHA256": base64.b64encode(hashlib.sha256(body).digest()).decode(),
    }


def test_each_algorithm(place):
    s3, bucket, body = place.client(), place.bucket(), content(20_000)
    for algorithm, wanted in sums(body).items():
        name = f"Checksum{algorithm}"
        put = s3.put_object(Bucket=bucket, Key=algorithm, Body=body, **{name: wanted})
        equal(put[name], wanted, algorithm)
        head = s3.head_object(Bucket=bucket, Key=algorithm, ChecksumMode="ENABLED")
        equal(head[name], wanted, algorithm)
        got = s3.get_object(Bucket=bucket, Key=algorithm, ChecksumMode="ENABLED")
        equal((got[name], got["Body"].read() == body), (wanted, True), algorithm)
        of = s3.get_object_attributes(Bucket=bucket, Key=algorithm, ObjectAttributes=["Checksum", "ObjectSize"])
        equal((of["Checksum"][name], of["ObjectSize"]), (wanted, len(body)), algorithm)


def test_wrong_sums_are_refused(place):
    s3, bucket, body = place.client(), place.bucket(), content(20_000)
    for algorithm, wrong in sums(body + b"x").items():
        answer = refused(
            ("BadDigest", "XAmzContentChecksumMismatch", "InvalidRequest"),
            s3.put_object, Bucket=bucket, Key=algorithm, Body=body, **{f"Checksum{algorithm}": wrong},
        )
        equal(answer["ResponseMetadata"]["HTTPStatusCode"], 400, algorithm)
        refused("404", s3.head_object, Bucket=bucket, Key=algorithm)
    digest = base64.b64encode(hashlib.md5(b"x").digest()).decode()
    refused("BadDigest", s3.put_object, Bucket=bucket, Key="md5", Body=body, ContentMD5=digest)
    refused("InvalidDigest", s3.put_object, Bucket=bucket, Key="md5", Body=body, ContentMD5="bad")
    refused("404", s3.head_object, Bucket=bucket, Key="md5")


def test_defaults_put_a_sum_into_the_trailer(place):
    """Over HTTP the body is signed as a whole; a stream that cannot be rewound has its sum behind it."""
    s3, bucket, body = place.client(), place.bucket(), content(700_000)
    seen = []
    s3.meta.events.register("before-send.s3.PutObject", lambda request, **_: seen.append(dict(request.headers)))
    with open(place.file("a", body), "rb") as file:
        s3.put_object(Bucket=bucket, Key="a", Body=file)
    sums_sent = [name for name in seen[0] if name.lower().startswith(("x-amz-checksum-", "x-amz-trailer"))]
    equal(sums_sent != [], True, "the client sent a checksum by itself")
    head = s3.head_object(Bucket=bucket, Key="a", ChecksumMode="ENABLED")
    equal(head["ChecksumCRC32"], crc32(body))
    equal(head["ChecksumType"], "FULL_OBJECT")


def test_unsigned_and_signed_bodies(place):
    body = content(300_000)
    bucket = place.bucket()
    for signed in (True, False):
        s3 = place.client(s3={"payload_signing_enabled": signed})
        s3.put_object(Bucket=bucket, Key=f"{signed}", Body=body)
        equal(s3.get_object(Bucket=bucket, Key=f"{signed}")["Body"].read() == body, True, f"signed: {signed}")


def test_sums_of_uploads_in_parts(place):
    s3, bucket = place.client(), place.bucket()
    parts = [content(5 << 20, 1), content(1_000_000, 2)]
    whole = b"".join(parts)
    made = s3.create_multipart_upload(Bucket=bucket, Key="full", ChecksumAlgorithm="CRC32", ChecksumType="FULL_OBJECT")
    complete(s3, bucket, "full", made["UploadId"], parts, "CRC32", crc32, ChecksumCRC32=crc32(whole), ChecksumType="FULL_OBJECT")
    head = s3.head_object(Bucket=bucket, Key="full", ChecksumMode="ENABLED")
    equal((head["ChecksumCRC32"], head["ChecksumType"]), (crc32(whole), "FULL_OBJECT"))

    def sha256(part):
        return base64.b64encode(hashlib.sha256(part).digest()).decode()

    made = s3.create_multipart_upload(Bucket=bucket, Key="parts", ChecksumAlgorithm="SHA256")
    complete(s3, bucket, "parts", made["UploadId"], parts, "SHA256", sha256)
    head = s3.head_object(Bucket=bucket, Key="parts", ChecksumMode="ENABLED")
    of_parts = hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in parts)).digest()
    equal(head["ChecksumSHA256"], base64.b64encode(of_parts).decode() + "-2")
    equal(head["ChecksumType"], "COMPOSITE")
    contains(head["ETag"], '-2"')


def complete(s3, bucket, key, upload, parts, algorithm, of, **more):
    name = f"Checksum{algorithm}"
    done = []
    for number, part in enumerate(parts, 1):
        answer = s3.upload_part(
            Bucket=bucket, Key=key, UploadId=upload, PartNumber=number, Body=part, ChecksumAlgorithm=algorithm
        )
        equal(answer[name], of(part), f"part {number}")
        done.append({"PartNumber": number, "ETag": answer["ETag"], name: answer[name]})
    s3.complete_multipart_upload(Bucket=bucket, Key=key, UploadId=upload, MultipartUpload={"Parts": done}, **more)
