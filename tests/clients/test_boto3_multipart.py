"""boto3: uploads in parts."""

from boto3.s3.transfer import TransferConfig
from harness.checks import contains, equal, refused
from harness.world import content

PART = 5 << 20


def begin(s3, bucket, key, **more):
    return s3.create_multipart_upload(Bucket=bucket, Key=key, **more)["UploadId"]


def send(s3, bucket, key, upload, number, body):
    answer = s3.upload_part(Bucket=bucket, Key=key, UploadId=upload, PartNumber=number, Body=body)
    return {"PartNumber": number, "ETag": answer["ETag"]}


def test_out_of_order(place):
    s3, bucket = place.client(), place.bucket()
    upload = begin(s3, bucket, "a", Metadata={"run": "7"}, ContentType="text/x")
    parts = {9000: content(1000, 3), 2: content(PART, 1), 17: content(PART + 1, 2)}
    done = [send(s3, bucket, "a", upload, number, body) for number, body in parts.items()]
    refused("404", s3.head_object, Bucket=bucket, Key="a")
    equal([one["Key"] for one in s3.list_multipart_uploads(Bucket=bucket)["Uploads"]], ["a"])
    listed = s3.list_parts(Bucket=bucket, Key="a", UploadId=upload)["Parts"]
    equal([(one["PartNumber"], one["Size"]) for one in listed], [(2, PART), (17, PART + 1), (9000, 1000)])
    equal(s3.list_parts(Bucket=bucket, Key="a", UploadId=upload, MaxParts=1)["NextPartNumberMarker"], 2)
    wrong = {"Parts": done}
    refused("InvalidPartOrder", s3.complete_multipart_upload, Bucket=bucket, Key="a", UploadId=upload, MultipartUpload=wrong)
    done.sort(key=lambda one: one["PartNumber"])
    s3.complete_multipart_upload(Bucket=bucket, Key="a", UploadId=upload, MultipartUpload={"Parts": done})
    whole = b"".join(parts[number] for number in sorted(parts))
    got = s3.get_object(Bucket=bucket, Key="a")
    equal(got["Body"].read() == whole, True, "the body")
    equal((got["Metadata"], got["ContentType"]), ({"run": "7"}, "text/x"))
    contains(got["ETag"], '-3"')
    second = s3.get_object(Bucket=bucket, Key="a", PartNumber=2)
    equal((second["Body"].read() == parts[17], second["PartsCount"]), (True, 3), "GET of one part")
    equal(s3.list_multipart_uploads(Bucket=bucket).get("Uploads", []), [])


def test_abort_leaves_nothing(place):
    s3, bucket = place.client(), place.bucket()
    upload = begin(s3, bucket, "dir/a")
    part = send(s3, bucket, "dir/a", upload, 1, content(PART))
    s3.abort_multipart_upload(Bucket=bucket, Key="dir/a", UploadId=upload)
    refused("NoSuchUpload", s3.list_parts, Bucket=bucket, Key="dir/a", UploadId=upload)
    refused("NoSuchUpload", s3.upload_part, Bucket=bucket, Key="dir/a", UploadId=upload, PartNumber=2, Body=b"x")
    refused(
        "NoSuchUpload", s3.complete_multipart_upload,
        Bucket=bucket, Key="dir/a", UploadId=upload, MultipartUpload={"Parts": [part]},
    )
    s3.delete_bucket(Bucket=bucket)


def test_resume(place):
    """A client that comes back asks for what is there and sends the rest, a part of it again."""
    s3, bucket = place.client(), place.bucket()
    upload = begin(s3, bucket, "a")
    body = content(2 * PART + 77)
    pieces = [body[:PART], body[PART : 2 * PART], body[2 * PART :]]
    known = {1: send(s3, bucket, "a", upload, 1, pieces[0])["ETag"]}
    send(s3, bucket, "a", upload, 2, content(PART, 99))
    found = [one["UploadId"] for one in place.client().list_multipart_uploads(Bucket=bucket, Prefix="a")["Uploads"]]
    equal(found, [upload])
    s3 = place.client()
    there = {one["PartNumber"]: one["ETag"] for one in s3.list_parts(Bucket=bucket, Key="a", UploadId=upload)["Parts"]}
    done = []
    for number, piece in enumerate(pieces, 1):
        if number not in known or there.get(number) != known[number]:
            known[number] = send(s3, bucket, "a", upload, number, piece)["ETag"]
        done.append({"PartNumber": number, "ETag": known[number]})
    for _ in range(2):  # A repeat of the completion gets the same answer.
        answer = s3.complete_multipart_upload(Bucket=bucket, Key="a", UploadId=upload, MultipartUpload={"Parts": done})
        equal(answer["Key"], "a")
    equal(s3.get_object(Bucket=bucket, Key="a")["Body"].read() == body, True, "the body")


def test_refusals(place):
    s3, bucket = place.client(), place.bucket()
    upload = begin(s3, bucket, "a")
    small = send(s3, bucket, "a", upload, 1, b"small")
    last = send(s3, bucket, "a", upload, 2, b"last")

    def complete(parts):
        return refused(
            ("EntityTooSmall", "InvalidPart", "MalformedXML"), s3.complete_multipart_upload,
            Bucket=bucket, Key="a", UploadId=upload, MultipartUpload={"Parts": parts},
        )["Error"]["Code"]

    equal(complete([small, last]), "EntityTooSmall")
    equal(complete([{"PartNumber": 1, "ETag": '"' + "0" * 32 + '"'}]), "InvalidPart")
    equal(complete([{"PartNumber": 5, "ETag": last["ETag"]}]), "InvalidPart")
    refused("InvalidArgument", s3.upload_part, Bucket=bucket, Key="a", UploadId=upload, PartNumber=10_001, Body=b"x")
    refused("NoSuchUpload", s3.upload_part, Bucket=bucket, Key="a", UploadId="none", PartNumber=1, Body=b"x")
    s3.complete_multipart_upload(Bucket=bucket, Key="a", UploadId=upload, MultipartUpload={"Parts": [last]})
    equal(s3.get_object(Bucket=bucket, Key="a")["Body"].read(), b"last")


def test_parts_that_are_copies(place):
    s3, bucket, body = place.client(), place.bucket(), content(PART + 1000)
    s3.put_object(Bucket=bucket, Key="source", Body=body)
    upload = begin(s3, bucket, "a")
    done = []
    for number, part in enumerate((f"bytes=0-{PART - 1}", f"bytes={PART}-{PART + 999}"), 1):
        answer = s3.upload_part_copy(
            Bucket=bucket, Key="a", UploadId=upload, PartNumber=number,
            CopySource={"Bucket": bucket, "Key": "source"}, CopySourceRange=part,
        )
        done.append({"PartNumber": number, "ETag": answer["CopyPartResult"]["ETag"]})
    s3.complete_multipart_upload(Bucket=bucket, Key="a", UploadId=upload, MultipartUpload={"Parts": done})
    equal(s3.get_object(Bucket=bucket, Key="a")["Body"].read() == body, True, "the body")


def test_many_parts_at_once(place):
    """The transfer manager of boto3: parts of 5 MiB, eight at once, and back by ranges."""
    s3, bucket, body = place.client(max_pool_connections=8), place.bucket(), content(70_000_000)
    config = TransferConfig(multipart_threshold=PART, multipart_chunksize=PART, max_concurrency=8)
    s3.upload_file(str(place.file("a", body)), bucket, "a", Config=config)
    s3.download_file(bucket, "a", str(place.directory / "back"), Config=config)
    equal((place.directory / "back").read_bytes() == body, True, "what came back")
