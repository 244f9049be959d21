"""The origins of sessions that apply streamed transactions ahead of their end.

Before 19 an origin belongs to a single session, so each of these has its own. Transactions commit in the source's
order, whatever the session: all is applied up to the furthest of a subscription's origins.

Invariant: a place is read while the origin is the session's own, so nobody can commit behind it any more.

PostgreSQL: origin.c (replorigin_session_setup).
"""

from __future__ import annotations

from collections.abc import Sequence

from headwater.apply.progress.origin_progress import read_progress, take_progress
from headwater.apply.progress.origins import (
    Origin,
    advance,
    drop_origin,
    has_origin,
    leave_origin,
    origin_name,
    progress_of,
    use_origin,
)
from headwater.apply.target.connection import TargetConnection

_PART = "P"
"""Names of subscriptions have lower case alone: no other's origin begins so."""
FIRST_OF_UNITS = 2000
"""Number behind which those of sessions begin that apply ordinary transactions at a time."""
_OTHERS = """
SELECT roname, roident FROM pg_catalog.pg_replication_origin
WHERE pg_catalog.starts_with(roname, $1) ORDER BY roident
"""


def parallel_origin_name(subscription: str, number: int) -> str:
    """Return the name of the origin of a session, by the session's number."""
    return origin_name(subscription, f"{_PART}{number}")


def parallel_origins(connection: TargetConnection, subscription: str) -> list[Origin]:
    """Return a subscription's origins but for its main one."""
    rows = connection.rows(_OTHERS, (origin_name(subscription, _PART),))
    return [Origin(str(name), int(str(number))) for name, number in rows]


def settle_progress(connection: TargetConnection, origin: Origin, others: Sequence[Origin] = ()) -> int:
    """Find out up to where all is applied, have origins say the same, and let the session note its further progress.

    Where the target's table says nothing of an origin, as one of an older form, the origin itself does.

    Args:
        connection: its session has the first origin, before and after.
        origin: that; others: of the same subscription.

    Returns:
        The LSN of the source, 0 for none.

    Raises:
        ServerError: a session of before still has one of the origins (55006), or the role may not.
    """
    moved = {origin.name: progress_of(connection, origin)}
    for other in others:
        leave_origin(connection)
        use_origin(connection, other)
        moved[other.name] = progress_of(connection, other)
    noted = read_progress(connection, origin.name)
    reached = max((moved | noted).values())
    if others or max(moved.values()) > reached:
        leave_origin(connection)
        for each in (origin, *others):
            if moved[each.name] > reached:
                advance(connection, each, reached)
        use_origin(connection, origin)
    take_progress(connection, origin.name, reached)
    return reached


def read_reached(connection: TargetConnection, subscription: str, *, flushed: bool) -> int:
    """Return up to where all of a subscription is applied, as an LSN of the source, 0 for none; change nothing.

    Args:
        connection: any of the target's; subscription: its name; flushed: that is made durable first.
    """
    name = origin_name(subscription)
    origins = [Origin(name, 0)] if has_origin(connection, name) else []
    origins += parallel_origins(connection, subscription)
    moved = {origin.name: progress_of(connection, origin, flushed=flushed) for origin in origins}
    return max((moved | read_progress(connection, name)).values(), default=0)


def drop_parallel_origins(connection: TargetConnection, subscription: str) -> None:
    """Drop a subscription's origins but for its main one.

    Raises:
        ServerError: a session has one of them, or the role may not.
    """
    for origin in parallel_origins(connection, subscription):
        drop_origin(connection, origin.name)
