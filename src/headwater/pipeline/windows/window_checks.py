"""Checks of a window of WAL: whether all in it can be decoded, and what is wanted of it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from headwater.errors import WalError, warn
from headwater.option_names import option, ways
from headwater.pg.lsn import Lsn
from headwater.reorder.commits.control import Control, Followed
from headwater.reorder.commits.wal_levels import LevelGap
from headwater.rmgr.index.wal_index import WalIndex
from headwater.rmgr.registry import FIRST_CUSTOM
from headwater.rmgr.xlog import WAL_LEVELS
from headwater.wal.layout import LONG_HEADER

Int64s = NDArray[np.int64]


def check_window(index: WalIndex, followed: Followed, start: int | None) -> None:
    """Check that a window can be decoded.

    Args:
        index: of the window; followed: what its records say.
        start: WAL after this LSN must not have been written while wal_level was too low; None if it may.

    Raises:
        WalError: wal_level was too low.
    """
    _check_minimal(index, followed)
    if start is None:
        return
    for gap in followed.gaps:
        if (index.hi if gap.hi is None else gap.hi) <= start:
            continue
        behind = "and what follows cannot be decoded"
        if gap.hi is not None:
            behind = f"and what follows up to {Lsn(gap.hi)} cannot be decoded"
        raise WalError(
            f"wal_level fell to {level_name(gap.level)}, expected logical, {behind}",
            lsn=gap.lo,
            hint=ways(
                f"leave it out with {option('on-level-gap', 'skip')}",
                f"end the window at that point with {option('end', Lsn(gap.lo))}",
            ),
        )


def level_name(level: int) -> str:
    """Return the name of a wal_level."""
    return WAL_LEVELS[max(0, min(level, 2))]


def warn_of_custom_records(custom: Int64s) -> None:
    """Warn of records that are passed over.

    Args:
        custom: int64[128] number of records of each custom resource manager.
    """
    for number in np.flatnonzero(custom).tolist():
        warn(
            f"{custom[number]} records of custom resource manager {FIRST_CUSTOM + number} are passed over",
            hint="what the extension that wrote them changed in its own storage is not decoded",
        )


def check_consistent(control: Control, lo: int, hi: int) -> int:
    """Check that decoding could begin in what was read.

    Args:
        control: the state of control records at the end of it.
        lo: where it begins; hi: where it ends.

    Returns:
        LSN of the consistent point.

    Raises:
        WalError: it could not.
    """
    if control.builder.consistent_at is not None:
        return control.builder.consistent_at
    if not control.is_high_enough:
        needed = level_name(control.needed)
        raise WalError(
            f"the server ran with wal_level = {level_name(control.wal_level)}, expected {needed}, up to {Lsn(hi)}",
            lsn=lo,
            hint=f"set wal_level = {needed}, restart the server and take a new base backup",
        )
    raise WalError(
        f"no consistent point between {Lsn(lo)} and {Lsn(hi)}: {_what_ran(control)} had not all ended",
        lsn=lo,
        hint="give more WAL, or a backup taken while no long transaction runs",
    )


def _what_ran(control: Control) -> str:
    open_ones = [str(prepared) for prepared in control.prepared]
    names = f", among them {' and '.join(open_ones)}," if open_ones else ""
    return f"transactions that ran when the catalog was taken{names}"


def warn_of_late_start(control: Control, start_lsn: int, commits: Int64s) -> None:
    """Warn that transactions are left out because decoding could not begin early enough for them.

    Args:
        control: when decoding could begin.
        start_lsn: where the catalog was taken.
        commits: int64[n] where transactions committed that were wanted, in order.
    """
    if not len(commits):
        return
    point = Lsn(control.builder.consistent_at or 0)
    warn(
        f"{_left_out(commits)}: the consistent point is {point}, as {' and '.join(_reasons(control, start_lsn))}",
        hint="to have them, use a backup from before them, taken while no long transaction ran",
    )


def warn_of_gap(gap: LevelGap, commits: Int64s, end: int) -> None:
    """Warn of WAL that could not be decoded, though decoding had begun before it.

    Args:
        gap: it.
        commits: int64[n] where transactions committed in it that were wanted, in order.
        end: LSN where the WAL ends that was read.
    """
    which = f"{_left_out(commits)}; " if len(commits) else ""
    again = f"the end of what was read, {Lsn(end)}" if gap.hi is None else f"{Lsn(gap.hi)}, where decoding begins again"
    warn(f"{which}wal_level was {level_name(gap.level)} from {Lsn(gap.lo)} to {again}")


def warn_of_short_wal(hi: int, start: int | None, end: int | None) -> None:
    """Warn that the WAL does not go as far as was asked: who goes on at the end that he named would miss the rest.

    Args:
        hi: LSN where the WAL ends.
        start, end: what was asked for; an end may lie after the header of the page that would follow.
    """
    if start is not None and start - hi > LONG_HEADER:
        warn(f"the WAL ends at {Lsn(hi)}, before the start {Lsn(start)}: nothing was decoded")
    elif end is not None and end - hi > LONG_HEADER:
        warn(f"the WAL ends at {Lsn(hi)}, before the end {Lsn(end)}", hint=f"go on from {Lsn(hi)}")


def warn_of_replica_level(lo: int, hi: int) -> None:
    """Warn of what WAL of wal_level replica that was decoded does not tell.

    Args:
        lo: LSN where the first of it begins; hi: where the last of it ends.
    """
    warn(
        f"WAL from {Lsn(lo)} to {Lsn(hi)} was written with wal_level = replica: not every row is complete, each is "
        "marked, and a TRUNCATE cannot be told"
    )


def warn_of_prepared(control: Control, commits: Int64s) -> None:
    """Warn of transactions of which a part was written while wal_level was too low.

    Args:
        control: when it was raised.
        commits: int64[n] where they committed, in order.
    """
    if len(commits):
        raised = Lsn(control.raised or 0)
        warn(f"{_left_out(commits)}: prepared before {raised}, where wal_level was raised to logical")


def warn_of_waiting(control: Control, commits: Int64s) -> None:
    """Warn of transactions after a gap where decoding could not begin again up to the end of the WAL.

    Args:
        control: at that end.
        commits: int64[n] where they committed, in order.
    """
    if len(commits):
        raised = Lsn(control.raised or 0)
        warn(f"{_left_out(commits)}: transactions that ran at {raised}, where wal_level was raised, had not all ended")


def _left_out(commits: Int64s) -> str:
    first, last = Lsn(int(commits[0])), Lsn(int(commits[-1]))
    if len(commits) == 1:
        return f"1 transaction that committed at {first} is left out"
    return f"{len(commits)} transactions that committed from {first} to {last} are left out"


def _reasons(control: Control, start_lsn: int) -> Iterator[str]:
    """Give the reasons why the consistent point lies after the catalog's LSN."""
    has_reason = False
    for transaction, lsn in control.ended:
        if lsn > start_lsn:
            has_reason = True
            yield f"{transaction} had begun before the catalog was taken and ended at {Lsn(lsn)}"
    if control.raised is not None:
        has_reason = True
        yield f"wal_level was below logical until {Lsn(control.raised)}"
    if not has_reason:
        yield "transactions that ran when the catalog was taken had to end first"


def _check_minimal(index: WalIndex, followed: Followed) -> None:
    """Refuse WAL of wal_level = minimal: files are written without it, and no catalog can follow.

    Mirrors CheckRequiredParameterValues.
    """
    ends = [*(lsn for lsn, _ in followed.levels[1:]), index.hi]
    for (lo, level), hi in zip(followed.levels, ends, strict=True):
        xids = index.rows.xids
        if level == 0 and ((xids.lsn >= lo) & (xids.lsn < hi)).any():
            raise WalError(
                f"WAL was generated with wal_level = {WAL_LEVELS[0]}, expected logical, and nothing behind it can be "
                f"decoded from here, known so far up to {Lsn(hi)}",
                lsn=lo,
                hint=ways(
                    "take a new base backup after wal_level was raised",
                    f"end the window there with {option('end', Lsn(lo))}",
                ),
            )
