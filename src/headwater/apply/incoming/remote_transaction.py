"""The source's transaction that is being applied."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class RemoteTransaction:
    """The source's transaction that is being applied.

    Attributes:
        xid: its own.
        finish_lsn: START of its commit record, which messages name as where it is finished; None while it still runs.
        time: of its commit, microseconds since 2000; None if it is not known yet.
    """

    xid: int
    finish_lsn: int | None
    time: int | None = None
