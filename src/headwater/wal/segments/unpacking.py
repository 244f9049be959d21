"""A packed segment as the bytes that the server wrote, unpacked as far as somebody reads.

Unpacked bytes go to a temporary file without a name, in the directory for temporary files. So a segment of 1 GB costs
no memory that the system cannot have back. It is read by the same calls as a plain one, and is gone with its process.
It is unpacked once a process, as long as there is room (CACHE_BYTES). One segment is read for the index, again where a
record of the one before goes on into it, and again for each slice.

Invariants: the end of the packed bytes is proved by their own form (a trailer, a frame's end), the length by the size
of a segment. The bytes are proved by the SHA-1 in the name where there is one. All three are when the segment is read
to its end, as the index does with each. A partial segment may be cut off anywhere, and is zeros from there on.
"""

from __future__ import annotations

import hashlib
import io
import lzma
import os
import tempfile
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from headwater.base.overrides import override
from headwater.base.system_errors import errors_as
from headwater.errors import SegmentError, TruncatedSegmentError
from headwater.wal.segments.place import Place, open_bytes, read_start
from headwater.wal.segments.segment_forms import (
    MAGIC_SIZE,
    PLAIN,
    READABLE,
    compression_of,
    encryption_of,
    how_to_unpack,
)

CACHE_BYTES = 256 << 20
"""Unpacked bytes that a process keeps in temporary files, but for the segment that it reads."""

_CACHE_FILES = 64
_UNIT = 1 << 20
_FINER_UNITS = (8192, 1)
_ARROW_CODECS: Mapping[str, Literal["gzip", "lz4", "zstd", "bz2", "brotli"]] = {
    "gzip": "gzip",
    "lz4": "lz4",
    "zstd": "zstd",
    "bzip2": "bz2",
    "brotli": "brotli",
}
_TRUNCATED = "Truncated"


class _Stream(Protocol):
    def read(self, size: int, /) -> bytes: ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Packed:
    """A packed file.

    Attributes:
        place: where it lies.
        path: its path or address.
        method: the method it is packed with.
        checksum: SHA-1 of its unpacked bytes in hex digits, None if it is not known.
        is_partial: it may be cut off.
        start_lsn: of the segment, for errors.
    """

    place: Place
    path: str
    method: str
    checksum: str | None = None
    is_partial: bool = False
    start_lsn: int | None = None


class UnpackedSegment:
    """One segment, unpacked so far.

    Args:
        packed: the file.

    Attributes:
        filled: bytes that are unpacked.
    """

    def __init__(self, packed: Packed) -> None:
        self._packed = packed
        self._lock = threading.Lock()
        self._digest = hashlib.sha1(usedforsecurity=False)
        self._stream: _Stream | None = open_stream(packed)
        self._file = tempfile.TemporaryFile(prefix="headwater-", buffering=0)  # noqa: SIM115
        self.filled = 0

    def read_into(self, view: memoryview, offset: int, size: int | None) -> int:
        """Fill a buffer with the segment's bytes from an offset on; the number of bytes.

        Args:
            view: the buffer.
            offset: in the segment.
            size: bytes of a segment, None if that is not known yet.

        Raises:
            SegmentError: the file is damaged, cut off, or holds something else.
        """
        self.reach(offset + len(view), size)
        count = read_at(self._file.fileno(), view, offset)
        if not self._packed.is_partial or size is None:
            return count
        zeros = min(len(view), size - offset) - count
        if zeros > 0:
            view[count : count + zeros] = bytes(zeros)
        return count + max(zeros, 0)

    def reach(self, end: int, size: int | None) -> None:
        """Unpack up to an offset; up to the segment's end, with all that proves it whole.

        Raises:
            SegmentError: as :meth:`read_into`.
        """
        with self._lock:
            while self._stream is not None and (self.filled < end or (size is not None and end >= size >= self.filled)):
                self._take(self._stream)
            is_whole = self._packed.is_partial or self._stream is not None or self.filled == size
            if size is not None and (self.filled > size or not is_whole):
                raise self._wrong_size(size)

    def _take(self, stream: _Stream) -> None:
        try:
            data = read_stream(stream, _UNIT, self._packed)
        except FileNotFoundError:
            raise self._error("WAL segment was removed while it was read") from None
        except TruncatedSegmentError:
            if not self._packed.is_partial:
                raise
            stream.close()
            self._take_rest()
            return
        if data:
            self._add(data)
        else:
            self._finish()

    def _add(self, data: bytes) -> None:
        _write_all(self._file.fileno(), data, self.filled)
        self._digest.update(data)
        self.filled += len(data)

    def _take_rest(self) -> None:
        """Read the rest of a file that was cut off, to the last byte; a read that fails gives nothing of its own."""
        for unit in _FINER_UNITS:
            stream = open_stream(self._packed)
            skip = self.filled
            try:
                while skip:
                    skip -= len(read_stream(stream, min(skip, unit), self._packed))
                while data := read_stream(stream, unit, self._packed):
                    self._add(data)
            except TruncatedSegmentError:
                continue
            finally:
                stream.close()
        self._finish()

    def _finish(self) -> None:
        if self._stream is not None:
            self._stream.close()
        self._stream, expected, actual = None, self._packed.checksum, self._digest.hexdigest()
        if expected is not None and not self._packed.is_partial and actual != expected:
            raise self._error(
                f"WAL segment has another SHA-1 than its name says: found {actual}, expected {expected}",
                "restore the file from another copy of the archive",
            )

    def _wrong_size(self, size: int) -> SegmentError:
        actual = self.filled if self._stream is None else f"more than {size}"
        return self._error(f"WAL segment has a wrong size, found {actual} bytes when unpacked, expected {size}")

    def _error(self, message: str, hint: str | None = None) -> SegmentError:
        return SegmentError(message, lsn=self._packed.start_lsn, file=self._packed.path, hint=hint)


def _write_all(descriptor: int, data: bytes, offset: int) -> None:
    view = memoryview(data)
    action, hint = "unpack a WAL segment into a temporary file", "make room there, or set TMPDIR"
    with errors_as(SegmentError, action, tempfile.gettempdir(), hint):
        while view:
            count = os.pwrite(descriptor, view, offset)
            view, offset = view[count:], offset + count


def read_at(descriptor: int, view: memoryview, offset: int) -> int:
    """Fill a buffer from an open file, as far as that goes; the number of bytes."""
    done = 0
    while done < len(view):
        count = os.preadv(descriptor, [view[done:]], offset + done)
        if not count:
            break
        done += count
    return done


def open_stream(packed: Packed) -> _Stream:
    """Open a file's content, unpacked.

    Raises:
        FileNotFoundError: it is not there.
        SegmentError: it is packed with something that is not read, or is not what its name says.
    """
    method, start = packed.method, read_start(packed.place, packed.path, MAGIC_SIZE)
    _check_readable(packed, start)
    raw = open_bytes(packed.place, packed.path)
    if method == PLAIN:
        return io.BufferedReader(raw, _UNIT)
    if not start and not packed.is_partial:
        return _Truncated(raw)
    if method in ("xz", "lzma"):
        return _Lzma(raw)
    import pyarrow as pa

    return ArrowStream(pa.CompressedInputStream(pa.PythonFile(raw, mode="r"), _ARROW_CODECS[method]))


class ArrowStream:
    """A stream of pyarrow's, whose own ``read`` loses the memory of the result where packed bytes are damaged, or end.

    Args:
        stream: ``pyarrow.NativeFile``.
    """

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def read(self, size: int, /) -> bytes:
        """Read the next bytes."""
        data: bytes = self._stream.read_buffer(size).to_pybytes()
        return data

    def close(self) -> None:
        """Close it."""
        self._stream.close()


class _Truncated(io.BufferedReader):
    """An empty file, which no method makes of anything."""

    @override
    def read(self, size: int | None = -1, /) -> bytes:
        raise EOFError(_TRUNCATED)


class _Lzma(lzma.LZMAFile):
    """Stream that closes the file it reads."""

    def __init__(self, raw: io.RawIOBase) -> None:
        super().__init__(io.BufferedReader(raw, _UNIT))
        self._raw = raw

    def close(self) -> None:
        super().close()
        self._raw.close()


def _check_readable(packed: Packed, start: bytes) -> None:
    method, actual = packed.method, compression_of(start)
    cipher = encryption_of(start) if actual is None else None
    expected = compression_of_method(method)
    if cipher is not None and expected != actual:
        raise SegmentError(
            f"WAL segment is encrypted ({cipher})",
            lsn=packed.start_lsn,
            file=packed.path,
            hint="fetch segments with the archive's own tool, as with pgbackrest archive-get, and name their directory",
        )
    if method not in READABLE:
        raise SegmentError(
            f"WAL segment is compressed with {method}, which is not supported",
            lsn=packed.start_lsn,
            file=packed.path,
            hint=how_to_unpack(method),
        )
    if start and expected is not None and actual != expected:
        raise SegmentError(
            f"WAL segment is not compressed with {method}, as its name says: found bytes {start.hex(' ')}",
            lsn=packed.start_lsn,
            file=packed.path,
            hint="it may be encrypted: fetch it with the tool that packed it, and name the directory",
        )


def compression_of_method(method: str) -> str | None:
    """Return the compression that ``segment_forms.compression_of`` finds in a file of a method; None for any."""
    return method if method in READABLE - {PLAIN, "brotli", "lzma"} else None


def read_stream(stream: _Stream, size: int, packed: Packed) -> bytes:
    """Read the next bytes of an unpacked stream, none at its end.

    Raises:
        TruncatedSegmentError: the packed file ends too early.
        SegmentError: it cannot be unpacked.
    """
    try:
        return stream.read(size) or b""
    except (OSError, EOFError, lzma.LZMAError) as error:
        text = str(error)
        is_cut = isinstance(error, EOFError) or _TRUNCATED in text
        if is_cut:
            raise TruncatedSegmentError(
                "WAL segment is truncated: its packed file ends too early",
                lsn=packed.start_lsn,
                file=packed.path,
                hint="restore the file from another copy; if it is being written, try again",
            ) from None
        raise SegmentError(
            f"WAL segment cannot be unpacked: {text}",
            lsn=packed.start_lsn,
            file=packed.path,
            hint="restore the file from another copy",
        ) from None


class _Cache:
    """The segments of this process, last used at the end; a process that was forked off takes nothing over."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: OrderedDict[object, UnpackedSegment] = OrderedDict()

    def get(self, key: object, make: Callable[[], UnpackedSegment]) -> UnpackedSegment:
        with self._lock:
            segment = self._held.get(key) or make()
            self._held[key] = segment
            self._held.move_to_end(key)
            others = sum(other.filled for other in self._held.values()) - segment.filled
            while len(self._held) > 1 and (others > CACHE_BYTES or len(self._held) > _CACHE_FILES):
                _, dropped = self._held.popitem(last=False)
                others -= dropped.filled
            return segment

    def forget(self, key: object) -> None:
        with self._lock:
            self._held.pop(key, None)

    def clear(self) -> None:
        self._lock = threading.Lock()
        self._held = OrderedDict()


_CACHE = _Cache()
os.register_at_fork(after_in_child=_CACHE.clear)


class UnpackedReader:
    """Reader of a packed segment; a context manager.

    Args:
        packed: the file.
        size: bytes of a segment, None if that is not known yet.

    Raises:
        FileNotFoundError: the file is not there.
        SegmentError: it cannot be unpacked.
    """

    def __init__(self, packed: Packed, size: int | None) -> None:
        self._key = (packed.place, packed.path, packed.method, _stamp(packed))
        self._size = size
        self._segment = _CACHE.get(self._key, lambda: UnpackedSegment(packed))

    def read_into(self, view: memoryview, offset: int) -> int:
        """Read as :meth:`UnpackedSegment.read_into`; after a failure it is unpacked again."""
        try:
            return self._segment.read_into(view, offset, self._size)
        except BaseException:
            _CACHE.forget(self._key)
            raise

    def check(self, size: int) -> None:
        """Unpack all of it.

        Raises:
            SegmentError: it is damaged or cut off.
        """
        self.read_into(memoryview(b""), size)

    def __enter__(self) -> UnpackedReader:
        return self

    def __exit__(self, *_: object) -> None:
        pass


def _stamp(packed: Packed) -> tuple[int, int, int] | None:
    """Return what distinguishes a local file from another one of that name; files of stores are written once."""
    if not packed.place.is_local:
        return None
    status = os.stat(packed.path)
    return status.st_ino, status.st_size, status.st_mtime_ns
