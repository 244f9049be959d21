"""Decisions about conflicts, by their rules.

Times are those of commits: of the local row's, and of the transaction that is applied. If they are equal, the writers'
nodes decide: a node is the system identifier of a server and the OID of a database. The greater one counts as later.
That is the same on all servers, as long as each knows where the other's subscriptions come from.

A local row of which no commit time is known counts as older than all that comes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from headwater.apply.conflicts.descriptions import AppliedChange
from headwater.apply.conflicts.wording import Described, Writer
from headwater.apply.incoming.conflict_kinds import Action
from headwater.apply.incoming.conflict_rules import MetConflict, Rule, Values
from headwater.apply.progress.origins import timestamp
from headwater.errors import TargetError

_START = datetime(2000, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Decision:
    """A decision.

    Attributes:
        action: ``error``, ``apply_remote`` or ``keep_local``.
        row: the row to have instead of either; None for none.
    """

    action: Action
    row: Values | None = None

    @property
    def text(self) -> str:
        """How the decision is written down."""
        return "row" if self.row is not None else self.action.value


@dataclass(frozen=True)
class Nodes:
    """The nodes that write rows.

    Attributes:
        own: the target's; source: the one that changes come from; by_origin: others, by the names of their origins.
    """

    own: str
    source: str
    by_origin: Mapping[str, str]

    def of(self, writer: Writer) -> str:
        """Return the node of a local row's writer."""
        if not writer.origin:
            return self.own
        return self.by_origin.get(writer.name or "", writer.name or "")


def decide(rule: Rule, described: Described, change: AppliedChange, nodes: Nodes, origin: str) -> Decision:
    """Decide about a conflict.

    Args:
        rule: for it; described: it; change: that has met it; nodes: of servers.
        origin: name of the subscription's origin.

    Raises:
        TargetError: a function of the user's fails, or answers nonsense.
    """
    if rule.decide is not None:
        return _asked(rule, described, change, origin)
    if not rule.action.is_of_times:
        return Decision(rule.action)
    writers = [row.writer for row in described.existing] + ([described.deleted] if described.deleted else [])
    is_later = all(is_remote_later(writer, change.remote.time, nodes) for writer in writers)
    wins = is_later == (rule.action == Action.LAST_UPDATE_WINS)
    return Decision(Action.APPLY_REMOTE if wins else Action.KEEP_LOCAL)


def is_remote_later(writer: Writer, time: int | None, nodes: Nodes) -> bool:
    """Tell whether what comes is later than what a local writer has written.

    Args:
        writer: it; time: of the commit that comes, microseconds since 2000; nodes: of servers.
    """
    if writer.time is None or time is None:
        return True
    local = datetime.fromisoformat(writer.time)
    remote = _START + timedelta(microseconds=time)
    if local != remote:
        return remote > local
    return nodes.source > nodes.of(writer)


def _asked(rule: Rule, described: Described, change: AppliedChange, origin: str) -> Decision:
    assert rule.decide is not None
    try:
        answer = rule.decide(_met(described, change, origin))
    except Exception as error:
        text = f"{rule.text} failed: {type(error).__name__}: {error}"
        raise TargetError(text, sqlstate="38000", context=change.about()) from error
    if isinstance(answer, Mapping):
        return Decision(Action.APPLY_REMOTE, _checked(rule, answer, described, change))
    if answer in (Action.ERROR, Action.APPLY_REMOTE, Action.KEEP_LOCAL):
        return Decision(Action(answer))
    text = f"{rule.text} has answered {answer!r}, expected error, apply_remote, keep_local, or a row"
    raise TargetError(text, sqlstate="39000", context=change.about())


def _checked(rule: Rule, row: Values, described: Described, change: AppliedChange) -> Values:
    names = {column.name for column in described.table.columns if not column.generated}
    for name, value in row.items():
        if name not in names or not (value is None or isinstance(value, str)):
            text = f"{rule.text} has answered {value!r} for column {name!r}"
            detail = f"Columns are {', '.join(sorted(names))}; values are text, or None."
            raise TargetError(text, sqlstate="39000", detail=detail, context=change.about())
    return dict(row)


def _met(described: Described, change: AppliedChange, origin: str) -> MetConflict:
    existing = described.existing[0] if described.existing else None
    writer = existing.writer if existing is not None else described.deleted
    sent = None
    if described.remote is not None and change.new is not None:
        names = {column.name for column in change.mapped.sent.columns}
        is_unique = described.kind.is_unique
        kinds = dict(zip((column.name for column in change.mapped.sent.columns), change.new.kinds, strict=False))
        sent = {
            name: value
            for name, value in described.remote.items()
            if is_unique or (name in names and kinds.get(name) != b"u"[0])
        }
    return MetConflict(
        kind=described.kind.value,
        relation=f"{described.table.namespace}.{described.table.name}",
        local=None if existing is None else dict(existing.values),
        remote=sent,
        key=None if described.search is None else dict(described.search),
        local_time=None if writer is None else writer.time,
        remote_time=None if change.remote.time is None else timestamp(change.remote.time),
        local_origin=None if writer is None or not writer.origin else (writer.name or str(writer.origin)),
        remote_origin=origin,
    )
