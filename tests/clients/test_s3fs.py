"""s3fs, which puts S3 behind fsspec: what pandas, dask, xarray and uproot use."""

import s3fs

from harness.checks import equal
from harness.world import REGION, content


def filesystem(place):
    return s3fs.S3FileSystem(
        key=place.server.access,
        secret=place.server.secret,
        client_kwargs={"endpoint_url": place.endpoint, "region_name": REGION},
        use_listings_cache=False,
        skip_instance_cache=True,
    )


def test_files(place):
    fs, bucket, body = filesystem(place), place.bucket(), content(12_000_000)
    with fs.open(f"{bucket}/d/a", "wb", block_size=5 << 20) as file:
        for at in range(0, len(body), 1_000_000):
            file.write(body[at : at + 1_000_000])
    equal(fs.info(f"{bucket}/d/a")["size"], len(body))
    with fs.open(f"{bucket}/d/a", "rb", block_size=1 << 20) as file:
        file.seek(7_000_000)
        equal(file.read(1000), body[7_000_000:7_001_000])
    equal(fs.cat_ranges([f"{bucket}/d/a"] * 3, [0, 100, 11_999_999], [10, 200, 12_000_000]),
          [body[:10], body[100:200], body[-1:]])
    equal(fs.cat_file(f"{bucket}/d/a") == body, True, "the whole")


def test_directories(place):
    fs, bucket = filesystem(place), place.bucket()
    for number in range(5):
        place.file(f"tree/x/{number}", content(1000, number))
    fs.put(str(place.directory / "tree"), f"{bucket}/tree", recursive=True)
    equal(sorted(fs.ls(f"{bucket}/tree/x")), [f"{bucket}/tree/x/{number}" for number in range(5)])
    equal(fs.isdir(f"{bucket}/tree"), True)
    equal(len(fs.glob(f"{bucket}/**/[0-2]")), 3)
    fs.mv(f"{bucket}/tree/x/0", f"{bucket}/tree/y/0")
    fs.get(f"{bucket}/tree", str(place.directory / "back"), recursive=True)
    equal((place.directory / "back/y/0").read_bytes(), content(1000, 0))
    fs.rm(f"{bucket}/tree", recursive=True)
    equal(fs.find(bucket), [])
