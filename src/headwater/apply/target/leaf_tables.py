"""Partitions that differ in how their rows are looked up, or are foreign tables: each change goes to one that is named.

The partition that a row belongs to is asked of the target before its change. The statement is then limited to it, by
its number and by its constraint, which lets the planner leave out the others; so a row can still move.

PostgreSQL: worker.c (apply_handle_tuple_routing), execPartition.c (ExecInitPartitionInfo), execMain.c
(CheckValidResultRel); 14 to 19.

Known gap: a row that would move to a foreign table that takes rows is an error, even if the row is missing.
"""

from __future__ import annotations

from dataclasses import dataclass

from headwater.apply.target.lookup import Lookup, NoLookup
from headwater.apply.target.table_facts import Leaf
from headwater.errors import TargetError

FOREIGN = "f"


@dataclass(frozen=True)
class LeafTable:
    """A partition that changes may go to.

    Attributes:
        leaf: it; lookup: how its rows are looked up, or why not.
        refusal: why no change may go to it, None if it may.
    """

    leaf: Leaf
    lookup: Lookup | NoLookup
    refusal: tuple[str, str, str | None] | None = None

    @property
    def condition(self) -> str:
        """The condition that limits a statement to it."""
        return f"tableoid OPERATOR(pg_catalog.=) {self.leaf.oid}::pg_catalog.oid AND ({self.leaf.constraint})"

    def check(self) -> None:
        """See that changes may go to it.

        Raises:
            TargetError: it is a foreign table.
        """
        if self.refusal is not None:
            message, sqlstate, detail = self.refusal
            raise TargetError(message, sqlstate=sqlstate, detail=detail)


def foreign_table(leaf: Leaf, error: TargetError) -> LeafTable:
    """Return a foreign table as a partition.

    Args:
        leaf: it; error: that the apply worker has for foreign tables that take rows.
    """
    if leaf.takes_inserts:
        refusal = (error.message, str(error.sqlstate), error.detail)
    else:
        refusal = (f'cannot insert into foreign table "{leaf.name}"', "0A000", None)
    return LeafTable(leaf, NoLookup(refusal[0], refusal[1]), refusal)
