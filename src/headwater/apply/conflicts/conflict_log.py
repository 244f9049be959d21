"""The log of conflicts: lines as the server's log has them, counts, and rows of ``headwater.conflicts``.

PostgreSQL: replication/logical/conflict.c (ReportApplyConflict).
"""

from __future__ import annotations

import json
from collections.abc import Callable

from headwater.apply.conflicts.counters import ConflictCounters
from headwater.apply.conflicts.descriptions import AppliedChange
from headwater.apply.conflicts.wording import Described, Existing, detail_of
from headwater.apply.incoming.conflict_rules import ConflictRules
from headwater.apply.progress.origins import timestamp
from headwater.apply.target.connection import TargetConnection
from headwater.errors import TargetError
from headwater.pg.lsn import Lsn

Say = Callable[[str], None]

_ADD = """
INSERT INTO headwater.conflicts (subname, nspname, relname, kind, resolution, key, local_row, remote_row, local_origin,
    local_xid, local_commit_time, remote_xid, remote_commit_lsn, remote_commit_time)
SELECT $1, $2, $3, $4, $5, $6::jsonb, $7::jsonb, $8::jsonb, $9, $10::xid, $11::timestamptz, $12::xid, $13::pg_lsn,
    $14::timestamptz
"""
_ONCE = """
WHERE NOT EXISTS (SELECT FROM headwater.conflicts c WHERE c.subname = $1 AND c.nspname = $2 AND c.relname = $3
    AND c.kind = $4 AND c.resolution = $5 AND c.remote_commit_lsn = $13::pg_lsn
    AND c.local_row IS NOT DISTINCT FROM $7::jsonb AND c.remote_row IS NOT DISTINCT FROM $8::jsonb)
"""


class ConflictLog:
    """The log.

    Args:
        subscription: its name; rules: say where conflicts are told of; counters: count them.
        say: gets lines.
        is_inline: DETAIL is that of 19, rather than that of 18.
    """

    def __init__(
        self, subscription: str, rules: ConflictRules, counters: ConflictCounters, say: Say, *, is_inline: bool
    ) -> None:
        self._subscription, self._rules, self._counters, self._say = subscription, rules, counters, say
        self._is_inline = is_inline
        self._refused: list[tuple[Described, AppliedChange]] = []

    @property
    def counters(self) -> ConflictCounters:
        """The counts."""
        return self._counters

    def error(self, described: Described, change: AppliedChange) -> TargetError:
        """Count a conflict that is an error, and return that."""
        self._counters.count(described.kind.column)
        if self._rules.fills:
            self._refused.append((described, change))
        return self._worded(described, change)

    def tell(self, described: Described, change: AppliedChange, resolution: str | None = None) -> None:
        """Count a conflict that is no error, and say it.

        Args:
            described: it; change: that has met it; resolution: what was done, if a rule has said that.
        """
        self._counters.count(described.kind.column)
        if self._rules.logs:
            error = self._worded(described, change)
            done = "" if resolution is None else f", resolution={resolution}"
            self._say("\n".join([f"{error.message}{done} (SQLSTATE {error.sqlstate})", *error.details()]))

    def write(self, connection: TargetConnection, described: Described, change: AppliedChange, resolution: str) -> None:
        """Write a conflict into the table, in the transaction that it is of."""
        self._write(connection, described, change, resolution, _ADD)

    def write_down(self, connection: TargetConnection) -> None:
        """Write counts, and conflicts that were errors, outside of a transaction.

        The latter are written once, however often they are tried again.

        Raises:
            ServerError: the target refuses, or is lost.
        """
        self._counters.write(connection)
        refused, self._refused = self._refused, []
        for described, change in refused:
            self._write(connection, described, change, "error", _ADD + _ONCE)

    def _worded(self, described: Described, change: AppliedChange) -> TargetError:
        table, kind = described.table, described.kind
        detail = detail_of(described, is_inline=self._is_inline)
        message = kind.message(table.namespace, table.name)
        return TargetError(message, sqlstate=kind.sqlstate, detail=detail, context=change.about())

    def _write(
        self, connection: TargetConnection, described: Described, change: AppliedChange, resolution: str, sql: str
    ) -> None:
        for existing in described.existing or (None,):
            connection.rows(sql, self._values(described, existing, change, resolution))

    def _values(
        self, described: Described, existing: Existing | None, change: AppliedChange, resolution: str
    ) -> tuple[str | None, ...]:
        table, remote = described.table, change.remote
        writer = described.deleted if existing is None else existing.writer
        own = (self._subscription, table.namespace, table.name, described.kind.value, resolution)
        local = None if existing is None else existing.values
        rows = (_json(_key(described, existing)), _json(local), _json(described.remote))
        by = (None, None, None) if writer is None else (writer.name, str(writer.xid), writer.time)
        time = None if remote.time is None else timestamp(remote.time)
        place = None if remote.finish_lsn is None else str(Lsn(remote.finish_lsn))
        return (*own, *rows, *by, str(remote.xid), place, time)


def _key(described: Described, existing: Existing | None) -> dict[str, str | None] | None:
    if existing is not None and existing.index is not None:
        return dict(zip((key.shown for key in existing.index.keys), existing.key, strict=True))
    identity, search = described.table.identity, described.search
    if search is None or identity is None:
        return None if search is None else dict(search)
    names = {key.shown.strip('"') for key in identity.keys}
    return {name: value for name, value in search.items() if name in names}


def _json(values: object) -> str | None:
    return None if values is None else json.dumps(values, ensure_ascii=False)
