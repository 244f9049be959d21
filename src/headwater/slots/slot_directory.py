"""A slot's directory: one file that is the slot, and a lock that whoever uses it holds.

Invariants: the file is replaced as a whole, so at every moment a slot is either as before a call or as after it. Output
and progress cannot be one file. So before output takes its place the slot notes that it will
(:class:`~headwater.slots.slot.PendingOutput`). The next process that opens the slot finishes that, if there is
something to be finished: nothing is lost, nothing comes twice.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import platform
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from headwater.base.locks import lock, lock_within, open_lock
from headwater.base.system_errors import errors_as, system_error
from headwater.base.temporary_directories import remove_directory
from headwater.base.whole_files import move_whole, sync_directory, sync_tree
from headwater.errors import SlotError, SlotInUseError
from headwater.reorder.commits.state import State
from headwater.slots.invalidation import INVALIDATED, check_valid
from headwater.slots.slot import PendingOutput, Slot, SlotStatistics
from headwater.slots.value_file import load_value, save_value

_SLOT, _LOCK, _STREAM = "slot", "lock", "stream"
_BESIDE = frozenset((_LOCK, _STREAM, INVALIDATED, f"{_SLOT}.part", f"{INVALIDATED}.part"))
_PATIENCE_SECONDS = 1.0


def create_slot(path: Path, slot: Slot, check: Callable[[], object] = lambda: None) -> None:
    """Make a slot's directory, also where a process was killed that made or dropped one of this name.

    Args:
        path: it; slot: as it is at first.
        check: raises why it cannot be made; from that on until it is there no WAL is removed that slots do not need.

    Raises:
        SlotError: there is something already, or it cannot be made.
    """
    with errors_as(SlotError, "make the slot", path):
        path.parent.mkdir(parents=True, exist_ok=True)
        _clear_remains(path)
    with slots_locked(path.parent, is_shared=True):
        check()
        _make(path, slot)


def check_is_free(path: Path) -> None:
    """Check that a slot can be made in a directory's place.

    Raises:
        SlotError: there is something already.
    """
    if path.exists() and not _is_remains(path):
        raise _exists(path)


def clear_all_remains(directory: Path) -> None:
    """Remove what killed processes have left of slots in a directory; nobody makes one meanwhile.

    Raises:
        SlotError: the directory cannot be locked, or read.
    """
    with slots_locked(directory), errors_as(SlotError, "look for slots", directory):
        for path in directory.iterdir():
            if not path.name.startswith(".") and _is_remains(path) and any(path.iterdir()):
                remove_directory(path)


def _clear_remains(path: Path) -> None:
    """Remove what a slot's directory has left that was killed while it was made, or dropped."""
    if not _is_remains(path):
        return
    with slots_locked(path.parent):  # Nobody makes it meanwhile.
        if _is_remains(path):
            remove_directory(path)


def _is_remains(path: Path) -> bool:
    """Tell whether a directory has nothing but what slots have beside the file that they are."""
    return path.is_dir() and {entry.name for entry in os.scandir(path)} <= _BESIDE


def _make(path: Path, slot: Slot) -> None:
    try:
        path.mkdir(mode=0o700)
    except FileExistsError:
        raise _exists(path) from None
    except OSError as error:
        raise system_error("make the slot", error, SlotError, file=path) from None
    try:
        (path / _LOCK).touch(mode=0o600)
        save_value(path / _SLOT, slot)
        sync_directory(path.parent)
    except BaseException:
        remove_directory(path)
        raise


def _exists(path: Path) -> SlotError:
    return SlotError(f'replication slot "{path.name}" already exists', file=str(path))


@contextmanager
def slots_locked(directory: Path, *, is_shared: bool = False) -> Iterator[None]:
    """Lock a directory of slots; who makes one shares the lock, who removes WAL that none of them needs has it alone.

    Raises:
        SlotError: it cannot be locked.
    """
    with errors_as(SlotError, "lock the directory of slots", directory):
        descriptor = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
    try:
        with errors_as(SlotError, "lock the directory of slots", directory):
            fcntl.flock(descriptor, fcntl.LOCK_SH if is_shared else fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def is_slot(path: Path) -> bool:
    """Tell whether a directory is a slot."""
    return (path / _SLOT).is_file()


def read_slot(path: Path) -> Slot:
    """Return a slot as it is, whoever uses it.

    Raises:
        SlotError: there is none, or it is damaged.
    """
    if not is_slot(path):
        raise SlotError(f'replication slot "{path.name}" does not exist', file=str(path))
    return load_value(path / _SLOT, Slot)


def active_pid(path: Path) -> int | None:
    """Return the process that uses a slot, None if none does; 0 if it is on another machine and its number is unknown.

    Nothing is written. A process that wants to use the slot at the same moment waits until it has been looked at.
    """
    try:
        with open(path / _LOCK, "rb") as file, errors_as(SlotError, "lock the slot", path):
            return None if lock(file.fileno(), is_shared=True) else _noted_pid(file.fileno()) or 0
    except FileNotFoundError:
        return None


@contextmanager
def open_slot(path: Path, patience: float = _PATIENCE_SECONDS, *, may_be_invalid: bool = False) -> Iterator[OpenSlot]:
    """Use a slot, alone, for as long as the ``with`` block lasts; output that was pending is settled first.

    Args:
        path: its directory.
        patience: seconds for which another process may still use it.
        may_be_invalid: also one that was invalidated is used, from which nothing can be decoded.

    Raises:
        SlotError: there is none, or it is damaged or invalid; SlotInUseError: another process uses it.
    """
    read_slot(path)
    with _locked(path, patience):
        if not may_be_invalid:
            check_valid(path)
        opened = OpenSlot(path, read_slot(path))
        pending = opened.slot.pending
        opened.settle()
        opened.settled = None if pending is None else pending.out
        yield opened


@contextmanager
def _locked(path: Path, patience: float) -> Iterator[None]:
    descriptor = open_lock(path / _LOCK)
    try:
        with errors_as(SlotError, "lock the slot", path):
            is_locked = lock_within(descriptor, patience)
        if not is_locked:
            raise SlotInUseError(f'replication slot "{path.name}" is active for PID {_noted_pid(descriptor) or "?"}')
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, str(os.getpid()).encode(), 0)
        yield
    finally:
        os.close(descriptor)


def _noted_pid(descriptor: int) -> int | None:
    content = os.pread(descriptor, 20, 0)
    return int(content) if content.isdigit() else None


@dataclass
class OpenSlot:
    """A slot that this process uses.

    Attributes:
        path: its directory.
        slot: as it is in its file.
        settled: where output of an earlier call, which did not come to it, took its place when the slot was opened.
    """

    path: Path
    slot: Slot
    settled: str | None = None

    @property
    def stream_directory(self) -> Path:
        """The directory in which a stream keeps its states."""
        return self.path / _STREAM

    def write(self, slot: Slot) -> None:
        """Replace the slot.

        Raises:
            SlotError: it cannot be written; then it is as it was.
        """
        save_value(self.path / _SLOT, slot)
        self.slot = slot

    def part_of(self, out: Path) -> Path:
        """Return the place of complete output that waits, beside its own; no other slot's output ever does there.

        A file that is there already was left by a process that did not come to note it, and goes.

        Raises:
            OSError: it does not go.
        """
        whose = hashlib.sha256(f"{platform.node()}:{self.path.resolve()}".encode()).hexdigest()[:16]
        part = out.absolute().with_name(f".{self.path.name}-{whose}.headwater-part")
        _remove(part)
        return part

    def place(self, part: Path, out: Path, state: State, made: SlotStatistics) -> None:
        """Let complete output take its place, and advance.

        Args:
            part: the output, where :meth:`part_of` says.
            out: its place.
            state: after it; made: what it counts.

        Raises:
            SlotError: it cannot be done; the next one to open the slot tries again.
        """
        after = self.slot.advanced(state, made)
        assert after.state is not None
        with errors_as(SlotError, "write output", part):
            sync_tree(part)
            sync_directory(part.absolute().parent)
        places = str(part), str(out.absolute())
        pending = PendingOutput(*places, after.confirmed_lsn, after.state, after.statistics)
        try:
            self.write(replace(self.slot, pending=pending))
        except SlotError:
            if read_slot(self.path).pending is None:
                # Nobody will look for it: it is made again.
                _remove(part)
            raise
        self.settle()

    def settle(self) -> None:
        """Let output take its place that is noted, if it has not, and advance.

        Raises:
            SlotError: it cannot be done now.
        """
        pending = self.slot.pending
        if pending is None:
            return
        with errors_as(SlotError, "move output to its place", pending.out):
            if os.path.exists(pending.part):
                move_whole(Path(pending.part), Path(pending.out))
        self.write(
            replace(
                self.slot,
                confirmed_lsn=pending.confirmed_lsn,
                state=pending.state,
                statistics=pending.statistics,
                pending=None,
            )
        )

    def drop(self) -> None:
        """Remove the slot; who makes another one of its name waits until all of it is gone."""
        with slots_locked(self.path.parent):
            os.unlink(self.path / _SLOT)
            remove_directory(self.path)


def _remove(part: Path) -> None:
    """Remove a file, or a directory and what is in it, if it is there."""
    if part.is_dir():
        shutil.rmtree(part)
    else:
        part.unlink(missing_ok=True)
