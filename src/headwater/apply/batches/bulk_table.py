"""Tables of the target whose changes can be folded, and the statements that change many of their rows at once.

A table is one if nothing on the target sees single changes: no trigger that fires for what is replicated. If its rows
have no key that is unique, what comes are all inserts. What the target checks by itself must not be passed over:

- Where a value may be refused (CHECK, another type than the source's), values between are seen. The changes are cut
  into runs then, in each of which a row has one (:func:`headwater.apply.batches.net_changes.runs_of`). So they are
  with further unique indexes. In a run of these, no update may change what such an index is over. No row that is
  inserted may have there what one that is deleted has. The statements leave out such rows, and the count tells.
- With exclusion constraints the order of changes is seen. So it is with unique indexes of other kinds: over
  expressions, with a predicate, NULLS NOT DISTINCT. Only inserts alone, or deletes alone, are folded then.
- Tables with columns of domains, or of generated values, are left out.

PostgreSQL: arrays as of array_in and array_recv; COPY FROM in its formats of text and binary.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from headwater.apply.batches.forms import CopyFormat
from headwater.apply.progress.deletion_tables import IS_TRIGGER
from headwater.apply.target.connection import Bound, Statement, TargetConnection
from headwater.apply.target.local_rows import COMMIT_OF
from headwater.apply.target.lookup import Lookup, LookupColumn
from headwater.apply.target.relations import TABLE, MappedRelation
from headwater.apply.target.table_facts import further_uniques
from headwater.plugins.pgoutput.protocol import FIRST_GENBKI_OBJECT_ID
from headwater.receiver.replication_connection import quoted

TEXT_ARRAY = 1009
MOST_COLUMNS = 62

_FACTS = f"""
SELECT NOT EXISTS (SELECT FROM pg_catalog.pg_trigger
                   WHERE tgrelid = $1::oid AND tgenabled IN ('R', 'A') AND NOT tgisinternal
                         AND NOT {IS_TRIGGER})
       AND NOT EXISTS (SELECT FROM pg_catalog.pg_rewrite WHERE ev_class = $1::oid AND ev_enabled IN ('R', 'A')),
       EXISTS (SELECT FROM pg_catalog.pg_index i
               WHERE indrelid = $1::oid AND (indisunique OR indisexclusion)
               AND (indisexclusion OR indexprs IS NOT NULL OR indpred IS NOT NULL
                    OR pg_catalog.to_jsonb(i) ->> 'indnullsnotdistinct' = 'true'
                    OR EXISTS (SELECT FROM pg_catalog.unnest(indclass::oid[]) c(oid)
                               JOIN pg_catalog.pg_opclass o ON o.oid = c.oid
                               JOIN pg_catalog.pg_am am ON am.oid = o.opcmethod WHERE am.amname <> 'btree'))),
       EXISTS (SELECT FROM pg_catalog.pg_constraint WHERE conrelid = $1::oid AND contype = 'c'),
       EXISTS (SELECT FROM pg_catalog.pg_attribute WHERE attrelid = $1::oid AND attgenerated <> ''),
       (SELECT pg_catalog.string_agg(indexrelid::text, '/' ORDER BY indexrelid) FROM pg_catalog.pg_index
        WHERE indrelid = $1::oid AND (indisunique OR indisexclusion))
"""
_GUARD = Statement(
    f"SELECT 1 / CASE WHEN f::text = $2 THEN 1 ELSE 0 END FROM ({_FACTS}) f(silent, ordered, checked, made, uniques)",
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
        mapped: it; keys: places of the key's columns among those that are sent; none if only inserts can be taken.
        types: of the columns that are sent.
        required: places of columns that may not be NULL.
        uniques: columns of further unique indexes, those that are sent.
        sees_order: it has unique indexes of other kinds, or exclusion constraints.
        sees_values: it may refuse values that the source has taken.
        guard: fails (22012) once the target looks at changes in another way.
    """

    mapped: MappedRelation
    keys: tuple[int, ...]
    types: tuple[_Type, ...]
    required: tuple[int, ...]
    uniques: tuple[tuple[LookupColumn, ...], ...]
    sees_order: bool
    sees_values: bool
    guard: Bound
    _made: dict[object, Statement] = field(default_factory=dict, compare=False, repr=False)

    @property
    def columns(self) -> int:
        """How many columns are sent."""
        return len(self.types)

    @property
    def unique_places(self) -> tuple[int, ...]:
        """The places of the columns of further unique indexes."""
        return tuple(sorted({column.sent for index in self.uniques for column in index if column.sent is not None}))

    @property
    def _name(self) -> str:
        return f"{quoted(self.mapped.namespace)}.{quoted(self.mapped.name)}"

    def delete(self) -> Statement:
        """Return the statement that deletes rows; its parameters are arrays of the key's columns."""
        sql = f"DELETE FROM ONLY {self._name} AS target USING {self._arrays(self.keys)} WHERE {self._matches()}"
        return self._statement("delete", f"{sql}{self._own()}", self.keys)

    def delete_beside(self) -> Statement:
        """Return the statement that deletes rows that have nothing in common with rows that are inserted.

        Its parameters are arrays of the key's columns, and of :attr:`unique_places` of the rows that are inserted.
        """
        places = self.unique_places
        made = self._arrays(places, len(self.keys) + 1, "made")
        clashes = (
            " AND ".join(self._same(column, "made") for column in index if column.sent is not None) or "true"
            for index in self.uniques
        )
        apart = " AND ".join(f"NOT EXISTS (SELECT FROM {made} WHERE {clash})" for clash in clashes)
        rows = f"{self._name} AS target USING {self._arrays(self.keys)}"
        sql = f"DELETE FROM ONLY {rows} WHERE {self._matches()} AND {apart}{self._own()}"
        return self._statement("delete beside", sql, (*self.keys, *places))

    def present(self) -> Statement:
        """Return the statement that gives rows that are there; its parameters are arrays of the key's columns."""
        sql = f"SELECT 1 FROM ONLY {self._name} AS target, {self._arrays(self.keys)} WHERE {self._matches()}"
        return self._statement("present", sql, self.keys)

    def update(self, sent: Sequence[int]) -> Statement:
        """Return the statement that updates rows; its parameters are arrays of columns, the key's among them.

        Rows are left out that would get something else in a column of a further unique index.
        """
        names = [quoted(self.mapped.sent.columns[at].name) for at in sent if at not in self.keys]
        values = [self._value(at) for at in sent if at not in self.keys]
        sets = ", ".join(f"{name} = {value}" for name, value in zip(names, values, strict=True))
        columns = {column.name: column for index in self.uniques for column in index if column.sent in sent}
        where = " AND ".join([self._matches(), *(self._same(column, "sent") for column in columns.values())])
        sql = (
            f"UPDATE ONLY {self._name} AS target SET {sets} FROM {self._arrays(sent)} WHERE {where}"
            if sets
            else f"SELECT 1 FROM ONLY {self._name} AS target, {self._arrays(sent)} WHERE {where}"
        ) + self._own()
        return self._statement(("update", tuple(sent)), sql, sent)

    def insert(self) -> Statement:
        """Return the statement that inserts rows; its parameters are arrays of all columns."""
        every = range(self.columns)
        values = ", ".join(self._value(at) for at in every)
        sql = f"INSERT INTO {self._name} ({self._listed}) SELECT {values} FROM {self._arrays(every)}"
        return self._statement("insert", sql, every)

    def copy(self, copy_format: CopyFormat) -> str:
        """Return the command that takes rows in a format of COPY's."""
        return f"COPY {self._name} ({self._listed}) FROM STDIN (FORMAT {copy_format.value})"

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

    def _arrays(self, places: Sequence[int], first: int = 1, name: str = "sent") -> str:
        arrays = ", ".join(f"pg_catalog.unnest(${number})" for number in range(first, first + len(places)))
        names = ", ".join(f"c{at}" for at in places)
        return f"ROWS FROM ({arrays}) AS {name}({names})"

    def _value(self, at: int, name: str = "sent") -> str:
        return f"{name}.c{at}" if self.types[at].array else f"{name}.c{at}::{self.types[at].name}"

    def _matches(self) -> str:
        lookup = self.mapped.lookup
        assert isinstance(lookup, Lookup)
        return " AND ".join(self._equal(column, "sent") for column in lookup.columns)

    def _equal(self, column: LookupColumn, name: str) -> str:
        assert column.sent is not None
        collation = f" COLLATE {column.collation}" if column.collation else ""
        return f"target.{quoted(column.name)} {column.operator} {self._value(column.sent, name)}{collation}"

    def _same(self, column: LookupColumn, name: str) -> str:
        """Write the condition that a row has the value that is sent, or both have none."""
        assert column.sent is not None
        nulls = f"target.{quoted(column.name)} IS NULL AND {self._value(column.sent, name)} IS NULL"
        return f"COALESCE({self._equal(column, name)}, {nulls})"


def bulk_table(connection: TargetConnection, mapped: MappedRelation) -> BulkTable | None:
    """Return the table of a relation, if its changes can be folded; asks the target.

    Raises:
        ConnectionLostError: the target is lost.
    """
    if mapped.kind != TABLE or mapped.always or not 0 < len(mapped.types) <= MOST_COLUMNS:
        return None
    ((sees_nothing, sees_order, has_checks, has_generated, uniques),) = connection.rows(_FACTS, (str(mapped.oid),))
    if sees_nothing != "t" or has_generated == "t":
        return None
    types = _types(connection, mapped)
    if types is None:
        return None
    facts = f"({sees_nothing},{sees_order},{has_checks},{has_generated},{uniques or ''})"
    columns = {str(name): (int(mod or -1), needs == "t") for name, mod, needs in _columns(connection, mapped)}
    return BulkTable(
        mapped,
        _keys(mapped),
        types,
        required=tuple(at for at, column in enumerate(mapped.sent.columns) if columns[column.name][1]),
        uniques=tuple(_uniques(connection, mapped)),
        sees_order=sees_order == "t",
        sees_values=has_checks == "t" or _may_refuse(mapped, columns),
        guard=Bound(_GUARD, (str(mapped.oid).encode(), facts.encode())),
    )


def _types(connection: TargetConnection, mapped: MappedRelation) -> tuple[_Type, ...] | None:
    """Return the types of the columns that are sent; None if one is a domain."""
    rows = connection.rows(_TYPES, ("{" + ",".join(map(str, mapped.types)) + "}",))
    if any(is_domain == "t" for _, _, _, is_domain in rows):
        return None
    types = {int(oid or 0): _Type(name or "", int(array or 0)) for oid, name, array, _ in rows}
    return tuple(types[oid] for oid in mapped.types)


def _uniques(connection: TargetConnection, mapped: MappedRelation) -> Iterator[tuple[LookupColumn, ...]]:
    """Give the columns of the unique indexes beside the one that rows are looked up by."""
    places = {column.name: at for at, column in enumerate(mapped.sent.columns)}
    for index in further_uniques(connection, mapped.oid):
        yield tuple(
            LookupColumn(column.name, places.get(column.name), column.operator, collation=column.collation)
            for column in index
        )


def _may_refuse(mapped: MappedRelation, columns: Mapping[str, tuple[int, bool]]) -> bool:
    """Tell whether a column may refuse a value that the source's has taken.

    Args:
        mapped: the relation; columns: the modifier of each column's type, and whether it may not be NULL.
    """
    for at, column in enumerate(mapped.sent.columns):
        is_same = mapped.types[at] == column.type_oid < FIRST_GENBKI_OBJECT_ID
        if not is_same or columns[column.name][0] != column.typmod:
            return True
    return any(is_required for name, (_, is_required) in columns.items() if name not in _names(mapped))


def _columns(connection: TargetConnection, mapped: MappedRelation) -> list[tuple[str | None, ...]]:
    return connection.rows(_COLUMNS, (str(mapped.oid),))


def _names(mapped: MappedRelation) -> set[str]:
    return {column.name for column in mapped.sent.columns}


def _keys(mapped: MappedRelation) -> tuple[int, ...]:
    """Return the places of the key's columns; none if changes cannot be folded by one."""
    lookup = mapped.lookup
    if mapped.sent.replica_identity == "f" or not isinstance(lookup, Lookup) or not lookup.is_key:
        return ()
    places = [column.sent for column in lookup.columns if column.operator is not None]
    keys = tuple(at for at in places if at is not None)
    return keys if len(keys) == len(lookup.columns) else ()
