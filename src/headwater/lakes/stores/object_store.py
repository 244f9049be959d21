"""Objects of a store, each written on a condition: that there is none, or that it is the one that was read last.

On that stands everything that a target needs of a store: there is no rename, no lock and no listing. A write whose
answer was lost is asked for again. The store refuses it then, and what is there is what was to be written: so it has
been.

Failures that may pass are tried again for a minute. No text of an error has options, credentials among them.

Known gaps: stores other than S3, whose conditions have other names.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from typing import Any, TypeVar

from headwater.errors import LakeConflictError, LakeError, UsageError
from headwater.wal.segments.remote import Options, file_system

T = TypeVar("T")

PROTOCOLS = ("s3", "s3a")
PATIENCE_SECONDS = 60.0
PART_BYTES = 16 << 20
"""Of a file that is written in parts: what is in memory of it, twice at most."""

_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.2, 5.0
_TAKEN = ("PreconditionFailed", "412")
_NOT_THERE = ("NoSuchKey", "404")
_NOT_KNOWN = "NotImplemented"
_PASSING = (408, 409, 429)
"""Statuses of refusals that may pass; all of 500 and more may."""


class TakenError(Exception):
    """Something else is there than a write expects."""


@dataclass(eq=False)
class Store:
    """A bucket of a store, and what a process knows of its objects.

    Attributes:
        protocol: fsspec's name of the store; bucket: the bucket.
        options: fsspec's options for it, (name, value).
        guard: called before a write that others may be in the way of; raises LakeError where it must not be made.
    """

    protocol: str
    bucket: str
    options: Options = field(repr=False)
    guard: Callable[[], None] = field(default=lambda: None, repr=False)
    _tags: dict[str, str | None] = field(default_factory=dict, repr=False)

    def address(self, key: str) -> str:
        """Return the address of an object."""
        return f"{self.protocol}://{self.bucket}/{key}"

    @property
    def files(self) -> Any:
        """The store as fsspec has it, in this process."""
        return file_system(self.protocol, self.options, self.address(""))

    def read(self, key: str) -> bytes | None:
        """Return an object; None where there is none. Replacing it, and that alone, is possible from then on.

        Raises:
            LakeError: it cannot be read.
        """
        there = self.get(key)
        self._tags[key] = None if there is None else there[1]
        return None if there is None else there[0]

    def replace(self, key: str, data: bytes) -> None:
        """Put an object in the place of what was read there last, or is there if it was never read.

        Raises:
            LakeConflictError: somebody else has written it meanwhile.
            LakeError: it cannot be written.
        """
        self.guard()
        if key not in self._tags:
            self._tags[key] = self.tag(key)
        try:
            self._tags[key] = self.put(key, data, self._tags[key])
        except TakenError:
            raise LakeConflictError(
                "somebody else has written it meanwhile",
                file=self.address(key),
                hint="only one land may write to a target; end the other one, and begin again",
            ) from None

    def add(self, key: str, data: bytes) -> None:
        """Put an object where none is.

        Raises:
            FileExistsError: there is another one.
            LakeError: it cannot be written.
        """
        self.guard()
        try:
            self._tags[key] = self.put(key, data, None)
        except TakenError:
            raise FileExistsError(self.address(key)) from None

    def get(self, key: str) -> tuple[bytes, str] | None:
        """Return an object and its tag, which is another one when it is replaced; None where there is none.

        Raises:
            LakeError: it cannot be read.
        """
        try:
            return self._tried(key, "read", lambda: _get(self.files, self.bucket, key))
        except FileNotFoundError:
            return None

    def small(self, key: str, most: int) -> bytes | None:
        """Return a file of rows in one request; None for one of more bytes.

        Args:
            key: its; most: bytes.

        Raises:
            FileNotFoundError: there is none.
            LakeError: it cannot be read.
        """
        data, size = self._tried(key, "read", lambda: _begun(self.files, self.bucket, key, most))
        return data if len(data) == size else None

    def tag(self, key: str) -> str | None:
        """Return the tag of an object; None where there is none.

        Raises:
            LakeError: the store does not tell.
        """
        answer = self._head(key)
        return None if answer is None else str(answer["ETag"])

    def size(self, key: str) -> int | None:
        """Return how many bytes an object has; None where there is none.

        Raises:
            LakeError: the store does not tell.
        """
        answer = self._head(key)
        return None if answer is None else int(answer["ContentLength"])

    def _head(self, key: str) -> Any:
        try:
            return self._tried(key, "look up", lambda: self._call("head_object", Key=key))
        except FileNotFoundError:
            return None

    def put(self, key: str, data: bytes, tag: str | None) -> str:
        """Write an object on a condition; returns its tag.

        Args:
            key: its; data: bytes.
            tag: of the object that is there; None for none.

        Raises:
            TakenError: something else is there.
            LakeError: it cannot be written.
        """
        condition = {"IfNoneMatch": "*"} if tag is None else {"IfMatch": tag}
        try:
            answer = self._tried(key, "write", lambda: self._call("put_object", Key=key, Body=data, **condition))
            return str(answer["ETag"])
        except (TakenError, FileNotFoundError):
            there = self.get(key)
            if there is None or there[0] != data:
                raise TakenError from None
            return there[1]

    def remove(self, key: str) -> None:
        """Remove an object, if there is one.

        Raises:
            LakeError: it cannot be removed.
        """
        self._tags.pop(key, None)
        self._tried(key, "remove", lambda: self._call("delete_object", Key=key))

    def names(self, folder: str) -> list[str]:
        """List the names in a folder of few objects.

        Raises:
            LakeError: it cannot be listed.
        """
        return [key.rpartition("/")[2] for key, _, _ in self.listed(f"{folder}/")]

    def listed(self, beginning: str) -> Iterator[tuple[str, int, float]]:
        """Yield the keys that begin so, with bytes and when they were written, in seconds since 1970.

        Raises:
            LakeError: they cannot be listed.
        """
        more: dict[str, str] = {}
        while True:
            ask = partial(self._call, "list_objects_v2", Prefix=beginning, **more)
            answer = self._tried(beginning, "list", ask)
            for entry in answer.get("Contents", ()):
                yield str(entry["Key"]), int(entry["Size"]), entry["LastModified"].timestamp()
            if not answer.get("IsTruncated"):
                return
            more = {"ContinuationToken": answer["NextContinuationToken"]}

    def require_conditions(self, folder: str) -> None:
        """See that the store honours the conditions of writes.

        Args:
            folder: where it is tried.

        Raises:
            LakeError: it does not, or cannot be written to.
        """
        key = f"{folder}/probe-{secrets.token_hex(8)}"
        try:
            honours = self._honours(key)
        except LakeError as error:
            if _NOT_KNOWN not in error.message:
                raise
            honours = False
        finally:
            self.remove(key)
        if not honours:
            raise LakeError(
                "the store does not honour conditional writes (If-None-Match, If-Match): two runs could overwrite what "
                "each other has landed",
                file=self.address(folder),
                hint="land to a store that does, such as Amazon's S3, MinIO or Ceph of today, or to a directory",
            )

    def _honours(self, key: str) -> bool:
        """Tell whether an object is written on conditions, and on none that is not met."""
        tag = self.put(key, b"first", None)
        if not self._refuses(key, None) or not self._refuses(key, '"0123456789abcdef0123456789abcdef"'):
            return False
        return self.put(key, b"third", tag) != tag and self._refuses(key, tag)

    def _refuses(self, key: str, tag: str | None) -> bool:
        try:
            self.put(key, secrets.token_bytes(8), tag)
        except TakenError:
            return True
        return False

    @contextmanager
    def new_file(self, key: str) -> Iterator[Any]:
        """Open a file of a name that nobody else has, to be written in parts; there is none if that fails.

        Raises:
            LakeError: it cannot be written.
        """
        with self.errors(key, "write"):
            file = self.files.open(f"{self.bucket}/{key}", "wb", block_size=PART_BYTES)
        try:
            yield _Writing(self, key, file)
        except BaseException:
            file.closed = True
            file.discard()
            raise
        with self.errors(key, "write"):
            file.close()

    @contextmanager
    def errors(self, key: str, action: str) -> Iterator[None]:
        """Raise the failures of the store's library in the ``with`` block as ours."""
        try:
            yield
        except (LakeError, UsageError, TakenError):
            raise
        except Exception as error:
            raise self._failure(key, action, error) from None

    def _call(self, method: str, **arguments: Any) -> Any:
        return self.files.call_s3(method, Bucket=self.bucket, **arguments)

    def _tried(self, key: str, action: str, ask: Callable[[], T]) -> T:
        """Return an answer, asked for as long as it may come.

        Raises:
            FileNotFoundError: there is no such object.
            TakenError: a condition is not met.
            LakeError: any other failure.
        """
        begun, pause = time.monotonic(), _FIRST_PAUSE_SECONDS
        while True:
            try:
                return ask()
            except UsageError:
                raise
            except Exception as error:
                code, status = _code(error)
                if code in _NOT_THERE:
                    raise FileNotFoundError(self.address(key)) from None
                if code in _TAKEN:
                    raise TakenError from None
                is_late = time.monotonic() - begun > PATIENCE_SECONDS
                if is_late or not _may_pass(error, status):
                    raise self._failure(key, action, error) from None
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)

    def _failure(self, key: str, action: str, error: Exception) -> LakeError:
        code, status = _code(error)
        words = f"{type(error).__name__} {error}".lower()
        is_refusal = isinstance(error, PermissionError) or status in (401, 403)
        is_refusal = is_refusal or "credential" in words or "token" in f"{code} {words}".lower()
        text = " ".join(str(getattr(error, "strerror", None) or error).split()) or type(error).__name__
        hint = (
            "check the credentials: the store's own variables and files, or --storage-option NAME=VALUE"
            if is_refusal
            else "begin again once the store answers: the run goes on where the tables stand"
        )
        about = f" ({code})" if code and code not in text else ""
        return LakeError(f"could not {action} in {self.protocol}: {text}{about}", file=self.address(key), hint=hint)


class _Writing:
    """A file that is being written, as writers of Parquet take it; its errors are ours."""

    def __init__(self, store: Store, key: str, file: Any) -> None:
        self._store, self._key, self._file = store, key, file

    closed = False

    def write(self, data: Any) -> int:
        with self._store.errors(self._key, "write"):
            return int(self._file.write(data))

    def tell(self) -> int:
        return int(self._file.tell())

    def flush(self) -> None:
        """Do nothing: parts go when they are full."""

    def close(self) -> None:
        """Do nothing: it is closed when all is written."""


def _get(files: Any, bucket: str, key: str) -> tuple[bytes, str]:
    from fsspec.asyn import sync

    async def whole() -> tuple[bytes, str]:
        answer = await files._call_s3("get_object", Bucket=bucket, Key=key)
        return await answer["Body"].read(), str(answer["ETag"])

    result: tuple[bytes, str] = sync(files.loop, whole)
    return result


def _begun(files: Any, bucket: str, key: str, most: int) -> tuple[bytes, int]:
    """Return the first bytes of an object, and how many it has."""
    from fsspec.asyn import sync

    async def first() -> tuple[bytes, int]:
        answer = await files._call_s3("get_object", Bucket=bucket, Key=key, Range=f"bytes=0-{most - 1}")
        size = answer["ContentRange"].rpartition("/")[2] if "ContentRange" in answer else answer["ContentLength"]
        return await answer["Body"].read(), int(size)

    result: tuple[bytes, int] = sync(files.loop, first)
    return result


def _code(error: Exception) -> tuple[str, int | None]:
    """Return the store's code for a refusal, and its status; nothing for a failure of another kind."""
    response = getattr(error, "response", None) or getattr(error.__cause__, "response", None)
    if not isinstance(response, dict):
        return "", None
    status = response.get("ResponseMetadata", {}).get("HTTPStatusCode")
    code = str(response.get("Error", {}).get("Code", ""))
    return code, int(status) if status is not None else None


def _may_pass(error: Exception, status: int | None) -> bool:
    """Tell whether the same question may be answered a moment later."""
    if status is not None:
        return status in _PASSING or (status >= 500 and status != HTTPStatus.NOT_IMPLEMENTED)
    if isinstance(error, PermissionError | ValueError | TypeError):
        return False
    name = type(error).__name__
    return not ("Credential" in name or "Validation" in name or "Token" in name)
