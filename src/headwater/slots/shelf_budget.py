"""The kept states of a shelf that are worth their room: near the end of the log many, further back fewer. Pure.

Of states that lie so far back, one stays in each stretch of WAL of an eighth to a quarter of that. So the way from a
state to a place after it is short. A terabyte of WAL has about a hundred states. Stretches begin at multiples of their
size, and only ever double: of two neighbours never both go.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import groupby

from headwater.slots.shelf_directory import ShelvedFile

SPACING = 16 << 20
"""Bytes of WAL between two states at the end of the log, about."""

_FAR = 8
"""A state is far back that lies so many stretches before the newest."""


@dataclass(frozen=True)
class ShelfBudget:
    """The room of a shelf.

    Attributes:
        size: bytes of all files. seconds: since a file was written. Of each database that is served the newest state
            stays in any case.
    """

    size: int = 1 << 30
    seconds: float = 7 * 86_400.0


def unneeded(
    files: Sequence[ShelvedFile], served: Collection[str], budget: ShelfBudget, now: float
) -> list[ShelvedFile]:
    """Choose the files that go.

    Args:
        files: of all databases; served: folders of those that are served.
        budget: of all together; now: seconds since 1970.
    """
    staying: set[ShelvedFile] = set()
    for database, group in groupby(sorted(files, key=lambda file: file.database), key=lambda file: file.database):
        staying |= _spaced(list(group), database in served, now - budget.seconds)
    newest = {file.database: file for file in sorted(staying, key=_place) if file.database in served}
    room = budget.size - sum(file.size for file in newest.values())
    others = staying.difference(newest.values())
    for file in sorted(others, key=lambda file: (file.database in served, _place(file)), reverse=True):
        room -= file.size
        if room < 0:
            staying.remove(file)
    return [file for file in files if file not in staying]


def _spaced(files: list[ShelvedFile], is_served: bool, oldest: float) -> set[ShelvedFile]:
    """Leave out files of a database that are too old, or too close to a later one of their timeline."""
    newest = max(files, key=_place)
    staying: dict[tuple[int, int, int], ShelvedFile] = {}
    for file in sorted(files, key=_place):
        if file.written >= oldest and file is not newest:
            staying[file.timeline, *_stretch(file.lsn, newest.lsn)] = file
    is_wanted = is_served or newest.written >= oldest
    return {*staying.values(), *([newest] if is_wanted else [])}


def _stretch(lsn: int, end: int) -> tuple[int, int]:
    """Return the stretch of WAL that one state stays of: its size, and its number among those of that size."""
    size = SPACING
    while end - lsn > _FAR * size:
        size *= 2
    return size, lsn // size


def _place(file: ShelvedFile) -> tuple[int, int]:
    return file.timeline, file.lsn
