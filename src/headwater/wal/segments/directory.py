"""The WAL segments that there are, and those of them that make one unbroken history.

Reads a ``pg_wal`` directory or a WAL archive, or several places as one. PostgreSQL: file names as in
``access/xlog_internal.h``, timeline history files as ``timeline.c`` reads them, the choice among timelines as
XLogFileReadAnyTLI makes it. For each segment number it is the newest timeline of the lineage that has the file: a
child's first segment repeats the parent's bytes up to the switch point.

Invariants: segments are in LSN order, all of one system, major version and segment size; a gap inside is allowed and is
reported when it is read over. Segments at the end that hold no WAL yet (recycled or preallocated) are left out, unless
some later page of theirs is valid: then they are damaged, and reading them says so.

Of plain files of this machine each first page is looked at; of packed ones and those in stores the first and the last
of each run of names, as looking costs more there. One in between that is of another system is reported when it is read.

Known gap: WAL block sizes other than 8192.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from headwater.errors import AwaitedSegmentError, SegmentError, SegmentGoneError
from headwater.pg.lsn import Lsn
from headwater.pg.version import VERSIONS, major_of_magic
from headwater.wal._pages import PAGE_OK, header_status
from headwater.wal.control import LAST_LSN
from headwater.wal.layout import LONG_HEADER_FLAG, PAGE_SIZE
from headwater.wal.segments.place import Place, WalSource
from headwater.wal.segments.segment_files import Segment, SegmentFiles, SegmentRun, segment_name
from headwater.wal.segments.segment_forms import PLAIN, READABLE, compression_of, encryption_of, how_to_unpack
from headwater.wal.segments.segment_listing import FoundFile, Listing, list_segments
from headwater.wal.segments.segment_reader import is_whole, open_segment
from headwater.wal.segments.timelines import Lineage, first_numbers, fork_point, read_lineage

_LONG_HEADER = struct.Struct("<HHIQIIQII")
_MEGABYTE = 1 << 20
_LARGEST = 1 << 30
_NEAR_PAGES, _STRIDE = 2048, 16
_LOOKS = 5
"""Attempts to list a directory whose files go while they are looked at."""


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
class AbandonedTimeline:
    """The segments of a timeline after the position where the history that is read has left it.

    Attributes:
        timeline: its number.
        left: LSN after which nothing of it is part of the history that is read.
        directory: its segments from there on.
    """

    timeline: int
    left: int
    directory: WalDirectory


@dataclass(frozen=True)
class WalDirectory:
    """The segments of one history; a value of a few numbers and names, however many segments there are.

    Attributes:
        places: where they lie.
        segment_size: bytes.
        system_identifier: of the cluster.
        major: PostgreSQL's major version.
        segments: in LSN order.
        end_lsn: where this history must end, when it follows a child timeline of which only the parent's last segment
            is there: the parent's bytes from the switch point on are not part of it. None otherwise.
        lineage: the timelines of this history, oldest first, each with the LSN where it was left, None for the last.
        abandoned: the remains of timelines that this history has left, or that left it and led nowhere.
    """

    places: tuple[Place, ...]
    segment_size: int
    system_identifier: int
    major: int
    segments: SegmentFiles
    end_lsn: int | None = None
    lineage: tuple[tuple[int, int | None], ...] = ()
    abandoned: tuple[AbandonedTimeline, ...] = ()

    @classmethod
    def scan(
        cls,
        source: WalSource | str | os.PathLike[str],
        timeline: int | None = None,
        first: str = "",
        is_growing: bool = False,
    ) -> WalDirectory:
        """List places.

        Args:
            source: ``pg_wal`` or an archive.
            timeline: the timeline to follow; by default that of the source, or the newest one that has a segment or a
                history file.
            first: name of a segment of any timeline; those before it are not looked at.
            is_growing: the last segment may be on its way: a file shorter than a segment is not there yet.

        Raises:
            SegmentError: no usable segment, a truncated file, or files of several systems, versions or segment sizes.
        """
        source = source if isinstance(source, WalSource) else WalSource.of(source)
        asked = source.timeline if timeline is None else timeline
        for _ in range(_LOOKS - 1):
            with suppress(SegmentGoneError):
                return _Scan(list_segments(source, first), asked, is_growing).resolve()
        return _Scan(list_segments(source, first), asked, is_growing).resolve()

    @property
    def path(self) -> str:
        """The places, for messages."""
        return ", ".join(place.address for place in self.places)

    @property
    def page_identity(self) -> NDArray[np.int64]:
        """The fields that every page header of this history has in common, for kernels."""
        version, system = VERSIONS[self.major], np.uint64(self.system_identifier).astype(np.int64)
        return np.array([self.segment_size, version.page_magic, system, version.overwritten_contrecord_flag], np.int64)

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
        """Return the segments that hold [lo, hi), as far as the history goes.

        Raises:
            SegmentError: a segment before the newest one is missing, or packed in a way that is not read here; the
                message names it.
        """
        stop = self.stop_lsn if hi is None else min(hi, self.stop_lsn)
        chosen = []
        for number in range(lo // self.segment_size, -(-stop // self.segment_size)):
            segment = self.segments.numbered(number)
            if segment is None:
                raise self.missing(number)
            if segment.form.method not in READABLE:
                raise _unreadable(segment)
            chosen.append(segment)
        return tuple(chosen)

    def timeline_at(self, lsn: int) -> int:
        """Return the timeline of the record that ends at an LSN."""
        return next(timeline for timeline, left in self.lineage if left is None or lsn <= left)

    def has_been_at(self, timeline: int, lsn: int) -> bool:
        """Tell whether this history was on a timeline at an LSN, or could still come to be: a position is of it."""
        lineage = dict(self.lineage)
        left = lineage.get(timeline)
        return timeline in lineage and (left is None or lsn <= left)

    def segment_at(self, lsn: int) -> Segment | None:
        """Return the segment that holds this byte, None if there is none."""
        return self.segments.numbered(lsn // self.segment_size)

    def missing(self, number: int) -> SegmentError:
        """Return the error for a missing segment: of the timeline that the history was on there."""
        begins = first_numbers(dict(self.lineage), self.segment_size)
        timeline = max((t for t, first in begins.items() if first <= number), default=self.segments[0].timeline)
        name = segment_name(timeline, number, self.segment_size)
        first, last = (os.path.basename(segment.path) for segment in (self.segments[0], self.segments[-1]))
        oldest = min(begins, default=1)
        if timeline == oldest > 1:
            what = "or that of an older timeline is missing"
            hint = f"restore it, and {oldest:08X}.history, which says what came before timeline {oldest}"
        else:
            what, hint = "is missing", "restore it from the archive, or begin at a later position"
        return SegmentError(
            f'WAL segment "{name}" {what}, found {first} to {last}',
            lsn=number * self.segment_size,
            file=self.places[0].path(name),
            hint=hint,
        )


def _unreadable(segment: Segment) -> SegmentError:
    method = segment.form.method
    return SegmentError(
        f"WAL segment is compressed with {method}, which is not supported",
        lsn=segment.start_lsn or None,
        file=segment.path,
        hint=f"{how_to_unpack(method)}, or end the window before it",
    )


@dataclass(frozen=True)
class _Scan:
    """A listing that is made into a history."""

    listing: Listing
    timeline: int | None
    is_growing: bool

    def resolve(self) -> WalDirectory:
        """Choose the files of one history and check that they belong together."""
        listing = self.listing
        target = self.timeline
        if target is None:
            target = max([*listing.histories, *(copies[0].timeline for copies in listing.copies.values())])
        lineage = read_lineage(listing.histories, target)
        size, files = self._files()
        chosen = _choose(files, lineage, size)
        if not chosen:
            raise SegmentError(
                f"no WAL segment of timeline {target} or its parents in directory",
                file=listing.address,
                hint=None if target in listing.histories or target == 1 else f"{target:08X}.history is missing as well",
            )
        wal = WalDirectory(listing.places, size, 0, 0, SegmentFiles.of(listing.places, size, chosen))
        sizes = {file.path: file.size for file in files}
        wal = _without_unwritten(_identified(wal, sizes))
        wal = replace(
            wal,
            segments=wal.segments.where(_are_of_history(wal.segments, lineage, size)),
            lineage=tuple(lineage.items()),
        )
        return replace(
            wal, end_lsn=lineage[wal.segments[-1].timeline], abandoned=tuple(self._abandoned(wal, files, target))
        )

    def _files(self) -> tuple[int, list[FoundFile]]:
        """Return the segment size, and the best copy of each segment."""
        size = self._segment_size()
        for file in (copy for copies in self.listing.copies.values() for copy in copies):
            _check_number(file, size)
        files = [_best(copies, size, self.listing.places) for copies in self.listing.copies.values()]
        if self.is_growing and not self._is_there(files[-1], size):
            files = files[:-1]
        return size, files

    def _is_there(self, last: FoundFile, size: int) -> bool:
        """Tell whether the last segment is not just on its way."""
        if last.form.method == PLAIN:
            return last.size >= size
        return last.form.method not in READABLE or is_whole(self._segment(last, size), size)

    def _segment(self, file: FoundFile, size: int | None = None) -> Segment:
        number = 0 if size is None else file.number(size)
        return Segment(file.path, file.timeline, number, number * (size or 0), file.form, self.listing.places)

    def _segment_size(self) -> int:
        """Find the segment size that the first file with a readable long header states."""
        places = self.listing.places
        seen: list[tuple[FoundFile, _Header | None]] = []
        for copies in self.listing.copies.values():
            for file in (_sniffed(copy, places) for copy in copies):
                header = _read_header(self._segment(file), None) if file.form.method in READABLE else None
                known = header is not None and major_of_magic(header.magic, file.path) is not None
                if header is not None and known and _is_size(header.segment_size):
                    return header.segment_size
                seen.append((file, header))
        # A file that is written now would say something else if it were read again.
        raise self._without_size(*seen[0])

    def _without_size(self, file: FoundFile, header: _Header | None) -> SegmentError:
        """Return the error for a first segment that does not say how large segments are."""
        if file.form.method not in READABLE:
            return _unreadable(self._segment(file))
        _refuse_encrypted(self._segment(file))
        if self.is_growing and file.form.is_partial and (header is None or header.magic == 0):
            return AwaitedSegmentError("nothing is written in the first WAL segment yet", file=file.path)
        actual = "an empty or truncated file" if header is None else f"page magic {header.magic:04X}"
        known_magics = ", ".join(f"{v.page_magic:04X} ({v.major})" for v in VERSIONS.values())
        return SegmentError(
            f"no WAL segment of a supported version: found {actual}, expected {known_magics}", file=file.path
        )

    def _abandoned(self, wal: WalDirectory, files: list[FoundFile], target: int) -> Iterator[AbandonedTimeline]:
        """Give timelines older than the one that is read, of which there are segments after where it left them."""
        lineage, size = dict(wal.lineage), wal.segment_size
        for timeline in sorted({file.timeline for file in files if file.timeline < target}):
            theirs = read_lineage(self.listing.histories, timeline)
            fork = (timeline, lineage[timeline]) if timeline in lineage else fork_point(lineage, theirs)
            left = None if fork is None else fork[1]
            if left is None:
                continue
            begin = max(left // size, first_numbers(theirs, size)[timeline])
            later = [file for file in files if file.timeline == timeline and file.number(size) >= begin]
            # Where the history was left exactly at a segment's end, its parent may have nothing but that.
            if later:
                runs = [SegmentRun(timeline, file.number(size), 1, file.form) for file in later]
                segments = SegmentFiles.of(wal.places, size, runs)
                abandoned = replace(wal, segments=segments, lineage=tuple(theirs.items()), end_lsn=None, abandoned=())
                try:
                    written = _written(abandoned)
                except SegmentError:  # Its reader gets the error.
                    written = len(segments)
                if written:
                    yield AbandonedTimeline(timeline, left, _cut(abandoned, written))


def _check_number(file: FoundFile, size: int) -> None:
    """Check that a name is one that a segment of this size can have.

    Raises:
        SegmentError: it is not.
    """
    per_log = (1 << 32) // size
    tail = int(file.name[16:], 16)
    if tail >= per_log:
        raise SegmentError(
            f"name of a WAL segment ends with {tail:08X}, expected at most {per_log - 1:08X}: the other segments have "
            f"{size} bytes",
            file=file.path,
            hint="keep the WAL of one cluster in one directory",
        )
    if file.number(size) * size > LAST_LSN - size:
        raise SegmentError(
            f"name of a WAL segment stands for {Lsn(file.number(size) * size)}, expected a position before "
            f"{Lsn(LAST_LSN)}",
            file=file.path,
            hint="no server has written as much: is this its segment?",
        )


def _sniffed(file: FoundFile, places: tuple[Place, ...]) -> FoundFile:
    """Add to a file its compression, also where its name does not tell; some tools leave the name alone."""
    if file.form.method != PLAIN:
        return file
    segment = Segment(file.path, file.timeline, 0, 0, file.form, places)
    method = compression_of(_read_start(segment))
    return file if method is None else replace(file, form=replace(file.form, method=method))


def _best(copies: list[FoundFile], size: int, places: tuple[Place, ...]) -> FoundFile:
    """Choose the copy of a segment that is read: the first that can be whole."""
    known = [file if file.size == size else _sniffed(file, places) for file in copies]
    can_be_whole = (file for file in known if file.form.method in READABLE - {PLAIN} or file.size == size)
    return next(can_be_whole, known[0])


def _is_size(size: int) -> bool:
    """Tell whether this is a valid segment size: a power of two, 1 MB to 1 GB."""
    return _MEGABYTE <= size <= _LARGEST and size & (size - 1) == 0


def _choose(files: list[FoundFile], lineage: Lineage, segment_size: int) -> list[SegmentRun]:
    """Choose for each segment number the newest timeline of the lineage that has it and had begun by then."""
    begins = first_numbers(lineage, segment_size)
    chosen: dict[int, SegmentRun] = {}
    for file in files:
        number = file.number(segment_size)
        switch = lineage.get(file.timeline)
        inside = file.timeline in lineage and number >= begins[file.timeline]
        if not inside or (switch is not None and number * segment_size >= switch):
            continue
        before = chosen.get(number)
        if before is None or before.timeline < file.timeline:
            chosen[number] = SegmentRun(file.timeline, number, 1, file.form)
    return [chosen[number] for number in sorted(chosen)]


def _are_of_history(segments: SegmentFiles, lineage: Lineage, segment_size: int) -> list[bool]:
    """Leave out a parent's segment that has the switch point inside, unless it is the last one.

    After the switch point its records are not of this history; the child's segment of that number is missing.
    """
    switches = [(lineage[segment.timeline], segment.start_lsn) for segment in segments]
    whole = [switch is None or switch >= start + segment_size for switch, start in switches]
    return [*whole[:-1], True]


def _identified(wal: WalDirectory, sizes: dict[str, int]) -> WalDirectory:
    """Check each file's size, and first pages, against the others; fill in system and version."""
    for segment, is_looked_into in _with_ends(wal.segments):
        size = sizes[segment.path]
        if segment.form.method == PLAIN and size != wal.segment_size:
            _refuse_encrypted(segment)
            raise SegmentError(
                f"WAL segment has a wrong size, found {size} bytes, expected {wal.segment_size}", file=segment.path
            )
        header = _read_header(segment, wal.segment_size) if is_looked_into else None
        major = None if header is None else major_of_magic(header.magic, segment.path)
        if header is None or major is None or header.address != segment.start_lsn or not header.info & LONG_HEADER_FLAG:
            continue
        if wal.major == 0:
            wal = replace(wal, major=major, system_identifier=header.system_identifier)
        _compare(wal, header, major, segment.path)
    if wal.major == 0:
        raise SegmentError("no WAL segment with a valid first page in directory", file=wal.path)
    return wal


def _with_ends(segments: SegmentFiles) -> Iterator[tuple[Segment, bool]]:
    """Give all segments, and whether a first page is looked at."""
    ends = {end for run in segments.runs for end in (run.first, run.first + run.count - 1)}
    for segment in segments:
        is_cheap = segment.form.method == PLAIN and segments.places[segment.form.place].is_local
        yield segment, is_cheap or (segment.number in ends and segment.form.method in READABLE)


def _compare(wal: WalDirectory, header: _Header, major: int, file: str) -> None:
    """Raise if a segment is not of the same kind as those before it."""
    for what, actual, expected in (
        ("PostgreSQL version", major, wal.major),
        ("system identifier", header.system_identifier, wal.system_identifier),
        ("segment size", header.segment_size, wal.segment_size),
        ("WAL block size", header.block_size, PAGE_SIZE),
    ):
        if actual != expected:
            raise SegmentError(
                f"WAL segment is of another {what}, found {actual}, expected {expected}",
                file=file,
                hint="keep the WAL of one cluster in one directory" if expected != PAGE_SIZE else None,
            )


def _without_unwritten(wal: WalDirectory) -> WalDirectory:
    """Leave out the segments at the end that were not written to yet."""
    written = _written(wal)
    if not written:
        raise AwaitedSegmentError("no WAL segment holds WAL of its own position", file=wal.segments[0].path)
    return _cut(wal, written)


def _cut(wal: WalDirectory, count: int) -> WalDirectory:
    """Return the directory with the first so many segments only."""
    is_kept = [number < count for number in range(len(wal.segments))]
    return replace(wal, segments=wal.segments.where(is_kept))


def _written(wal: WalDirectory) -> int:
    """Count the segments up to the last one that was written to."""
    last = len(wal.segments)
    while last and not _is_written(wal, wal.segments[last - 1]):
        last -= 1
    # One whose first page alone is bad is damaged, not unwritten.
    if last < len(wal.segments) and next_valid_page(wal, wal.segments[last], 1) is not None:
        last += 1
    return last


def _is_written(wal: WalDirectory, segment: Segment) -> bool:
    """Tell whether a segment holds WAL of its position; of one that is not read here it is taken for granted."""
    return segment.form.method not in READABLE or page_is_valid(wal, segment, 0)


def page_is_valid(wal: WalDirectory, segment: Segment, page: int) -> bool:
    """Tell whether a page of a segment, by number, has the header that belongs to its place."""
    return next_valid_page(wal, segment, page, page + 1) is not None


def next_valid_page(wal: WalDirectory, segment: Segment, first: int, last: int | None = None) -> int | None:
    """Find the first page in [first, last) of a segment with a header that belongs to its place.

    Returns its LSN, None if there is none. In a segment of more than 16 MB, only every 16th of the pages further on is
    looked at: WAL is written in one piece.
    """
    identity = wal.page_identity
    pages = wal.segment_size // PAGE_SIZE if last is None else last
    words = np.zeros(5, np.int64)
    view = words.data.cast("B")
    with open_segment(segment, wal.segment_size, (pages - 1) * PAGE_SIZE + len(view)) as reader:
        for page in _pages_to_try(first, pages):
            lsn = segment.start_lsn + page * PAGE_SIZE
            if reader.read_into(view, page * PAGE_SIZE) < words.nbytes:
                return None
            if header_status(words, 0, lsn, identity, segment.timeline, 0) == PAGE_OK:
                return lsn
    return None


def _pages_to_try(first: int, last: int) -> Iterator[int]:
    near = min(last, first + _NEAR_PAGES)
    yield from range(first, near)
    yield from range(near, last, _STRIDE)


def _read_header(segment: Segment, segment_size: int | None) -> _Header | None:
    """Read the long header at the start of a segment, None if the file is shorter."""
    data = bytearray(_LONG_HEADER.size)
    with open_segment(segment, segment_size, len(data)) as reader:
        if reader.read_into(memoryview(data), 0) < len(data):
            return None
    magic, info, _, address, _, _, system, size, block_size = _LONG_HEADER.unpack(data)
    return _Header(magic, info, address, system, size, block_size)


def _read_start(segment: Segment) -> bytes:
    """Read the first bytes of a plain segment, as far as it goes."""
    data = bytearray(_LONG_HEADER.size)
    with open_segment(segment, None, len(data)) as reader:
        return bytes(data[: reader.read_into(memoryview(data), 0)])


def _refuse_encrypted(segment: Segment) -> None:
    """Raise an error if a file that is no segment is encrypted."""
    cipher = encryption_of(_read_start(segment)) if segment.form.method == PLAIN else None
    if cipher is not None:
        raise SegmentError(
            f"WAL segment is encrypted ({cipher})",
            file=segment.path,
            hint="fetch segments with the archive's own tool, as with pgbackrest archive-get, and name their directory",
        )
