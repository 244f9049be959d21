"""Dead letters: changes of single rows that are not applied, in a table of the target, with all that applying needs.

A tuple is a JSON object of the sent columns: text as a string, NULL as null, ``{"unchanged": true}`` for what was not
sent as it was not changed, ``{"base64": ...}`` for a value in binary form. Text that is no UTF8 is
``{"base64": ..., "is_text": true}``. The relation is there as the source had announced it.

Invariants: a letter is committed with the transaction that its change is left out of. Letters' numbers have the order
of their changes.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headwater.apply.incoming.messages import BINARY, NULL, TEXT, UNCHANGED, Delete, Insert, SentTuple, Truncate, Update
from headwater.apply.progress.origins import timestamp
from headwater.apply.target.connection import Bound, Row, Statement, TargetConnection
from headwater.errors import TargetError
from headwater.pg.lsn import Lsn
from headwater.remote_slots.announced_relations import SentColumn, SentRelation

Change = Insert | Update | Delete | Truncate

_ADD = Statement("""
INSERT INTO headwater.dead_letters (subname, nspname, relname, kind, old_tuple, old_is_key, new_tuple, restart_seqs,
    sqlstate, message, detail, remote_xid, finish_lsn, commit_time, place, relation, is_of_pause)
VALUES ($1, $2, $3, $4, $5::jsonb, $6::bool, $7::jsonb, $8::bool, $9, $10, $11, $12::int8, $13::pg_lsn,
    $14::timestamptz, $15::int8, $16::jsonb, $17::bool)
""")
_PAUSE = Statement("""
INSERT INTO headwater.paused_tables (subname, nspname, relname, sqlstate, message, finish_lsn)
VALUES ($1, $2, $3, $4, $5, $6::pg_lsn) ON CONFLICT DO NOTHING
""")
_PAUSED = "SELECT nspname, relname FROM headwater.paused_tables WHERE subname = $1 ORDER BY paused_at"
_LETTERS = """
SELECT id, kind, old_tuple::text, old_is_key, new_tuple::text, restart_seqs, remote_xid, finish_lsn,
    (EXTRACT(epoch FROM commit_time - '2000-01-01 00:00:00+00'::timestamptz) * 1000000)::int8, relation::text
FROM headwater.dead_letters WHERE subname = $1 AND nspname = $2 AND relname = $3 AND is_of_pause = $4::bool
    AND id > $5::int8 ORDER BY id LIMIT 1000
"""
_TABLES_OF = """
SELECT nspname, relname FROM headwater.dead_letters WHERE subname = $1 AND NOT is_of_pause
GROUP BY nspname, relname ORDER BY min(id)
"""


@dataclass(frozen=True)
class Place:
    """The place of a change in the source's stream.

    Attributes:
        xid: of the transaction; finish_lsn: that it is finished at; number: of the change in it, from 1 on.
        time: of its commit, microseconds since 2000; None if that was not known.
    """

    xid: int
    finish_lsn: int
    number: int
    time: int | None


@dataclass(frozen=True)
class Letter:
    """A letter as it is read.

    Attributes:
        id: its number; relation: as the source had announced it; change: of a row, or TRUNCATE; place: of it.
    """

    id: int
    relation: SentRelation
    change: Change
    place: Place


def add_letter(
    subscription: str,
    relation: SentRelation,
    change: Change,
    place: Place,
    error: TargetError | None,
    *,
    is_of_pause: bool,
) -> Bound:
    """Return the statement that adds a letter.

    Args:
        subscription: its name; relation: that the change is of; change: it; place: where it was.
        error: by which it was refused, None if it is only kept for later.
        is_of_pause: its table is paused.
    """
    old, new = getattr(change, "old", None), getattr(change, "new", None)
    texts: list[str | None] = [subscription, relation.namespace, relation.name, type(change).__name__.upper()]
    texts += [_tuple_text(relation, old), _bool(getattr(change, "old_is_key", None)), _tuple_text(relation, new)]
    texts += [_bool(getattr(change, "restart_seqs", None))]
    texts += [error.sqlstate, error.message, error.detail] if error else [None, None, None]
    texts += [str(place.xid), str(Lsn(place.finish_lsn)), None if place.time is None else timestamp(place.time)]
    texts += [str(place.number), _relation_text(relation), _bool(is_of_pause)]
    return Bound(_ADD, tuple(None if text is None else text.encode() for text in texts))


def pause_table(subscription: str, relation: SentRelation, error: TargetError, place: Place) -> Bound:
    """Return the statement that notes that a table is paused, and by which error."""
    texts = (subscription, relation.namespace, relation.name, error.sqlstate, error.message, str(Lsn(place.finish_lsn)))
    return Bound(_PAUSE, tuple(None if text is None else text.encode() for text in texts))


def paused_tables(connection: TargetConnection, subscription: str) -> list[tuple[str, str]]:
    """List the tables that are paused, by schema and name; the schema ``headwater`` is there."""
    return [(str(namespace), str(name)) for namespace, name in connection.rows(_PAUSED, (subscription,))]


def tables_of_letters(connection: TargetConnection, subscription: str) -> list[tuple[str, str]]:
    """List the tables that have letters which are not kept for a pause."""
    return [(str(namespace), str(name)) for namespace, name in connection.rows(_TABLES_OF, (subscription,))]


def first_letters(
    connection: TargetConnection, subscription: str, table: tuple[str, str], *, is_of_pause: bool, behind: int = 0
) -> list[Letter]:
    """Read the first letters of a table, in their order.

    Args:
        connection: the target's; subscription: whose; table: schema and name.
        is_of_pause: those that are kept for a pause, or the others.
        behind: only those with higher numbers.
    """
    rows = connection.rows(_LETTERS, (subscription, *table, _bool(is_of_pause), str(behind)))
    return [_letter(row, table) for row in rows]


def _bool(value: bool | None) -> str | None:
    return None if value is None else "t" if value else "f"


def _relation_text(relation: SentRelation) -> str:
    columns = [
        {"name": column.name, "type": column.type_oid, "typmod": column.typmod, "is_key": column.is_key}
        for column in relation.columns
    ]
    return json.dumps({"oid": relation.oid, "replica_identity": relation.replica_identity, "columns": columns})


def _tuple_text(relation: SentRelation, row: SentTuple | None) -> str | None:
    if row is None:
        return None
    values = {
        column.name: _value(kind, value)
        for column, kind, value in zip(relation.columns, row.kinds, row.values, strict=False)
    }
    return json.dumps(values, ensure_ascii=False)


def _value(kind: int, value: bytes | None) -> object:
    if kind == UNCHANGED:
        return {"unchanged": True}
    if value is None:
        return None
    if kind == BINARY:
        return {"base64": b64encode(value).decode()}
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"base64": b64encode(value).decode(), "is_text": True}


def _letter(row: Row, table: tuple[str, str]) -> Letter:
    id, kind, old, old_is_key, new, restarts, xid, lsn, time, described = row
    relation_of: Mapping[str, Any] = json.loads(str(described))
    columns = tuple(
        SentColumn(column["name"], column["type"], column["typmod"], column["is_key"])
        for column in relation_of["columns"]
    )
    relation = SentRelation(relation_of["oid"], *table, relation_of["replica_identity"], columns)
    place = Place(int(str(xid)), int(Lsn.parse(str(lsn))), 0, None if time is None else int(time))
    change = _change(relation, str(kind), old, old_is_key == "t", new, restarts == "t")
    return Letter(int(str(id)), relation, change, place)


def _change(
    relation: SentRelation, kind: str, old: str | None, old_is_key: bool, new: str | None, restarts: bool
) -> Change:
    before, after = _tuple(relation, old), _tuple(relation, new)
    if kind == "TRUNCATE":
        return Truncate(0, (relation.oid,), False, restarts)
    if kind == "INSERT" and after is not None:
        return Insert(0, relation.oid, after)
    if kind == "DELETE" and before is not None:
        return Delete(0, relation.oid, before, old_is_key)
    assert after is not None
    return Update(0, relation.oid, before, old_is_key, after)


def _tuple(relation: SentRelation, text: str | None) -> SentTuple | None:
    if text is None:
        return None
    row = json.loads(text)
    cells = [_cell(row[column.name]) for column in relation.columns if column.name in row]
    return SentTuple(bytes(kind for kind, _ in cells), tuple(value for _, value in cells))


def _cell(value: Any) -> tuple[int, bytes | None]:
    if value is None:
        return NULL, None
    if isinstance(value, str):
        return TEXT, value.encode()
    if "unchanged" in value:
        return UNCHANGED, None
    return TEXT if value.get("is_text") else BINARY, b64decode(value["base64"])
