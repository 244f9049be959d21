"""The directory that received WAL lies in: names, sizes and order of syncing as pg_receivewal leaves them.

A segment is written as ``NAME.partial``, which has its whole size from the start on: it is filled with zeros under
another name, as others read the directory meanwhile. It loses the ending once it is whole and synced. The history file
of a timeline comes before the timeline's first segment. So whatever moment a process is killed at, every file without
the ending is whole.

Invariants: nothing is written over but what lies behind the last byte that was received. The position is contiguous.

PostgreSQL: receivelog.c (open_walfile, close_walfile, writeTimeLineHistoryFile), pg_receivewal.c (FindStreamingStart),
walmethods.c.
"""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass
from pathlib import Path

from headwater.base.system_errors import errors_as
from headwater.base.whole_files import sync_directory, write_whole
from headwater.errors import SegmentError
from headwater.pg.lsn import Lsn
from headwater.wal.layout import LONG_HEADER_FLAG
from headwater.wal.segments.segment_files import segment_name
from headwater.wal.segments.segment_forms import PARTIAL, PLAIN, parse_name

_LONG_HEADER = struct.Struct("<HHIQIIQII")
_ZEROS = bytes(1 << 20)


@dataclass(frozen=True, order=True)
class Received:
    """The newest segment that a directory has.

    Attributes:
        number: LSN of its first byte divided by the segment size; timeline: in its name.
        is_whole: it is not partial.
    """

    number: int
    timeline: int
    is_whole: bool

    def next_lsn(self, segment_size: int) -> int:
        """Return where receiving goes on: at the beginning of a segment."""
        return (self.number + self.is_whole) * segment_size


def newest_received(directory: Path, segment_size: int) -> Received | None:
    """Find the newest segment, None if there is none; of two of one name the whole one counts (FindStreamingStart).

    Raises:
        SegmentError: the directory cannot be read, or a segment has another size.
    """
    newest = None
    with errors_as(SegmentError, "list directory", directory):
        entries = [(entry.name, entry.stat().st_size) for entry in os.scandir(directory) if entry.is_file()]
    for name, size in entries:
        parsed = parse_name(name)
        if parsed is None:
            continue
        plain, ending, method, _ = parsed
        is_whole = PARTIAL not in ending
        if is_whole and method == PLAIN and size != segment_size:
            raise _wrong_size(directory / name, size, segment_size)
        received = Received(_number_of(plain, segment_size), int(plain[:8], 16), is_whole)
        newest = received if newest is None else max(newest, received)
    return newest


def system_of(directory: Path) -> int | None:
    """Read the cluster's system identifier from the newest plain segment that has a first page, None without one.

    Raises:
        SegmentError: the directory, or a segment, cannot be read.
    """
    with errors_as(SegmentError, "list directory", directory):
        names = sorted((entry.name for entry in os.scandir(directory) if entry.is_file()), reverse=True)
    for name in names:
        parsed = parse_name(name)
        if parsed is not None and parsed[2] == PLAIN:
            with errors_as(SegmentError, "read WAL segment", directory / name), open(directory / name, "rb") as file:
                header = file.read(_LONG_HEADER.size)
            if len(header) == _LONG_HEADER.size and (values := _LONG_HEADER.unpack(header))[1] & LONG_HEADER_FLAG:
                return int(values[6])
    return None


def write_history(directory: Path, timeline: int, content: bytes) -> None:
    """Write a timeline's history file.

    Raises:
        SegmentError: it cannot be written.
    """
    path = history_path(directory, timeline)
    with errors_as(SegmentError, "write history file", path):
        write_whole(path, [content], 0o600)


def history_path(directory: Path, timeline: int) -> Path:
    """Return the path of a timeline's history file (TLHistoryFileName)."""
    return directory / f"{timeline:08X}.history"


def name_partial(directory: Path) -> None:
    """Give the partial segment its name: what is behind its last record is zeros, as in a server's own directory.

    Raises:
        SegmentError: it cannot be renamed.
    """
    with errors_as(SegmentError, "rename WAL segment", directory):
        for path in directory.glob(f"*{PARTIAL}"):
            path.rename(path.with_name(path.name.removesuffix(PARTIAL)))
        sync_directory(directory)


class SegmentWriter:
    """A writer of the segments of a timeline, from the beginning of one on.

    Args:
        directory: where they are written.
        timeline: in their names.
        segment_size: bytes.
        position: LSN of the next byte, at which a segment begins.

    Attributes:
        position: LSN of the next byte.
        flushed: LSN up to which all is synced.
    """

    def __init__(self, directory: Path, timeline: int, segment_size: int, position: int) -> None:
        self._directory, self._timeline, self._size = directory, timeline, segment_size
        self._file = -1
        self.position = self.flushed = position

    def write(self, lsn: int, data: memoryview) -> None:
        """Write bytes of the WAL; segments that they fill are synced and get their names.

        Raises:
            SegmentError: they do not follow what was written before, or cannot be written.
        """
        if lsn != self.position:
            raise SegmentError(f"received WAL from {Lsn(lsn)} on, expected {Lsn(self.position)}", lsn=lsn)
        while data:
            offset = self.position % self._size
            piece = data[: self._size - offset]
            with errors_as(SegmentError, "write WAL segment", self._partial):
                if self._file < 0:
                    self._open()
                _write_all(self._file, piece, offset)
                data = data[len(piece) :]
                if offset + len(piece) == self._size:
                    self._close_whole()
            self.position += len(piece)
            if self._file < 0:
                self.flushed = self.position

    def flush(self) -> None:
        """Sync what was written.

        Raises:
            SegmentError: it cannot be synced.
        """
        if self._file >= 0 and self.flushed < self.position:
            with errors_as(SegmentError, "sync WAL segment", self._partial):
                os.fdatasync(self._file)
        self.flushed = self.position

    def close(self) -> None:
        """Sync what was written, and leave the last segment partial.

        Raises:
            SegmentError: it cannot be synced.
        """
        try:
            self.flush()
        finally:
            self.drop()

    def drop(self) -> None:
        """Let go of the file, as after an error."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    @property
    def _path(self) -> Path:
        return self._directory / segment_name(self._timeline, self.position // self._size, self._size)

    @property
    def _partial(self) -> Path:
        return self._path.with_name(f"{self._path.name}{PARTIAL}")

    def _open(self) -> None:
        """Open the partial segment of the position, which is made if it is missing."""
        path = self._partial
        if not path.exists():
            self._make(path)
            return
        self._file = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        size = os.fstat(self._file).st_size
        if size == self._size:
            os.fsync(self._file)
        elif size == 0:
            _fill(self._file, self._size)
            os.fsync(self._file)
            sync_directory(self._directory)
        else:
            self.drop()
            raise _wrong_size(path, size, self._size)

    def _make(self, path: Path) -> None:
        """Make a segment of zeros; it has its name only when it has its size."""
        new = path.with_name(f"{path.name}.part")
        self._file = os.open(new, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            _fill(self._file, self._size)
            os.fsync(self._file)
            os.rename(new, path)
            sync_directory(self._directory)
        except BaseException:
            self.drop()
            raise

    def _close_whole(self) -> None:
        os.fsync(self._file)
        self.drop()
        os.rename(self._partial, self._path)
        sync_directory(self._directory)


def _number_of(name: str, segment_size: int) -> int:
    return int(name[8:16], 16) * ((1 << 32) // segment_size) + int(name[16:24], 16)


def _wrong_size(path: Path, size: int, segment_size: int) -> SegmentError:
    return SegmentError(
        f"wrong size: {size} bytes, expected {segment_size}",
        file=str(path),
        hint="receive into another directory, or remove the file if it was not whole when a disk was full",
    )


def _fill(descriptor: int, size: int) -> None:
    for offset in range(0, size, len(_ZEROS)):
        _write_all(descriptor, memoryview(_ZEROS)[: size - offset], offset)


def _write_all(descriptor: int, data: memoryview, offset: int) -> None:
    while data:
        written = os.pwrite(descriptor, data, offset)
        data, offset = data[written:], offset + written
