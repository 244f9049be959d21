"""The files in the places that were named: segments in all their forms, and history files.

In: places. Out: for each segment name its copies, in the order in which one is taken: whole ones before partial ones,
the first place's before the next one's, plain ones before packed ones. Folders that pgBackRest, WAL-G and barman make
are gone into.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from headwater.errors import AwaitedSegmentError, SegmentError
from headwater.wal.segments.place import Entry, Place, WalSource, list_folders, list_place
from headwater.wal.segments.segment_forms import (
    SegmentForm,
    inner_folder,
    instead_of_segments,
    is_segment_folder,
    parse_history_name,
    parse_name,
)
from headwater.wal.segments.segment_reader import preference
from headwater.wal.segments.timelines import HistoryFile


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file whose name is a segment's.

    Attributes:
        name: the segment's, 24 digits; timeline: in it.
        path: the file.
        size: its bytes.
        form: how it is named and packed, as far as its name tells.
    """

    name: str
    path: str
    size: int
    form: SegmentForm

    @property
    def timeline(self) -> int:
        """Timeline in the name."""
        return int(self.name[:8], 16)

    def number(self, segment_size: int) -> int:
        """Return the number of the segment."""
        return int(self.name[8:16], 16) * ((1 << 32) // segment_size) + int(self.name[16:], 16)


@dataclass(frozen=True)
class Listing:
    """The files that were found.

    Attributes:
        places: the folders that the segments lie in.
        copies: the files of each segment, by its name, best first; names in the order of numbers, then timelines.
        histories: history files by timeline.
    """

    places: tuple[Place, ...]
    copies: dict[str, list[FoundFile]] = field(default_factory=dict)
    histories: dict[int, HistoryFile] = field(default_factory=dict)

    @property
    def address(self) -> str:
        """The places that were searched, for messages."""
        return ", ".join(place.address for place in self.places)


def list_segments(source: WalSource, first: str = "") -> Listing:
    """List places.

    Args:
        source: the places.
        first: name of a segment of any timeline; those before it are left out.

    Raises:
        SegmentError: a place cannot be listed, or none has a segment.
    """
    places: list[Place] = []
    files: list[FoundFile] = []
    histories: dict[int, HistoryFile] = {}
    names: set[str] = set()
    for number, named in enumerate(source.places):
        place, entries = _entries(named, first)
        places.append(place)
        names |= {entry.name for entry in entries}
        files += _segments(place, number, entries, first)
        for entry in entries:
            history = parse_history_name(entry.name)
            if history is not None and not entry.is_folder:
                timeline, method = history
                histories.setdefault(timeline, HistoryFile(place, place.path(entry.folder, entry.name), method))
    listing = Listing(tuple(places), _copies(files), histories)
    if not files:
        instead, hint = instead_of_segments(names) or (None, None)
        what = f"no WAL segment in directory, {instead}" if instead else "no WAL segment in directory"
        kind = SegmentError if instead else AwaitedSegmentError
        raise kind(what, file=listing.address, hint=hint or "name the directory that holds the segments")
    return listing


def _entries(place: Place, first: str) -> tuple[Place, list[Entry]]:
    """List the folder that a place's segments lie in, and all that is in it and in its folders of segments."""
    top = list_place(place)
    folders = [entry.name for entry in top if entry.is_folder]
    inside = [name for name in folders if is_segment_folder(name)]
    if not inside and not any(parse_name(entry.name) for entry in top):
        inner = inner_folder(folders)
        if inner is not None:
            return _entries(place.inside(inner), first)
    wanted = [name for name in inside if name[8:] >= first[8:16]]
    return place, top + list_folders(place, wanted)


def _segments(place: Place, number: int, entries: list[Entry], first: str) -> Iterator[FoundFile]:
    for entry in entries:
        # A folder with the name of a segment is no end of the log: its reader gets an error.
        parsed = parse_name(entry.name)
        if parsed is None or parsed[0][8:] < first[8:]:
            continue
        name, ending, method, _ = parsed
        form = SegmentForm(number, bool(entry.folder), ending, method)
        path = place.path(entry.folder, name + ending)
        yield FoundFile(name, path, entry.size, form)


def _copies(files: list[FoundFile]) -> dict[str, list[FoundFile]]:
    copies: dict[str, list[FoundFile]] = {}
    for file in sorted(files, key=lambda file: (file.name[8:], file.name[:8], preference(file.form))):
        copies.setdefault(file.name, []).append(file)
    return copies
