"""Printed values made into Arrow arrays: of a source that has them as text, as the types' output functions write it.

In: the texts of a column, and its :class:`~headwater.rows.columns.column_types.ColumnType`. Out: the same array that
:mod:`headwater.rows.columns.columns` makes of stored values. Works on whole columns.

The text is that of a session with DateStyle ISO, IntervalStyle postgres, bytea_output hex and exact floats.

Known gaps: jsonb as VARIANT and amounts of money as decimals are refused. So are dates before the year 1 and after
9999, whatever the target.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, NoReturn, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headwater.base.arrow_buffers import arrow_buffer, as_strings, binary_array, bitmap, buffer_numbers
from headwater.errors import DecodingError, UnsupportedTypeError
from headwater.option_names import option, ways
from headwater.rows.columns import _printed_parts as _parts
from headwater.rows.columns.arrow import first_refused
from headwater.rows.columns.column_types import ColumnType, Form
from headwater.rows.columns.columns import Asked
from headwater.rows.columns.parsed_columns import HINT, read_back

_DAY = 86_400_000_000


def printed_array(column: ColumnType, texts: pa.BinaryArray, rows: NDArray[np.int64], asked: Asked) -> pa.Array[Any]:
    """Read a column's values from their text.

    Args:
        column: their type; texts: binary[n] in UTF8.
        rows: int64[n] the change that each is of.
        asked: how they are treated, and what they are called in errors.

    Raises:
        DecodingError: one does not fit, or is no text in UTF-8.
        UnsupportedTypeError: the type is not read from text.
    """
    return _READERS[column.form](_Reading(column, texts, rows, asked))


class _Spans(NamedTuple):
    """The bytes of values, and where each begins and ends: int64[n]."""

    text: NDArray[np.uint8]
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]


class _Parts(NamedTuple):
    """The parts of values: int64[n] how many each has; uint8[m] whether each is there; binary[m] their texts."""

    counts: NDArray[np.int64]
    is_there: NDArray[np.bool_]
    texts: pa.BinaryArray


@dataclass(frozen=True)
class _Reading:
    """A call of :func:`printed_array`."""

    column: ColumnType
    texts: pa.BinaryArray
    rows: NDArray[np.int64]
    asked: Asked

    def __len__(self) -> int:
        return len(self.texts)

    @cached_property
    def is_there(self) -> NDArray[np.bool_]:
        """The values that are not null: bool[n]."""
        there: NDArray[np.bool_] = self.texts.is_valid().to_numpy(zero_copy_only=False)
        return there

    @cached_property
    def strings(self) -> pa.StringArray:
        """The texts, of which all are UTF-8.

        Raises:
            DecodingError: one is not.
        """
        strings = as_strings(self.texts)
        try:
            strings.validate(full=True)
        except pa.ArrowInvalid:
            place, lsn = self.where(first_refused(strings, lambda part: part.validate(full=True)))
            raise DecodingError(f"text of {place} is not valid UTF-8", lsn=lsn) from None
        return strings

    def where(self, at: int) -> tuple[str, int]:
        """Return the name of a value's column, and the LSN of its change."""
        row = int(self.rows[at])
        return self.asked.place(row), self.asked.lsn(row)

    def spans(self) -> _Spans:
        """Return where the values lie that are there."""
        _, ends, data = self.texts.buffers()
        first = self.texts.offset
        offsets = buffer_numbers(ends, np.int32)[first : first + len(self) + 1].astype(np.int64)
        return _Spans(buffer_numbers(data, np.uint8), offsets[:-1][self.is_there], offsets[1:][self.is_there])

    def misfit(self, at: int, reason: str) -> NoReturn:
        """Stop at a value that the column cannot hold."""
        place, lsn = self.where(at)
        raise DecodingError(f"{place} holds {reason}, which {self.column.name} cannot hold", lsn=lsn, hint=HINT)

    def malformed(self, at: int) -> NoReturn:
        """Stop at a text that is no value of the type."""
        place, lsn = self.where(at)
        raise DecodingError(f"a value of {place} does not fit type {self.column.name}", lsn=lsn)

    def fitting(self, wrong: NDArray[np.integer | np.bool_], reasons: Mapping[int, str]) -> NDArray[np.bool_]:
        """Tell which values are there and fit.

        Args:
            wrong: [values that are there] 0 for those that fit; reasons: what the others are.

        Raises:
            DecodingError: one does not, and that is an error.
        """
        valid = self.is_there.copy()
        if wrong.any():
            at = np.flatnonzero(self.is_there)[wrong != 0]
            if not self.asked.with_null:
                self.misfit(int(at[0]), reasons[int(wrong[wrong != 0][0])])
            valid[at] = False
        return valid

    def spread(self, values: NDArray[Any]) -> NDArray[Any]:
        """Put nothing between values, where none is there."""
        out = np.zeros((len(self), *values.shape[1:]), values.dtype)
        out[self.is_there] = values
        return out


def _scalar(read: _Reading) -> pa.Array[Any]:
    texts = read.strings
    if pa.types.is_floating(read.column.arrow):
        return _floats(read, texts, read.column.arrow)
    if pa.types.is_binary(read.column.arrow) and read.column.is_text:
        return read.texts
    return read_back(texts, read.column, read.asked.with_null, read.where)


def _floats(read: _Reading, texts: pa.StringArray, type: pa.DataType) -> pa.Array[Any]:
    try:
        numbers: pa.Array[Any] = texts.cast(type)
    except pa.ArrowInvalid:
        at = first_refused(texts, lambda part: part.cast(type))
        read.malformed(at if len(texts) == len(read) else 0)
    return numbers


def _time(read: _Reading) -> pa.Array[Any]:
    text, *spans = read.spans()
    micros = np.empty(len(spans[0]), np.int64)
    _parts.parse_times(text, (spans[0], spans[1]), micros)
    if (micros < 0).any():
        read.malformed(int(np.flatnonzero(read.is_there)[np.argmax(micros < 0)]))
    valid = read.fitting(micros >= _DAY, {1: "24:00:00"})
    times: pa.Array[Any] = pa.array(read.spread(micros), mask=~valid).view(read.column.arrow)
    return times


def _interval(read: _Reading) -> pa.Array[Any]:
    text, *spans = read.spans()
    count = len(spans[0])
    months, days, fits = np.empty(count, np.int32), np.empty(count, np.int32), np.empty(count, np.uint8)
    micros = np.empty(count, np.int64)
    _parts.parse_intervals(text, (spans[0], spans[1]), months, days, micros, fits)
    valid = read.fitting(fits == 0, {1: "infinity"})
    arrays = [pa.array(read.spread(part)) for part in (months, days, micros)]
    fields = list(cast("pa.StructType", read.column.arrow))
    return pa.StructArray.from_arrays(arrays, fields=fields, mask=pa.array(~valid))


_UUID_DIGITS = np.array([at for at in range(36) if at not in (8, 13, 18, 23)])


def _uuid(read: _Reading) -> pa.Array[Any]:
    text, starts, ends = read.spans()
    if (ends - starts != 36).any():
        read.malformed(int(np.flatnonzero(read.is_there)[np.argmax(ends - starts != 36)]))
    digits = text[starts[:, None] + _UUID_DIGITS] if len(starts) else np.empty((0, 32), np.uint8)
    nibbles = np.where(digits > ord("9"), digits - (ord("a") - 10), digits - ord("0")).astype(np.uint8)
    data = read.spread(nibbles[:, ::2] << 4 | nibbles[:, 1::2])
    plain = pa.Array.from_buffers(
        pa.binary(16), len(read), [bitmap(read.is_there), arrow_buffer(np.ascontiguousarray(data))]
    )
    return pa.ExtensionArray.from_storage(pa.uuid(), plain)


def _refused(read: _Reading) -> pa.Array[Any]:
    if not read.is_there.any():
        nothing: pa.Array[Any] = pa.array([None] * len(read), read.column.arrow)
        return nothing
    place, lsn = read.where(int(np.argmax(read.is_there)))
    raise UnsupportedTypeError(
        f"{place} is to be {read.column.name}, which is not made of the text that a slot has",
        lsn=lsn,
        hint=ways(f"{option('on-unrepresentable', 'string')} makes columns of such types text"),
    )


def _take_apart(read: _Reading, form: int) -> tuple[_Parts, NDArray[np.uint8]]:
    """Take arrays or rows apart; gives the statuses of those that are there, too."""
    text, starts, ends = read.spans()
    counts, statuses = np.zeros(len(starts), np.int64), np.zeros(len(starts), np.uint8)
    arena, delimiter = np.empty(int((ends - starts).sum()), np.uint8), ord(read.column.type.delimiter)
    delimiter = delimiter if form == _parts.ARRAY else ord(",")
    nothing = _room(0)
    number = _parts.take_apart(text, (starts, ends), form, delimiter, counts, statuses, arena, nothing)
    room = _room(number)
    _parts.take_apart(text, (starts, ends), form, delimiter, counts, statuses, arena, room)
    return _as_parts(counts, arena, room), statuses


def _room(parts: int) -> tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.int64]]:
    return np.zeros(parts, np.uint8), np.zeros(parts, np.int64), np.zeros(parts, np.int64)


def _as_parts(
    counts: NDArray[np.int64],
    arena: NDArray[np.uint8],
    room: tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.int64]],
) -> _Parts:
    """Return parts, whose texts lie one after the other in the arena."""
    is_there, starts, lengths = room[0] != 0, room[1], room[2]
    last = int(starts[-1] + lengths[-1]) if len(starts) else 0
    offsets = np.append(starts, last).astype(np.int32)
    return _Parts(counts, is_there, binary_array(bitmap(is_there), offsets, arena[:last]))


def _inner(read: _Reading, part: ColumnType, texts: pa.BinaryArray, rows: NDArray[np.int64]) -> pa.Array[Any]:
    return printed_array(part, texts, rows, read.asked)


def _offsets(counts: NDArray[np.int64]) -> NDArray[np.int32]:
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)


def _listed(read: _Reading, valid: NDArray[np.bool_], counts: NDArray[np.int64], inner: pa.Array[Any]) -> pa.Array[Any]:
    buffers: list[pa.Buffer | None] = [bitmap(valid), arrow_buffer(_offsets(counts))]
    return pa.Array.from_buffers(read.column.arrow, len(read), buffers, children=[inner])


def _list(read: _Reading) -> pa.Array[Any]:
    parts, statuses = _take_apart(read, _parts.ARRAY)
    if (statuses == _parts.MALFORMED).any():
        read.malformed(int(np.flatnonzero(read.is_there)[np.argmax(statuses == _parts.MALFORMED)]))
    valid = read.fitting(statuses, _ODD)
    rows = np.repeat(read.rows[read.is_there], parts.counts)
    inner = _inner(read, read.column.parts[0], parts.texts, rows)
    return _listed(read, valid, read.spread(parts.counts), inner)


_ODD = {_parts.DIMENSIONS: "an array of several dimensions", _parts.BOUNDS: "an array with bounds"}


def _vector(read: _Reading) -> pa.Array[Any]:
    text, starts, ends = read.spans()
    if (ends - starts < 2).any():
        read.malformed(int(np.flatnonzero(read.is_there)[np.argmax(ends - starts < 2)]))
    data = text.copy()
    data[starts], data[ends - 1] = ord("{"), ord("}")
    _, offsets, _ = read.texts.buffers()
    first = read.texts.offset
    ends32 = buffer_numbers(offsets, np.int32)[first : first + len(read) + 1]
    texts = binary_array(bitmap(read.is_there), np.ascontiguousarray(ends32), data)
    counted, statuses = _take_apart(replace(read, texts=texts), _parts.ARRAY)
    if (statuses != _parts.FITS).any():
        read.malformed(int(np.flatnonzero(read.is_there)[np.argmax(statuses != _parts.FITS)]))
    inner = _floats(read, as_strings(counted.texts), pa.float32())
    return _listed(read, read.is_there, read.spread(counted.counts), inner)


def _struct(read: _Reading) -> pa.Array[Any]:
    parts, statuses = _take_apart(read, _parts.ROW)
    expected = len(read.column.parts)
    wrong = (statuses != _parts.FITS) | (parts.counts != expected)
    if wrong.any():
        read.malformed(int(np.flatnonzero(read.is_there)[np.argmax(wrong)]))
    count = len(parts.counts)
    rows = read.rows[read.is_there]
    arrays = []
    for number, part in enumerate(read.column.parts):
        texts = parts.texts.take(np.arange(count) * expected + number)
        arrays.append(_spread(_inner(read, part, texts, rows), read.is_there))
    fields = list(cast("pa.StructType", read.column.arrow))
    return pa.StructArray.from_arrays(arrays, fields=fields, mask=pa.array(~read.is_there))


def _spread(array: pa.Array[Any], is_there: NDArray[np.bool_]) -> pa.Array[Any]:
    """Put nulls between an array's values."""
    if is_there.all():
        return array
    return array.take(pa.array(np.cumsum(is_there) - 1, mask=~is_there))


def _range(read: _Reading) -> pa.Array[Any]:
    _, ranges = _ranges(read, _parts.RANGE, cast("pa.StructType", read.column.arrow))
    return _spread(ranges, read.is_there)


def _multirange(read: _Reading) -> pa.Array[Any]:
    arrow = cast("pa.ListType[Any]", read.column.arrow).value_type
    counts, ranges = _ranges(read, _parts.MULTIRANGE, cast("pa.StructType", arrow))
    return _listed(read, read.is_there, read.spread(counts), ranges)


def _ranges(read: _Reading, form: int, arrow: pa.StructType) -> tuple[NDArray[np.int64], pa.StructArray]:
    """Return all ranges of the values that are there, and how many each has."""
    text, starts, ends = read.spans()
    counts, arena = np.zeros(len(starts), np.int64), np.empty(int((ends - starts).sum()), np.uint8)
    spans, none = (starts, ends), np.zeros(0, np.uint8)
    status, ranges, parts = _parts.take_ranges_apart(text, spans, form, counts, none, arena, _room(0))
    if status != _parts.FITS:
        read.malformed(int(np.flatnonzero(read.is_there)[ranges]))
    flags, room = np.zeros(ranges, np.uint8), _room(parts)
    _parts.take_ranges_apart(text, spans, form, counts, flags, arena, room)
    return counts, _bounded(read, flags, _as_parts(counts, arena, room), arrow)


def _bounded(read: _Reading, flags: NDArray[np.uint8], parts: _Parts, arrow: pa.StructType) -> pa.StructArray:
    """Make a range for each byte of flags: an empty one has no parts, any other two."""
    is_empty = flags & _parts.EMPTY != 0
    rows = np.repeat(read.rows[read.is_there], parts.counts)[~is_empty]
    bounds, lost = [], np.zeros(len(flags), np.bool_)
    for side in (0, 1):
        texts = parts.texts.take(np.arange(len(rows)) * 2 + side)
        bound = _inner(read, read.column.parts[0], texts, rows)
        # A bound that is there, and null, does not fit its column: to leave it out would make the range another one.
        lost[~is_empty] |= parts.is_there[side::2] & bound.is_null().to_numpy(zero_copy_only=False)
        bounds.append(_spread(bound, ~is_empty))
    inclusive = [pa.array(flags & bit != 0) for bit in (_parts.LOWER_INC, _parts.UPPER_INC)]
    return pa.StructArray.from_arrays(
        [*bounds, *inclusive, pa.array(is_empty)], fields=list(arrow), mask=pa.array(lost)
    )


_READERS: dict[Form, Callable[[_Reading], pa.Array[Any]]] = {
    **dict.fromkeys(Form, _scalar),
    Form.TIME: _time,
    Form.INTERVAL: _interval,
    Form.UUID: _uuid,
    Form.MONEY: _refused,
    Form.VARIANT: _refused,
    Form.LIST: _list,
    Form.VECTOR: _vector,
    Form.STRUCT: _struct,
    Form.RANGE: _range,
    Form.MULTIRANGE: _multirange,
}
