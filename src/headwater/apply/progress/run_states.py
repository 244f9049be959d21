"""A subscription's fate on the target: whether it is disabled, by which error, and which transaction is to be skipped.

By name, as a subscription over WAL has no other row. Whoever may write the schema ``headwater`` may disable, enable and
skip: a run reads it when a session begins.

PostgreSQL: pg_subscription.subenabled and subskiplsn, worker.c (DisableSubscriptionAndExit,
clear_subscription_skip_lsn), subscriptioncmds.c (ALTER SUBSCRIPTION ... SKIP).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from headwater.apply.target.connection import Bound, Statement, TargetConnection
from headwater.errors import ServerError, TargetError
from headwater.pg.lsn import Lsn, lsn_text
from headwater.pg.version import VERSIONS

TABLES = (
    """
    CREATE TABLE IF NOT EXISTS headwater.subscription_run (
        subname text PRIMARY KEY,
        subenabled bool NOT NULL DEFAULT true,
        subskiplsn pg_lsn,
        sqlstate text,
        message text,
        detail text,
        context text,
        remote_xid int8,
        finish_lsn pg_lsn,
        failed_at timestamptz
    )
    """,
)
"""What the schema ``headwater`` needs for it."""

_IS_THERE = "SELECT pg_catalog.to_regclass('headwater.subscription_run') IS NOT NULL"
_READ = """
SELECT subenabled, subskiplsn, sqlstate, message, detail, context, remote_xid, finish_lsn, failed_at::text
FROM headwater.subscription_run WHERE subname = $1
"""
_DISABLE = """
INSERT INTO headwater.subscription_run AS run (subname, subenabled, sqlstate, message, detail, context, remote_xid,
    finish_lsn, failed_at)
VALUES ($1, false, $2, $3, $4, $5, $6::int8, $7::pg_lsn, pg_catalog.clock_timestamp())
ON CONFLICT (subname) DO UPDATE SET subenabled = false, sqlstate = excluded.sqlstate, message = excluded.message,
    detail = excluded.detail, context = excluded.context, remote_xid = excluded.remote_xid,
    finish_lsn = excluded.finish_lsn, failed_at = excluded.failed_at
"""
_DISABLE_BY_HAND = """
INSERT INTO headwater.subscription_run (subname, subenabled) VALUES ($1, false)
ON CONFLICT (subname) DO UPDATE SET subenabled = false
"""
_REMOVE = tuple(
    f"DELETE FROM headwater.{table} WHERE subname = $1"
    for table in ("subscription_run", "subscription_stats", "subscription_origin", "subscription_node", "applied_ahead")
)
_ENABLE = """
UPDATE headwater.subscription_run SET subenabled = true, sqlstate = NULL, message = NULL, detail = NULL,
    context = NULL, remote_xid = NULL, finish_lsn = NULL, failed_at = NULL
WHERE subname = $1
"""
_SKIP = """
INSERT INTO headwater.subscription_run (subname, subskiplsn) VALUES ($1, $2::pg_lsn)
ON CONFLICT (subname) DO UPDATE SET subskiplsn = excluded.subskiplsn
"""
_CLEAR = Statement("""
UPDATE headwater.subscription_run SET subskiplsn = NULL
WHERE subname = $1 AND subskiplsn OPERATOR(pg_catalog.=) $2::pg_lsn
""")
_PLACE = re.compile(r" in transaction (\d+)(?:, finished at ([0-9A-F]+/[0-9A-F]+))?")


@dataclass(frozen=True)
class Failure:
    """The error that a subscription was disabled by.

    Attributes:
        message, sqlstate, detail, context: as of :class:`headwater.errors.TargetError`.
        xid: of the source's transaction; finish_lsn: that it is finished at, which names it for skipping.
        at: when it failed, as the target prints it; empty if that is not known yet.
    """

    message: str
    sqlstate: str | None = None
    detail: str | None = None
    context: str | None = None
    xid: int | None = None
    finish_lsn: int | None = None
    at: str = ""

    @classmethod
    def of(cls, error: ServerError) -> Failure:
        """Take an error; its context names the transaction."""
        if not isinstance(error, TargetError):
            return cls(error.message, error.sqlstate)
        place = _PLACE.search(error.context or "")
        xid = int(place[1]) if place else None
        lsn = int(Lsn.parse(place[2])) if place and place[2] else None
        return cls(error.message, error.sqlstate, error.detail, error.context, xid, lsn)


@dataclass(frozen=True)
class RunState:
    """The fate of a subscription.

    Attributes:
        is_enabled: it may be applied; failure: what has disabled it, None if nothing has, or somebody did by hand.
        skip_lsn: finish LSN of the transaction that is to be skipped, 0 for none.
    """

    is_enabled: bool = True
    failure: Failure | None = None
    skip_lsn: int = 0


def read_run_state(connection: TargetConnection, name: str) -> RunState:
    """Read the fate of a subscription; one that nothing is known of is enabled."""
    if connection.rows(_IS_THERE) != [("t",)]:
        return RunState()
    rows = connection.rows(_READ, (name,))
    if not rows:
        return RunState()
    ((is_enabled, skip, sqlstate, message, detail, context, xid, lsn, at),) = rows
    failure = None
    if message is not None:
        place = int(Lsn.parse(lsn)) if lsn else None
        failure = Failure(message, sqlstate, detail, context, int(xid) if xid else None, place, at or "")
    return RunState(is_enabled == "t", failure, int(Lsn.parse(skip)) if skip else 0)


def disable(connection: TargetConnection, name: str, failure: Failure | None = None) -> None:
    """Disable a subscription, because of a failure or by somebody's hand; the schema is there."""
    if failure is None:
        connection.rows(_DISABLE_BY_HAND, (name,))
        return
    xid = None if failure.xid is None else str(failure.xid)
    lsn = None if failure.finish_lsn is None else str(Lsn(failure.finish_lsn))
    connection.rows(_DISABLE, (name, failure.sqlstate, failure.message, failure.detail, failure.context, xid, lsn))


def enable(connection: TargetConnection, name: str) -> None:
    """Enable a subscription; the schema is there."""
    connection.rows(_ENABLE, (name,))


def forget(connection: TargetConnection, name: str) -> None:
    """Forget the fate of a subscription that is dropped; the schema is there."""
    for statement in _REMOVE:
        connection.rows(statement, (name,))


def set_skip(connection: TargetConnection, name: str, lsn: int, reached: int) -> None:
    """Set which transaction is to be skipped; the schema is there.

    Args:
        connection: the target's; name: the subscription's.
        lsn: the transaction's finish LSN; 0 for none.
        reached: LSN of the source before which all is applied.

    Raises:
        TargetError: the transaction is applied already (22023).
    """
    if lsn and lsn < reached:
        printed = [lsn_text(place, VERSIONS[connection.major]) for place in (lsn, reached)]
        text = f"skip WAL location (LSN {printed[0]}) must be greater than origin LSN {printed[1]}"
        raise TargetError(text, sqlstate="22023")
    connection.rows(_SKIP, (name, str(Lsn(lsn)) if lsn else None))


def clear_skip(name: str, lsn: int) -> Bound:
    """Return the statement that takes back what is to be skipped, unless it is another transaction by now."""
    return Bound(_CLEAR, (name.encode(), str(Lsn(lsn)).encode()))
