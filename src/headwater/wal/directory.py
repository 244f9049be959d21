"""Which WAL segment files there are, and which of them make one unbroken history.

Reads a ``pg_wal`` directory or a WAL archive. PostgreSQL: file names as in ``access/xlog_internal.h``, timeline history
files as ``timeline.c`` reads them, the choice among timelines as XLogFileReadAnyTLI makes it: for each segment number
the newest timeline of the lineage that has the file, as a child's first segment repeats the parent's bytes up to the
switch point.

Invariants: segments are in LSN order, all of one system, major version and segment size; a gap inside is allowed and is
reported when it is read over. Segments at the end that hold no WAL yet (recycled or preallocated) are left out, unless
some later page of theirs is valid: then they are damaged, and reading them says so.

Known gaps: compressed segments are not read, only told of (:mod:`headwater.wal.packed_segments`); WAL block sizes other
than 8192.
"""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from io import FileIO
from pathlib import Path

import numpy as np

from headwater.errors import SegmentError
from headwater.pg.lsn import Lsn
from headwater.pg.version import VERSIONS, major_of_magic
from headwater.wal._pages import PAGE_OK, header_status
from headwater.wal.packed_segments import (
    MAGIC_SIZE,
    compression_of,
    how_to_unpack,
    instead_of_segments,
    segment_of,
)
from headwater.wal.page_layout import LONG_HEADER_FLAG, PAGE_SIZE
from headwater.wal.segment_files import Segment, SegmentFiles, segment_name

_SEGMENT_NAME = re.compile(r"([0-9A-F]{8})([0-9A-F]{8})([0-9A-F]{8})(\.partial)?")
_OF_SEGMENT = re.compile(r"[0-9A-F]{24}")
_HISTORY_NAME = re.compile(r"([0-9A-F]{8})\.history")
_HISTORY_LINE = re.compile(r"\s*(\d+)\s+([0-9A-Fa-f]+/[0-9A-Fa-f]+)")
_LONG_HEADER = struct.Struct("<HHIQIIQII")
_MEGABYTE = 1 << 20
_NEAR_PAGES, _STRIDE = 2048, 16


@dataclass(frozen=True, slots=True)
class _Header:
    """The long header of a segment's first page."""

    magic: int
    info: int
    address: int
    system_identifier: int
    segment_size: int
    block_size: int


@dataclass(frozen=True)
class WalDirectory:
    """The segments of one history; a value of a few numbers and names, however many segments there are.

    Attributes:
        path: the directory.
        segment_size: bytes.
        system_identifier: of the cluster.
        major: PostgreSQL's major version.
        segments: in LSN order.
        end_lsn: where this history must end, when it follows a child timeline of which only the parent's last segment
            is there: the parent's bytes from the switch point on are not part of it. None otherwise.
        lineage: the timelines of this history, oldest first, each with the LSN where it was left, None for the last.
        packed_next: file of a segment after the last one that cannot be read as it is packed, None if there is none.
    """

    path: str
    segment_size: int
    system_identifier: int
    major: int
    segments: SegmentFiles
    end_lsn: int | None = None
    lineage: tuple[tuple[int, int | None], ...] = ()
    packed_next: str | None = None

    @classmethod
    def scan(
        cls, path: str | os.PathLike[str], timeline: int | None = None, first: str = "", is_growing: bool = False
    ) -> WalDirectory:
        """List a directory.

        Args:
            path: ``pg_wal`` or an archive.
            timeline: the timeline to follow; by default the newest one that has a segment or a history file.
            first: name of a segment of any timeline; those before it are not looked at.
            is_growing: the last segment may be on its way: a file shorter than a segment is not there yet.

        Raises:
            SegmentError: no usable segment, a truncated file, or files of several systems, versions or segment sizes.
        """
        directory = Path(path)
        try:
            names = sorted(name for name in os.listdir(directory) if not _is_before(name, first))
        except OSError as error:
            raise SegmentError(
                f"could not list directory: {error.strerror}",
                file=str(directory),
                hint="name the directory that holds the segments",
            ) from None
        found = _newest_copies(directory, names)
        if not found:
            instead, hint = instead_of_segments(names) or (None, None)
            what = f"no WAL segment in directory, {instead}" if instead else "no WAL segment in directory"
            raise SegmentError(what, file=str(directory), hint=hint)
        return _resolve(directory, names, found, timeline, is_growing)

    @property
    def start_lsn(self) -> int:
        """First byte of the first segment."""
        return self.segments[0].start_lsn

    @property
    def stop_lsn(self) -> int:
        """First byte that no segment of this history can hold."""
        last = self.segments[-1].start_lsn + self.segment_size
        return last if self.end_lsn is None else min(last, self.end_lsn)

    def covering(self, lo: int, hi: int | None = None) -> tuple[Segment, ...]:
        """The segments that hold [lo, hi), as far as the history goes.

        Raises:
            SegmentError: a segment before the newest one is missing; the message names it.
        """
        stop = self.stop_lsn if hi is None else min(hi, self.stop_lsn)
        chosen = []
        for number in range(lo // self.segment_size, -(-stop // self.segment_size)):
            segment = self.segments.numbered(number)
            if segment is None:
                raise self.missing(number)
            chosen.append(segment)
        return tuple(chosen)

    def require_plain(self, hi: int | None) -> None:
        """Whether the WAL up to `hi` (None: all there is) is there as the server wrote it.

        Raises:
            SegmentError: it goes on behind the last segment, in a file that is compressed.
        """
        if self.packed_next is not None and (hi is None or hi > self.stop_lsn):
            raise SegmentError(
                f"the WAL goes on after {Path(self.segments[-1].path).name} in a file that cannot be read as it is",
                lsn=self.stop_lsn,
                file=self.packed_next,
                hint=f"{how_to_unpack(Path(self.packed_next).name)}, or end the window before it",
            )

    def timeline_at(self, lsn: int) -> int:
        """The timeline of the record that ends at an LSN."""
        return next(timeline for timeline, left in self.lineage if left is None or lsn <= left)

    def segment_at(self, lsn: int) -> Segment | None:
        """The segment that holds this byte, None if there is none."""
        return self.segments.numbered(lsn // self.segment_size)

    def missing(self, number: int) -> SegmentError:
        """The error for a missing segment: of the timeline that the history was on there."""
        begins = _first_numbers(dict(self.lineage), self.segment_size)
        timeline = max((t for t, first in begins.items() if first <= number), default=self.segments[0].timeline)
        name = segment_name(timeline, number, self.segment_size)
        first, last = (Path(segment.path).name for segment in (self.segments[0], self.segments[-1]))
        oldest = min(begins, default=1)
        packed = _packed_form(self.path, name)
        if packed is not None:
            what, hint = f"is there only as {packed}", how_to_unpack(packed)
        elif timeline == oldest > 1:
            what = "or that of an older timeline is missing"
            hint = f"restore it, and {oldest:08X}.history, which says what came before timeline {oldest}"
        else:
            what, hint = "is missing", "restore it from the archive, or begin at a later position"
        return SegmentError(
            f'WAL segment "{name}" {what}, found {first} to {last}',
            lsn=number * self.segment_size,
            file=os.path.join(self.path, name),
            hint=hint,
        )


@dataclass(frozen=True, slots=True)
class _File:
    """A file whose name is a segment's; `name` without ``.partial``, `size` in bytes."""

    path: str
    name: str
    timeline: int
    size: int

    def number(self, segment_size: int) -> int:
        return int(self.name[8:16], 16) * ((1 << 32) // segment_size) + int(self.name[16:], 16)


def _is_before(name: str, first: str) -> bool:
    """Whether a name begins as a segment's does, with a lower number than that of another one."""
    return name[8:24] < first[8:24] and _OF_SEGMENT.match(name) is not None


def _newest_copies(directory: Path, names: Iterable[str]) -> list[_File]:
    """Files with segment names, the complete one where there is a partial one too."""
    files: dict[str, _File] = {}
    for name in names:
        match = _SEGMENT_NAME.fullmatch(name)
        # "X" sorts before "X.partial": the complete file is met first.
        if match is None or name[:24] in files:
            continue
        path = directory / name
        try:
            size = path.stat().st_size
        except FileNotFoundError:
            continue
        files[name[:24]] = _File(str(path), name[:24], int(match[1], 16), size)
    return sorted(files.values(), key=lambda file: (file.name[8:], file.timeline))


def _resolve(
    directory: Path, names: list[str], files: list[_File], timeline: int | None, is_growing: bool
) -> WalDirectory:
    """Choose the files of one history and check that they belong together."""
    histories = {int(m[1], 16): directory / name for name in names if (m := _HISTORY_NAME.fullmatch(name))}
    target = timeline if timeline is not None else max([*histories, *(file.timeline for file in files)])
    lineage = _read_lineage(histories, target)
    segment_size = _segment_size(files)
    if is_growing and files[-1].size < segment_size:
        files = files[:-1]
    chosen = _choose(files, lineage, segment_size)
    if not chosen:
        raise SegmentError(
            f"no WAL segment of timeline {target} or its parents in directory",
            file=str(directory),
            hint=None if target in histories or target == 1 else f"{target:08X}.history is missing as well",
        )
    wal = WalDirectory(str(directory), segment_size, 0, 0, SegmentFiles.of(str(directory), segment_size, chosen))
    wal = _drop_unwritten(_identify(wal, {file.path: file.size for file in files}))
    kept = _without_forks(wal.segments[:], lineage, segment_size)
    return replace(
        wal,
        segments=SegmentFiles.of(wal.path, segment_size, kept),
        end_lsn=lineage[wal.segments[-1].timeline],
        lineage=tuple(lineage.items()),
        packed_next=_packed_next(directory, names, wal, None if timeline is not None else target, lineage),
    )


def _packed_form(directory: str, name: str) -> str | None:
    """A file that holds a segment in another form than the server's."""
    try:
        names = sorted(os.listdir(directory))
    except OSError:
        return None
    return next((other for other in names if segment_of(other) == name), None)


def _packed_next(
    directory: Path, names: Iterable[str], wal: WalDirectory, newest: int | None, lineage: dict[int, int | None]
) -> str | None:
    """The file of the first packed segment that comes after the last plain one, or is of a newer timeline."""
    last = wal.segments[-1]
    for name in sorted(names, key=lambda name: name[8:24]):
        segment = segment_of(name)
        if segment is None:
            continue
        file = _File(name, segment, int(segment[:8], 16), 0)
        number, switch = file.number(wal.segment_size), lineage.get(file.timeline)
        is_ours = file.timeline in lineage and (switch is None or number * wal.segment_size < switch)
        if is_ours and (number, file.timeline) > (last.number, last.timeline):
            return str(directory / name)
        if newest is not None and file.timeline > newest:
            return str(directory / name)
    return None


def _read_lineage(histories: dict[int, Path], target: int) -> dict[int, int | None]:
    """Timelines of the target's history, oldest first, each with its switch point; the target has None."""
    lineage: dict[int, int | None] = {}
    path = histories.get(target)
    if path is not None:
        try:
            lines = path.read_text("utf-8", "replace").splitlines()
        except OSError as error:
            raise SegmentError(f"could not read history file: {error.strerror}", file=str(path)) from None
        for line in lines:
            if not line.strip() or line.lstrip().startswith("#"):
                continue
            lineage.update([_history_entry(line, path)])
    if target != 1 and any(parent >= target for parent in lineage):
        raise SegmentError(f"timelines of the history are not below {target}", file=str(path))
    lineage[target] = None
    return lineage


def _history_entry(line: str, path: Path) -> tuple[int, int]:
    match = _HISTORY_LINE.match(line)
    if match is None:
        raise SegmentError("syntax error in timeline history file, expected a timeline and an LSN", file=str(path))
    return int(match[1]), int(Lsn.parse(match[2]))


def _segment_size(files: list[_File]) -> int:
    """The segment size that the first file with a readable long header states."""
    for file in files:
        header = _read_header(file.path)
        if header is not None and major_of_magic(header.magic, file.path) is not None and _is_size(header.segment_size):
            return header.segment_size
    file = files[0]
    _refuse_compressed(file.path)
    header = _read_header(file.path)
    found = "an empty or truncated file" if header is None else f"page magic {header.magic:04X}"
    known = ", ".join(f"{v.page_magic:04X} ({v.major})" for v in VERSIONS.values())
    raise SegmentError(f"no WAL segment of a supported version: found {found}, expected {known}", file=file.path)


def _refuse_compressed(path: str) -> None:
    """Some tools compress a segment and keep its name."""
    try:
        with open(path, "rb", buffering=0) as file:
            method = compression_of(file.read(MAGIC_SIZE))
    except OSError:
        return
    if method is not None:
        raise SegmentError(f"WAL segment is compressed with {method}", file=path, hint="decompress it first")


def _is_size(size: int) -> bool:
    """Whether this is a valid segment size: a power of two, 1 MB to 1 GB."""
    return _MEGABYTE <= size <= 1 << 30 and size & (size - 1) == 0


def _choose(files: list[_File], lineage: dict[int, int | None], segment_size: int) -> list[Segment]:
    """For each segment number the newest timeline of the lineage that has it and had begun by then."""
    begins = _first_numbers(lineage, segment_size)
    chosen: dict[int, Segment] = {}
    for file in files:
        number = file.number(segment_size)
        switch = lineage.get(file.timeline)
        inside = file.timeline in lineage and number >= begins[file.timeline]
        if not inside or (switch is not None and number * segment_size >= switch):
            continue
        before = chosen.get(number)
        if before is None or before.timeline < file.timeline:
            chosen[number] = Segment(file.path, file.timeline, number, number * segment_size)
    return [chosen[number] for number in sorted(chosen)]


def _first_numbers(lineage: dict[int, int | None], segment_size: int) -> dict[int, int]:
    """The first segment of each timeline of a history: the one that its parent's switch point lies in."""
    begins: dict[int, int] = {}
    begin = 0
    for timeline, switch in lineage.items():
        begins[timeline] = begin // segment_size
        begin = begin if switch is None else switch
    return begins


def _without_forks(
    segments: tuple[Segment, ...], lineage: dict[int, int | None], segment_size: int
) -> tuple[Segment, ...]:
    """Leave out a parent's segment that has the switch point inside, unless it is the last one.

    Behind the switch point its records are not of this history; the child's segment of that number is missing.
    """

    def is_whole(segment: Segment) -> bool:
        switch = lineage[segment.timeline]
        return switch is None or switch >= segment.start_lsn + segment_size

    return tuple(segment for segment in segments if is_whole(segment) or segment is segments[-1])


def _identify(wal: WalDirectory, sizes: dict[str, int]) -> WalDirectory:
    """Check each file's size and first page against the others; fill in system and version."""
    for segment in wal.segments:
        size = sizes[segment.path]
        if size != wal.segment_size:
            _refuse_compressed(segment.path)
            raise SegmentError(
                f"WAL segment has a wrong size, found {size} bytes, expected {wal.segment_size}", file=segment.path
            )
        header = _read_header(segment.path)
        major = None if header is None else major_of_magic(header.magic, segment.path)
        if header is None or major is None or header.address != segment.start_lsn or not header.info & LONG_HEADER_FLAG:
            continue
        if wal.major == 0:
            wal = replace(wal, major=major, system_identifier=header.system_identifier)
        _compare(wal, header, major, segment.path)
    if wal.major == 0:
        raise SegmentError("no WAL segment with a valid first page in directory", file=wal.path)
    return wal


def _compare(wal: WalDirectory, header: _Header, major: int, file: str) -> None:
    """Raise if a segment is not of the same kind as those before it."""
    for what, found, expected in (
        ("PostgreSQL version", major, wal.major),
        ("system identifier", header.system_identifier, wal.system_identifier),
        ("segment size", header.segment_size, wal.segment_size),
        ("WAL block size", header.block_size, PAGE_SIZE),
    ):
        if found != expected:
            raise SegmentError(
                f"WAL segment is of another {what}, found {found}, expected {expected}",
                file=file,
                hint="keep the WAL of one cluster in one directory" if expected != PAGE_SIZE else None,
            )


def _drop_unwritten(wal: WalDirectory) -> WalDirectory:
    """Leave out the segments at the end that were not written to yet."""
    last = len(wal.segments)
    while last and not page_is_valid(wal, wal.segments[last - 1], 0):
        last -= 1
    # One whose first page alone is bad is damaged, not unwritten.
    if last < len(wal.segments) and next_valid_page(wal, wal.segments[last], 1) is not None:
        last += 1
    if last == 0:
        segment = wal.segments[0]
        raise SegmentError("no WAL segment holds WAL of its own position", file=segment.path)
    return replace(wal, segments=SegmentFiles.of(wal.path, wal.segment_size, wal.segments[:last]))


def page_is_valid(wal: WalDirectory, segment: Segment, page: int) -> bool:
    """Whether a page of a segment, by number, has the header that belongs to its place."""
    return next_valid_page(wal, segment, page, page + 1) is not None


def next_valid_page(wal: WalDirectory, segment: Segment, first: int, last: int | None = None) -> int | None:
    """LSN of the first page in [first, last) of a segment with a header that belongs to its place, None if none.

    In a segment of more than 16 MB, only every 16th of the pages further on is looked at: WAL is written in one piece.
    """
    magic = VERSIONS[wal.major].page_magic
    system = int(np.uint64(wal.system_identifier).astype(np.int64))
    pages = wal.segment_size // PAGE_SIZE if last is None else last
    words = np.zeros(5, np.int64)
    with open_segment(segment) as file:
        for page in _pages_to_try(first, pages):
            lsn = segment.start_lsn + page * PAGE_SIZE
            file.seek(page * PAGE_SIZE)
            if file.readinto(words.data.cast("B")) < words.nbytes:
                return None
            if header_status(words, 0, lsn, wal.segment_size, magic, system, segment.timeline, 0) == PAGE_OK:
                return lsn
    return None


def _pages_to_try(first: int, last: int) -> Iterator[int]:
    near = min(last, first + _NEAR_PAGES)
    yield from range(first, near)
    yield from range(near, last, _STRIDE)


def open_segment(segment: Segment) -> FileIO:
    """Open a segment for unbuffered reading.

    Raises:
        SegmentError: it is not there any more, or may not be read.
    """
    try:
        return open(segment.path, "rb", buffering=0)
    except OSError as error:
        raise SegmentError(
            f"could not open WAL segment: {error.strerror}", lsn=segment.start_lsn, file=segment.path
        ) from None


def _read_header(path: str) -> _Header | None:
    """The long header at the start of a file, None if the file is shorter."""
    try:
        with open(path, "rb", buffering=0) as file:
            data = file.read(_LONG_HEADER.size)
    except OSError as error:
        raise SegmentError(f"could not read WAL segment: {error.strerror}", file=path) from None
    if len(data) < _LONG_HEADER.size:
        return None
    magic, info, _, address, _, _, system, segment_size, block_size = _LONG_HEADER.unpack(data)
    return _Header(magic, info, address, system, segment_size, block_size)
