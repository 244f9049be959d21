"""The common progress of all tables of a target: the state after it, and the line in the log that records it.

::

    resolved.jsonl      see headwater.lakes.resolved_log
    states/….state      the state behind the last window that all tables have
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

from headwater.lakes.lake_table import errors_at
from headwater.lakes.open_tables import OpenTables
from headwater.lakes.paused import PausedTables, stand_at
from headwater.lakes.resolved_log import ResolvedLog
from headwater.lakes.stores.places import Where
from headwater.lakes.stores.states import keep_state_in, newest_state, remove_states
from headwater.slots.kept_state import KeptState

_STATE_BYTES = 1 << 20
"""No segment of WAL is smaller."""


class LandedProgress:
    """The progress of a target, as who lands writes it.

    Methods raise SlotError or LakeError where that fails.

    Args:
        states: the directory of the target's states; log: its log.
        tables: those that the run has open; paused: those that land no further.
    """

    def __init__(self, states: Where, log: ResolvedLog, tables: OpenTables, paused: PausedTables) -> None:
        self._states, self._log, self._tables, self._paused = states, log, tables, paused
        self._unwritten: KeptState | None = None
        self._latest: datetime | None = None
        # Nothing is written yet: an earlier run may have committed and been killed before it wrote its state.
        self._written_lsn, self._written_commits = -1, -1

    def kept_state(self) -> KeptState | None:
        """Return the state where the last run has come to; None for none.

        Raises:
            SlotError: it is damaged.
        """
        return newest_state(self._states)

    def resolve(self, kept_state: KeptState, commit_time: datetime | None) -> None:
        """Note that all tables have everything up to a state.

        It is written if any table has got something since the one that was written, or when it is a little further on:
        so a run that is begun again finds no table that is further than one window, and needs no WAL of long ago.

        Where one has more, which an earlier run has landed that was to go further and was ended, they do not belong
        together yet: a later window says so.

        Args:
            kept_state: where they are; commit_time: the latest since the call before, if that is known.
        """
        self._unwritten = kept_state
        self._latest = max((time for time in (self._latest, commit_time) if time is not None), default=None)
        has_committed = self._tables.commits != self._written_commits
        if has_committed or kept_state.state.lsn // _STATE_BYTES != self._written_lsn // _STATE_BYTES:
            self.write_state()

    def write_state(self) -> None:
        """Write the state where the run has come to, unless it is written."""
        if self._unwritten is None:
            return
        kept_state = self._unwritten
        self._note(kept_state.state.lsn, self._latest)
        keep_state_in(self._states, kept_state)
        self._unwritten = None
        self._written_lsn, self._written_commits = kept_state.state.lsn, self._tables.commits
        with errors_at(self._states):
            remove_states(self._states, [kept_state.state.lsn])

    def note_resolved(self, lsn: int, commit_time: datetime | None) -> None:
        """Note that all tables have everything up to an LSN, where no state says how to go on from there.

        Args:
            lsn: it; commit_time: the latest since the call before, if that is known.
        """
        self._note(lsn, commit_time)

    def note_versions(self) -> None:
        """Note that open tables have other versions of what they had: their files were rewritten."""
        if self._log.last.tables:
            self._note(self._log.last.lsn, None)

    def note_added(self, lsn: int) -> None:
        """Note that tables were added as they were at an LSN, to where all others have come."""
        self._note(lsn, None)

    def note_resumed(self, lsn: int, oids: Iterable[int]) -> None:
        """Note that paused tables have come to an LSN, to where all others have come: they land again."""
        resumed = set(oids)
        self._note(lsn, None, stand_at(table for oid, table in self._paused.tables.items() if oid not in resumed))
        self._paused.remove(resumed)

    def _note(self, lsn: int, commit_time: datetime | None, paused: Mapping[str, int] | None = None) -> None:
        versions = self._tables.versions_at(lsn)
        if versions is not None:
            self._log.add(lsn, commit_time, versions, self._paused.stand_at if paused is None else paused)
