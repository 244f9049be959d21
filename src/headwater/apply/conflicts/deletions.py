"""Deletions that are kept on the target: who was the last to delete the row that an update is for.

As the server's worker, which looks at dead rows: by the key that the row is looked up by, or else by the whole row, the
deletion counts that was committed last. One by the subscription itself is none. A transaction that is open, or whose
commit time is not known any more, is passed over.

PostgreSQL: worker.c (FindDeletedTupleInLocalRel), executor/execReplication.c (update_most_recent_deletion_info) of 19.

Known gaps: what was deleted before deletions of the table were kept, or before it got another identity, is not known.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from headwater.apply.conflicts.descriptions import AppliedChange, Descriptions
from headwater.apply.conflicts.local_tables import LocalTable
from headwater.apply.conflicts.remote_rows import RemoteRow, ask_beside
from headwater.apply.conflicts.wording import Writer
from headwater.apply.progress.deletion_tables import watch
from headwater.apply.target.connection import TargetConnection
from headwater.apply.target.local_rows import COMMIT_OF
from headwater.apply.target.lookup import Lookup, LookupColumn
from headwater.apply.target.relations import MappedRelation
from headwater.apply.target.rights import NO_ROLE, become
from headwater.receiver.replication_connection import quoted

TEND_SECONDS = 60.0
"""How often new tables are looked for, and old deletions are forgotten."""

_PLACES = """
SELECT a.attname, a.attnum, a.atttypid, pg_catalog.format_type(a.atttypid, -1),
       coalesce(c.collisdeterministic, true) AND a.atttypid IN (16, 18, 20, 21, 23, 25, 26, 1043, 2950)
FROM pg_catalog.pg_attribute a LEFT JOIN pg_catalog.pg_collation c ON c.oid = a.attcollation
WHERE a.attrelid = $1::oid AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum
"""
_ROLE = "SELECT pg_catalog.current_setting('role')"


class Deletions:
    """The deletions that are kept for a subscription, as all sessions of a worker share them.

    Args:
        subscription: its name; seconds: how long each is kept; say: gets lines.
    """

    def __init__(self, subscription: str, seconds: float, say: Callable[[str], None]) -> None:
        self._subscription, self.seconds, self._say = subscription, seconds, say
        self._lock, self._due = threading.Lock(), 0.0

    def tend(self, connection: TargetConnection, *, is_now: bool = False) -> None:
        """See now and then that all tables are watched, and that old ones are forgotten; outside of a transaction.

        Args:
            connection: the target's; is_now: whenever that was done last.

        Raises:
            TargetError: the role may not.
            ConnectionLostError: the target is lost.
        """
        with self._lock:
            if not is_now and time.monotonic() < self._due:
                return
            self._due = time.monotonic() + TEND_SECONDS
        for line in watch(connection, self._subscription, self.seconds):
            self._say(line)


@dataclass(frozen=True)
class _Place:
    """A column of a table that deletions are looked up in.

    Attributes:
        number, type_oid: as the catalog has them; type: its name; is_plain: values are equal if their texts are.
    """

    number: int
    type_oid: int
    type: str
    is_plain: bool


def last_deletion(
    connection: TargetConnection, descriptions: Descriptions, change: AppliedChange, seconds: float
) -> Writer | None:
    """Return who has deleted the row that an update is for; None if nobody else was the last to do it.

    Args:
        connection: the target's, in which nothing is waited for.
        descriptions: of its tables; change: the update; seconds: how long ago it may be.

    Raises:
        TargetError: the target refuses a value.
    """
    lookup = change.mapped.lookup
    if change.search is None or not isinstance(lookup, Lookup) or not lookup.columns:
        return None
    search = RemoteRow.of(change.mapped, change.search)
    table = descriptions.leaf(change.mapped, search)
    places = _places(connection, change.mapped, table)
    ((role,),) = connection.rows(_ROLE)
    connection.send(NO_ROLE)
    rows = ask_beside(connection, table, search, lambda row: _query(table, lookup, places, row, seconds))
    if role not in (None, "none"):
        connection.send(become(str(role)))
    return descriptions.deleter(rows[0]) if rows else None


def _places(connection: TargetConnection, mapped: MappedRelation, table: LocalTable) -> dict[str, _Place]:
    key = ("deletions", table.oid)
    if key not in mapped.plans:
        mapped.plans[key] = {
            str(name): _Place(int(str(number)), int(str(type_oid)), str(type_name), is_plain == "t")
            for name, number, type_oid, type_name, is_plain in connection.rows(_PLACES, (str(table.oid),))
        }
    places: dict[str, _Place] = mapped.plans[key]
    return places


def _query(table: LocalTable, lookup: Lookup, places: dict[str, _Place], row: str, seconds: float) -> str:
    columns = sorted(lookup.columns, key=lambda column: places[column.name].number)
    own = [places[column.name] for column in columns]
    same = " AND ".join(_same(column, places[column.name], at) for at, column in enumerate(columns, 1))
    attnums, types = (
        "{" + ",".join(map(str, numbers)) + "}"
        for numbers in ([place.number for place in own], [place.type_oid for place in own])
    )
    hashed = ""
    if all(place.is_plain for place in own):
        key = ", ".join(f"remote.{quoted(column.name)}::text" for column in columns)
        hashed = f"AND d.hash = pg_catalog.hash_array_extended(ARRAY[{key}], 0) "
    return (
        f'SELECT d.xmin, s.roident, s."timestamp"::text FROM ({row}) AS remote, headwater.deleted_row d, '
        f'LATERAL {COMMIT_OF}(d.xmin) AS s WHERE d.relid = {table.oid} AND s."timestamp" IS NOT NULL {hashed}'
        f"AND d.deleted_at >= pg_catalog.clock_timestamp() - pg_catalog.make_interval(secs => {seconds}) "
        f"AND CASE WHEN d.attnums = '{attnums}'::int2[] AND d.types = '{types}'::oid[] THEN {same} ELSE false END "
        f'ORDER BY s."timestamp" DESC LIMIT 1'
    )


def _same(column: LookupColumn, place: _Place, at: int) -> str:
    """Write the condition that a kept value is that of the remote row, or both are NULL."""
    text, remote = f"d.key[{at}]", f"remote.{quoted(column.name)}"
    value = f"CAST({text} AS {place.type})"
    if column.operator is None:
        equal = f"ARRAY[{value}] OPERATOR(pg_catalog.=) ARRAY[{remote}]"
    else:
        cast = f"::{column.base}" if column.base else ""
        collation = f" COLLATE {column.collation}" if column.collation else ""
        equal = f"{value}{cast} {column.operator} {remote}{cast}{collation}"
    return f"CASE WHEN {text} IS NULL OR {remote} IS NULL THEN {text} IS NULL AND {remote} IS NULL ELSE {equal} END"
