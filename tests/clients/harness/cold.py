"""Objects that are on tape only."""

import json

from botocore.exceptions import ClientError

from .checks import until


def locality(place, path):
    """Where the bytes of a file are: `ONLINE`, `ONLINE_AND_NEARLINE` or `NEARLINE`."""
    ran = place.kist("stat", path, "--json")
    return json.loads(ran.out)["locality"] if ran.code == 0 else ""


def go_cold(place, bucket, keys, seconds=120):
    """Waits until objects of a cold class are on tape only; the server is asked to hurry."""
    place.kist("migrate", "--now").exits()
    for key in keys:
        until(f"/{bucket}/{key} is on tape only", lambda key=key: locality(place, f"/{bucket}/{key}") == "NEARLINE", seconds)


def is_cold(s3, bucket, key):
    """Whether a GET is refused because the object has to be restored first."""
    try:
        s3.get_object(Bucket=bucket, Key=key)["Body"].close()
    except ClientError as error:
        if error.response["Error"]["Code"] == "InvalidObjectState":
            return True
        raise
    return False
