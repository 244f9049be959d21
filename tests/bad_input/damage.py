"""Places where WAL can be damaged: records and pages found by reading it, bytes changed in the files."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path

from bad_input.clusters import SEGMENT, own_file
from control_files import read_control_file
from headwater.pg.lsn import Lsn
from headwater.wal.records.frames import read_frames
from headwater.wal.segments.directory import WalDirectory

PAGE, HEADER = 8192, 24
HEAP, INSERT = 10, 0


@dataclass(frozen=True)
class Place:
    """A record that lies on one page.

    Attributes:
        file: its segment.
        lsn: where it starts.
        length: xl_tot_len.
    """

    file: Path
    lsn: int
    length: int

    @property
    def text(self) -> str:
        """The LSN as errors print it."""
        return str(Lsn(self.lsn))


def record_bounds(wal: Path, catalog: Path) -> list[tuple[int, int]]:
    """Start and end of every record from the catalog's LSN on."""
    frames = read_frames(WalDirectory.scan(wal), read_control_file(catalog).redo_lsn)
    return list(zip(frames.lsns.tolist(), frames.end_lsns.tolist(), strict=True))


def heap_inserts(wal: Path, catalog: Path) -> list[Place]:
    """List the records of inserted rows that lie on one page each, in order."""
    directory = WalDirectory.scan(wal)
    frames = read_frames(directory, read_control_file(catalog).redo_lsn)
    places = []
    for index, (lsn, length) in enumerate(
        zip(frames.lsns.tolist(), frames.lengths_of(slice(None)).tolist(), strict=True)
    ):
        record = frames.record(index)
        if lsn // PAGE == (lsn + length - 1) // PAGE and record[17] == HEAP and record[16] & 0x70 == INSERT:
            segment = directory.segment_at(lsn)
            assert segment is not None
            places.append(Place(Path(segment.path), lsn, length))
    return places


def middle(wal: Path, catalog: Path) -> Place:
    """Find an inserted row in the middle of the log."""
    places = heap_inserts(wal, catalog)
    return places[len(places) // 2]


def segments(wal: Path) -> list[Path]:
    """List the segment files, in order."""
    return sorted(path for path in wal.iterdir() if len(path.name) == 24)


def used_segments(wal: Path, catalog: Path) -> list[Path]:
    """List the segment files that hold WAL from the catalog's LSN on, in order."""
    bounds = record_bounds(wal, catalog)
    first, last = bounds[0][0] // SEGMENT, bounds[-1][0] // SEGMENT
    return [path for path in segments(wal) if first <= int(path.name[16:], 16) <= last]


def flip(file: Path, offset: int, mask: int = 0x10) -> None:
    """Change one byte; the file becomes the test's own."""
    data = bytearray(own_file(file).read_bytes())
    data[offset] ^= mask
    file.write_bytes(data)


def overwrite(file: Path, offset: int, new: bytes | bytearray) -> None:
    """Replace bytes; the file becomes the test's own."""
    data = bytearray(own_file(file).read_bytes())
    data[offset : offset + len(new)] = new
    file.write_bytes(data)


def cut(file: Path, size: int) -> None:
    """Leave the first bytes of a file."""
    own_file(file)
    with file.open("r+b") as handle:
        handle.truncate(size)


def zero_from(wal: Path, lsn: int) -> None:
    """Make everything from a position on zero, as preallocated segments are."""
    for path in segments(wal):
        start = int(path.name[16:], 16) * SEGMENT
        if start + SEGMENT > lsn:
            at = max(0, lsn - start)
            overwrite(path, at, bytes(SEGMENT - at))


def page_header(lsn: int) -> int:
    """Return the offset in its segment of the header of the page that holds a position."""
    return lsn % SEGMENT // PAGE * PAGE


def u32(value: int) -> bytes:
    return struct.pack("<I", value)
