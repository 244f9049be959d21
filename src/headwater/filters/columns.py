"""The columns that filters look at, as stored values, and the rows that are still to be computed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from headwater.errors import UnchangedValueError
from headwater.filters.values import Index, Values, stored

NULL, VALUE, UNCHANGED = 0, 1, 2
"""The kinds of stored values: NULL, a value, and a TOAST value that the WAL does not have."""


class RawColumn(NamedTuple):
    """The values of one column of n rows, as a heap tuple stores them.

    Attributes:
        kind: uint8[n] NULL, VALUE or UNCHANGED.
        start: int64[n] where in data the value begins, of a varlena its payload: without header, detoasted and
            decompressed.
        length: int32[n] its bytes.
        data: uint8[].
    """

    kind: NDArray[np.uint8]
    start: NDArray[np.int64]
    length: NDArray[np.int32]
    data: NDArray[np.uint8]


class Frame:
    """The rows whose expressions are computed together.

    Attributes:
        columns: the rows' columns by attnum.
        rows: int64[n] the numbers of the rows in the columns.
        case: the value that ``CASE`` compares in the expressions below it, None outside.
    """

    def __init__(self, columns: Mapping[int, RawColumn], rows: Index, case: Values | None = None) -> None:
        self.columns = columns
        self.rows = rows
        self.case = case
        self._known: dict[int, Values] = {}

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, index: Index) -> Frame:
        """Take some of the rows, by their numbers in this frame."""
        if len(index) == len(self.rows):
            return self
        return Frame(self.columns, self.rows[index], None if self.case is None else self.case.take(index))

    def with_case(self, case: Values) -> Frame:
        """Return the same rows with a value for ``CASE`` to compare."""
        return Frame(self.columns, self.rows, case)

    def column(self, number: int, type: int) -> Values:
        """Return the values of a column.

        Args:
            number: its attnum.
            type: OID of its type, of a domain that of its base type.

        Raises:
            UnchangedValueError: the WAL does not have a row's value.
        """
        if number not in self._known:
            column = self.columns[number]
            kind = column.kind[self.rows]
            if (kind == UNCHANGED).any():
                raise UnchangedValueError(
                    f"column {number} has a value that was not written again", hint="take it from the old row"
                )
            start, length = column.start[self.rows], column.length[self.rows].astype(np.int64)
            self._known[number] = stored(type, column.data, start, length, kind == NULL)
        return self._known[number]
