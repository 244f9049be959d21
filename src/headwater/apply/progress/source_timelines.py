"""The timeline of a subscription's source on which its progress was made, as the target's schema ``headwater`` has it.

PostgreSQL: no counterpart: a subscription does not know on which timeline its publisher was.
"""

from __future__ import annotations

from dataclasses import dataclass

from headwater.apply.progress.origins import origin_name
from headwater.apply.progress.subscriptions import Subscription
from headwater.apply.target.connection import TargetConnection
from headwater.pg.lsn import Lsn

_READ = "SELECT system_identifier, timeline FROM headwater.subscription_source WHERE srsubid = $1::int4"
_NOTE = """
INSERT INTO headwater.subscription_source VALUES ($1::int4, $2, $3::int8)
ON CONFLICT (srsubid) DO UPDATE SET system_identifier = excluded.system_identifier, timeline = excluded.timeline
"""
_FORGET = "DELETE FROM headwater.subscription_source WHERE srsubid = $1::int4"
_SET_BACK = """
UPDATE headwater.origin_progress SET remote_lsn = $3::pg_lsn, gid = NULL, gid_lsn = NULL, is_prepared = NULL
WHERE (roname OPERATOR(pg_catalog.=) $1 OR pg_catalog.starts_with(roname, $1 OPERATOR(pg_catalog.||) '_P')
       OR pg_catalog.starts_with(roname, $2)) AND remote_lsn OPERATOR(pg_catalog.>) $3::pg_lsn
"""
_SET_TABLES_BACK = """
UPDATE headwater.subscription_rel SET srsublsn = $2::pg_lsn
WHERE srsubid = $1::int4 AND srsubstate IN ('f', 's') AND srsublsn OPERATOR(pg_catalog.>) $2::pg_lsn
"""
_FORGET_AHEAD = "DELETE FROM headwater.applied_ahead WHERE subname = $1"


@dataclass(frozen=True)
class SourceTimeline:
    """A timeline of a cluster, which its system identifier names."""

    system: str
    timeline: int


def read_timeline(connection: TargetConnection, subscription: Subscription) -> SourceTimeline | None:
    """Return the timeline that was noted; None if none was."""
    rows = connection.rows(_READ, (str(subscription.number),))
    return SourceTimeline(str(rows[0][0]), int(str(rows[0][1]))) if rows else None


def note_timeline(connection: TargetConnection, subscription: Subscription, now: SourceTimeline | None) -> None:
    """Note a timeline, or that none is known."""
    if now is None:
        connection.rows(_FORGET, (str(subscription.number),))
    else:
        connection.rows(_NOTE, (str(subscription.number), now.system, str(now.timeline)))


def set_back(connection: TargetConnection, subscription: Subscription, lsn: int) -> None:
    """Set progress that is further back to an LSN, in a transaction of the caller's; rows stay what they are."""
    place = str(Lsn(lsn))
    connection.rows(_SET_BACK, (origin_name(subscription.name), subscription.sync_prefix, place))
    connection.rows(_SET_TABLES_BACK, (str(subscription.number), place))
    connection.rows(_FORGET_AHEAD, (subscription.name,))
