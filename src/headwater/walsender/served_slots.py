"""The slots that are served: directories beside each other, each used by one session at a time.

The rules of names, and the words of what is refused, are the server's (slot.c). A temporary slot has a directory whose
name no slot can have, so that what a killed process has left is known.

Calls that take or let go of a slot, or look at its files, wait for the disk: they come from threads, never from the
event loop. Nobody writes while holding the lock, so that who makes a slot on a slow disk holds up no other.

Known gap: slots that other processes make in the directory do not count beside the limit until they are there.
"""

from __future__ import annotations

import os
import re
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO

from headwater.base.locks import lock, open_lock
from headwater.base.system_errors import errors_as
from headwater.errors import SessionError, SlotError, SlotInUseError
from headwater.pg.identifiers import MOST_NAME_BYTES
from headwater.pg.sqlstates import (
    CONFIGURATION_LIMIT_EXCEEDED,
    DUPLICATE_OBJECT,
    INVALID_NAME,
    NAME_TOO_LONG,
    OBJECT_IN_USE,
    UNDEFINED_OBJECT,
)
from headwater.slots.invalidation import invalidate, invalidation_of
from headwater.slots.slot import Slot
from headwater.slots.slot_directory import OpenSlot, clear_all_remains, create_slot, is_slot, open_slot, read_slot
from headwater.walsender.sessions.clock import now

_VALID = re.compile(r"[a-z0-9_]+")
_TEMPORARY = ".temporary"
_HELD = ".service"
"""The file that a service locks; it has its PID."""

NOBODY = 0
"""The number of no session: of the service itself."""

MICROSECONDS = 1_000_000

LOOK_SECONDS = 0.1
"""After which who waits for a slot looks whether it is to go on waiting."""


def check_slot_name(name: str) -> None:
    """Check a slot's name (ReplicationSlotValidateName).

    Raises:
        SessionError: no slot can have it.
    """
    if not name:
        raise SessionError(f'replication slot name "{name}" is too short', sqlstate=INVALID_NAME)
    if len(name.encode("utf-8", "surrogateescape")) > MOST_NAME_BYTES:
        raise SessionError(f'replication slot name "{name}" is too long', sqlstate=NAME_TOO_LONG)
    if _VALID.fullmatch(name) is None:
        raise SessionError(
            f'replication slot name "{name}" contains invalid character',
            sqlstate=INVALID_NAME,
            hint="Replication slot names may only contain lower case letters, numbers, and the underscore character.",
        )


def _held(directory: Path) -> IO[str]:
    """Hold a directory of slots for this service: as long as the file is open.

    Raises:
        SlotInUseError: another service has it; OSError: the file cannot be written.
    """
    file = os.fdopen(open_lock(directory / _HELD), "r+")
    if not lock(file.fileno()):
        with file:
            pid = file.read().strip()
        raise SlotInUseError(
            f"the process {pid or 'of another service'} serves the slots of this directory",
            file=str(directory),
            hint="give each service a directory of its own, or end the other one",
        )
    file.truncate(0)
    file.write(f"{os.getpid()}\n")
    file.flush()
    return file


class ServedSlots:
    """The slots of a directory.

    Args:
        directory: it; made if it is missing.
        most: how many there may be.
        limit_name: what the setting of that is called in a hint.

    Raises:
        SlotInUseError: another service has it.
        SlotError: it cannot be made, or what others have left in it does not go.
    """

    def __init__(self, directory: Path, most: int, limit_name: str) -> None:
        self._directory, self.most, self._limit_name = directory, most, limit_name
        self._released_at: dict[str, int] = {}
        self._began = now()
        self._lock = threading.Lock()
        self._released = threading.Condition(self._lock)
        self._users: dict[str, int] = {}
        self._owners: dict[str, int] = {}
        self._streamed: dict[str, Callable[[], Slot | None]] = {}
        with errors_as(SlotError, "make directory", directory):
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._held = _held(directory)
            for left in directory.glob(f"*{_TEMPORARY}"):
                shutil.rmtree(left)
        clear_all_remains(directory)

    def names(self) -> list[str]:
        """List the names of all slots."""
        paths = [path for path in self._directory.iterdir() if is_slot(path)]
        return sorted(path.name.removesuffix(_TEMPORARY) for path in paths)

    def pid_of(self, name: str) -> int | None:
        """Return the number of the session that uses a slot, or owns it; None if none does."""
        return self._users.get(name, self._owners.get(name))

    def owns(self, pid: int) -> bool:
        """Tell whether a session has temporary slots."""
        return pid in list(self._owners.values())

    def inactive_since(self, name: str) -> int:
        """Return when a slot was let go of last: microseconds since 2000-01-01; when the service began, if never."""
        return self._released_at.get(name, self._began)

    def idle_seconds(self, name: str) -> float | None:
        """Return for how long nobody has used a slot; None while somebody does."""
        return None if self.pid_of(name) is not None else (now() - self.inactive_since(name)) / MICROSECONDS

    def read(self, name: str) -> Slot:
        """Return a slot as it stands: of one that is streamed from what its client has confirmed, else what is written.

        Raises:
            SessionError: there is none of this name.
        """
        as_it_stands = self._streamed.get(name)
        streamed = None if as_it_stands is None else as_it_stands()
        return read_slot(self._path(name)) if streamed is None else streamed

    @contextmanager
    def shown(self, name: str, as_it_stands: Callable[[], Slot | None]) -> Iterator[None]:
        """Let :meth:`read` tell how a slot stands that is used, and not written yet, as long as the block lasts."""
        self._streamed[name] = as_it_stands
        try:
            yield
        finally:
            del self._streamed[name]

    def invalidation_of(self, name: str) -> str | None:
        """Return why a slot is not valid any more; None of one that is.

        Raises:
            SessionError: there is none of this name.
        """
        return invalidation_of(self._path(name))

    def invalidate(self, name: str, reason: str, is_due: Callable[[Slot], bool]) -> bool:
        """Let a slot not be valid any more, if that is due still; tell whether it was.

        Raises:
            SessionError: there is none of this name, or it is used.
        """
        since = self.inactive_since(name)
        with self.used(name, NOBODY) as opened:
            is_still_due = is_due(opened.slot)
            if is_still_due:
                invalidate(opened.path, reason)
        self._released_at[name] = since
        return is_still_due

    def is_temporary(self, name: str) -> bool:
        """Tell whether a slot goes with the session that made it."""
        return self._path(name).suffix == _TEMPORARY

    def check_new(self, name: str) -> None:
        """Check that a slot of this name can be made.

        Raises:
            SessionError: it cannot.
        """
        check_slot_name(name)
        with self._lock:
            self._check_new(name)

    def create(
        self, name: str, slot: Slot, pid: int, is_temporary: bool, check: Callable[[], object] = lambda: None
    ) -> None:
        """Make a slot, which nobody else can use meanwhile; a temporary one is the session's own from its beginning on.

        Args:
            name: its name; slot: as it is at first.
            pid: the number of the session that makes it.
            is_temporary: it goes with the session.
            check: raises why it cannot be made: that WAL which it needs was removed. No WAL is removed behind that.

        Raises:
            SessionError: there is one; SlotError: it cannot be written.
        """
        check_slot_name(name)
        with self._made(name, pid, is_temporary):
            create_slot(self._directory / (f"{name}{_TEMPORARY}" if is_temporary else name), slot, check)

    @contextmanager
    def used(self, name: str, pid: int, waits: Callable[[], None] | None = None) -> Iterator[OpenSlot]:
        """Use a slot, alone, for as long as the ``with`` block lasts.

        Args:
            name: its name.
            pid: the number of the session that uses it.
            waits: it is waited for until another session has let go of it; called now and then, raises what the waiting
                ends with. None: it is not waited for.

        Raises:
            SessionError: there is none, or it is used.
        """
        self._path(name)
        self._take(name, pid, waits)
        try:
            # It may have been dropped, and made anew, while it was waited for.
            with _open(self._path(name)) as opened:
                yield opened
        finally:
            self._let_go(name)

    def drop(self, name: str, pid: int, waits: Callable[[], None] | None = None) -> None:
        """Remove a slot; the arguments are those of :meth:`used`.

        Raises:
            SessionError: there is none, or it is used.
        """
        with self.used(name, pid, waits) as opened:
            opened.drop()

    def drop_owned(self, pid: int) -> None:
        """Remove the temporary slots of a session.

        Raises:
            SlotError: one of them cannot be removed.
        """
        with ExitStack() as stack:
            for name in [name for name, owner in list(self._owners.items()) if owner == pid]:
                stack.callback(self.drop, name, pid)

    @contextmanager
    def _made(self, name: str, pid: int, is_temporary: bool) -> Iterator[None]:
        """Let a name be taken, by a slot that is being made."""
        with self._lock:
            self._check_new(name)
            self._users[name] = pid
            if is_temporary:
                self._owners[name] = pid
        try:
            yield
        finally:
            self._let_go(name)

    def _check_new(self, name: str) -> None:
        # What is used is about to be there, or not gone yet.
        names = {*self.names(), *self._users}
        if name in names:
            raise SessionError(f'replication slot "{name}" already exists', sqlstate=DUPLICATE_OBJECT)
        if len(names) >= self.most:
            raise SessionError(
                "all replication slots are in use",
                sqlstate=CONFIGURATION_LIMIT_EXCEEDED,
                hint=f"Free one or increase {self._limit_name}.",
            )

    def _path(self, name: str) -> Path:
        """Return a slot's directory."""
        for path in self._paths(name):
            if _VALID.fullmatch(name) is not None and is_slot(path):
                return path
        raise SessionError(f'replication slot "{name}" does not exist', sqlstate=UNDEFINED_OBJECT)

    def _paths(self, name: str) -> tuple[Path, Path]:
        return self._directory / name, self._directory / f"{name}{_TEMPORARY}"

    def _take(self, name: str, pid: int, waits: Callable[[], None] | None) -> None:
        with self._released:
            while waits is not None and self._other_user(name, pid) is not None:
                self._released.wait(LOOK_SECONDS)
                waits()
            other = self._other_user(name, pid)
            if other is not None:
                raise _in_use(name, other)
            self._users[name] = pid

    def _let_go(self, name: str) -> None:
        """Let others use a slot; forget all of one that is not there any more, or did not come to be."""
        with self._released:
            del self._users[name]
            self._released_at[name] = now()
            if not any(map(is_slot, self._paths(name))):
                self._owners.pop(name, None)
                del self._released_at[name]
            self._released.notify_all()

    def _other_user(self, name: str, pid: int) -> int | None:
        """Return the number of the session that a slot must be waited for; None if it can be used."""
        owner = self._owners.get(name)
        return self._users.get(name, None if owner == pid else owner)


@contextmanager
def _open(path: Path) -> Iterator[OpenSlot]:
    """Open a slot that no session here uses; another process may."""
    with ExitStack() as stack:
        try:
            opened = stack.enter_context(open_slot(path, may_be_invalid=True))
        except SlotInUseError as error:
            raise SessionError(error.message, sqlstate=OBJECT_IN_USE) from None
        yield opened


def _in_use(name: str, pid: int) -> SessionError:
    return SessionError(f'replication slot "{name}" is active for PID {pid}', sqlstate=OBJECT_IN_USE)
