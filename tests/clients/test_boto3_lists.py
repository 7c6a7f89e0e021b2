"""boto3: listings."""

from concurrent.futures import ThreadPoolExecutor

from harness.checks import equal, refused

KEYS = [f"a/{number:03}" for number in range(30)] + ["a-b", "a.b", "a/x/1", "a/x/2", "b", "c/d/e/f", "ü", "z z", "€"]


def filled(place):
    s3, bucket = place.client(max_pool_connections=8), place.bucket()
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda key: s3.put_object(Bucket=bucket, Key=key, Body=key.encode()), KEYS))
    return s3, bucket


def keys_of(pages):
    keys, prefixes = [], []
    for page in pages:
        keys += [one["Key"] for one in page.get("Contents", [])]
        prefixes += [one["Prefix"] for one in page.get("CommonPrefixes", [])]
    return keys, prefixes


def test_pages_of_both_versions(place):
    s3, bucket = filled(place)
    ordered = sorted(KEYS, key=str.encode)
    for call in ("list_objects_v2", "list_objects"):
        for size in (1, 7, 1000):
            pages = s3.get_paginator(call).paginate(Bucket=bucket, PaginationConfig={"PageSize": size})
            equal(keys_of(pages), (ordered, []), f"{call} by {size}")


def test_prefix_and_delimiter(place):
    s3, bucket = filled(place)
    for call in ("list_objects_v2", "list_objects"):
        paginator = s3.get_paginator(call)
        for size in (2, 1000):
            config = {"PageSize": size}
            pages = paginator.paginate(Bucket=bucket, Delimiter="/", PaginationConfig=config)
            equal(keys_of(pages), (["a-b", "a.b", "b", "z z", "ü", "€"], ["a/", "c/"]), call)
            pages = paginator.paginate(Bucket=bucket, Prefix="a/", Delimiter="/", PaginationConfig=config)
            equal(keys_of(pages), ([f"a/{number:03}" for number in range(30)], ["a/x/"]), call)
            pages = paginator.paginate(Bucket=bucket, Prefix="a/0", PaginationConfig=config)
            equal(keys_of(pages), ([f"a/{number:03}" for number in range(30)], []), call)
            pages = paginator.paginate(Bucket=bucket, Prefix="none", PaginationConfig=config)
            equal(keys_of(pages), ([], []), call)
    pages = s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Delimiter="b")
    equal(keys_of(pages)[1], ["a-b", "a.b", "b"], "a delimiter that is no slash")


def test_start_after_and_encoding(place):
    s3, bucket = filled(place)
    ordered = sorted(KEYS, key=str.encode)
    for after in ("", "a", "a/015", "a/0155", "zzz", "€"):
        wanted = [key for key in ordered if key.encode() > after.encode()]
        found = s3.list_objects_v2(Bucket=bucket, StartAfter=after)
        equal([one["Key"] for one in found.get("Contents", [])], wanted, after)
        found = s3.list_objects(Bucket=bucket, Marker=after)
        equal([one["Key"] for one in found.get("Contents", [])], wanted, after)
    page = s3.list_objects_v2(Bucket=bucket, MaxKeys=3, FetchOwner=True)
    equal((page["IsTruncated"], page["KeyCount"], page["MaxKeys"]), (True, 3, 3))
    one = page["Contents"][0]
    equal((one["Size"], one["StorageClass"], "Owner" in one, one["ETag"][0]), (3, "STANDARD", True, '"'))
    equal(s3.list_objects_v2(Bucket=bucket, MaxKeys=0)["KeyCount"], 0)
    refused("InvalidArgument", s3.list_objects_v2, Bucket=bucket, ContinuationToken="never given")


def test_directories_as_objects(place):
    """Browsers of buckets make directories by objects whose names end with a slash."""
    s3, bucket = place.client(), place.bucket()
    s3.put_object(Bucket=bucket, Key="made/", Body=b"")
    s3.put_object(Bucket=bucket, Key="made/in", Body=b"x")
    found = [one["Key"] for one in s3.list_objects_v2(Bucket=bucket)["Contents"]]
    equal(found, ["made/", "made/in"])
    equal(s3.head_object(Bucket=bucket, Key="made/")["ContentLength"], 0)
    s3.delete_object(Bucket=bucket, Key="made/in")
    equal([one["Key"] for one in s3.list_objects_v2(Bucket=bucket)["Contents"]], ["made/"])
    s3.delete_object(Bucket=bucket, Key="made/")
    equal(s3.list_objects_v2(Bucket=bucket)["KeyCount"], 0)
    # What a put made on its way goes with its last object.
    s3.put_object(Bucket=bucket, Key="x/y/z", Body=b"")
    s3.delete_object(Bucket=bucket, Key="x/y/z")
    s3.delete_bucket(Bucket=bucket)
