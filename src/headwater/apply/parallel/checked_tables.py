"""Tables of the target whose foreign keys are looked at though changes are replicated: their triggers were enabled so.

What such a trigger locks, or deletes, depends on rows of other tables, and no key tells which. Their changes are not
applied at a time.

PostgreSQL: ri_triggers.c, ALTER TABLE ... ENABLE ALWAYS TRIGGER.
"""

from __future__ import annotations

from collections.abc import Iterable

from headwater.apply.batches.folded_batch import Tables
from headwater.apply.target.connection import Bound, Statement, TargetConnection

_ARE_CHECKED = """
SELECT DISTINCT tgrelid FROM pg_catalog.pg_trigger
WHERE tgrelid = ANY ($1::oid[]) AND tgisinternal AND tgenabled IN ('R', 'A')
"""
_GUARD = Statement(f"SELECT 1 / CASE WHEN EXISTS ({_ARE_CHECKED}) THEN 0 ELSE 1 END", (1028,))


class CheckedTables:
    """The tables, as far as they were asked for.

    Args:
        connection: the target's, in which nothing is waited for when it is asked.
    """

    def __init__(self, connection: TargetConnection) -> None:
        self._connection = connection
        self._known: dict[int, bool] = {}

    def are_among(self, tables: Tables) -> bool:
        """Tell whether one of some tables is one.

        Raises:
            ConnectionLostError: the target is lost.
        """
        oids = [table.mapped.oid for table in tables.values()]
        if unknown := [oid for oid in oids if oid not in self._known]:
            checked = {int(str(oid)) for (oid,) in self._connection.rows(_ARE_CHECKED, (_array(unknown),))}
            self._known |= {oid: oid in checked for oid in unknown}
        return any(self._known[oid] for oid in oids)

    def forget(self) -> None:
        """Ask for all tables anew."""
        self._known.clear()


def unchecked(tables: Tables) -> Bound:
    """Return a statement that fails (22012) if one of the tables has become one."""
    return Bound(_GUARD, (_array(table.mapped.oid for table in tables.values()).encode(),))


def _array(oids: Iterable[int]) -> str:
    return "{" + ",".join(map(str, oids)) + "}"
