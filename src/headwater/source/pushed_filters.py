"""Filters that Spark hands over, so that changes which they rule out need not be decoded.

In: Spark's filters, all of which must hold. Out: a :class:`~headwater.plugins.rows.row_filter.RowFilter`, and the
filters that Spark still has to apply. Conditions on ``_schema``, ``_table``, ``_op`` and ``_commit_lsn`` are exact. One
on ``_lsn`` rules out transactions that committed before it, and no more, as a change's record may need others before
it; Spark gets it back.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from pyspark.sql import datasource as spark

from headwater.plugins.rows.row_filter import LAST_LSN, Condition, RowFilter

_NAMES = ("_schema", "_table", "_op")
_NEVER_NULL = (*_NAMES, "_lsn", "_commit_lsn", "_seq", "_commit_time", "_xid", "_unchanged")


def pushed(
    where: RowFilter, filters: Iterable[spark.Filter], *, changes_operations: bool = False
) -> tuple[RowFilter, list[spark.Filter]]:
    """Narrow a filter by Spark's.

    Args:
        where: the filter.
        filters: Spark's.
        changes_operations: an UPDATE may be shown as another operation, by a publication's row filter.

    Returns:
        both together; and those of Spark's that Spark must apply itself.
    """
    narrowed, rest = where, []
    for condition in filters:
        narrowed, is_exact = _both(narrowed, condition)
        if not is_exact or (changes_operations and column_of(condition) == "_op"):
            rest.append(condition)
    return narrowed, rest


def _both(where: RowFilter, condition: spark.Filter) -> tuple[RowFilter, bool]:
    """Return a filter and a condition together; and whether that is all that the condition says."""
    inner, is_negated = (condition.child, True) if isinstance(condition, spark.Not) else (condition, False)
    column = column_of(inner)
    if isinstance(inner, spark.IsNotNull):
        return where, column in _NEVER_NULL and not is_negated
    if column in _NAMES:
        values = _texts(inner)
        if values is None:
            return where, False
        return replace(where, conditions=(*where.conditions, Condition(column, values, is_negated))), True
    bounds = _bounds(inner)
    if bounds is None or is_negated or column not in ("_lsn", "_commit_lsn"):
        return where, False
    if column == "_lsn":
        bounds = bounds[0], LAST_LSN
    narrowed = replace(
        where, first_commit=max(where.first_commit, bounds[0]), last_commit=min(where.last_commit, bounds[1])
    )
    return narrowed, column == "_commit_lsn"


def column_of(condition: spark.Filter) -> str:
    """Return the column that a filter is about; empty for what is inside of one."""
    inner: Any = condition.child if isinstance(condition, spark.Not) else condition
    return str(inner.attribute[0]) if len(inner.attribute) == 1 else ""


def _texts(condition: spark.Filter) -> frozenset[str] | None:
    """Return the values that an equality or an IN names; None for other filters and values."""
    if isinstance(condition, spark.EqualTo | spark.EqualNullSafe):
        values = [condition.value]
    elif isinstance(condition, spark.In):
        values = list(condition.value)
    else:
        return None
    return frozenset(values) if all(isinstance(value, str) for value in values) else None


def _bounds(condition: spark.Filter) -> tuple[int, int] | None:
    """Return the first and last value that a comparison lets through; None for other filters and values."""
    value = getattr(condition, "value", None)
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    if isinstance(condition, spark.EqualTo | spark.EqualNullSafe):
        return value, value
    if isinstance(condition, spark.GreaterThan | spark.GreaterThanOrEqual):
        return value + isinstance(condition, spark.GreaterThan), LAST_LSN
    if isinstance(condition, spark.LessThan | spark.LessThanOrEqual):
        return 0, value - isinstance(condition, spark.LessThan)
    return None
