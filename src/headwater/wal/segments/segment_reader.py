"""Open segments: plain files, ranges of files in stores, unpacked files.

A plain file of this machine is read by the system's own call into the caller's memory, without a copy in between. Of a
plain file in a store as much is asked for at once as the caller is going to read. All other forms are unpacked first
(:mod:`headwater.wal.segments.unpacking`).

Files change their names between the moment they are listed and the moment they are opened: a server removes a segment
that is archived, an archive compresses one, ``pg_receivewal`` takes ``.partial`` away. Then the segment is looked for
once more, in all places and forms, before it counts as missing.
"""

from __future__ import annotations

import os
from typing import Protocol, Self

from headwater.base.system_errors import errors_as, system_error
from headwater.errors import SegmentError, SegmentGoneError, TruncatedSegmentError
from headwater.wal.segments import remote
from headwater.wal.segments.place import Place, names_beginning, read_start
from headwater.wal.segments.segment_files import Segment
from headwater.wal.segments.segment_forms import MAGIC_SIZE, PLAIN, SegmentForm, compression_of, parse_name
from headwater.wal.segments.unpacking import Packed, UnpackedReader, read_at

RANGE_BYTES = 16 << 20
"""The most that is asked for at once of a file in a store."""

_GONE = "a server removes segments that it does not need: keep them with wal_keep_size, or name the archive as well"


class SegmentReader(Protocol):
    """An open segment; a context manager."""

    def read_into(self, view: memoryview, offset: int) -> int:
        """Fill a buffer with the segment's bytes from an offset on, as far as they go; the number of bytes."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...


class _LocalReader:
    def __init__(self, path: str) -> None:
        self._path = path
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def read_into(self, view: memoryview, offset: int) -> int:
        with errors_as(SegmentError, "read WAL segment", self._path):
            return read_at(self._descriptor, view, offset)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)


class _RangeReader:
    """Reader that asks for all up to ``until`` at once, in pieces of RANGE_BYTES."""

    def __init__(self, segment: Segment, place: Place, path: str, until: int) -> None:
        self._segment, self._place, self._path, self._until = segment, place, path, until
        self._at, self._held = 0, memoryview(b"")

    def read_into(self, view: memoryview, offset: int) -> int:
        done = 0
        while done < len(view):
            start = offset + done - self._at
            if not 0 <= start < len(self._held):
                self._at, start = offset + done, 0
                end = max(min(self._until, self._at + RANGE_BYTES), offset + len(view))
                self._held = memoryview(self._ask(end))
            part = self._held[start : start + len(view) - done]
            if not part:
                break
            view[done : done + len(part)] = part
            done += len(part)
        return done

    def _ask(self, end: int) -> bytes:
        try:
            return remote.read_range(self._place.protocol, self._place.options, self._path, self._at, end)
        except FileNotFoundError:
            raise _gone(self._segment) from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass


def _gone(segment: Segment) -> SegmentGoneError:
    return SegmentGoneError(
        "could not open WAL segment: No such file or directory",
        lsn=segment.start_lsn or None,
        file=segment.path,
        hint=_GONE,
    )


def open_segment(segment: Segment, size: int | None, until: int | None = None) -> SegmentReader:
    """Open a segment.

    Args:
        segment: it.
        size: bytes of a segment, None if that is not known yet.
        until: offset up to which it is going to be read at most, None for its end.

    Raises:
        SegmentError: it is not there any more, may not be read, or is packed in a way that is not read here.
    """
    until = until or size or 0
    form, path = segment.form, segment.path
    checksum: str | None = None
    try:
        if form.has_checksum:
            form, path, checksum = _look_up(segment, form)
        try:
            return _open(segment, form, path, checksum, size, until)
        except FileNotFoundError:
            form, path, checksum = _look_up(segment, None)
            return _open(segment, form, path, checksum, size, until)
    except FileNotFoundError:
        raise _gone(segment) from None
    except OSError as error:
        lsn = segment.start_lsn or None
        raise system_error("open WAL segment", error, SegmentError, lsn=lsn, file=segment.path) from None


def _open(
    segment: Segment, form: SegmentForm, path: str, checksum: str | None, size: int | None, until: int
) -> SegmentReader:
    place = segment.places[form.place]
    if form.method != PLAIN:
        packed = Packed(place, path, form.method, checksum, form.is_partial, segment.start_lsn or None)
        return UnpackedReader(packed, size)
    return _LocalReader(path) if place.is_local else _RangeReader(segment, place, path, until)


def is_whole(segment: Segment, size: int) -> bool:
    """Tell whether a packed segment can be unpacked to its end; one that is partial need not be.

    Raises:
        SegmentError: it is damaged, or cannot be read.
    """
    try:
        with open_segment(segment, size) as reader:
            if isinstance(reader, UnpackedReader):
                reader.check(size)
    except TruncatedSegmentError:
        return False
    return True


def _look_up(segment: Segment, form: SegmentForm | None) -> tuple[SegmentForm, str, str | None]:
    """Find the file of a segment whose name is not known: of one form, or of any, in the order of preference.

    Raises:
        FileNotFoundError: there is none.
    """
    name = os.path.basename(segment.path)[:24]
    if form is None:
        folders = [(number, folder) for number in range(len(segment.places)) for folder in ("", name[:16])]
    else:
        folders = [(form.place, form.folder(name))]
    files = [file for number, folder in folders for file in _files_of(segment.places[number], number, folder, name)]
    matches = [file for file in files if form is None or file[0] == form]
    if not matches:
        raise FileNotFoundError
    return min(matches, key=lambda file: preference(file[0]))


def preference(form: SegmentForm) -> tuple[bool, int, bool, str]:
    """Return the key that sorts forms in the order in which one is taken: whole ones, by places, plain ones."""
    return form.is_partial, form.place, form.method != PLAIN, form.ending


def _files_of(place: Place, number: int, folder: str, name: str) -> list[tuple[SegmentForm, str, str | None]]:
    """List the files of one segment in a folder: form, path, and SHA-1 where the name has it.

    Args:
        place: the place; number: its number.
        folder: in it; empty for the place itself.
        name: the segment's.
    """
    files = []
    for other in names_beginning(place, folder, name):
        parsed = parse_name(other)
        if parsed is None:
            continue
        _, ending, method, checksum = parsed
        path = place.path(folder, other)
        if method == PLAIN:
            method = compression_of(read_start(place, path, MAGIC_SIZE)) or PLAIN
        files.append((SegmentForm(number, bool(folder), ending, method), path, checksum))
    return files
