"""The source's relations as they were announced last, and the target's tables for them.

A relation is mapped when its first change comes, and again after it was announced again. A table of the target's that
has changed since is noticed by its guard (:func:`headwater.apply.target.statements.guard`).

PostgreSQL: replication/logical/relation.c (LogicalRepRelMap).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from headwater.apply.target.connection import TargetConnection
from headwater.apply.target.relations import MappedRelation, OriginCheck, map_relation
from headwater.apply.target.session import TargetFacts
from headwater.apply.target.statements import guard
from headwater.errors import DecodingError, TargetError
from headwater.pg.version import VERSIONS, Version
from headwater.remote_slots.announced_relations import SentRelation

DIVISION_BY_ZERO = "22012"


class MappingChangedError(TargetError):
    """A table of the target has changed while changes were applied to it: they are applied anew, to what it is now.

    Args:
        message, sqlstate, detail, hint, context: of what was refused; see :class:`headwater.errors.TargetError`.
    """


class RelationMap:
    """The map.

    Args:
        connection: the target's; facts: of it.
        run_as_owner: changes are applied as the session's role, rather than as the tables' owners.

    Attributes:
        times_mapped: how often a relation was mapped so far.
        origins: tells of a table, as ``schema.table``, how rows of others are noticed in it.
    """

    def __init__(self, connection: TargetConnection, facts: TargetFacts, *, run_as_owner: bool = True) -> None:
        self._connection, self._facts, self._run_as_owner = connection, facts, run_as_owner
        self.origins: Callable[[str], OriginCheck | None] = lambda _: None
        self._sent: dict[int, SentRelation] = {}
        self._named: dict[tuple[str, str], set[int]] = {}
        self._mapped: dict[int, MappedRelation] = {}
        self.times_mapped = 0

    @property
    def server(self) -> Version:
        """The target's version."""
        return VERSIONS[self._facts.major]

    def announce(self, sent: SentRelation) -> None:
        """Note what a relation is from here on."""
        self._sent[sent.oid] = sent
        self._named.setdefault((sent.namespace, sent.name), set()).add(sent.oid)
        self._mapped.pop(sent.oid, None)

    def rename(self, before: tuple[str, str], now: tuple[str, str]) -> None:
        """Note another schema and name of a table, also where what is announced of it stays as it was.

        Changes that go by the root of partitions are not announced anew when that is renamed.
        """
        for sent in [sent for sent in self._sent.values() if (sent.namespace, sent.name) == before]:
            self.announce(replace(sent, namespace=now[0], name=now[1]))

    def forget(self) -> None:
        """Map all relations anew when their next changes come: tables of the target have changed."""
        self._mapped.clear()

    def sent(self, oid: int) -> SentRelation | None:
        """Return a relation as it was announced last; None if it was not."""
        return self._sent.get(oid)

    def is_shared(self, oid: int) -> bool:
        """Tell whether changes of another relation have come, too, for the table that changes of a relation are for."""
        sent = self._sent[oid]
        return len(self._named[sent.namespace, sent.name]) > 1

    @property
    def known(self) -> list[int]:
        """The OIDs of the relations whose tables are known."""
        return list(self._mapped)

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
                sent = self._sent[oid]
                origins = self.origins(f"{sent.namespace}.{sent.name}")
                mapped = self._mapped[oid] = map_relation(
                    self._connection, self._facts, sent, run_as_owner=self._run_as_owner, origins=origins
                )
                self.times_mapped += 1
            except TargetError as error:
                error.context = "\n".join(filter(None, [error.context, about()]))
                raise
        return mapped

    def has_changed(self) -> bool:
        """Tell whether a table has changed since it was mapped; the session is in no transaction.

        Raises:
            ConnectionLostError: the target is lost.
        """
        return any(not self._holds(mapped) for mapped in self._mapped.values())

    def _holds(self, mapped: MappedRelation) -> bool:
        try:
            self._connection.send(guard(mapped))
            self._connection.sync()
            self._connection.drain()
        except TargetError as error:
            if error.sqlstate != DIVISION_BY_ZERO:
                raise
            return False
        return True
