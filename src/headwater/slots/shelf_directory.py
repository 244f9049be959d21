"""The states of a database's fold in files: from the nearest of them a service, or a new slot, begins.

A directory of slots has them below ``.shelf``, a name that no slot of a server can have:

    SLOTS/.shelf/DATABASE-KEY/TIMELINE-LINEAGE/XXXXXXXX-XXXXXXXX.state

The files are kept states (:mod:`headwater.slots.kept_state`), of no output. KEY is a digest of what they are valid for
beside their LSN: format of the file and shape of the value, cluster, copy of the cluster. LINEAGE is one of where the
timelines before were left: two servers that were promoted at different places may both be on timeline 2.

Invariants: a state is used only where the history of the WAL has its timeline, up to where that was left. What cannot
be read, or is not what its place says, is a warning, and as if it were not there.
"""

from __future__ import annotations

import hashlib
import re
import struct
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from headwater.base.system_errors import errors_as
from headwater.errors import SlotError, warn
from headwater.reorder.commits.state import State
from headwater.slots.kept_state import KeptState, keep_state, lsn_of_name
from headwater.slots.value_file import format_of, load_value

FOLDER = ".shelf"
"""In a directory of slots."""

Lineage = Sequence[tuple[int, int | None]]
"""Timelines of a history, oldest first, each with the LSN where it was left; None for the last."""

_COPY = struct.Struct("<QQQ")
_SWITCH = struct.Struct("<QQ")
_DIGITS = 16
_TIMELINE = re.compile(r"([0-9A-F]{8})(-[0-9a-f]{16})?")


@dataclass(frozen=True)
class CopiedDatabase:
    """A database of a copy of a cluster: what the states of a shelf are of.

    Attributes:
        system_identifier: of the cluster.
        timeline, start_lsn: from where on the copy needs WAL.
        oid: of the database.
    """

    system_identifier: int
    timeline: int
    start_lsn: int
    oid: int

    @property
    def folder(self) -> str:
        """The name of the folder of its states."""
        copy = _COPY.pack(self.system_identifier, self.timeline, self.start_lsn)
        return f"{self.oid}-{_digest(format_of(KeptState) + copy)}"

    def fits(self, state: State) -> bool:
        """Tell whether a state is of it."""
        origin = state.catalog.origin
        return self == CopiedDatabase(origin.system_identifier, origin.timeline, origin.start_lsn, origin.database_oid)


@dataclass(frozen=True)
class ShelvedFile:
    """A file of a shelf.

    Attributes:
        path: it; timeline, lsn: of its state.
        size: bytes; written: seconds since 1970.
    """

    path: Path
    timeline: int
    lsn: int
    size: int
    written: float

    @property
    def database(self) -> str:
        """The folder of its database."""
        return self.path.parent.parent.name


class ShelfDirectory:
    """The files of one database.

    Args:
        slots: directory of slots; database: what the states are of.
    """

    def __init__(self, slots: Path, database: CopiedDatabase) -> None:
        self.database = database
        self.directory = slots / FOLDER / database.folder
        self._refused: set[Path] = set()

    def write(self, kept_state: KeptState, lineage: Lineage) -> Path | None:
        """Write a state; return its file, None where the history of the WAL does not have its place.

        Raises:
            SlotError: it cannot be written.
        """
        state = kept_state.state
        for number, (timeline, left) in enumerate(lineage):
            if timeline == state.timeline and (left is None or state.lsn <= left):
                folder = self.directory / _timeline_folder(lineage[: number + 1])
                with errors_as(SlotError, "make directory", folder):
                    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                path = keep_state(folder, kept_state)
                self._refused.discard(path)
                return path
        return None

    def files(self, lineage: Lineage) -> list[ShelvedFile]:
        """List the files of a history, in the order of their LSNs; those that were refused are left out."""
        listed: list[ShelvedFile] = []
        for number, (_, left) in enumerate(lineage):
            folder = self.directory / _timeline_folder(lineage[: number + 1])
            files = (file for file in _files_in(folder) if left is None or file.lsn <= left)
            listed += [file for file in files if file.path not in self._refused]
        return sorted(listed, key=lambda file: file.lsn)

    def nearest(self, lsn: int, lineage: Lineage, above: int = 0) -> KeptState | None:
        """Return the last state at or before an LSN; None if there is none after ``above``."""
        for file in reversed(self.files(lineage)):
            if above < file.lsn <= lsn and (kept_state := self.load(file)) is not None:
                return kept_state
        return None

    def load(self, file: ShelvedFile) -> KeptState | None:
        """Return the state of a file; None, with a warning, if it is damaged or of something else."""
        try:
            kept_state = load_value(file.path, KeptState)
            self._check(kept_state.state, file)
        except SlotError as error:
            if file.path.exists():
                self._refused.add(file.path)
                warn(f"a kept state is not used: {error.message}", file=str(file.path), hint=error.hint)
            return None
        return kept_state

    def _check(self, state: State, file: ShelvedFile) -> None:
        if not self.database.fits(state):
            raise SlotError("it is of another database, or of another copy of the cluster")
        if (state.timeline, state.lsn, state.outputs) != (file.timeline, file.lsn, ()):
            raise SlotError("it is not of the place that its name says")


@lru_cache(maxsize=1024)
def restart_lsn(file: ShelvedFile) -> int:
    """Return the LSN from which on the state of a file needs WAL.

    Raises:
        SlotError: it is damaged, or not there.
    """
    return load_value(file.path, KeptState).state.restart_lsn


def all_files(slots: Path) -> list[ShelvedFile]:
    """List the files of all databases in a directory of slots."""
    return [
        file for database in _folders(slots / FOLDER) for folder in _folders(database) for file in _files_in(folder)
    ]


def remove_files(files: Sequence[ShelvedFile]) -> None:
    """Remove files, and folders that are empty without them.

    Raises:
        SlotError: a file does not go.
    """
    for file in files:
        with errors_as(SlotError, "remove", file.path):
            file.path.unlink(missing_ok=True)
        with suppress(OSError):
            file.path.parent.rmdir()
            file.path.parent.parent.rmdir()


def remove_unfinished(slots: Path) -> None:
    """Remove what a killed process has not written whole; nobody else writes there.

    Raises:
        SlotError: a file does not go.
    """
    for part in (slots / FOLDER).glob("*/*/*.state.part"):
        with errors_as(SlotError, "remove", part):
            part.unlink(missing_ok=True)


def _files_in(folder: Path) -> Iterator[ShelvedFile]:
    """Give the files of a timeline."""
    match = _TIMELINE.fullmatch(folder.name)
    paths = sorted(folder.iterdir()) if match is not None and folder.is_dir() else []
    for path in paths:
        lsn = lsn_of_name(path.name)
        if match is not None and lsn is not None:
            with suppress(FileNotFoundError):
                status = path.stat()
                yield ShelvedFile(path, int(match[1], 16), lsn, status.st_size, status.st_mtime)


def _folders(directory: Path) -> list[Path]:
    return sorted(path for path in directory.iterdir() if path.is_dir()) if directory.is_dir() else []


def _timeline_folder(line: Lineage) -> str:
    """Return the name of the folder of a history's last timeline."""
    name = f"{line[-1][0]:08X}"
    before = b"".join(_SWITCH.pack(timeline, left or 0) for timeline, left in line[:-1])
    return f"{name}-{_digest(before)}" if before else name


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:_DIGITS]
