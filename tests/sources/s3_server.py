"""A real S3 server on this machine (moto's): checks signatures, notes what it is asked for, fails on demand.

Its libraries take a second to import, so that only processes that start it do.
"""

from __future__ import annotations

import json
import threading
import urllib.request
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

BUCKET = "wal-archive"
REGION = "us-east-1"
POLICY = {
    "Version": "2012-10-17",
    "Statement": [{"Effect": "Allow", "Action": ["s3:*"], "Resource": "*"}],
}


@dataclass(frozen=True)
class Asked:
    """One request: its method and path, the range it asked for, the answer's status and bytes."""

    method: str
    path: str
    range: str
    status: int
    size: int


@dataclass
class S3Server:
    """The server; a context manager.

    Attributes:
        asked: what it was asked for since it was cleared.
        failures: statuses that the next requests get instead of an answer.
    """

    asked: list[Asked] = field(default_factory=list)
    failures: list[int] = field(default_factory=list)

    def __enter__(self) -> S3Server:
        from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
        from werkzeug.serving import make_server

        self._app = DomainDispatcherApplication(create_backend_app)
        self._server = make_server("127.0.0.1", 0, self._answer, threaded=True)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()
        self.endpoint = f"http://127.0.0.1:{self._server.server_port}"
        self._set_up()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def options(self, **other: str) -> dict[str, str]:
        """Return storage options of the user who may read."""
        return {"key": self.key, "secret": self.secret, "endpoint_url": self.endpoint, **other}

    def environment(self) -> dict[str, str]:
        """Return the same as variables that S3's own library reads."""
        return {
            "AWS_ACCESS_KEY_ID": self.key,
            "AWS_SECRET_ACCESS_KEY": self.secret,
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_DEFAULT_REGION": REGION,
        }

    def put(self, directory: Path, prefix: str) -> str:
        """Upload all files below a directory; their address."""
        client = self._client("s3", self.key, self.secret)
        for path in sorted(directory.rglob("*")):
            if path.is_file():
                client.upload_file(str(path), BUCKET, f"{prefix}/{path.relative_to(directory)}")
        return f"s3://{BUCKET}/{prefix}"

    def remove(self, address: str) -> None:
        """Remove a file."""
        key = address.removeprefix(f"s3://{BUCKET}/")
        self._client("s3", self.key, self.secret).delete_object(Bucket=BUCKET, Key=key)

    def bytes_read(self) -> int:
        """Count the bytes of files in the answers."""
        return sum(
            request.size for request in self.asked if request.method == "GET" and "list-type" not in request.path
        )

    def _client(self, service: str, key: str, secret: str) -> Any:
        import boto3

        credentials = {"aws_access_key_id": key, "aws_secret_access_key": secret}
        return boto3.client(service, endpoint_url=self.endpoint, region_name=REGION, **credentials)

    def _set_up(self) -> None:
        """Make a bucket, a user, and from then on no answer without that user's signature."""
        self._client("s3", "any", "any").create_bucket(Bucket=BUCKET)
        users = self._client("iam", "any", "any")
        users.create_user(UserName="reader")
        users.put_user_policy(UserName="reader", PolicyName="read", PolicyDocument=json.dumps(POLICY))
        key = users.create_access_key(UserName="reader")["AccessKey"]
        self.key, self.secret = key["AccessKeyId"], key["SecretAccessKey"]
        count = urllib.request.Request(
            f"{self.endpoint}/moto-api/reset-auth", data=b"0", headers={"Content-Type": "text/plain"}
        )
        urllib.request.urlopen(count).close()

    def _answer(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        method, path = environ["REQUEST_METHOD"], f"{environ['PATH_INFO']}?{environ.get('QUERY_STRING', '')}"
        asked_range = environ.get("HTTP_RANGE", "")
        if self.failures:
            status = self.failures.pop(0)
            self.asked.append(Asked(method, path, asked_range, status, 0))
            start_response(f"{status} Slow Down", [("Content-Length", "0")])
            return [b""]
        statuses: list[int] = []

        def started(line: str, headers: list[tuple[str, str]], *more: Any) -> Any:
            statuses.append(int(line.split()[0]))
            return start_response(line, headers, *more)

        answer = b"".join(self._app(environ, started))
        self.asked.append(Asked(method, path, asked_range, statuses[0], len(answer) if method != "HEAD" else 0))
        return [answer]
