"""Where a test lives: a server, a bucket of its own, places for files, and clients."""

import itertools
import os
import random
import shutil
import tempfile
import threading
from pathlib import Path

import boto3
from botocore.config import Config

from .kist import Kist
from .tools import run

REGION = "us-east-1"
# Clients of boto3 may be used by any thread, but not made by several at once; nor may servers.
MAKING = threading.Lock()


class Place:
    """What a test gets."""

    def __init__(self, server, directory, name):
        self.server = server
        self.name = name
        self.directory = directory
        self._buckets = itertools.count()

    @property
    def endpoint(self):
        """The URL of S3."""
        return self.server.endpoint

    def client(self, server=None, **settings):
        """A boto3 client with its own defaults, but for what is named."""
        server = server or self.server
        settings.setdefault("retries", {"max_attempts": 1})
        with MAKING:
            return self._client(server, settings)

    @staticmethod
    def _client(server, settings):
        return boto3.client(
            "s3",
            endpoint_url=server.endpoint,
            aws_access_key_id=server.access,
            aws_secret_access_key=server.secret,
            region_name=REGION,
            verify=server.ca or True,
            config=Config(**settings),
        )

    def bucket(self, server=None, **how):
        """Makes a bucket; gives its name."""
        name = f"{self.name.replace('.', '-').replace('_', '-')}-{next(self._buckets)}"[-63:].strip("-")
        self.client(server).create_bucket(Bucket=name, **how)
        return name

    def file(self, name, content):
        """Writes a local file; gives its path."""
        path = self.directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        return path

    def environment(self, server=None):
        """What clients that read the environment need."""
        server = server or self.server
        return {
            "AWS_ACCESS_KEY_ID": server.access,
            "AWS_SECRET_ACCESS_KEY": server.secret,
            "AWS_DEFAULT_REGION": REGION,
            "AWS_ENDPOINT_URL": server.endpoint,
            "AWS_CONFIG_FILE": str(self.directory / "no-config"),
            "AWS_SHARED_CREDENTIALS_FILE": str(self.directory / "no-credentials"),
            "HOME": str(self.directory),
        }

    def run(self, *arguments, **named):
        """Runs a program in the test's directory, with the keys in its environment."""
        env = self.environment() | named.pop("env", {})
        return run(arguments, env=env, cwd=named.pop("cwd", self.directory), **named)

    def kist(self, *arguments):
        """Runs a command of Kist with the administrator's key."""
        return self.server.command(*arguments)


def content(length, seed=1):
    """Bytes that do not compress and differ by seed."""
    return random.Random(seed).randbytes(length)


class World:
    """A server of Kist in a temporary directory, started by the first test that wants it."""

    def __init__(self):
        self._directory = None
        self._server = None

    def __enter__(self):
        # In memory if there is room for what uproot's test keeps twice: the tree, in the pool and on two tapes.
        memory = None
        if "TMPDIR" not in os.environ and os.path.isdir("/dev/shm") and shutil.disk_usage("/dev/shm").free > 8 << 30:
            memory = "/dev/shm"
        self._directory = Path(tempfile.mkdtemp(prefix="kist-clients-", dir=memory))
        return self

    def __exit__(self, *_):
        if self._server:
            self._server.stop()
        shutil.rmtree(self._directory, ignore_errors=True)

    def for_test(self, name):
        """A place for one test."""
        with MAKING:
            if not self._server:
                server = Kist(self._directory / "kist")
                server.start()
                self._server = server
        directory = self._directory / name
        directory.mkdir()
        return Place(self._server, directory, name)

    def trouble(self):
        """The last words of the server."""
        return self._server.log_end() if self._server else ""


class Elsewhere:
    """Another S3 server, to see whether a test or Kist is wrong."""

    def __init__(self, endpoint):
        self.endpoint = endpoint
        self.access = os.environ["AWS_ACCESS_KEY_ID"]
        self.secret = os.environ["AWS_SECRET_ACCESS_KEY"]
        self.ca = None
        self._directory = None

    def __enter__(self):
        self._directory = Path(tempfile.mkdtemp(prefix="kist-clients-"))
        return self

    def __exit__(self, *_):
        shutil.rmtree(self._directory, ignore_errors=True)

    def for_test(self, name):
        """A place for one test."""
        directory = self._directory / name
        directory.mkdir()
        return Place(self, directory, name)

    def trouble(self):
        """Nothing is known of it."""
        return ""
