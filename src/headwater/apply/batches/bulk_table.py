"""Tables of the target whose changes can be folded, and the statements that change many of their rows at once.

A table is one if each row has a key that is unique, and if nothing on the target sees single changes: no trigger that
fires for what is replicated. What the target checks by itself must not be passed over by folding:

- With further unique indexes, or exclusion constraints, the order of changes is seen. Only inserts alone, or deletes
  alone, are folded then.
- Where a value may be refused (CHECK, NOT NULL beside the key, another type than the source's), values between are
  seen. No row is folded then that has several changes.
- Tables with columns of domains, or of generated values, are left out.

PostgreSQL: arrays as of array_in; COPY FROM in its text format.

Known gap: values in binary form are not taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from headwater.apply.target.connection import Bound, Statement, TargetConnection
from headwater.apply.target.local_rows import COMMIT_OF
from headwater.apply.target.lookup import Lookup
from headwater.apply.target.relations import TABLE, MappedRelation
from headwater.plugins.pgoutput.protocol import FIRST_GENBKI_OBJECT_ID
from headwater.receiver.replication_connection import quoted

TEXT_ARRAY = 1009
MOST_COLUMNS = 62

_FACTS = """
SELECT NOT EXISTS (SELECT FROM pg_catalog.pg_trigger
                   WHERE tgrelid = $1::oid AND tgenabled IN ('R', 'A') AND NOT tgisinternal)
       AND NOT EXISTS (SELECT FROM pg_catalog.pg_rewrite WHERE ev_class = $1::oid AND ev_enabled IN ('R', 'A')),
       (SELECT pg_catalog.count(*) > 1 FROM pg_catalog.pg_index
        WHERE indrelid = $1::oid AND (indisunique OR indisexclusion)),
       EXISTS (SELECT FROM pg_catalog.pg_constraint WHERE conrelid = $1::oid AND contype = 'c'),
       EXISTS (SELECT FROM pg_catalog.pg_attribute WHERE attrelid = $1::oid AND attgenerated <> '')
"""
_GUARD = Statement(
    f"SELECT 1 / CASE WHEN f::text = $2 THEN 1 ELSE 0 END FROM ({_FACTS}) AS f(silent, ordered, checked, made)",
    (26, 25),
)
_COLUMNS = """
SELECT attname, atttypmod, attnotnull FROM pg_catalog.pg_attribute
WHERE attrelid = $1::oid AND attnum > 0 AND NOT attisdropped
"""
_TYPES = """
SELECT t.oid, pg_catalog.format_type(t.oid, NULL),
       CASE WHEN t.typdelim = ',' AND NOT (t.typcategory = 'A') AND t.typtype IN ('b', 'e')
            THEN t.typarray ELSE 0 END, t.typtype = 'd'
FROM pg_catalog.pg_type t WHERE t.oid = ANY ($1::oid[])
"""


@dataclass(frozen=True)
class _Type:
    """A type of a column: its name, and the OID of the type of arrays of it; 0 where arrays of text take its place."""

    name: str
    array: int


@dataclass(frozen=True)
class BulkTable:
    """A table whose changes can be folded.

    Attributes:
        mapped: it; keys: places of the key's columns among those that are sent.
        types: of the columns that are sent.
        sees_order: it has further unique indexes, or exclusion constraints.
        sees_values: it may refuse values that the source has taken.
        guard: fails (22012) once the target looks at changes in another way.
    """

    mapped: MappedRelation
    keys: tuple[int, ...]
    types: tuple[_Type, ...]
    sees_order: bool
    sees_values: bool
    guard: Bound
    _made: dict[object, Statement] = field(default_factory=dict, compare=False, repr=False)

    @property
    def columns(self) -> int:
        """How many columns are sent."""
        return len(self.types)

    @property
    def _name(self) -> str:
        return f"{quoted(self.mapped.namespace)}.{quoted(self.mapped.name)}"

    def delete(self) -> Statement:
        """Return the statement that deletes rows; its parameters are arrays of the key's columns."""
        sql = f"DELETE FROM ONLY {self._name} AS target USING {self._arrays(self.keys)} WHERE {self._matches()}"
        return self._statement("delete", f"{sql}{self._own()}", self.keys)

    def present(self) -> Statement:
        """Return the statement that gives rows that are there; its parameters are arrays of the key's columns."""
        sql = f"SELECT 1 FROM ONLY {self._name} AS target, {self._arrays(self.keys)} WHERE {self._matches()}"
        return self._statement("present", sql, self.keys)

    def update(self, sent: Sequence[int]) -> Statement:
        """Return the statement that updates rows; its parameters are arrays of columns, the key's among them."""
        names = [quoted(self.mapped.sent.columns[at].name) for at in sent if at not in self.keys]
        values = [self._value(at) for at in sent if at not in self.keys]
        sets = ", ".join(f"{name} = {value}" for name, value in zip(names, values, strict=True))
        sql = (
            f"UPDATE ONLY {self._name} AS target SET {sets} FROM {self._arrays(sent)} WHERE {self._matches()}"
            if sets
            else f"SELECT 1 FROM ONLY {self._name} AS target, {self._arrays(sent)} WHERE {self._matches()}"
        ) + self._own()
        return self._statement(("update", tuple(sent)), sql, sent)

    def insert(self) -> Statement:
        """Return the statement that inserts rows; its parameters are arrays of all columns."""
        every = range(self.columns)
        values = ", ".join(self._value(at) for at in every)
        sql = f"INSERT INTO {self._name} ({self._listed}) SELECT {values} FROM {self._arrays(every)}"
        return self._statement("insert", sql, every)

    def copy(self) -> str:
        """Return the command that takes rows in COPY's text format."""
        return f"COPY {self._name} ({self._listed}) FROM STDIN"

    @property
    def _listed(self) -> str:
        return ", ".join(quoted(column.name) for column in self.mapped.sent.columns)

    def _statement(self, key: object, sql: str, places: Sequence[int]) -> Statement:
        statement = self._made.get(key)
        if statement is None:
            statement = self._made[key] = Statement(sql, tuple(self.types[at].array or TEXT_ARRAY for at in places))
        return statement

    def _own(self) -> str:
        """Write the condition that nobody else has written a row, where that is looked at: counts tell of others."""
        origins = self.mapped.origins
        if origins is None:
            return ""
        return f" AND NOT EXISTS (SELECT FROM {COMMIT_OF}(target.xmin) AS s WHERE {origins.differs})"

    def _arrays(self, places: Sequence[int]) -> str:
        arrays = ", ".join(f"pg_catalog.unnest(${number})" for number in range(1, len(places) + 1))
        names = ", ".join(f"c{at}" for at in places)
        return f"ROWS FROM ({arrays}) AS sent({names})"

    def _value(self, at: int) -> str:
        return f"sent.c{at}" if self.types[at].array else f"sent.c{at}::{self.types[at].name}"

    def _matches(self) -> str:
        lookup = self.mapped.lookup
        assert isinstance(lookup, Lookup)
        parts = []
        for column in lookup.columns:
            assert column.sent is not None
            collation = f" COLLATE {column.collation}" if column.collation else ""
            parts.append(f"target.{quoted(column.name)} {column.operator} {self._value(column.sent)}{collation}")
        return " AND ".join(parts)


def bulk_table(connection: TargetConnection, mapped: MappedRelation) -> BulkTable | None:
    """Return the table of a relation, if its changes can be folded; asks the target.

    Raises:
        ConnectionLostError: the target is lost.
    """
    keys = _keys(mapped)
    if keys is None:
        return None
    ((sees_nothing, sees_order, has_checks, has_generated),) = connection.rows(_FACTS, (str(mapped.oid),))
    if sees_nothing != "t" or has_generated == "t":
        return None
    rows = connection.rows(_TYPES, ("{" + ",".join(map(str, mapped.types)) + "}",))
    if any(is_domain == "t" for _, _, _, is_domain in rows):
        return None
    types = {int(oid or 0): _Type(name or "", int(array or 0)) for oid, name, array, _ in rows}
    own = tuple(types[oid] for oid in mapped.types)
    sees_values = has_checks == "t" or _may_refuse(connection, mapped, keys)
    facts = f"({sees_nothing},{sees_order},{has_checks},{has_generated})"
    guard = Bound(_GUARD, (str(mapped.oid).encode(), facts.encode()))
    return BulkTable(mapped, keys, own, sees_order == "t", sees_values, guard)


def _may_refuse(connection: TargetConnection, mapped: MappedRelation, keys: Sequence[int]) -> bool:
    """Tell whether a column may refuse a value that the source's has taken."""
    facts = {
        name: (int(typmod or -1), is_required == "t") for name, typmod, is_required in _columns(connection, mapped)
    }
    for at, column in enumerate(mapped.sent.columns):
        typmod, is_required = facts[column.name]
        is_same = mapped.types[at] == column.type_oid < FIRST_GENBKI_OBJECT_ID and typmod == column.typmod
        if not is_same or (is_required and at not in keys):
            return True
    return any(is_required for name, (_, is_required) in facts.items() if name not in _names(mapped))


def _columns(connection: TargetConnection, mapped: MappedRelation) -> list[tuple[str | None, ...]]:
    return connection.rows(_COLUMNS, (str(mapped.oid),))


def _names(mapped: MappedRelation) -> set[str]:
    return {column.name for column in mapped.sent.columns}


def _keys(mapped: MappedRelation) -> tuple[int, ...] | None:
    """Return the places of the key's columns; None if changes cannot be folded by it."""
    lookup = mapped.lookup
    is_plain = mapped.kind == TABLE and not mapped.always and mapped.sent.replica_identity != "f"
    if not is_plain or not isinstance(lookup, Lookup) or not lookup.is_key or len(mapped.types) > MOST_COLUMNS:
        return None
    places = [column.sent for column in lookup.columns if column.operator is not None]
    keys = tuple(at for at in places if at is not None)
    return keys if len(keys) == len(lookup.columns) else None
