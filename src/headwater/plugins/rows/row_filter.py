"""Conditions on columns of every change: which changes are wanted."""

from __future__ import annotations

from dataclasses import dataclass

from headwater.catalog.relation import RelationSchema
from headwater.plugins.api import WANT_BARE_DELETE, WANT_DELETE, WANT_INSERT, WANT_TRUNCATE, WANT_UPDATE

OPERATIONS = {
    "insert": WANT_INSERT,
    "update": WANT_UPDATE,
    "delete": WANT_DELETE | WANT_BARE_DELETE,
    "truncate": WANT_TRUNCATE,
}
"""Values of ``_op``, and what a plugin wants for each."""

LAST_LSN = (1 << 63) - 1


@dataclass(frozen=True)
class Condition:
    """A column's value is among some, or is not."""

    column: str
    values: frozenset[str]
    is_negated: bool

    def holds(self, column: str, value: str) -> bool:
        """Tell whether it holds for a value of a column; it does for all values of other columns."""
        return column != self.column or (value in self.values) != self.is_negated


@dataclass(frozen=True)
class RowFilter:
    """The changes that are wanted.

    Attributes:
        conditions: all must hold.
        first_commit, last_commit: bounds of the LSN of the commit, both included.
    """

    conditions: tuple[Condition, ...] = ()
    first_commit: int = 0
    last_commit: int = LAST_LSN

    def keeps(self, schema: RelationSchema) -> bool:
        """Tell whether changes of a relation are wanted, by its names."""
        return self._holds("_schema", schema.namespace) and self._holds("_table", schema.name)

    @property
    def operations(self) -> int:
        """WANT bits of the wanted operations."""
        return sum(bits for name, bits in OPERATIONS.items() if self._holds("_op", name))

    def _holds(self, column: str, value: str) -> bool:
        return all(condition.holds(column, value) for condition in self.conditions)


EVERYTHING = RowFilter()
