"""Demands, and waiting for a state with a deadline."""

import hashlib
import re
import time

from botocore.exceptions import ClientError


def equal(found, wanted, about=""):
    """Demands equality and shows both sides, shortened."""
    if found != wanted:
        raise AssertionError(f"{about}: found {short(found)}, wanted {short(wanted)}".lstrip(": "))


def is_etag(found, body):
    """Demands the ETag of a put: the MD5, or what cannot be taken for one if the client sent another checksum of something
    large (docs/reference/s3.md)."""
    large = len(body) > 256 << 10 and re.fullmatch('"[0-9a-f]{32}-1"', found)
    if not large:
        equal(found, f'"{hashlib.md5(body).hexdigest()}"', "the ETag")


def contains(text, *words):
    """Demands words in a text."""
    for word in words:
        if word not in text:
            raise AssertionError(f"'{word}' is not in: {short(text, 2000)}")


def short(value, most=400):
    """A value as a message can bear it."""
    text = repr(value)
    return text if len(text) <= most else f"{text[:most]}... ({len(text)} characters)"


def refused(code, call, *args, **named):
    """Demands that a call is refused with an error code (or one of several); gives the error's response."""
    codes = (code,) if isinstance(code, str) else code
    try:
        answer = call(*args, **named)
    except ClientError as error:
        found = error.response["Error"]["Code"]
        if found not in codes:
            raise AssertionError(f"refused with {found}, wanted {codes}: {error}") from error
        return error.response
    raise AssertionError(f"not refused, wanted {codes}: {short(answer)}")


def until(what, state, seconds=60):
    """Asks for a state again and again until it is true or the time is over; gives it."""
    end = time.monotonic() + seconds
    pause = 0.02
    while True:
        last = state()
        if last:
            return last
        if time.monotonic() > end:
            raise AssertionError(f"not within {seconds} s: {what}")
        time.sleep(pause)
        pause = min(pause * 1.5, 0.5)
