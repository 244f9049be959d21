"""Transforms of a column's values into names of partitions, as Iceberg has them (spec, "Partition Transforms").

Each is said by its text (``day(created_at)``, ``bucket(16, id)``, ``region``). Values are texts: of years, months, days
and hours those that Iceberg's paths have (``2026-11``), of others as PostgreSQL prints them in ISO form. null is null.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from headwater.errors import UsageError
from headwater.lakes.layout.murmur import murmur3, murmur3_of_integers

IDENTITY, YEAR, MONTH, DAY, HOUR, BUCKET, TRUNCATE = "identity", "year", "month", "day", "hour", "bucket", "truncate"
_UNITS = {YEAR: "Y", MONTH: "M", DAY: "D", HOUR: "h"}
MOMENTS = tuple(_UNITS)
_WITH_WIDTH = {BUCKET: "bucket", TRUNCATE: "trunc"}
TRANSFORMS = (*_UNITS, *_WITH_WIDTH, IDENTITY)
_MOST_WIDTH = 2**31 - 1

_CALL = re.compile(r"(?P<kind>\w+)\s*\(\s*(?:(?P<width>\d+)\s*,\s*)?(?P<column>.+?)\s*\)")
_QUOTED = re.compile(r'"(?:[^"]|"")+"')

Texts: TypeAlias = "pa.Array[Any]"


def column_name(text: str) -> str | None:
    """Return a column's name, which stands in quotes where it has more than letters, digits, ``_`` and ``$``.

    Returns:
        the name as the catalog has it; None for a text that is no name.
    """
    if _QUOTED.fullmatch(text):
        return text[1:-1].replace('""', '"')
    return text if re.fullmatch(r"[\w$]+", text) else None


def written_name(column: str) -> str:
    """Return a column's name as settings write it: :func:`column_name` reads it."""
    return column if column_name(column) == column else '"' + column.replace('"', '""') + '"'


@dataclass(frozen=True)
class PartitionField:
    """A transform of a column.

    Attributes:
        kind: one of :data:`TRANSFORMS`; width: of ``bucket`` and ``truncate``, else 0.
        column: its name.
    """

    kind: str
    column: str
    width: int = 0

    @classmethod
    def parse(cls, text: str) -> PartitionField:
        """Read a field as settings write it.

        Raises:
            UsageError: it is none.
        """
        plain = column_name(text.strip())
        if plain is not None:
            return cls(IDENTITY, plain)
        call = _CALL.fullmatch(text.strip())
        kind = "" if call is None else call["kind"].lower()
        name = None if call is None else column_name(call["column"])
        width = int(call["width"]) if call is not None and call["width"] is not None else 0
        if name is None or kind not in TRANSFORMS or (kind in _WITH_WIDTH) != (0 < width <= _MOST_WIDTH):
            raise UsageError(
                f'"{text}" is no partition',
                hint="expected a column, year(C), month(C), day(C), hour(C), bucket(N, C) or truncate(N, C); a name "
                "with other characters than letters, digits and _ in double quotes",
            )
        return cls(kind, name, width)

    @property
    def name(self) -> str:
        """The name of the partition's field, as Iceberg's own writers choose it."""
        return self.column if self.kind == IDENTITY else f"{self.column}_{_WITH_WIDTH.get(self.kind, self.kind)}"

    @property
    def text(self) -> str:
        """The field as settings write it: one text of all that mean the same."""
        column = written_name(self.column)
        inside = f"{self.width}, {column}" if self.width else column
        return column if self.kind == IDENTITY else f"{self.kind}({inside})"

    def of(self, column: str) -> PartitionField:
        """Return the same transform of another column."""
        return replace(self, column=column)

    def takes(self, type: pa.DataType) -> bool:
        """Tell whether values of a type can be transformed."""
        return any(is_such(type) for is_such in _TAKEN[self.kind])

    def texts(self, values: pa.Array[Any]) -> Texts:
        """Return what partitions of values are called: texts, or null.

        Args:
            values: of a type that is taken.
        """
        if self.kind in _UNITS:
            return _moments(values, _UNITS[self.kind])
        if self.kind == BUCKET:
            return _buckets(values, self.width).cast(pa.string())
        return _texts(_truncated(values, self.width) if self.kind == TRUNCATE else values)


def _is_uuid(type: pa.DataType) -> bool:
    return type == pa.uuid()


_Test = Callable[[pa.DataType], bool]
_DAYS: tuple[_Test, ...] = (pa.types.is_date32, pa.types.is_timestamp)
_NUMBERS: tuple[_Test, ...] = (pa.types.is_integer, pa.types.is_decimal)
_HASHED: tuple[_Test, ...] = (*_NUMBERS, *_DAYS, pa.types.is_time64, pa.types.is_string, pa.types.is_binary, _is_uuid)
_TAKEN: dict[str, tuple[_Test, ...]] = {
    **dict.fromkeys((YEAR, MONTH, DAY), _DAYS),
    HOUR: (pa.types.is_timestamp,),
    BUCKET: _HASHED,
    TRUNCATE: (*_NUMBERS, pa.types.is_string),
    IDENTITY: (*_NUMBERS, *_DAYS, pa.types.is_time64, pa.types.is_string, pa.types.is_boolean, _is_uuid),
}


def _storage(values: pa.Array[Any]) -> pa.Array[Any]:
    return values.storage if isinstance(values, pa.ExtensionArray) else values


def _integers(values: pa.Array[Any]) -> NDArray[np.int64]:
    """Return int64[n] what is stored of numbers and moments; 0 for null."""
    width = pa.int32() if pa.types.is_date32(values.type) else pa.int64()
    stored = values if pa.types.is_integer(values.type) else values.view(width)
    numbers: NDArray[np.int64] = stored.cast(pa.int64()).fill_null(0).to_numpy()
    return numbers


def _where_valid(values: pa.Array[Any], made: NDArray[Any], type: pa.DataType) -> pa.Array[Any]:
    mask = values.is_null().to_numpy(zero_copy_only=False)
    array: pa.Array[Any] = pa.array(made, type, mask=mask)
    return array


def _moments(values: pa.Array[Any], unit: str) -> Texts:
    """Return moments cut to a unit of the calendar, as texts."""
    held = "D" if pa.types.is_date32(values.type) else "us"
    texts = np.datetime_as_string(_integers(values).view(f"datetime64[{held}]").astype(f"datetime64[{unit}]"))
    between = "-" if unit == "h" else " "
    return _where_valid(values, np.char.replace(texts, "T", between).astype(object), pa.string())


def _buckets(values: pa.Array[Any], width: int) -> pa.Array[Any]:
    hashes = _hashes(values) & np.uint32(0x7FFFFFFF)
    return _where_valid(values, (hashes % np.uint32(width)).astype(np.int32), pa.int32())


def _hashes(values: pa.Array[Any]) -> NDArray[np.uint32]:
    type = values.type
    if pa.types.is_decimal(type):
        own = [b"" if value is None else _unscaled_bytes(value) for value in values.to_pylist()]
    elif pa.types.is_string(type) or pa.types.is_binary(type) or isinstance(values, pa.ExtensionArray):
        own = [value or b"" for value in _storage(values).cast(pa.binary()).to_pylist()]
    else:
        return murmur3_of_integers(_integers(values))
    content = np.frombuffer(b"".join(own), np.uint8)
    return murmur3(content, np.cumsum([0, *map(len, own)], dtype=np.int64))


def _unscaled_bytes(value: Decimal) -> bytes:
    """Return a decimal's digits as an integer, in as few bytes of two's complement as there can be."""
    number = _unscaled(value)
    return number.to_bytes(((number if number >= 0 else ~number).bit_length()) // 8 + 1, "big", signed=True)


def _unscaled(value: Decimal) -> int:
    sign, digits, _ = value.as_tuple()
    number = int("".join(map(str, digits)) or "0")
    return -number if sign else number


def _truncated(values: pa.Array[Any], width: int) -> pa.Array[Any]:
    """Return texts cut off, and numbers cut down to multiples of a width, of decimals by their last digits."""
    if pa.types.is_string(values.type):
        return pc.utf8_slice_codeunits(values, 0, width)
    if pa.types.is_integer(values.type):
        numbers = _integers(values)
        return _where_valid(values, numbers - numbers % width, pa.int64())
    scale = values.type.scale
    cut = [None if value is None else _unscaled(value) // width * width for value in values.to_pylist()]
    digits = [None if number is None else Decimal(number).scaleb(-scale) for number in cut]
    return pa.array(digits, pa.decimal256(76, scale))


def _texts(values: pa.Array[Any]) -> Texts:
    """Return values as texts that tell them apart."""
    if values.type == pa.uuid():
        return pa.array([None if value is None else str(value) for value in values.to_pylist()], pa.string())
    if pa.types.is_date32(values.type):
        return _moments(values, "D")
    if pa.types.is_timestamp(values.type):
        texts = _moments(values, "us")
        return texts if values.type.tz is None else pc.replace_substring_regex(texts, "(.*) (.*)", r"\1T\2Z")
    if pa.types.is_decimal(values.type):
        return pa.array([None if value is None else format(value, "f") for value in values.to_pylist()], pa.string())
    return values.cast(pa.string())
