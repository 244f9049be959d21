"""The removal of WAL that was received: what is older than a limit, and what no slot and no kept state needs.

In: a directory of segments, the position that was received, a :class:`Retention`. Segments are removed whole, the
oldest first; ``.partial`` ones, history files and whatever is no segment stay.

Invariants: nothing from a slot's ``restart_lsn`` on is removed. As long as one of the slots cannot be read, or needs
the copy of the cluster that it was made from, nothing is. The newest segment stays, which says where to go on. Of each
database that has states on the shelf of the slots, one of them can be gone on from.

A slot that was invalidated needs nothing; that is done by who serves slots.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from pathlib import Path

from headwater.base.quantities import BYTES, SECONDS, bytes_of, seconds_of
from headwater.base.system_errors import errors_as
from headwater.errors import HeadwaterError, SegmentError, SlotError, UsageError, warn
from headwater.option_names import option
from headwater.pg.lsn import Lsn
from headwater.slots.invalidation import invalidation_of
from headwater.slots.shelf_directory import ShelvedFile, all_files, restart_lsn
from headwater.slots.slot_directory import is_slot, read_slot, slots_locked
from headwater.wal.segments.segment_forms import PLAIN, parse_name


@dataclass(frozen=True)
class Retention:
    """The WAL that is kept.

    Attributes:
        size: bytes before the position, at least; None for any number. seconds: by a file's time likewise.
        slots: directories of slots whose WAL is kept, and that of states beside them.
        states: tells from which LSN on WAL is needed, so that databases can be followed from another LSN on; None: what
            states beside the slots say.
    """

    size: int | None = None
    seconds: float | None = None
    slots: tuple[Path, ...] = ()
    states: Callable[[int], int] | None = None

    @classmethod
    def parse(cls, text: str, slots: Sequence[Path]) -> Retention:
        """Read ``10GB`` or ``7d``.

        Raises:
            UsageError: it is neither a size nor a time.
        """
        size, seconds = bytes_of(text), seconds_of(text)
        if size is not None or seconds is not None:
            return cls(size, seconds, tuple(slots))
        units = ", ".join((*BYTES, *SECONDS))
        raise UsageError(f'invalid value for {option("keep")}: "{text}"', hint=f"such as 10GB or 7d; units are {units}")


def needed_by_slots(directories: Sequence[Path]) -> int | None:
    """Return the LSN from which on slots need WAL; None where there is no slot.

    Raises:
        SlotError: one cannot be read.
    """
    needed = None
    for directory in directories:
        with errors_as(SlotError, "list slots", directory):
            paths = [path for path in directory.iterdir() if is_slot(path)] if directory.exists() else []
        for slot in (read_slot(path) for path in paths if invalidation_of(path) is None):
            if not slot.is_physical:
                # Without a state a slot begins with the copy of the cluster, which needs WAL from before it.
                restart = 0 if slot.state is None else slot.restart_lsn
                needed = restart if needed is None else min(needed, restart)
    return needed


def needed_by_states(directories: Sequence[Path], lsn: int) -> int:
    """Return the LSN from which on WAL is needed, so that from some state on databases can be followed to an LSN.

    Args:
        directories: of slots, beside which states are.
        lsn: of a database that has none before it, the oldest state counts.

    Raises:
        SlotError: no state of a database can be read.
    """
    files = sorted((file for directory in directories for file in all_files(directory)), key=lambda file: file.database)
    return min((_restart_of(list(group), lsn) for _, group in groupby(files, lambda file: file.database)), default=lsn)


def _restart_of(files: list[ShelvedFile], lsn: int) -> int:
    """Return where the last state at or before an LSN begins to need WAL."""
    before = sorted((file for file in files if file.lsn <= lsn), key=lambda file: file.lsn, reverse=True)
    after = sorted((file for file in files if file.lsn > lsn), key=lambda file: file.lsn)
    for file in (*before, *after):
        with suppress(SlotError):
            return min(lsn, restart_lsn(file))
    raise SlotError("no kept state of a database can be read", file=str(files[0].path.parent.parent))


def remove_unneeded(directory: Path, reached: int, retention: Retention, now: Callable[[], float] = time.time) -> int:
    """Remove what need not be kept; return how many segments were.

    Args:
        directory: of the segments; reached: LSN up to which all was received.
        retention: what is kept; now: the time, in seconds since 1970.

    Raises:
        SegmentError: a segment cannot be removed.
    """
    removable = _removable(directory, reached, retention, now)
    if not removable:
        return 0
    try:
        needed = _needed(retention, removable[-1][1])
    except HeadwaterError as error:
        warn(f"no WAL is removed: {error.one_line()}")
        return 0
    with ExitStack() as stack:
        try:
            # Who makes a slot meanwhile waits, and looks whether WAL that it needs is there.
            for slots in retention.slots:
                if slots.exists():
                    stack.enter_context(slots_locked(slots))
            by_slots = needed_by_slots(retention.slots)
        except SlotError as error:
            warn(f"no WAL is removed: {error.one_line()}")
            return 0
        needed = needed if by_slots is None else min(needed, by_slots)
        unneeded = [path for path, end in _removable(directory, reached, retention, now) if end <= needed]
        return _remove(directory, unneeded)


def _remove(directory: Path, segments: Sequence[Path]) -> int:
    with errors_as(SegmentError, "remove WAL segments", directory):
        for path in segments:
            path.unlink()
    return len(segments)


def _removable(directory: Path, reached: int, retention: Retention, now: Callable[[], float]) -> list[tuple[Path, int]]:
    """List the segments that are old enough, with their ends."""
    limit = reached if retention.size is None else reached - retention.size
    oldest = None if retention.seconds is None else now() - retention.seconds
    with errors_as(SegmentError, "look for WAL segments", directory):
        segments = list(_segments(directory))[:-1]
    return [(path, end) for path, end, written in segments if end <= limit and (oldest is None or written <= oldest)]


def _needed(retention: Retention, lsn: int) -> int:
    """Return the LSN from which on WAL stays, where that before another LSN may go; takes its time.

    Raises:
        HeadwaterError: a slot cannot be read, or a database not be followed.
    """
    by_slots = needed_by_slots(retention.slots)
    states = retention.states or partial(needed_by_states, retention.slots)
    needed = lsn if by_slots is None else min(lsn, by_slots)
    return min(needed, states(needed)) if needed else 0


def _segments(directory: Path) -> Iterator[tuple[Path, int, float]]:
    """Give whole, plain segments by their LSN, with their ends and the times of their files."""
    segments = []
    for path in directory.iterdir():
        parsed = parse_name(path.name)
        if parsed is None or parsed[0] != path.name or parsed[2] != PLAIN:
            continue
        status = path.stat()
        start = int(Lsn(int(path.name[8:16], 16) << 32)) + int(path.name[16:24], 16) * status.st_size
        segments.append((start, path, start + status.st_size, status.st_mtime))
    for _, path, end, written in sorted(segments):
        yield path, end, written


LOOK_SECONDS = 1.0
"""Between two looks at the directory, at least."""


class Keeper:
    """The keeper of a directory: removes what need not be kept, in a thread, as who receives waits for no disk.

    Args:
        directory: of the segments; retention: what is kept.
    """

    def __init__(self, directory: Path, retention: Retention) -> None:
        self._directory, self._retention = directory, retention
        self._looked_at = 0.0
        self._thread: threading.Thread | None = None
        self._error: SegmentError | None = None

    def reached(self, lsn: int) -> None:
        """Note that all was received up to an LSN.

        Raises:
            SegmentError: a segment could not be removed.
        """
        if self._error is not None:
            raise self._error
        is_busy = self._thread is not None and self._thread.is_alive()
        if not is_busy and time.monotonic() - self._looked_at >= LOOK_SECONDS:
            self._looked_at = time.monotonic()
            self._thread = threading.Thread(target=self._look, args=(lsn,), name="headwater-keep", daemon=True)
            self._thread.start()

    def _look(self, lsn: int) -> None:
        try:
            remove_unneeded(self._directory, lsn, self._retention)
        except SegmentError as error:
            self._error = error
