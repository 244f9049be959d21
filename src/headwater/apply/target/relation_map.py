"""The source's relations as they were announced last, and the target's tables for them.

A relation is mapped when its first change comes, and again after it was announced again. A table of the target's that
has changed since is noticed by its guard (:func:`headwater.apply.target.statements.guard`).

PostgreSQL: replication/logical/relation.c (LogicalRepRelMap).
"""

from __future__ import annotations

from collections.abc import Callable

from headwater.apply.target.connection import TargetConnection
from headwater.apply.target.relations import MappedRelation, map_relation
from headwater.apply.target.session import TargetFacts
from headwater.errors import DecodingError, TargetError
from headwater.remote_slots.announced_relations import SentRelation


class RelationMap:
    """The map.

    Args:
        connection: the target's; facts: of it.
    """

    def __init__(self, connection: TargetConnection, facts: TargetFacts) -> None:
        self._connection, self._facts = connection, facts
        self._sent: dict[int, SentRelation] = {}
        self._mapped: dict[int, MappedRelation] = {}

    def announce(self, sent: SentRelation) -> None:
        """Note what a relation is from here on."""
        self._sent[sent.oid] = sent
        self._mapped.pop(sent.oid, None)

    def is_mapped(self, oid: int) -> bool:
        """Tell whether a table is known for a relation: if not, :meth:`mapped` asks the target."""
        return oid in self._mapped

    def mapped(self, oid: int, about: Callable[[], str]) -> MappedRelation:
        """Return the target's table for a relation.

        Args:
            oid: the relation's on the source; about: what it is for, should it fail.

        Raises:
            TargetError: the target has no table that would do.
            DecodingError: the relation was not announced.
        """
        mapped = self._mapped.get(oid)
        if mapped is None:
            if oid not in self._sent:
                raise DecodingError(f"no relation map entry for remote relation ID {oid}")
            try:
                mapped = self._mapped[oid] = map_relation(self._connection, self._facts, self._sent[oid])
            except TargetError as error:
                error.context = "\n".join(filter(None, [error.context, about()]))
                raise
        return mapped
