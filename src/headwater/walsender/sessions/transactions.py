"""The transaction of a session: a state, modes, a snapshot, and the settings that it takes back if it fails.

PostgreSQL: xact.c, guc.c (AtEOXact_GUC), snapmgr.c (ImportSnapshot).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Generic, Protocol, TypeVar

from headwater.errors import SessionError
from headwater.pg.sqlstates import ACTIVE_SQL_TRANSACTION, FEATURE_NOT_SUPPORTED
from headwater.pg.version import Version
from headwater.protocol.backend_messages import IDLE, IN_FAILED_TRANSACTION, IN_TRANSACTION, Report
from headwater.walsender.queries.prepared import Outcome
from headwater.walsender.queries.session_statements import (
    Begin,
    End,
    ImportSnapshot,
    Modes,
    ResetAll,
    Savepoint,
    SessionStatement,
    SetModes,
    SetSetting,
)
from headwater.walsender.sessions.held import Held
from headwater.walsender.sessions.session_settings import ClientSettings, SavedSettings

NO_TRANSACTION = "25P01"
_INVALID_SAVEPOINT = "3B001"
_REPEATABLE = ("repeatable read", "serializable")


class Snapshot(Protocol):
    """A snapshot that a transaction reads by."""

    def close(self) -> None:
        """Let go of it."""


S = TypeVar("S", bound=Snapshot)


class Transaction(Generic[S]):
    """The transaction of a session.

    Args:
        settings: of the session.
        imported: gives a snapshot that another session has exported, by its name.
        now: tells the time: microseconds since 2000-01-01.

    Attributes:
        status: as ReadyForQuery has it.
        snapshot: what it reads by; None for the present. held: what it holds open to read by it.
        has_ended: the statement that was run last has ended it.
    """

    def __init__(self, settings: ClientSettings, imported: Callable[[str], S], now: Callable[[], int]) -> None:
        self._settings, self._imported, self._now = settings, imported, now
        self.status = IDLE
        self.snapshot: S | None = None
        self.held = Held()
        self.has_ended = False
        self._modes = Modes()
        self._has_read = False
        self._began: int | None = None
        self._saved: SavedSettings | None = None
        self._local: SavedSettings | None = None
        self._savepoints: list[tuple[str, SavedSettings]] = []

    @property
    def started(self) -> int:
        """When it began: microseconds since 2000-01-01; of none, now."""
        if self._began is None:
            self._began = self._now()
        return self._began

    @property
    def block_started(self) -> int | None:
        """When the block began; None outside of one."""
        return None if self.status == IDLE else self.started

    @property
    def wants_snapshot(self) -> bool:
        """Whether the next that is read decides what all of it reads by."""
        return self.status == IN_TRANSACTION and self.snapshot is None and self._is_repeatable

    def note_read(self) -> None:
        """Note that something was read."""
        self._has_read = True

    def shown(self, name: str) -> str | None:
        """Return a setting that the transaction has; None for any other."""
        values = {
            "transaction_isolation": self._modes.isolation,
            "transaction_read_only": self._modes.is_read_only,
            "transaction_deferrable": self._modes.is_deferrable,
        }
        value = values.get(name.lower())
        default = f"default_{name.lower()}"
        if name.lower() in values and value is None:
            return self._settings.show(default)[1]
        return value if value is None or isinstance(value, str) else "on" if value else "off"

    def run(self, own: SessionStatement) -> Outcome:
        """Do a statement about the transaction, or about settings.

        Raises:
            SessionError: as the server says.
        """
        self.has_ended = False
        if isinstance(own, Begin):
            return self._begin(own)
        if isinstance(own, End):
            return self._finish(own)
        if isinstance(own, Savepoint):
            return self._savepoint(own)
        if isinstance(own, SetModes):
            return self._set_modes(own)
        if isinstance(own, ImportSnapshot):
            return self._import_snapshot(own.name)
        if isinstance(own, SetSetting):
            self.set(own.name, own.value, own.is_local)
            return Outcome(own.tag)
        assert isinstance(own, ResetAll)
        self._keep()
        self._settings.restore(self._settings.initial)
        return Outcome("RESET")

    def set(self, name: str, value: str | None, is_local: bool) -> None:
        """Change a setting; None for its default."""
        self._keep()
        if is_local and self.status == IDLE:
            return
        if is_local and self._local is None:
            self._local = self._settings.saved()
        if value is None:
            self._settings.reset(name)
        else:
            self._settings.set(name, value)
            if self._local is not None and not is_local:
                self._carry(name)

    def _carry(self, name: str) -> None:
        """Let a setting that is not local outlive the local ones."""
        assert self._local is not None
        for before, after in zip(self._local, self._settings.saved(), strict=True):
            if name.lower() in after:
                before[name.lower()] = after[name.lower()]

    def _keep(self) -> None:
        """Keep the settings as they were when the transaction began."""
        if self._saved is None:
            self._saved = self._settings.saved()

    def _begin(self, own: Begin) -> Outcome:
        if self.status == IN_TRANSACTION:
            warning = Report("WARNING", "25001", "there is already a transaction in progress")
            return Outcome(own.tag, before=warning.as_bytes())
        self.status, self._modes, self._has_read = IN_TRANSACTION, own.modes, False
        self._began = self._now()
        return Outcome(own.tag)

    def _finish(self, own: End) -> Outcome:
        commits = own.commits and self.status != IN_FAILED_TRANSACTION
        tag = "COMMIT" if commits else "ROLLBACK"
        if self.status == IDLE:
            if own.chains:
                word = "COMMIT" if own.commits else "ROLLBACK"
                raise SessionError(f"{word} AND CHAIN can only be used in transaction blocks", sqlstate=NO_TRANSACTION)
            warning = Report("WARNING", NO_TRANSACTION, "there is no transaction in progress")
            return Outcome(tag, before=warning.as_bytes())
        modes = self._modes
        self._end(commits=commits)
        if own.chains:
            self._begin(Begin("BEGIN", modes))
        return Outcome(tag)

    def _end(self, *, commits: bool) -> None:
        if not commits and self._saved is not None:
            self._settings.restore(self._saved)
        elif self._local is not None:
            self._settings.restore(self._local)
        self.status, self._modes, self._has_read, self.has_ended = IDLE, Modes(), False, True
        self._saved = self._local = self._began = None
        self._savepoints.clear()
        self.close()

    def fail(self) -> None:
        """Note that a statement has failed."""
        if self.status == IN_TRANSACTION:
            self.status = IN_FAILED_TRANSACTION
        elif self.status == IDLE:
            self._end(commits=False)

    def end_implicit(self) -> None:
        """End a transaction that no statement has begun."""
        self._end(commits=True)

    def _savepoint(self, own: Savepoint) -> Outcome:
        if self.status == IDLE:
            word = "RELEASE SAVEPOINT" if own.word == "RELEASE" else own.word
            word = "ROLLBACK TO SAVEPOINT" if own.word == "ROLLBACK TO" else word
            raise SessionError(f"{word} can only be used in transaction blocks", sqlstate=NO_TRANSACTION)
        if own.word == "SAVEPOINT":
            self._keep()
            self._savepoints.append((own.name, self._settings.saved()))
            return Outcome("SAVEPOINT")
        names = [name for name, _ in self._savepoints]
        if own.name not in names:
            raise SessionError(f'savepoint "{own.name}" does not exist', sqlstate=_INVALID_SAVEPOINT)
        place = len(names) - 1 - names[::-1].index(own.name)
        if own.word == "RELEASE":
            del self._savepoints[place:]
            return Outcome("RELEASE")
        del self._savepoints[place + 1 :]
        self._settings.restore(self._savepoints[place][1])
        self.status = IN_TRANSACTION
        return Outcome("ROLLBACK")

    def _set_modes(self, own: SetModes) -> Outcome:
        modes = own.modes
        if own.is_of_session:
            for name, value in _shown(modes):
                self.set(f"default_transaction_{name}", value, is_local=False)
            return Outcome("SET")
        if self.status == IDLE:
            warning = Report("WARNING", NO_TRANSACTION, "SET TRANSACTION can only be used in transaction blocks")
            return Outcome("SET", before=warning.as_bytes())
        if modes.isolation is not None and self._has_read and modes.isolation != self._isolation:
            raise SessionError(
                "SET TRANSACTION ISOLATION LEVEL must be called before any query", sqlstate=ACTIVE_SQL_TRANSACTION
            )
        given = {name: value for name, value in vars(modes).items() if value is not None}
        self._modes = replace(self._modes, **given)
        return Outcome("SET")

    @property
    def _isolation(self) -> str:
        return self._modes.isolation or self._settings.show("default_transaction_isolation")[1]

    @property
    def _is_repeatable(self) -> bool:
        return self._isolation in _REPEATABLE

    def _import_snapshot(self, name: str) -> Outcome:
        """Let the transaction read by a snapshot that another session has exported."""
        if self.snapshot is not None or self._has_read:
            raise SessionError(
                "SET TRANSACTION SNAPSHOT must be called before any query", sqlstate=ACTIVE_SQL_TRANSACTION
            )
        if self.status == IDLE or not self._is_repeatable:
            raise SessionError(
                "a snapshot-importing transaction must have isolation level SERIALIZABLE or REPEATABLE READ",
                sqlstate=FEATURE_NOT_SUPPORTED,
            )
        self.snapshot = self._imported(name)
        return Outcome("SET")

    def check_uses_snapshot(self, words: str, version: Version) -> None:
        """Check that it can take the snapshot of a slot that is made in it.

        Raises:
            SessionError: it cannot.
        """
        if self.status == IDLE:
            raise SessionError(f"{words} must be called inside a transaction")
        if not self._is_repeatable:
            raise SessionError(f"{words} must be called in REPEATABLE READ isolation mode transaction")
        if version.wants_read_only_snapshots and not self._modes.is_read_only:
            raise SessionError(f"{words} must be called in a read-only transaction")
        if self._has_read:
            raise SessionError(f"{words} must be called before any query")

    def close(self) -> None:
        """Let go of the snapshot, if there is one."""
        self.held.close()
        snapshot, self.snapshot = self.snapshot, None
        if snapshot is not None:
            snapshot.close()


def _shown(modes: Modes) -> list[tuple[str, str]]:
    pairs = [("isolation", modes.isolation), ("read_only", modes.is_read_only), ("deferrable", modes.is_deferrable)]
    return [
        (name, value if isinstance(value, str) else "on" if value else "off")
        for name, value in pairs
        if value is not None
    ]
