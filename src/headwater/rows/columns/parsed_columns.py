"""Text read back into typed columns: of types that a package prints, and of values that an older type held.

A value of an older type is read as the newer one where every value that both hold prints alike. So numbers of any
width, with decimals or without, are one to the other what their text says. Works on whole columns (``_parse``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.base.arrow_buffers import binary_array, bitmap, buffer_numbers
from headwater.errors import DecodingError
from headwater.option_names import option, ways
from headwater.rows.columns import _parse
from headwater.rows.columns.arrow import first_refused
from headwater.rows.columns.column_types import ColumnType

REASONS = {
    _parse.INFINITE: "infinity",
    _parse.BEFORE_YEAR_1: "a date before the year 1",
    _parse.AFTER_YEAR_9999: "a date after the year 9999",
}
HINT = ways(f"{option('on-unrepresentable', 'null')} makes them null, string makes the columns of such types text")

Where = Callable[[int], tuple[str, int]]
"""Gives the name of a value's column, and the LSN of its change."""

Misfit = Callable[[int], DecodingError]
"""The error of a value that is none of the column's type."""


def read_back(
    texts: pa.StringArray, column: ColumnType, with_null: bool, where: Where, misfit: Misfit | None = None
) -> pa.Array[Any]:
    """Read values of a column from their text, in ISO style.

    Args:
        texts: string[n].
        column: their type; of one that is neither a number, a date, text, bytes nor a truth value, nothing is read.
        with_null: null stands for values that the column cannot hold.
        where: gives the column and LSN of value i.
        misfit: makes the error of a text that is no value of the type; None for one that says only that.

    Raises:
        DecodingError: a value does not fit.
    """
    return _Texts(texts, column, with_null, where, misfit).array()


@dataclass(frozen=True)
class _Texts:
    """A call of :func:`read_back`."""

    texts: pa.StringArray
    column: ColumnType
    with_null: bool
    where: Where
    misfit: Misfit | None

    def array(self) -> pa.Array[Any]:
        """Read the values."""
        type = self.column.arrow
        if pa.types.is_string(type):
            return self.texts
        if pa.types.is_binary(type):
            return self._bytes()
        if pa.types.is_integer(type):
            return self._cast(self._numbers(_parse.INTEGERS, np.int64), type)
        if pa.types.is_date32(type):
            return self._numbers(_parse.DATES, np.int32).view(type)
        if pa.types.is_timestamp(type):
            return self._numbers(_parse.TIMESTAMPS, np.int64).view(type)
        if pa.types.is_boolean(type):
            return pc.equal(self.texts, pa.scalar("t"))
        return self._cast(self._finite() if pa.types.is_decimal(type) else self.texts, type)

    def _spans(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Return the bytes, where each text begins, how long it is, and which are there: picks for ``_parse``."""
        count, first = len(self.texts), self.texts.offset
        _, ends, data = self.texts.buffers()
        offsets = buffer_numbers(ends, np.int32)[first : first + count + 1].astype(np.int64)
        there = self.texts.is_valid().to_numpy(zero_copy_only=False)
        text = buffer_numbers(data, np.uint8)
        return text, offsets[:-1], np.diff(offsets).astype(np.int32), np.where(there, np.arange(count), -1)

    def _bytes(self) -> pa.BinaryArray:
        data, start, length, picks = self._spans()
        out, offsets = np.empty(int(length.sum(dtype=np.int64)), np.uint8), np.empty(len(picks) + 1, np.int64)
        stopped = _parse.parse_values(_parse.BYTEA, data, start, length, picks, out, offsets)
        if stopped != _parse.DONE:
            self._refuse(int(stopped))
        return binary_array(bitmap(picks >= 0), offsets.astype(np.int32), out)

    def _numbers(self, form: int, dtype: type[np.int32] | type[np.int64]) -> pa.Array[Any]:
        data, start, length, picks = self._spans()
        out, fits = np.empty(len(picks), dtype=dtype), np.empty(len(picks), dtype=np.uint8)
        is_null = picks < 0
        if _parse.parse_numbers(form, data, start, length, picks, out, fits):
            unreadable = np.flatnonzero(fits == _parse.UNREADABLE)
            if len(unreadable):
                self._refuse(int(unreadable[0]))
            first = int(np.flatnonzero(fits)[0])
            self._require_null(first, REASONS[int(fits[first])])
            is_null |= fits != _parse.FITS
        return pa.array(out, mask=is_null)

    def _finite(self) -> pa.StringArray:
        """Return the numerics without those that no decimal can hold."""
        special = pc.is_in(self.texts, pa.array(["NaN", "Infinity", "-Infinity"]))
        if not pc.any(special).as_py():
            return self.texts
        first = pc.index(special, True).as_py()
        self._require_null(first, "NaN" if self.texts[first].as_py() == "NaN" else "infinity")
        finite: pa.StringArray = pc.if_else(special, None, self.texts)
        return finite

    def _cast(self, array: pa.Array[Any], type: pa.DataType) -> pa.Array[Any]:
        try:
            return array.cast(type)
        except pa.ArrowInvalid:
            self._refuse(first_refused(array, lambda part: part.cast(type)))

    def _require_null(self, at: int, reason: str) -> None:
        """Raise an error unless a value that the column cannot hold becomes null, which is the user's choice."""
        if self.with_null:
            return
        place, lsn = self.where(at)
        raise DecodingError(f"{place} holds {reason}, which {self.column.name} cannot hold", lsn=lsn, hint=HINT)

    def _refuse(self, at: int) -> NoReturn:
        if self.misfit is not None:
            raise self.misfit(at)
        place, lsn = self.where(at)
        raise DecodingError(f"a value of {place} does not fit type {self.column.name}", lsn=lsn)
