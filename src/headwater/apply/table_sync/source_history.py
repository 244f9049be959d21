"""The history of a source that has failed over: whether what was applied of it is in there.

A standby that is promoted may lack what its primary had sent to subscribers. The target then has transactions that the
source has not. And what the source commits from then on, up to the LSN that the target has come to, would never be
sent: the target would say that it has it.

A standby, whose timeline changes under a session, is not looked at; nor is ``headwater serve``, which sees to it.

PostgreSQL: timeline.c (tliSwitchPoint). A stock subscription does not notice.
"""

from __future__ import annotations

from collections.abc import Callable

from headwater.apply.incoming.requests import ApplyRequest
from headwater.apply.progress.installation import transaction
from headwater.apply.progress.source_timelines import SourceTimeline, note_timeline, read_timeline, set_back
from headwater.apply.progress.subscriptions import State, Subscription, read_tables
from headwater.apply.table_sync.sync_slots import open_server
from headwater.apply.target.connection import TargetConnection
from headwater.errors import DivergedSourceError
from headwater.pg.lsn import Lsn
from headwater.receiver.replication_connection import ReplicationConnection
from headwater.wal.segments.timelines import parse_lineage

_FACTS = "SELECT pg_catalog.version()", "SELECT pg_catalog.pg_is_in_recovery()"


def require_history(
    connection: TargetConnection,
    request: ApplyRequest,
    subscription: Subscription,
    reached: int,
    say: Callable[[str], None],
) -> bool:
    """See that the source has what was applied, and note its timeline.

    Args:
        connection: the target's; request: what is asked for; subscription: it.
        reached: LSN before which all is applied; say: is warned of what the source has not, where that is accepted.

    Returns:
        False if progress was set back: it is to be read anew.

    Raises:
        DivergedSourceError: the source may lack something.
        ServerError: a server refuses.
        ConnectionLostError: a server is lost.
    """
    before = read_timeline(connection, subscription)
    with open_server(request) as source:
        now = _timeline_of(source)
        left = None
        if before is not None and now is not None and before.system == now.system and before != now:
            left = _left_at(source, before.timeline, now.timeline)
    copied = (State.FINISHEDCOPY, State.SYNCDONE)
    places = (table.lsn for table in read_tables(connection, subscription) if table.state in copied)
    reached = max([reached, *places])
    is_past = before is not None and now is not None and left is not None and reached > left
    if before != now or is_past:
        if is_past:
            _accept(request, before, now, reached, left, say)
        with transaction(connection, is_durable=True):
            note_timeline(connection, subscription, now)
            if is_past and left is not None:
                set_back(connection, subscription, left)
    return not is_past


def _timeline_of(source: ReplicationConnection) -> SourceTimeline | None:
    """Return the timeline of a primary."""
    ((version,),), ((is_standby,),) = map(source.rows, _FACTS)
    if "Headwater" in str(version) or is_standby != "f":
        return None
    ((system, timeline, _flushed, _name),) = source.rows("IDENTIFY_SYSTEM")
    return SourceTimeline(str(system), int(str(timeline)))


def _left_at(source: ReplicationConnection, before: int, now: int) -> int:
    """Return the LSN at which the history of a timeline has left another one; 0 if that one is not in it."""
    ((_name, content),) = source.rows(f"TIMELINE_HISTORY {now}") if now > 1 else ((None, ""),)
    lineage = parse_lineage(str(content), now, f"{now:08X}.history")
    return lineage.get(before) or 0


def _accept(
    request: ApplyRequest,
    before: SourceTimeline | None,
    now: SourceTimeline | None,
    reached: int,
    left: int | None,
    say: Callable[[str], None],
) -> None:
    """Warn of what only the target has, if that is accepted.

    Raises:
        DivergedSourceError: it is not.
    """
    assert before is not None
    assert now is not None
    place = Lsn(left or 0)
    text = (
        f"the target has come to {Lsn(reached)} of the source's timeline {before.timeline}, "
        f"which its timeline {now.timeline} has left at {place}: what committed between is on the target only"
    )
    if not left:
        text = (
            f"the target has come to {Lsn(reached)} of the source's timeline {before.timeline}, "
            f"which is not in the history of its timeline {now.timeline}"
        )
        raise DivergedSourceError(text, hint="apply from a server that has that timeline, or make a new subscription")
    if not request.accepts_divergence:
        hint = f"compare the rows; --accept-divergence leaves them, and goes on from {place}"
        raise DivergedSourceError(text, hint=hint)
    say(f"warning: {text}; applying goes on from there")
