"""The origins of sessions that apply streamed transactions ahead of their end.

Before 19 an origin belongs to a single session, so each of these has its own. Transactions commit in the source's
order, whatever the session: all is applied up to the furthest of a subscription's origins.

Invariant: a place is read while the origin is the session's own, so nobody can commit behind it any more.

PostgreSQL: origin.c (replorigin_session_setup).
"""

from __future__ import annotations

from headwater.apply.progress.origins import (
    Origin,
    drop_origin,
    go_back,
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


def furthest(connection: TargetConnection, origin: Origin, subscription: str) -> int:
    """Return the LSN of the source before which all is applied, 0 for none.

    Args:
        connection: its session has the main origin, before and after.
        origin: the main one; subscription: whose.

    Raises:
        ServerError: a session of before still has one of the origins (55006), or the role may not.
    """
    reached = progress_of(connection, origin)
    others = parallel_origins(connection, subscription)
    for other in others:
        leave_origin(connection)
        use_origin(connection, other)
        reached = max(reached, progress_of(connection, other))
    if others:
        leave_origin(connection)
        use_origin(connection, origin)
    return reached


def all_go_back(connection: TargetConnection, origin: Origin, subscription: str, lsn: int) -> None:
    """Set those of a subscription's origins to an LSN that are further.

    Args:
        connection: its session has the main origin, before and after.
        origin: the main one; subscription: whose; lsn: before which all is applied.

    Raises:
        ServerError: a session of before still has one of the origins (55006), or the role may not.
    """
    leave_origin(connection)
    for other in (origin, *parallel_origins(connection, subscription)):
        go_back(connection, other, lsn)
    use_origin(connection, origin)


def drop_parallel_origins(connection: TargetConnection, subscription: str) -> None:
    """Drop a subscription's origins but for its main one.

    Raises:
        ServerError: a session has one of them, or the role may not.
    """
    for origin in parallel_origins(connection, subscription):
        drop_origin(connection, origin.name)
