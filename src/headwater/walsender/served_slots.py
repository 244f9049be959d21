"""The slots that are served: directories beside each other, each used by one session at a time.

The rules of names, and the words of what is refused, are the server's (slot.c). A temporary slot has a directory whose
name no slot can have, so that what a killed process has left is known.

Known gap: slots that other processes make in the directory do not count beside the limit until they are there.
"""

from __future__ import annotations

import re
import shutil
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from headwater.base.system_errors import errors_as
from headwater.errors import SessionError, SlotError, SlotInUseError
from headwater.pg.sqlstates import (
    CONFIGURATION_LIMIT_EXCEEDED,
    DUPLICATE_OBJECT,
    INVALID_NAME,
    NAME_TOO_LONG,
    OBJECT_IN_USE,
    UNDEFINED_OBJECT,
)
from headwater.protocol.startup import MOST_NAME_BYTES
from headwater.slots.slot import Slot
from headwater.slots.slot_directory import OpenSlot, create_slot, is_slot, open_slot, read_slot
from headwater.walsender.sessions.clock import now

_VALID = re.compile(r"[a-z0-9_]+")
_TEMPORARY = ".temporary"


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


class ServedSlots:
    """The slots of a directory.

    Args:
        directory: it; made if it is missing.
        most: how many there may be.
        limit_name: what the setting of that is called in a hint.

    Raises:
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
        with errors_as(SlotError, "make directory", directory):
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            for left in directory.glob(f"*{_TEMPORARY}"):
                shutil.rmtree(left)

    def names(self) -> list[str]:
        """List the names of all slots."""
        paths = [path for path in self._directory.iterdir() if is_slot(path)]
        return sorted(path.name.removesuffix(_TEMPORARY) for path in paths)

    def pid_of(self, name: str) -> int | None:
        """Return the number of the session that uses a slot, or owns it; None if none does."""
        return self._users.get(name, self._owners.get(name))

    def give(self, name: str, pid: int) -> None:
        """Let a temporary slot be a session's own: no other one can use it."""
        with self._lock:
            self._owners[name] = pid

    def inactive_since(self, name: str) -> int:
        """Return when a slot was let go of last: microseconds since 2000-01-01; when the service began, if never."""
        return self._released_at.get(name, self._began)

    def read(self, name: str) -> Slot:
        """Return a slot as it is in its file.

        Raises:
            SessionError: there is none of this name.
        """
        return read_slot(self._path(name))

    def is_temporary(self, name: str) -> bool:
        """Tell whether a slot goes with the session that made it."""
        return self._path(name).suffix == _TEMPORARY

    def check_new(self, name: str) -> None:
        """Check that a slot of this name can be made.

        Raises:
            SessionError: it cannot.
        """
        check_slot_name(name)
        if is_slot(self._directory / name) or is_slot(self._directory / f"{name}{_TEMPORARY}"):
            raise SessionError(f'replication slot "{name}" already exists', sqlstate=DUPLICATE_OBJECT)
        if len(self.names()) >= self.most:
            raise SessionError(
                "all replication slots are in use",
                sqlstate=CONFIGURATION_LIMIT_EXCEEDED,
                hint=f"Free one or increase {self._limit_name}.",
            )

    def create(self, name: str, slot: Slot, is_temporary: bool) -> None:
        """Make a slot.

        Raises:
            SessionError: there is one; SlotError: it cannot be written.
        """
        with self._lock:
            self.check_new(name)
            self._released_at[name] = now()
            create_slot(self._directory / (f"{name}{_TEMPORARY}" if is_temporary else name), slot)

    @contextmanager
    def used(self, name: str, pid: int, waits: bool = False) -> Iterator[OpenSlot]:
        """Use a slot, alone, for as long as the ``with`` block lasts.

        Args:
            name: its name.
            pid: the number of the session that uses it.
            waits: until another session has let go of it.

        Raises:
            SessionError: there is none, or it is used.
        """
        path = self._path(name)
        self._take(name, pid, waits)
        try:
            with _open(path) as opened:
                yield opened
        finally:
            with self._released:
                del self._users[name]
                self._released_at[name] = now()
                self._released.notify_all()

    def drop(self, name: str, pid: int, waits: bool) -> None:
        """Remove a slot.

        Raises:
            SessionError: there is none, or it is used.
        """
        with self.used(name, pid, waits) as opened:
            opened.drop()
            self._owners.pop(name, None)

    def _path(self, name: str) -> Path:
        """Return a slot's directory."""
        for path in (self._directory / name, self._directory / f"{name}{_TEMPORARY}"):
            if _VALID.fullmatch(name) is not None and is_slot(path):
                return path
        raise SessionError(f'replication slot "{name}" does not exist', sqlstate=UNDEFINED_OBJECT)

    def _take(self, name: str, pid: int, waits: bool) -> None:
        with self._released:
            if waits:
                self._released.wait_for(lambda: self._other_user(name, pid) is None)
            other = self._other_user(name, pid)
            if other is not None:
                raise _in_use(name, other)
            self._users[name] = pid

    def _other_user(self, name: str, pid: int) -> int | None:
        """Return the number of the session that a slot must be waited for; None if it can be used."""
        owner = self._owners.get(name)
        return self._users.get(name, None if owner == pid else owner)


@contextmanager
def _open(path: Path) -> Iterator[OpenSlot]:
    """Open a slot that no session here uses; another process may."""
    with ExitStack() as stack:
        try:
            opened = stack.enter_context(open_slot(path, patience=0))
        except SlotInUseError as error:
            raise SessionError(error.message, sqlstate=OBJECT_IN_USE) from None
        yield opened


def _in_use(name: str, pid: int) -> SessionError:
    return SessionError(f'replication slot "{name}" is active for PID {pid}', sqlstate=OBJECT_IN_USE)
