"""The columns of values that expressions are computed on, in one of two forms, each with a mask of NULLs.

Values of a type of fixed length up to 8 bytes are a NumPy array of its own kind (:class:`Plain`). Those of an interval
are one of three fields. All others are spans of bytes (:class:`Spans`): each as a heap tuple stores it, detoasted and
decompressed, without its varlena header. The data of a NULL has no meaning, but can be read: zero, or no bytes.

Columns have no gaps: kernels are compiled for whole arrays only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from headwater.errors import RecordError
from headwater.pg.functions import type_name
from headwater.rows.columns import _stored_columns

Bools: TypeAlias = NDArray[np.bool_]
Index: TypeAlias = NDArray[np.int64]

INTERVAL = np.dtype([("time", "<i8"), ("day", "<i4"), ("month", "<i4")])
ZONED_TIME = np.dtype([("time", "<i8"), ("zone", "<i4")])

_DTYPES = {
    "?": (16,),
    "u1": (18,),
    "<i2": (21,),
    "<i4": (23, 1082),
    "<i8": (20, 790, 1083, 1114, 1184),
    "<u4": (24, 26, 28, 29, 2202, 2203, 2204, 2205, 2206, 3734, 3769, 4089, 4096, 4191, 6490),
    "<u8": (3220, 5069, 6437),
    "<f4": (700,),
    "<f8": (701,),
}
FIXED: dict[int, np.dtype[Any]] = {oid: np.dtype(name) for name, oids in _DTYPES.items() for oid in oids}
FIXED |= {1186: INTERVAL, 1266: ZONED_TIME}
"""The types that are :class:`Plain`, by OID."""

NAME = 19
"""The OID of name: of fixed length, but a string that ends with its first NUL byte."""


@dataclass(frozen=True, eq=False)
class Plain:
    """Values of a type of fixed length.

    Attributes:
        data: [n] of the type's dtype.
        null: bool[n].
    """

    data: NDArray[Any]
    null: Bools

    def __len__(self) -> int:
        return len(self.null)

    def take(self, index: Index) -> Plain:
        """Take the values of some rows."""
        return Plain(self.data[index], self.null[index])

    def with_null(self, null: Bools) -> Plain:
        """Return the same values, NULL in other rows."""
        return replace(self, null=null)

    def to_list(self) -> list[Any]:
        """Return the values as Python has them; those of NULLs have no meaning."""
        values: list[Any] = self.data.tolist()
        return values

    def keys(self) -> list[Any]:
        """Return keys that tell values apart, bit by bit."""
        if self.data.dtype.kind == "f":
            return Plain(self.data.view(f"i{self.data.dtype.itemsize}"), self.null).to_list()
        return self.to_list()


@dataclass(frozen=True, eq=False)
class Spans:
    """Values of any other type.

    Attributes:
        data: uint8[] in which the values lie, anywhere.
        start: int64[n].
        length: int64[n].
        null: bool[n].
    """

    data: NDArray[np.uint8]
    start: Index
    length: Index
    null: Bools

    def __len__(self) -> int:
        return len(self.null)

    def take(self, index: Index) -> Spans:
        """Take the values of some rows."""
        return Spans(self.data, self.start[index], self.length[index], self.null[index])

    def with_null(self, null: Bools) -> Spans:
        """Return the same values, NULL in other rows."""
        return replace(self, null=null)

    @cached_property
    def for_kernels(self) -> _stored_columns.Spans:
        """The same column without the mask of NULLs."""
        return _stored_columns.Spans(self.data, self.start, self.length)

    def to_list(self) -> list[bytes]:
        """Return each value's bytes; no bytes for NULLs."""
        whole = self.data
        ends = (self.start + self.length).tolist()
        return [whole[start:end].tobytes() for start, end in zip(self.start.tolist(), ends, strict=True)]

    def keys(self) -> list[bytes]:
        return self.to_list()


Values: TypeAlias = Plain | Spans


def is_fixed(type: int) -> bool:
    """Tell whether values of a type are :class:`Plain`."""
    return type in FIXED


def no_nulls(n: int) -> Bools:
    """Return a mask of n values, none of them NULL."""
    return np.zeros(n, dtype=bool)


def booleans(data: Bools, null: Bools | None = None) -> Plain:
    """Make a column of truth values."""
    return Plain(data, no_nulls(len(data)) if null is None else null)


def spans(values: Sequence[bytes], null: Bools | None = None) -> Spans:
    """Make a column of spans of these bytes, one after the other."""
    lengths = np.array([len(value) for value in values], dtype=np.int64)
    data = np.frombuffer(bytearray(b"".join(values)), dtype=np.uint8)
    return Spans(data, np.cumsum(lengths) - lengths, lengths, no_nulls(len(values)) if null is None else null)


def from_list(type: int, values: Sequence[Any], null: Bools | None = None) -> Values:
    """Make a column of Python's values, as :meth:`Plain.to_list` and :meth:`Spans.to_list` give them."""
    if not is_fixed(type):
        return spans(values, null)
    data = np.array(values, dtype=FIXED[type])
    return Plain(data, no_nulls(len(values)) if null is None else null)


def nulls(type: int, n: int) -> Values:
    """Make a column of n NULLs."""
    null = np.ones(n, dtype=bool)
    if is_fixed(type):
        return Plain(np.zeros(n, dtype=FIXED[type]), null)
    return Spans(np.zeros(0, np.uint8), np.zeros(n, np.int64), np.zeros(n, np.int64), null)


def constant(type: int, payload: bytes | None, n: int) -> Values:
    """Make a column of one value n times.

    Args:
        type: OID of its type.
        payload: as it is stored, without a varlena header; None for NULL.
        n: the number of rows.
    """
    if payload is None:
        return nulls(type, n)
    data = np.frombuffer(bytearray(payload), dtype=np.uint8)
    if is_fixed(type):
        return Plain(np.full(n, data.view(FIXED[type])[0], dtype=FIXED[type]), no_nulls(n))
    length = _name_length(payload) if type == NAME else len(payload)
    return Spans(data, np.zeros(n, np.int64), np.full(n, length, np.int64), no_nulls(n))


def payload_of(values: Values, at: int = 0) -> bytes | None:
    """Return the stored form of one value."""
    if values.null[at]:
        return None
    if isinstance(values, Plain):
        return values.data[at : at + 1].tobytes()
    start = int(values.start[at])
    return values.data[start : start + int(values.length[at])].tobytes()


def stored(type: int, data: NDArray[np.uint8], start: Index, length: Index, null: Bools) -> Values:
    """Make a column of stored values.

    Args:
        type: OID of their type.
        data: uint8[] in which the values lie.
        start: int64[n] those of NULLs have no meaning.
        length: int64[n] the same.
        null: bool[n].

    Raises:
        RecordError: a value lies outside, or is not as long as its type's are.
    """
    start, length = np.where(null, 0, start), np.where(null, 0, length)
    values = Spans(data, start, length, null)
    if len(null) and (min(int(start.min()), int(length.min())) < 0 or int((start + length).max()) > len(data)):
        raise RecordError("values of a column of a row filter lie outside its data")
    if not is_fixed(type):
        return _ended(values) if type == NAME else values
    dtype = FIXED[type]
    gathered = np.empty(len(null) * dtype.itemsize, dtype=np.uint8)
    if _stored_columns.gather(values.for_kernels, null, dtype.itemsize, gathered) < 0:
        raise RecordError(f"malformed value of type {type_name(type)} in a column of a row filter")
    return Plain(gathered.view(dtype), null)


def scattered(type: int, n: int, parts: Sequence[tuple[Index, Values]]) -> Values:
    """Make one column of several: each part's values in its rows, NULL where there is none."""
    if is_fixed(type):
        data, null = np.zeros(n, dtype=FIXED[type]), np.ones(n, dtype=bool)
        for index, part in parts:
            assert isinstance(part, Plain)
            data[index], null[index] = part.data, part.null
        return Plain(data, null)
    start, length, null = np.zeros(n, np.int64), np.zeros(n, np.int64), np.ones(n, dtype=bool)
    pieces, offset = [], 0
    for index, part in parts:
        assert isinstance(part, Spans)
        pieces.append(part.data)
        start[index], length[index], null[index] = part.start + offset, part.length, part.null
        offset += len(part.data)
    whole = pieces[0] if len(pieces) == 1 else np.concatenate(pieces) if pieces else np.zeros(0, np.uint8)
    return Spans(whole, start, length, null)


def retyped(values: Values, type: int) -> Values:
    """Take the same bytes for values of another type (RelabelType)."""
    if isinstance(values, Plain):
        return Plain(values.data.view(FIXED[type]), values.null)
    return values


def _name_length(payload: bytes) -> int:
    end = payload.find(b"\0")
    return len(payload) if end < 0 else end


def _ended(values: Spans) -> Spans:
    """Cut names at their ends."""
    length = np.empty(len(values), dtype=np.int64)
    _stored_columns.until_byte(values.for_kernels, 0, length)
    return replace(values, length=length)
