"""A server of S3 in a process of its own, with a bucket for tables: ``server.py``.

It says on its standard output where it is and how to sign, as an object of JSON, and ends with its standard input.
Requests that write are answered one at a time, as a store does: moto itself looks and writes in two steps.
"""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sources.s3_server import BUCKET, REGION, S3Server

_TESTS = Path(__file__).parents[2]


@dataclass(frozen=True)
class LakeStore:
    """A server that runs.

    Attributes:
        endpoint: its address; key, secret: of who may write.
    """

    endpoint: str
    key: str
    secret: str

    def options(self, endpoint: str | None = None) -> tuple[tuple[str, str], ...]:
        """Return storage options, with the server's address or another one."""
        return (("key", self.key), ("secret", self.secret), ("endpoint_url", endpoint or self.endpoint))

    def address(self, name: str) -> str:
        """Return the address of a folder."""
        return f"s3://{BUCKET}/{name}"

    def client(self) -> Any:
        """Return a client of boto3's."""
        import boto3

        return boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            region_name=REGION,
            aws_access_key_id=self.key,
            aws_secret_access_key=self.secret,
        )

    def keys(self, name: str) -> list[str]:
        """List the keys in a folder."""
        pages = self.client().get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=f"{name}/")
        return [entry["Key"] for page in pages for entry in page.get("Contents", ())]


@contextmanager
def lake_store() -> Iterator[LakeStore]:
    """Run a server, in a process of its own."""
    arguments = [sys.executable, str(Path(__file__))]
    environment = {"PYTHONPATH": str(_TESTS), "PATH": "/usr/bin:/bin", "AWS_EC2_METADATA_DISABLED": "1"}
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        yield LakeStore(**json.loads(process.stdout.readline()))
        process.stdin.close()


class _OneAtATime(S3Server):
    _writing = threading.Lock()

    def _answer(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        self.asked.clear()
        if environ["REQUEST_METHOD"] in ("GET", "HEAD"):
            return super()._answer(environ, start_response)
        with self._writing:
            return super()._answer(environ, start_response)


def main() -> None:
    """Serve until the standard input ends."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    with _OneAtATime() as server:
        shown = {"endpoint": server.endpoint, "key": server.key, "secret": server.secret}
        print(json.dumps(shown), flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
