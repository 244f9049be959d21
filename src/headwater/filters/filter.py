"""Row filters: which rows of a relation its publications publish.

``compile_filter`` makes a :class:`Filter` of the trees of the publications' filters, a value that is sent to decode
tasks;
:meth:`Filter.verdict` says of each row whether it is published. NULL counts as false.

PostgreSQL: ``replication/pgoutput/pgoutput.c`` (pgoutput_row_filter_init, pgoutput_row_filter_exec_expr).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from headwater.catalog.relation import Column
from headwater.errors import ExpressionError
from headwater.filters.columns import Frame, RawColumn
from headwater.filters.compiling import compile_expression
from headwater.filters.expressions import BOOL, ColumnValue, Connection, Constant, Expression, truth
from headwater.filters.folding import simplified
from headwater.filters.functions import FilterSettings
from headwater.filters.values import Bools, Index


@dataclass(frozen=True)
class Filter:
    """Which rows are published; it pickles.

    Attributes:
        expression: what is computed of each row; TRUE for published.
        columns: attnums of the columns that it looks at.
        failure: what the server says as soon as it sets the filter up, for the first row of whatever kind; empty if it
            does not.
    """

    expression: Expression
    columns: frozenset[int]
    failure: str = ""

    def verdict(self, columns: Mapping[int, RawColumn], n: int) -> Bools:
        """Which rows are published.

        Args:
            columns: by attnum, at least those of :attr:`columns`; n rows each.
            n: how many rows there are.

        Returns:
            bool[n].

        Raises:
            ExpressionError: the server raises it for one of these rows; of several, that of the first one.
            UnchangedValueError: a value that is looked at is not there; it has to be taken from the old row before.
        """
        try:
            return self._verdict(Frame(columns, np.arange(n, dtype=np.int64)))
        except ExpressionError as error:
            found = self.first_error(columns, n)
            raise (error if found is None else found[1]) from None

    def first_error(self, columns: Mapping[int, RawColumn], n: int) -> tuple[int, ExpressionError] | None:
        """The first row for which :meth:`verdict` raises an error of the server's, and the error; None without any."""
        rows, error = np.arange(n, dtype=np.int64), self._error(columns, np.arange(n, dtype=np.int64))
        while error is not None and len(rows) > 1:
            half = rows[: len(rows) // 2]
            found = self._error(columns, half)
            rows, error = (half, found) if found is not None else (rows[len(half) :], error)
        if error is None:
            return None
        return int(rows[0]), self._error(columns, rows) or error

    def _error(self, columns: Mapping[int, RawColumn], rows: Index) -> ExpressionError | None:
        try:
            self._verdict(Frame(columns, rows))
        except ExpressionError as error:
            return error
        return None

    def _verdict(self, frame: Frame) -> Bools:
        if not len(frame):
            return np.zeros(0, dtype=bool)
        if self.failure:
            raise ExpressionError(self.failure)
        value = truth(self.expression, frame)
        found: Bools = value.data & ~value.null
        return found


def compile_filter(trees: Sequence[str], columns: Sequence[Column], settings: FilterSettings) -> Filter:
    """The filter of a relation's changes of one kind: a row is published if one of the trees is true of it.

    Args:
        trees: the ``prqual`` of each publication that publishes this kind of change, at least one, in the order in
        which the server goes through the publications.
        columns: those of the relation as of which it is published, in attnum order, dropped ones included.
        settings: what results depend on.

    Raises:
        UnsupportedFilterError: a filter cannot be computed exactly here.
        CatalogError: a tree is malformed, or does not fit the relation.
    """
    parts = tuple(compile_expression(tree, columns, settings) for tree in trees)
    whole = parts[0] if len(parts) == 1 else Connection(False, parts)
    looked_at = frozenset(column_numbers(whole))
    try:
        return Filter(simplified(whole), looked_at)
    except ExpressionError as error:
        return Filter(Constant(BOOL, None), looked_at, error.message)


def column_numbers(expression: object) -> set[int]:
    """The attnums of the columns that an expression looks at."""
    if isinstance(expression, ColumnValue):
        return {expression.number}
    if isinstance(expression, tuple):
        return set().union(*map(column_numbers, expression))
    names = getattr(expression, "__dataclass_fields__", ())
    return set().union(*(column_numbers(getattr(expression, name)) for name in names))
