"""Conditions on columns of every change, which Spark hands over so that other changes need not be decoded.

In: Spark's filters, all of which must hold. Out: a :class:`RowFilter`, and the filters that Spark still has to apply.
Conditions on ``_schema``, ``_table``, ``_op`` and ``_commit_lsn`` are exact. One on ``_lsn`` rules out transactions
that committed before it, and no more, as a change's record may need others before it; Spark gets it back.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from pyspark.sql import datasource as spark

from headwater.catalog.relation import RelationSchema
from headwater.plugins.api import WANT_BARE_DELETE, WANT_DELETE, WANT_INSERT, WANT_TRUNCATE, WANT_UPDATE

OPERATIONS = {
    "insert": WANT_INSERT,
    "update": WANT_UPDATE,
    "delete": WANT_DELETE | WANT_BARE_DELETE,
    "truncate": WANT_TRUNCATE,
}
"""Values of ``_op``, and what a plugin wants for each."""

_NAMES = ("_schema", "_table", "_op")
_NEVER_NULL = (*_NAMES, "_lsn", "_commit_lsn", "_seq", "_commit_time", "_xid", "_unchanged")
LAST_LSN = (1 << 63) - 1


@dataclass(frozen=True)
class Condition:
    """A column's value is among some, or is not."""

    column: str
    values: frozenset[str]
    is_negated: bool

    def holds(self, column: str, value: str) -> bool:
        """Whether it holds for a value of a column; it does for all values of other columns."""
        return column != self.column or (value in self.values) != self.is_negated


@dataclass(frozen=True)
class RowFilter:
    """Which changes are wanted.

    Attributes:
        conditions: all must hold.
        first_commit, last_commit: bounds of the LSN of the commit, both included.
    """

    conditions: tuple[Condition, ...] = ()
    first_commit: int = 0
    last_commit: int = LAST_LSN

    def keeps(self, schema: RelationSchema) -> bool:
        """Whether changes of a relation are wanted, by its names."""
        return self._holds("_schema", schema.namespace) and self._holds("_table", schema.name)

    @property
    def operations(self) -> int:
        """WANT bits of the wanted operations."""
        return sum(bits for name, bits in OPERATIONS.items() if self._holds("_op", name))

    def _holds(self, column: str, value: str) -> bool:
        return all(condition.holds(column, value) for condition in self.conditions)

    def pushed(
        self, filters: Iterable[spark.Filter], *, changes_operations: bool = False
    ) -> tuple[RowFilter, list[spark.Filter]]:
        """This and Spark's filters; and those of them that Spark must apply itself.

        Args:
            filters: Spark's.
            changes_operations: an UPDATE may be shown as another operation, by a publication's row filter.
        """
        narrowed, rest = self, []
        for one in filters:
            narrowed, is_exact = narrowed._and(one)
            if not is_exact or (changes_operations and column_of(one) == "_op"):
                rest.append(one)
        return narrowed, rest

    def _and(self, one: spark.Filter) -> tuple[RowFilter, bool]:
        """This and one filter; whether that is all the filter says."""
        inner, is_negated = (one.child, True) if isinstance(one, spark.Not) else (one, False)
        column = column_of(inner)
        if isinstance(inner, spark.IsNotNull):
            return self, column in _NEVER_NULL and not is_negated
        if column in _NAMES:
            values = _texts(inner)
            if values is None:
                return self, False
            return replace(self, conditions=(*self.conditions, Condition(column, values, is_negated))), True
        bounds = _bounds(inner)
        if bounds is None or is_negated or column not in ("_lsn", "_commit_lsn"):
            return self, False
        if column == "_lsn":
            bounds = bounds[0], LAST_LSN
        narrowed = replace(
            self, first_commit=max(self.first_commit, bounds[0]), last_commit=min(self.last_commit, bounds[1])
        )
        return narrowed, column == "_commit_lsn"


EVERYTHING = RowFilter()


def column_of(one: spark.Filter) -> str:
    """The column that a filter is about; empty for what is inside of one."""
    inner = one.child if isinstance(one, spark.Not) else one
    return str(inner.attribute[0]) if len(inner.attribute) == 1 else ""


def _texts(one: spark.Filter) -> frozenset[str] | None:
    """The values that an equality or an IN names; None for other filters and values."""
    if isinstance(one, spark.EqualTo | spark.EqualNullSafe):
        values = [one.value]
    elif isinstance(one, spark.In):
        values = list(one.value)
    else:
        return None
    return frozenset(values) if all(isinstance(value, str) for value in values) else None


def _bounds(one: spark.Filter) -> tuple[int, int] | None:
    """First and last value that a comparison lets through; None for other filters and values."""
    value = getattr(one, "value", None)
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    if isinstance(one, spark.EqualTo | spark.EqualNullSafe):
        return value, value
    if isinstance(one, spark.GreaterThan | spark.GreaterThanOrEqual):
        return value + isinstance(one, spark.GreaterThan), LAST_LSN
    if isinstance(one, spark.LessThan | spark.LessThanOrEqual):
        return 0, value - isinstance(one, spark.LessThan)
    return None
