"""Row filters, which decide the rows of a relation that its publications publish.

``compile_filter`` makes a :class:`Filter` of the trees of the publications' filters, a value that is sent to decode
tasks. :meth:`Filter.verdict` tells of each row whether it is published. NULL counts as false.

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
    """A filter that decides which rows are published; it pickles.

    Attributes:
        expression: the expression that is computed for each row; TRUE for published.
        columns: attnums of the columns that it looks at.
        failure: the error that the server raises as soon as it sets the filter up, for the first row of any kind;
            empty if it raises none.
    """

    expression: Expression
    columns: frozenset[int]
    failure: str = ""

    def verdict(self, columns: Mapping[int, RawColumn], n: int) -> Bools:
        """Decide which rows are published.

        Args:
            columns: the columns by attnum, at least those of :attr:`columns`; n rows each.
            n: the number of rows.

        Returns:
            bool[n].

        Raises:
            ExpressionError: the server raises it for one of these rows; of several, that of the first row.
            UnchangedValueError: the WAL does not have a value of the filter; it must be taken from the old row before.
        """
        try:
            return self._verdict(Frame(columns, np.arange(n, dtype=np.int64)))
        except ExpressionError as error:
            failure = self.first_error(columns, n)
            raise (error if failure is None else failure[1]) from None

    def first_error(self, columns: Mapping[int, RawColumn], n: int) -> tuple[int, ExpressionError] | None:
        """Find the first row for which :meth:`verdict` raises a server's error, and the error; None without any."""
        rows, error = np.arange(n, dtype=np.int64), self._error(columns, np.arange(n, dtype=np.int64))
        while error is not None and len(rows) > 1:
            half = rows[: len(rows) // 2]
            failure = self._error(columns, half)
            rows, error = (half, failure) if failure is not None else (rows[len(half) :], error)
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
        is_published: Bools = value.data & ~value.null
        return is_published


def compile_filter(trees: Sequence[str], columns: Sequence[Column], settings: FilterSettings) -> Filter:
    """Compile the filter of a relation's changes of one kind: a row is published if one of the trees is true of it.

    Args:
        trees: the ``prqual`` of each publication that publishes this kind of change, at least one, in the order in
        which the server goes through the publications.
        columns: the columns of the relation as of which it is published, in attnum order, dropped ones included.
        settings: the settings that results depend on.

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
    """Return the attnums of the columns that an expression looks at."""
    if isinstance(expression, ColumnValue):
        return {expression.number}
    if isinstance(expression, tuple):
        return set().union(*map(column_numbers, expression))
    names = getattr(expression, "__dataclass_fields__", ())
    return set().union(*(column_numbers(getattr(expression, name)) for name in names))
