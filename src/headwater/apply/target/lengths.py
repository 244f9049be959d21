"""Columns whose types are shorter on the target: a value that is too long is refused, whether its row is there or not.

The apply worker reads all values of a tuple as the columns' types with their modifiers, before it looks for a row. A
statement's parameters have types without modifiers, and values are cut to length when a row is stored. So before an
update or delete a check is sent that calls the length functions by themselves.

PostgreSQL: worker.c (slot_store_data), the types' functions for lengths (varchar.c, numeric.c, varbit.c).

Known gap: elements of arrays are not checked; a row that is not there is passed over, whatever their length.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headwater.apply.target.connection import Statement, TargetConnection
from headwater.receiver.replication_connection import quoted
from headwater.remote_slots.announced_relations import SentRelation

TOO_LONG = ("22001", "22003", "22026")
"""What the functions refuse with."""

_COLUMNS = """
SELECT a.attname, t.oid, a.atttypmod, t.typname FROM pg_catalog.pg_attribute a
JOIN pg_catalog.pg_type t ON t.oid = a.atttypid
WHERE a.attrelid = $1::oid AND a.attnum > 0 AND NOT a.attisdropped AND a.atttypmod >= 0
  AND t.oid = ANY ('{bpchar,varchar,numeric,bit,varbit}'::pg_catalog.regtype[]::oid[])
"""


@dataclass(frozen=True)
class Length:
    """The length that a column's values may have.

    Attributes:
        sent: the column's place in what is sent; function: its name; modifier: of the type.
    """

    sent: int
    function: str
    modifier: int

    def call(self, number: int) -> str:
        """Return the call that fails if the parameter of a number is too long."""
        is_explicit = "" if self.function == "numeric" else ", false"
        return f"pg_catalog.{quoted(self.function)}(${number}, {self.modifier}{is_explicit})"


def lengths_of(connection: TargetConnection, oid: int, sent: SentRelation) -> tuple[Length, ...]:
    """Read which of the sent columns may be too long for a table of the target, in the order in which they are sent."""
    rows = connection.rows(_COLUMNS, (str(oid),))
    local = {str(name): (int(str(type_oid)), int(str(mod)), str(function)) for name, type_oid, mod, function in rows}
    return tuple(
        Length(at, local[column.name][2], local[column.name][1])
        for at, column in enumerate(sent.columns)
        if column.name in local and local[column.name][:2] != (column.type_oid, column.typmod)
    )


def check(lengths: Sequence[Length], types: Sequence[int]) -> Statement:
    """Return the statement that fails if a value is too long; its parameters are the values.

    Args:
        lengths: of the columns; types: OIDs of the types of all columns that are sent.
    """
    calls = ", ".join(length.call(number) for number, length in enumerate(lengths, 1))
    return Statement(f"SELECT {calls}", tuple(types[length.sent] for length in lengths))
