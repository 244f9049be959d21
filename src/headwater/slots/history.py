"""The history of the WAL that is served, which changes where a server is promoted: what is off it is told of.

A position is a timeline and an LSN. It is off the history where the log has left that timeline before the LSN, as what
came then has not happened. A server never follows such a switch: its recovery goes on with the old timeline.

PostgreSQL: tliOfPointInHistory, tliSwitchPoint (timeline.c), StartReplication (walsender.c), rescanLatestTimeLine
(xlogrecovery.c).
"""

from __future__ import annotations

from dataclasses import dataclass

from headwater.errors import OffHistoryError
from headwater.pg.lsn import lsn_text
from headwater.pg.version import VERSIONS
from headwater.reorder.commits.state import State
from headwater.wal.segments.directory import WalDirectory


@dataclass(frozen=True, order=True)
class Position:
    """A position in the log: of two the later one is on the newer timeline."""

    timeline: int
    lsn: int

    def is_of(self, directory: WalDirectory) -> bool:
        """Tell whether a history has it."""
        return directory.has_been_at(self.timeline, self.lsn)


def position_of_state(state: State) -> Position:
    """Return where a state is."""
    return Position(state.timeline, state.lsn)


def is_of_history(state: State, directory: WalDirectory) -> bool:
    """Tell whether a history has the place of a state."""
    return position_of_state(state).is_of(directory)


def position_in(directory: WalDirectory, lsn: int) -> Position:
    """Return where a history is at an LSN."""
    return Position(directory.timeline_at(lsn), lsn)


def off_history(directory: WalDirectory, position: Position) -> OffHistoryError:
    """Return the server's error for a position that a history does not have."""
    error = _error(directory, position)
    error.timeline = position.timeline
    return error


def _error(directory: WalDirectory, position: Position) -> OffHistoryError:
    version, lineage = VERSIONS[directory.major], dict(directory.lineage)
    left = lineage.get(position.timeline)
    if left is None:
        return OffHistoryError(f"requested timeline {position.timeline} is not in this server's history")
    place = lsn_text(position.lsn, version)
    return OffHistoryError(
        f"requested starting point {place} on timeline {position.timeline} is not in this server's history",
        detail=f"This server's history forked from timeline {position.timeline} at {lsn_text(left, version)}.",
    )


def check_of_history(directory: WalDirectory, position: Position) -> None:
    """Check that a history has a position.

    Raises:
        OffHistoryError: it does not.
    """
    if not position.is_of(directory):
        raise off_history(directory, position)
