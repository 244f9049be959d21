"""Commits that exist only on a timeline that the history has left: counted, and reported.

After a failover the old primary may have gone on for a while, and its WAL may be in the archive, too. What committed
there is not part of the history that is read; who looks for lost rows wants to know that there are some. Costs nothing
where there is no such WAL after the switch point, and is bounded where there is (MOST_BYTES).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headwater.errors import WalError, warn
from headwater.option_names import option, ways
from headwater.pg.lsn import Lsn
from headwater.rmgr.outline import RecordChoice, outline
from headwater.rmgr.registry import XACT
from headwater.rmgr.xact import COMMIT, COMMIT_PREPARED, OPMASK
from headwater.wal.records.stretches import read_stretches
from headwater.wal.segments.directory import AbandonedTimeline, WalDirectory

MOST_BYTES = 256 << 20
"""WAL of an abandoned timeline that is gone through."""


@dataclass(frozen=True)
class LostCommits:
    """Commits of an abandoned timeline, of all databases.

    Attributes:
        timeline: it.
        left: LSN where the history left it.
        count: how many there are.
        first, last: LSNs of the first and the last commit record, 0 if there is none.
        is_all: that is all there is.
        failure: why the rest could not be read, None if it could.
    """

    timeline: int
    left: int
    count: int
    first: int
    last: int
    is_all: bool
    failure: str | None = None


_told: set[tuple[object, int, int]] = set()
"""Timelines that this process has reported: where they lie, and where they were left."""


def warn_of_abandoned(directory: WalDirectory, lo: int, hi: int, goes_on: bool = False) -> None:
    """Warn of commits that only abandoned timelines have.

    Args:
        directory: the WAL.
        lo, hi: LSNs that what was asked for begins and ends at; timelines that were left elsewhere are not its concern.
            What was read may end where one was left: of the timeline that follows there may be no WAL yet.
        goes_on: a session before, maybe of this process, has ended at ``lo``: what it has reported is not reported
            again.
    """
    for abandoned in directory.abandoned:
        key = directory.places, abandoned.timeline, abandoned.left
        if lo <= abandoned.left < hi and not (goes_on and key in _told):
            commits = lost_commits(abandoned)
            if commits.count or commits.failure:
                _told.add(key)
                _warn(commits)


def lost_commits(abandoned: AbandonedTimeline) -> LostCommits:
    """Count the commits of an abandoned timeline; where its WAL cannot be read, those well before."""
    wal = abandoned.directory
    lo = max(abandoned.left, wal.start_lsn)
    hi = min(wal.stop_lsn, lo + MOST_BYTES)
    lsns: list[int] = []
    failure: str | None = None
    try:
        for _, _, frames in read_stretches(wal, lo, hi):
            records = outline(frames, wal.segment_size, wal.major, RecordChoice(managers=frozenset({XACT})))
            is_commit = records.is_chosen & np.isin(records.info & OPMASK, (COMMIT, COMMIT_PREPARED))
            lsns += frames.lsns[is_commit & ((records.xid != 0) | (records.info & OPMASK == COMMIT_PREPARED))].tolist()
    except WalError as error:
        failure = error.one_line()
    first, last = (lsns[0], lsns[-1]) if lsns else (0, 0)
    is_all = failure is None and hi == wal.stop_lsn
    return LostCommits(abandoned.timeline, abandoned.left, len(lsns), first, last, is_all, failure)


def _warn(commits: LostCommits) -> None:
    where = f"timeline {commits.timeline}, which was left at {Lsn(commits.left)}"
    if not commits.count:
        warn(f"whether anything committed on {where}, cannot be told: {commits.failure}")
        return
    some = "1 transaction" if commits.count == 1 else f"{commits.count} transactions"
    place = f"at {Lsn(commits.first)}" if commits.count == 1 else f"from {Lsn(commits.first)} to {Lsn(commits.last)}"
    warn(
        f"{'' if commits.is_all else 'at least '}{some} that committed {place} on {where}, "
        f"{'is' if commits.count == 1 else 'are'} not part of the history that is read",
        hint=ways(
            f"see what they did with {option('timeline', commits.timeline)} and {option('start', Lsn(commits.left))}",
            f"headwater decode tells what they did with --timeline {commits.timeline} --start {Lsn(commits.left)}",
        ),
    )
