"""Lookup of the row on the target that an update or a delete is for.

By the columns of the table's replica identity index, or of its primary key: at most one row matches. Otherwise, if the
source sends whole rows, by all columns: one of the rows that are equal is changed. Values are equal by the default
operator of their type, which is named with its schema, as none is searched. NULLs are equal.

Invariants: which columns are NULL is part of a statement's text, so that an index serves (``IS NULL``, ``=``).

PostgreSQL: replication/logical/relation.c (logicalrep_rel_mark_updatable, FindLogicalRepLocalIndex),
executor/execReplication.c (RelationFindReplTupleByIndex, tuples_equal); 14 to 19.

Known gaps: a row that another transaction deletes and inserts again while it is waited for is missing; the apply
worker looks again. Of partitioned tables whose partitions have keys of their own see :func:`common_lookup`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from headwater.errors import TargetError
from headwater.receiver.replication_connection import quoted

_NO_KEY = (
    'logical replication target relation "{}" has neither REPLICA IDENTITY index nor PRIMARY KEY and published '
    "relation does not have REPLICA IDENTITY FULL"
)
_NOT_SENT = 'publisher did not send replica identity column expected by the logical replication target relation "{}"'
_SEVERAL = 'partitions of logical replication target relation "{}" differ in the columns that their rows are found by'
SEVERAL = "0A000"
"""SQLSTATE of partitions that differ."""
_HINT = "make a primary key of the partitioned table, or apply to its partitions"


@dataclass(frozen=True)
class LookupColumn:
    """A column that rows are looked up by.

    Attributes:
        name: its name; sent: its place in what is sent, None if it is not sent: then the row has NULL there.
        operator: ``OPERATOR(schema.=)``, None if its type has no equality.
        base: the type that its domain is over, which is what has the operator; None for others.
        collation: that the index compares by, quoted, if it is not the column's.
    """

    name: str
    sent: int | None
    operator: str | None
    base: str | None = None
    collation: str | None = None

    def condition(self, parameter: str) -> str:
        """Return the condition that it has the value of a parameter, such as ``$1``."""
        own = quoted(self.name)
        if self.operator is None:
            # The server's own words for a type without equality (42883), as it looks at elements of arrays.
            return f"CASE WHEN {own} IS NULL THEN false ELSE ARRAY[{own}] OPERATOR(pg_catalog.=) ARRAY[{parameter}] END"
        collation = f" COLLATE {self.collation}" if self.collation else ""
        cast = f"::{self.base}" if self.base else ""
        return f"{own}{cast} {self.operator} {parameter}{cast}{collation}"


@dataclass(frozen=True)
class Lookup:
    """The columns that rows of a table are looked up by.

    Attributes:
        columns: they; is_key: at most one row matches.
    """

    columns: tuple[LookupColumn, ...]
    is_key: bool

    def parameters(self, kinds: Callable[[int], bool]) -> list[int]:
        """Return the places of the sent values that :meth:`where` compares with, in its order.

        Args:
            kinds: tells whether the value at a place is there, rather than NULL.
        """
        return [column.sent for column in self.columns if column.sent is not None and kinds(column.sent)]

    def where(self, has_value: Callable[[int], bool], first: int) -> str:
        """Write the condition.

        Args:
            has_value: tells whether the value at a place is there, rather than NULL.
            first: number of the first parameter.
        """
        conditions: list[str] = []
        for column in self.columns:
            if column.sent is None or not has_value(column.sent):
                conditions.append("false" if self.is_key else f"{quoted(column.name)} IS NULL")
                continue
            condition = column.condition(f"${first}")
            if column.operator is None and conditions:
                # It is an error only of rows that are equal in the columns before.
                condition = f"CASE WHEN {' AND '.join(conditions)} THEN {condition} ELSE false END"
            conditions.append(condition)
            first += 1
        return " AND ".join(conditions) or "true"


@dataclass(frozen=True)
class NoLookup:
    """The reason why no row can be looked up.

    Attributes:
        message, sqlstate, hint: of the error.
    """

    message: str
    sqlstate: str = "55000"
    hint: str | None = None

    def error(self) -> TargetError:
        """Return the error."""
        return TargetError(self.message, sqlstate=self.sqlstate, hint=self.hint)


def lookup_of(
    name: str, key: Sequence[LookupColumn], row: Sequence[LookupColumn], sent_keys: frozenset[int], *, is_full: bool
) -> Lookup | NoLookup:
    """Decide how rows of a table are looked up.

    Args:
        name: the table's, as ``schema.table``.
        key: the columns of its replica identity index or primary key; empty if it has none.
        row: all columns that can be compared: those that are neither generated nor dropped.
        sent_keys: places of the columns that are of the source's replica identity.
        is_full: the source sends whole rows.
    """
    if key:
        if all(column.sent in sent_keys for column in key):
            return Lookup(tuple(key), is_key=True)
        return NoLookup(_NOT_SENT.format(name))
    if is_full:
        return Lookup(tuple(row), is_key=False)
    return NoLookup(_NO_KEY.format(name))


def common_lookup(name: str, lookups: Sequence[Lookup | NoLookup], routing: frozenset[str] | None) -> Lookup | NoLookup:
    """Return how rows of a partitioned table are looked up: as those of each of its partitions.

    Args:
        name: the table's, as ``schema.table``; lookups: of its partitions.
        routing: names of the columns that it is partitioned by, None if by an expression.
    """
    first = lookups[0]
    names = {frozenset(column.name for column in lookup.columns) for lookup in lookups if isinstance(lookup, Lookup)}
    if isinstance(first, NoLookup) and all(isinstance(lookup, NoLookup) for lookup in lookups):
        return first
    is_one = len(names) == 1 and all(isinstance(lookup, Lookup) for lookup in lookups)
    if not is_one or not isinstance(first, Lookup):
        return NoLookup(_SEVERAL.format(name), SEVERAL, _HINT)
    if first.is_key and (routing is None or not routing <= next(iter(names))):
        return NoLookup(_SEVERAL.format(name), SEVERAL, _HINT)
    return first
