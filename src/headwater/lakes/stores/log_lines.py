"""A log of lines that only grows at its end: a file of this machine, or objects of some lines each in a store.

::

    _headwater/resolved.jsonl                              on this machine, and of objects of a store nothing more than:
    _headwater/resolved.jsonl                              {"first": 3, "last": 7}
    _headwater/resolved/00000000000000000007.jsonl         the last lines; the first of each object stands for itself

An object of a store is written anew with each line, until it has some hundred. What the first object says is the log:
an object behind the last is of a run that was killed, and the next one takes its place.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from headwater.base.whole_files import sync_directory, sync_file, write_whole
from headwater.errors import LakeError
from headwater.lakes.stores.places import StorePath, Where, read_file

LINES = 256
"""Of an object."""


class LogLines(ABC):
    """A log, as who writes it has it."""

    @abstractmethod
    def tail(self) -> list[bytes]:
        """Return its last lines, of which the first stands for itself, as far as they are whole; without their ends."""

    @abstractmethod
    def append(self, line: bytes, whole: bytes) -> None:
        """Write a line, with its end.

        Args:
            line: it; whole: the same, so that it stands for itself.
        """

    @abstractmethod
    def replace(self, lines: Iterable[bytes]) -> None:
        """Have other lines, with their ends, of which the first stands for itself."""


def log_lines(path: Where) -> LogLines:
    """Open a log to write to it; raises OSError or LakeError where it cannot be read."""
    return StoreLines(path) if isinstance(path, StorePath) else LocalLines(path)


def lines_at(path: Where) -> Iterator[bytes]:
    """Yield the lines of a log, without their ends; one that was cut off is none.

    Raises:
        LakeError: it cannot be read.
    """
    if isinstance(path, StorePath):
        first, last = _bounds(path)
        for number in range(first, last + 1):
            yield from _object(path, number)
    elif path.exists():
        yield from path.read_bytes().split(b"\n")[:-1]


class LocalLines(LogLines):
    """A log in a file.

    Args:
        path: the file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._length = path.read_bytes().rfind(b"\n") + 1 if path.exists() else 0

    def tail(self) -> list[bytes]:
        return list(lines_at(self._path))

    def append(self, line: bytes, whole: bytes) -> None:  # noqa: ARG002
        is_new = not self._path.exists()
        with self._path.open("ab") as sink:
            sink.truncate(self._length)  # of a line that was cut off
            self._length += sink.write(line)
            sync_file(sink)
        if is_new:
            sync_directory(self._path.parent)

    def replace(self, lines: Iterable[bytes]) -> None:
        self._length = write_whole(self._path, lines)


class StoreLines(LogLines):
    """A log in a store.

    Args:
        path: of the object that says which the others are.
    """

    def __init__(self, path: StorePath) -> None:
        self._path = path
        self._first, self._last = _bounds(path)
        self._lines = [line + b"\n" for line in _object(path, self._last)] if self._last else []

    def tail(self) -> list[bytes]:
        return [line.removesuffix(b"\n") for line in self._lines]

    def append(self, line: bytes, whole: bytes) -> None:
        if self._lines and len(self._lines) < LINES:
            lines = [*self._lines, line]
            self._put(self._last, lines)
        else:
            lines = [whole]
            self._put(self._last + 1, lines)
            self._name(self._first or 1, self._last + 1)
        self._lines = lines

    def replace(self, lines: Iterable[bytes]) -> None:
        gone, last, known = range(self._first, self._last + 1), self._last, list(lines)
        for begin in range(0, len(known), LINES):
            last += 1
            self._lines = known[begin : begin + LINES]
            self._put(last, self._lines)
        self._name(gone.stop, last)
        for number in gone if gone.start else ():
            _path(self._path, number).store.remove(_path(self._path, number).key)

    def _name(self, first: int, last: int) -> None:
        self._path.store.replace(self._path.key, json.dumps({"first": first, "last": last}).encode())
        self._first, self._last = first, last

    def _put(self, number: int, lines: Sequence[bytes]) -> None:
        path = _path(self._path, number)
        path.store.replace(path.key, b"".join(lines))


def _bounds(path: StorePath) -> tuple[int, int]:
    """Return the numbers of the first object of lines and of the last; 0 and 0 for none."""
    text = read_file(path)
    if text is None:
        return 0, 0
    try:
        known = json.loads(text)
        return int(known["first"]), int(known["last"])
    except (ValueError, KeyError, TypeError) as error:
        raise LakeError(f"damaged: {error}", file=str(path)) from None


def _path(path: StorePath, number: int) -> StorePath:
    return path.parent / path.name.partition(".")[0] / f"{number:020}.jsonl"


def _object(path: StorePath, number: int) -> list[bytes]:
    text = read_file(_path(path, number))
    if text is None:
        raise LakeError("lines of the log are missing", file=str(_path(path, number)))
    return text.split(b"\n")[:-1]
