"""Stored values in typed columns, given back to the server: what it makes of them must print as what it has.

Values that a column cannot hold (infinities, 24:00:00, NaN in a decimal, arrays of several dimensions or with bounds)
are known by their text; the tests check that these are refused, or null.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import numpy as np
import psycopg
import pyarrow as pa
import pytest
from psycopg import sql

from headwater.catalog.relation import Column, TypeInfo
from headwater.errors import DecodingError
from headwater.rows.columns._columns import NONE, VALUE, Stored
from headwater.rows.columns.column_types import NULL, PARQUET, ColumnType, Form, column_type
from headwater.rows.columns.columns import Asked, Values, arrow_array
from headwater.rows.session import SessionSettings

MONEY_DECIMALS = 2
_ODD = re.compile(r"infinity|24:00:00|NaN|294(24[7-9]|2[5-7]\d)-|\[-?\d+:-?\d+\]|\{\{")
_ALWAYS_ODD = (Form.DATE, Form.TIME, Form.TIMESTAMP, Form.INTERVAL)
_AT_ONCE = 500
NOT_TAKEN_BACK = frozenset({"regproc", "regoper", "seg", "xml"})
"""Types of names that may mean several objects, and of values whose text loses something."""


def compare_typed(
    connection: psycopg.Connection[Any],
    table: str,
    type: TypeInfo,
    payloads: Mapping[int, bytes],
    texts: Mapping[int, bytes | None],
    session: SessionSettings,
) -> int:
    """Compare stored values, by id, with the server's; returns how many went into the column."""
    column = column_type(Column(1, "value", type, -1, type.typlen, type.typalign, False), PARQUET, NULL, MONEY_DECIMALS)
    odd = {number for number in payloads if _is_odd(texts[number] or b"")}
    plain = sorted(payloads.keys() - odd)
    read = _read(column, [payloads[number] for number in plain], session, with_null=False)
    if pa.types.is_string(column.arrow):
        assert [texts[number] for number in plain] == read.cast(pa.binary()).to_pylist()
        plain = []
    for first in range(0, len(plain) if _is_taken_back(column) else 0, _AT_ONCE):
        numbers = plain[first : first + _AT_ONCE]
        _give_back(connection, table, column, dict(zip(numbers, _plain(read)[first : first + _AT_ONCE], strict=True)))
    for number in sorted(odd):
        _refused(column, payloads[number], session)
    return len(read)


def _is_odd(text: bytes) -> bool:
    """Tell whether a value may be one that not every column holds, or that is no text in UTF-8."""
    try:
        return _ODD.search(text.decode()) is not None
    except UnicodeDecodeError:
        return True


def _is_taken_back(column: ColumnType) -> bool:
    """Tell whether the server's text of values is always taken by its input functions."""
    return column.type.name not in NOT_TAKEN_BACK and all(_is_taken_back(part) for part in column.parts)


def _read(column: ColumnType, payloads: Sequence[bytes], session: SessionSettings, *, with_null: bool) -> pa.Array[Any]:
    """Read values as an Arrow array; half of them lie in the arena."""
    count = len(payloads)
    lengths = np.array([len(payload) for payload in payloads], np.int32)
    starts = np.cumsum(lengths, dtype=np.int64) - lengths
    data = np.frombuffer(b"".join(payloads) + b"\0", np.uint8).copy()
    kinds = np.where(np.arange(count) % 2, VALUE, VALUE + 1).astype(np.uint8)
    asked = Asked(session, with_null, lambda row: f"value {row}", lambda _row: 1)
    read = arrow_array(column, Values(Stored(kinds, starts, lengths, data, data), np.arange(count)), asked)
    read.validate(full=True)
    assert read.type == column.arrow
    nothing = arrow_array(column, Values(Stored(kinds * NONE, starts, lengths, data, data), np.arange(count)), asked)
    nothing.validate(full=True)
    assert (count, count) == (nothing.null_count, len(nothing))
    return read


def _plain(read: pa.Array[Any]) -> list[Any]:
    """Return Python's values; moments as numbers, as Python's have a range of their own."""
    return [_value(scalar) for scalar in read]


def _value(scalar: pa.Scalar[Any]) -> Any:
    if not scalar.is_valid:
        return None
    if isinstance(scalar, pa.ExtensionScalar):
        return None if scalar.value is None else scalar.value.as_py()
    if isinstance(scalar, pa.ListScalar):
        assert scalar.values is not None
        return _plain(scalar.values)
    if isinstance(scalar, pa.StructScalar):
        return [_value(part) for part in scalar.values()]
    return cast(Any, scalar).value if pa.types.is_temporal(scalar.type) else scalar.as_py()


def _refused(column: ColumnType, payload: bytes, session: SessionSettings) -> None:
    """Check that a value of a type that has such values is refused, or null.

    Other types may hold it, or have it in their text.
    """
    try:
        _read(column, [payload], session, with_null=True)
    except DecodingError as error:
        if "is not valid UTF-8" not in error.message:
            raise
    if column.form in _ALWAYS_ODD:
        with pytest.raises(DecodingError, match="cannot hold"):
            _read(column, [payload], session, with_null=False)


def _give_back(connection: psycopg.Connection[Any], table: str, column: ColumnType, values: Mapping[int, Any]) -> None:
    rows = sql.SQL(", ").join(
        sql.SQL("({}, {})").format(sql.Literal(number), _expression(value, column)) for number, value in values.items()
    )
    query = sql.SQL(
        "select v.id, row(v.value)::text, row(r.made)::text from {} v join (values {}) r (id, made) using (id) "
        "where row(v.value)::text is distinct from row(r.made)::text limit 3"
    )
    if values:
        assert connection.execute(query.format(sql.Identifier(table), rows)).fetchall() == []


def _expression(value: Any, column: ColumnType) -> sql.Composable:
    """Write the expression that makes the value on the server."""
    name = _name(column.type)
    if value is None:
        return sql.SQL("null::{}").format(name)
    if column.form in (Form.LIST, Form.STRUCT, Form.RANGE, Form.MULTIRANGE):
        return _nested(value, column, name)
    if column.form in _MOMENTS:
        return sql.SQL(_MOMENTS[column.form](value, column))
    return sql.SQL("{}::{}").format(sql.Literal(_text(value, column)), name)


def _name(type: TypeInfo) -> sql.Composable:
    """Write the bare type's name: ``character`` would be ``character(1)``."""
    if type.element is not None and type.name.startswith("_"):
        return sql.SQL("{}[]").format(_name(type.element))
    return sql.Identifier(type.namespace, type.name)


def _text(value: Any, column: ColumnType) -> str:
    if isinstance(value, bytes) and column.form is Form.UUID:
        return value.hex()
    if isinstance(value, bytes):
        return "\\x" + value.hex()
    if isinstance(value, float) and pa.types.is_float32(column.arrow):
        return str(np.float32(value))
    return "[" + ",".join(map(str, value)) + "]" if column.form is Form.VECTOR else str(value)


def _nested(value: Any, column: ColumnType, name: sql.Composable) -> sql.Composable:
    if column.form is Form.STRUCT:
        parts = [_expression(item, part) for item, part in zip(value, column.parts, strict=True)]
        return sql.SQL("row({})::{}").format(sql.SQL(", ").join(parts), name)
    if column.form is Form.RANGE:
        lower, upper, lower_inc, upper_inc, is_empty = value
        if is_empty:
            return sql.SQL("'empty'::{}").format(name)
        bounds = [_expression(bound, column.parts[0]) for bound in (lower, upper)]
        brackets = ("[" if lower_inc else "(") + ("]" if upper_inc else ")")
        return sql.SQL("{}({}, {}, {})").format(name, *bounds, sql.Literal(brackets))
    if column.form is Form.MULTIRANGE:
        return sql.SQL("{}({})").format(name, sql.SQL(", ").join(_bare_range(item, column) for item in value))
    return sql.SQL("array[{}]::{}").format(
        sql.SQL(", ").join(_expression(item, column.parts[0]) for item in value), name
    )


def _bare_range(value: Any, column: ColumnType) -> sql.Composable:
    """Write a range of a multirange, whose own type's name the multirange's does not say.

    Both types are in the same order.
    """
    lower, upper, lower_inc, upper_inc, _ = value
    bounds = [_expression(bound, column.parts[0]) for bound in (lower, upper)]
    brackets = ("[" if lower_inc else "(") + ("]" if upper_inc else ")")
    name = sql.SQL(_RANGES.get(column.type.name, "r" + column.type.name[1:]))
    return sql.SQL("{}({}, {}, {})").format(name, *bounds, sql.Literal(brackets))


def _interval(micros: int) -> str:
    """Write an interval of so many microseconds, in parts of which 14 reads each."""
    hours, rest = divmod(abs(micros), 3_600_000_000)
    sign = "-" if micros < 0 else ""
    return f"interval '{sign}{hours} hours {sign}{rest // 1_000_000} seconds {sign}{rest % 1_000_000} microseconds'"


def _has_zone(column: ColumnType) -> bool:
    return bool(cast("pa.TimestampType[Any, Any]", column.arrow).tz)


_RANGES = {f"{name}multirange": f"{name}range" for name in ("int4", "int8", "num", "date", "ts", "tstz")}
_MOMENTS: dict[Form, Callable[[Any, ColumnType], str]] = {
    Form.DATE: lambda value, _: f"(date '1970-01-01' + ({value}))",
    Form.TIME: lambda value, _: f"(time '00:00' + {_interval(value)})",
    Form.TIMESTAMP: lambda value, column: (
        f"({'timestamptz' if _has_zone(column) else 'timestamp'} '1970-01-01{'+00' if _has_zone(column) else ''}' + "
        f"interval '{value // 86_400_000_000} days' + {_interval(value % 86_400_000_000)})"
    ),
    Form.INTERVAL: lambda value, _: f"(interval '{value[0]} mons {value[1]} days' + {_interval(value[2])})",
}
