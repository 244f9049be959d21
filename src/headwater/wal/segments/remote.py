"""Files in stores that fsspec knows (``s3://``, ``gs://``, ``https://``, ...): listed, read in ranges, with retries.

Credentials are what the store's own library finds (for S3 the environment, ``~/.aws``, the machine's role), or options
that fsspec passes on to it. fsspec and that library are optional: they are loaded when an address is met.

Invariants: every failure is a :class:`~headwater.errors.SegmentError` that says what to do, but for a file that is not
there, which is Python's own FileNotFoundError. A failure that may pass is tried again; one of credentials is not.
"""

from __future__ import annotations

import errno
import io
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from headwater.errors import SegmentError, UsageError
from headwater.option_names import option

T = TypeVar("T")
Options = Sequence[tuple[str, str]]

STREAM_BYTES = 8 << 20
"""Bytes asked for at a time of a file that is read from its first byte on."""

_FIRST_BYTES = 256 << 10
_TRIES = 5
_FIRST_PAUSE_SECONDS = 0.2
_EXTRAS = {"s3": "s3", "s3a": "s3", "gs": "gcs", "gcs": "gcs"}
_CREDENTIALS = "check the credentials: {protocol}'s own variables and files, or " + option(
    "storage-option", "NAME=VALUE"
)


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """A file or a folder: the folder it lies in below the one that was listed, its name, its bytes."""

    folder: str
    name: str
    size: int
    is_folder: bool = False


def option_value(text: str) -> Any:
    """Return the meaning of an option's text to fsspec.

    It is JSON for ``true``, ``false``, objects and lists, else the text itself.

    Raises:
        UsageError: it begins as JSON does, and is none.
    """
    if text not in ("true", "false") and not text.startswith(("{", "[")):
        return text
    try:
        return json.loads(text)
    except ValueError:
        raise UsageError("invalid value of a storage option, expected JSON or plain text") from None


def file_system(protocol: str, options: Options, address: str) -> Any:
    """Return fsspec's file system; fsspec keeps it for the next call.

    Raises:
        UsageError: fsspec, or the library it needs for this store, is not installed, or does not know such options.
    """
    try:
        from fsspec.core import url_to_fs

        return url_to_fs(address, **{name: option_value(value) for name, value in options})[0]
    except UsageError:
        raise
    except ImportError as error:
        extra = _EXTRAS.get(protocol)
        how = f"pip install 'headwater[{extra}]'" if extra else "pip install fsspec and what it needs for this store"
        raise UsageError(f'cannot read addresses of "{protocol}://": {error}', hint=f"run: {how}") from None
    except Exception as error:
        raise UsageError(
            f'cannot read addresses of "{protocol}://": {error}', hint="give a path, or another address"
        ) from None


def list_files(protocol: str, options: Options, address: str) -> list[RemoteFile]:
    """List the contents of a folder.

    Raises:
        SegmentError: it cannot be listed, or is not there.
    """
    fs = file_system(protocol, options, address)
    fs.invalidate_cache()
    files = _listed(protocol, address, lambda: fs.ls(address, detail=True))
    return [_remote_file(fs, address, file) for file in files if _name(file["name"])]


def list_below(protocol: str, options: Options, address: str) -> list[RemoteFile]:
    """List all files below a folder, however deep, in few requests.

    Raises:
        SegmentError: they cannot be listed.
    """
    fs = file_system(protocol, options, address)
    fs.invalidate_cache()
    files = _listed(protocol, address, lambda: fs.find(address, detail=True))
    return [_remote_file(fs, address, file) for file in files.values()]


def names_beginning(protocol: str, options: Options, address: str, beginning: str) -> list[str]:
    """List the names of files in a folder that begin so; others may be among them.

    Raises:
        SegmentError: they cannot be listed.
    """
    fs = file_system(protocol, options, address)
    fs.invalidate_cache()
    try:
        return [_name(path) for path in _tried(protocol, address, lambda: fs.find(address, prefix=beginning))]
    except FileNotFoundError:
        return []


def read_range(protocol: str, options: Options, address: str, lo: int, hi: int) -> bytes:
    """Read bytes ``[lo, hi)`` of a file, as far as it goes.

    Raises:
        FileNotFoundError: it is not there.
        SegmentError: it cannot be read.
    """
    fs = file_system(protocol, options, address)
    return bytes(_tried(protocol, address, lambda: _range(fs, address, lo, hi)))


def _range(fs: Any, address: str, lo: int, hi: int) -> bytes:
    try:
        return bytes(fs.cat_file(address, start=lo, end=hi))
    except FileNotFoundError:
        raise
    except Exception:
        # Stores refuse a range that begins after the file's end, each in its own words.
        if lo >= fs.size(address):
            return b""
        raise


class RangeStream(io.RawIOBase):
    """A file read from its first byte on, in large ranges; the first is small, as often only a header is wanted.

    Args:
        protocol, options: of the store.
        address: the file.
    """

    def __init__(self, protocol: str, options: Options, address: str) -> None:
        self._protocol, self._options, self._address = protocol, options, address
        self._at = 0
        self._held = memoryview(b"")
        self._is_end = False
        self._fill(_FIRST_BYTES)

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer with the bytes that come next."""
        if not self._held and not self._is_end:
            self._fill(STREAM_BYTES)
        view = memoryview(buffer).cast("B")
        count = min(len(view), len(self._held))
        view[:count] = self._held[:count]
        self._held = self._held[count:]
        self._at += count
        return count

    def _fill(self, size: int) -> None:
        data = read_range(self._protocol, self._options, self._address, self._at, self._at + size)
        self._held = memoryview(data)
        self._is_end = len(self._held) < size


def _listed(protocol: str, address: str, ask: Callable[[], T]) -> T:
    try:
        return _tried(protocol, address, ask)
    except FileNotFoundError:
        raise SegmentError(
            "could not list directory: there is nothing under this address",
            file=address,
            hint="name the folder that holds the segments",
        ) from None


def _tried(protocol: str, address: str, ask: Callable[[], T]) -> T:
    """Return the answer, asked for a few times.

    Raises:
        FileNotFoundError: there is no such file.
        SegmentError: it is not available.
    """
    for attempt in range(_TRIES):
        try:
            return ask()
        except FileNotFoundError:
            raise
        except Exception as error:
            if attempt == _TRIES - 1 or not _may_pass(error):
                raise _failure(protocol, address, error) from None
        time.sleep(_FIRST_PAUSE_SECONDS * 2**attempt)
    raise AssertionError("unreachable")


def _may_pass(error: Exception) -> bool:
    """Tell whether the same question may be answered a moment later."""
    return isinstance(error, OSError) and not isinstance(error, PermissionError) and error.errno != errno.EINVAL


def _failure(protocol: str, address: str, error: Exception) -> SegmentError:
    words = f"{type(error).__name__} {error}".lower()
    is_refusal = isinstance(error, PermissionError) or "credential" in words or "token" in words
    text = " ".join(str(error).split()) or type(error).__name__
    hint = _CREDENTIALS.format(protocol=protocol) if is_refusal else "try again, or check the address and its options"
    return SegmentError(f"could not read from {protocol}: {text}", file=address, hint=hint)


def _remote_file(fs: Any, address: str, details: dict[str, Any]) -> RemoteFile:
    root = fs._strip_protocol(address).rstrip("/")
    folder, _, name = details["name"].rstrip("/").rpartition("/")
    below = folder[len(root) :].strip("/") if folder.startswith(root) else ""
    return RemoteFile(below, name, int(details.get("size") or 0), details.get("type") == "directory")


def _name(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2]
