"""A server of S3 in a process of its own, with a bucket for tables: ``server.py``.

``HEADWATER_S3_SERVER`` names the program of another one, which ``tools/install_s3_server.py`` brings: versitygw, which
keeps objects as files, checks signatures and checksums, and answers requests at the same time.

It says on its standard output where it is and how to sign, as an object of JSON, and ends with its standard input.
Requests that write are answered one at a time, as a store does: moto itself looks and writes in two steps.
"""

from __future__ import annotations

import json
import logging
import os
import secrets
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sources.s3_server import BUCKET, REGION, S3Server

POLL_SECONDS = 0.05
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


S3_SERVER = "HEADWATER_S3_SERVER"
"""The variable that names another server's program."""


@contextmanager
def chosen_store() -> Iterator[LakeStore]:
    """Run the server that the environment chooses."""
    program = os.environ.get(S3_SERVER)
    with versity_store(Path(program)) if program else lake_store() as store:
        yield store


@contextmanager
def versity_store(program: Path) -> Iterator[LakeStore]:
    """Run versitygw, over a directory that goes with it."""
    with tempfile.TemporaryDirectory(prefix="headwater-s3-") as directory:
        root, port = Path(directory), free_port()
        (root / "objects").mkdir()
        (root / "sidecar").mkdir()
        store = LakeStore(f"http://127.0.0.1:{port}", secrets.token_hex(8), secrets.token_hex(16))
        words = [str(program), "--port", f"127.0.0.1:{port}", "--access", store.key, "--secret", store.secret]
        words += ["--region", REGION, "--quiet", "posix", "--sidecar", str(root / "sidecar"), str(root / "objects")]
        with (root / "log").open("wb") as log, subprocess.Popen(words, stdout=log, stderr=log, cwd=root) as process:
            try:
                _until_it_answers(port, process, root / "log")
                store.client().create_bucket(Bucket=BUCKET)
                yield store
            finally:
                process.terminate()


def _until_it_answers(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    """Wait until somebody listens at a port."""
    while True:
        assert process.poll() is None, log.read_text()
        with suppress(OSError), socket.create_connection(("127.0.0.1", port)):
            return
        time.sleep(POLL_SECONDS)


def free_port() -> int:
    """Return a port that nobody listens at."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


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
