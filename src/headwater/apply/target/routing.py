"""The partition that the row of an update or delete belongs to: there has to be one, even if the row itself is missing.

The apply worker looks a row up in the partition that it belongs to, and it is an error if there is none. A statement
only finds no row. So before it a check is sent, which fails (22012) where no partition's constraint holds for the row
that is looked up. What the server says then is asked of it by an INSERT of that row, which is rolled back.

PostgreSQL: worker.c (apply_handle_tuple_routing), execPartition.c (ExecFindPartition); 14 to 19.

Known gap: if the role may not INSERT, the error has no DETAIL, and names the table that is partitioned first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headwater.apply.target.connection import Statement, TargetConnection
from headwater.receiver.replication_connection import quoted

NO_PARTITION = "23514"

_CONSTRAINTS = """
SELECT pg_catalog.pg_get_partition_constraintdef(t.relid)
FROM pg_catalog.pg_partition_tree($1::oid::regclass) t JOIN pg_catalog.pg_class c ON c.oid = t.relid
WHERE t.isleaf AND c.relkind <> 'p' ORDER BY t.relid::oid
"""
_COLUMNS = """
SELECT DISTINCT a.attname, pg_catalog.format_type(a.atttypid, a.atttypmod)
FROM pg_catalog.pg_partition_tree($1::oid::regclass) t CROSS JOIN LATERAL (
    SELECT t.relid::oid UNION SELECT relid::oid FROM pg_catalog.pg_partition_ancestors($1::oid::regclass)
) tree(relid) JOIN pg_catalog.pg_partitioned_table p ON p.partrelid = tree.relid
JOIN pg_catalog.pg_attribute a ON a.attrelid = tree.relid AND a.attnum > 0 AND NOT a.attisdropped
    AND (a.attnum = ANY (p.partattrs::int2[]) OR p.partexprs IS NOT NULL) ORDER BY 1
"""


@dataclass(frozen=True)
class RoutedColumn:
    """A column that rows are routed by.

    Attributes:
        name: its name; type_name: its type, with modifiers; sent: its place in what is sent, None if it is not sent.
    """

    name: str
    type_name: str
    sent: int | None


@dataclass(frozen=True)
class Routing:
    """The way to the partitions of a table.

    Attributes:
        columns: that it depends on; constraints: of the partitions that have rows.
    """

    columns: tuple[RoutedColumn, ...]
    constraints: tuple[str, ...]

    @property
    def places(self) -> tuple[int, ...]:
        """The places of the sent values that :meth:`check` is given."""
        return tuple(column.sent for column in self.columns if column.sent is not None)

    def check(self, types: Sequence[int]) -> Statement:
        """Return the statement that fails if no partition is there.

        Args:
            types: OIDs of the types of all columns that are sent.
        """
        condition = " OR ".join(f"({constraint})" for constraint in self.constraints) or "false"
        return self._selected(types, f"1 / CASE WHEN {condition} THEN 1 ELSE 0 END AS {quoted('a partition is there')}")

    def choice(self, types: Sequence[int]) -> Statement:
        """Return the statement that gives the number of a row's partition among the constraints, from 0 on.

        Args:
            types: OIDs of the types of all columns that are sent.
        """
        cases = " ".join(f"WHEN {constraint} THEN {number}" for number, constraint in enumerate(self.constraints))
        return self._selected(types, f"CASE {cases} END")

    def _selected(self, types: Sequence[int], selected: str) -> Statement:
        places = self.places
        values = [
            f"{'NULL' if column.sent is None else f'${places.index(column.sent) + 1}'}::{column.type_name} "
            f"AS {quoted(column.name)}"
            for column in self.columns
        ]
        sql = f"SELECT {selected} FROM (SELECT {', '.join(values)}) AS searched"
        return Statement(sql, tuple(types[place] for place in places))


def routing_to(
    connection: TargetConnection, oid: int, sent: dict[str, int], *, is_needed: bool = False
) -> Routing | None:
    """Read how rows of a partitioned table are routed; None if there is a partition for all.

    Args:
        connection: the target's; oid: the table's; sent: places of the columns that are sent, by name.
        is_needed: it is read in any case.
    """
    constraints = [constraint or "true" for (constraint,) in connection.rows(_CONSTRAINTS, (str(oid),))]
    if "true" in constraints and not is_needed:
        return None
    columns = tuple(
        RoutedColumn(str(name), str(type_name), sent.get(str(name)))
        for name, type_name in connection.rows(_COLUMNS, (str(oid),))
    )
    return Routing(columns, tuple(map(str, constraints)))
