"""The tables of a session whose changes can be folded, as far as they are known.

PostgreSQL: no counterpart.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from headwater.apply.batches.batch import Messages
from headwater.apply.batches.bulk_table import BulkTable, bulk_table
from headwater.apply.progress.table_states import AppliedTables
from headwater.apply.target.connection import TargetConnection
from headwater.apply.target.relation_map import RelationMap
from headwater.apply.target.relations import MappedRelation

REST_TURNS = 100
"""Pieces of the stream for which a table is left alone whose changes it did not pay to fold."""


class BulkTables:
    """The tables.

    Args:
        connection: the target's; relations: the source's relations, and tables for them.
        applied: says of which tables changes are applied.
        flush: has all applied that was sent, before the target is asked about a table.
        is_set_aside: tells whether changes of a table are kept for later.
        uses_times: tells whether each row of a table has to have the commit time of its own transaction.
    """

    def __init__(
        self,
        connection: TargetConnection,
        relations: RelationMap,
        applied: AppliedTables,
        flush: Callable[[], None],
        is_set_aside: Callable[[MappedRelation], bool] = lambda _: False,
        uses_times: Callable[[MappedRelation], bool] = lambda _: False,
    ) -> None:
        self._uses_times = uses_times
        self._is_set_aside = is_set_aside
        self._connection, self._relations, self._applied, self._flush = connection, relations, applied, flush
        self._tables: dict[int, tuple[MappedRelation, BulkTable | None]] = {}
        self._turns = 0
        self._rests: dict[int, int] = {}

    def next_piece(self) -> None:
        """Count a piece of the stream."""
        self._turns += 1

    def get(self, oid: int) -> BulkTable | None:
        """Return the table of a relation if its changes can be folded, and it is mapped already.

        Raises:
            ConnectionLostError: the target is lost.
        """
        if not self._relations.is_mapped(oid) or self._relations.is_shared(oid):
            return None
        mapped = self._relations.mapped(oid, str)
        known = self._tables.get(oid)
        if known is None or known[0] is not mapped:
            self._flush()
            known = self._tables[oid] = mapped, bulk_table(self._connection, mapped)
        is_fit = self._rests.get(oid, 0) <= self._turns and not self._is_set_aside(mapped)
        is_fit = is_fit and self._applied.is_ready(mapped.oid)
        return known[1] if is_fit else None

    @property
    def are_known(self) -> bool:
        """Whether the target has to be asked about none of them."""
        return all(self._is_known(oid) for oid in self._relations.known if not self._relations.is_shared(oid))

    def _is_known(self, oid: int) -> bool:
        known = self._tables.get(oid)
        return known is not None and known[0] is self._relations.mapped(oid, str)

    def of(self, messages: Messages) -> dict[int, BulkTable]:
        """Return the tables that messages have changes of, but for those whose changes cannot be folded."""
        return {oid: table for oid in messages.relations if (table := self.get(oid)) is not None}

    @property
    def foldable(self) -> NDArray[np.int64]:
        """int64[] OIDs of the relations whose changes can be folded over transactions, in ascending order."""
        tables = ((oid, self.get(oid)) for oid in self._relations.known)
        known = (oid for oid, table in tables if table is not None and not self._uses_times(table.mapped))
        return np.array(sorted(known), np.int64)

    def rest(self, table: BulkTable) -> None:
        """Leave a table alone for some time."""
        self._rests[table.mapped.sent.oid] = self._turns + REST_TURNS

    def forget(self) -> None:
        """Look at all tables anew."""
        self._tables.clear()
