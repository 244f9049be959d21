"""Columns' defaults in debezium: the value in JSON that the connector makes of an expression.

Mirrors ``PostgresDefaultValueConverter`` of Debezium 3.6.1, which reads no SQL. The first text in quotes is the value.
A call of a function has an empty value of its type, and text that cannot be parsed has none. A value is then written
as a row's is. A structure is never a default, nor is a number with more digits than its column has.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any
from uuid import UUID

import numpy as np

from headwater.catalog.relation import Column
from headwater.plugins.debezium import column_types as oids
from headwater.plugins.debezium._values import VARIABLE_DECIMAL, put_value
from headwater.plugins.debezium.column_types import Form

_CALL = re.compile(r"^[(]?[A-Za-z0-9_.]+\(.*\)")
_QUOTED = re.compile(r"'(.*?)'")
_MOMENTS = frozenset({"current_timestamp", "current_time", "current_date", "localtime", "localtimestamp"})
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_ROOM = 1 << 16


def default_value(column: Column, form: Form) -> Any:
    """Return the default of a column as a value of JSON; None if the connector shows none.

    Args:
        column: the column, with its default's expression.
        form: the form of the column.
    """
    text = None if form.style == VARIABLE_DECIMAL else _text(column)
    if text is None:
        return None
    # Of an array that can be written to, as rows have them: the kernels are compiled once.
    source = np.frombuffer(bytearray(text, "utf-8", "surrogateescape"), np.uint8)
    out = np.empty(_ROOM + 32 * len(source), np.uint8)
    end = int(put_value(form.style, form.parameter, source, 0, len(source), out, 0))
    return json.loads(out[:end].tobytes().decode("utf-8", "surrogateescape")) if end > 0 else None


def _text(column: Column) -> str | None:
    """Return the default as the server would print its value; None if there is none."""
    type = column.type
    if type is None or not column.default or column.generated:
        return None
    if type.typtype == "e":
        return _enum(column.default, type.name)
    if type.oid not in _KINDS:
        return None
    empty, read = _KINDS[type.oid]
    if _CALL.search(column.default) or column.default.lower() in _MOMENTS:
        return empty
    if column.default.startswith("NULL::"):
        return None
    match = _QUOTED.search(column.default)
    if "'" in column.default and match is None:
        return None
    text = column.default if match is None else match[1]
    try:
        return read(text if type.oid in _NOT_TRIMMED else text.strip(), column.typmod)
    except ValueError:
        return None


def _enum(expression: str, name: str) -> str | None:
    """Return the label of an enum, if the default is a constant of exactly this type."""
    literal, separator, type = expression.rpartition("::")
    type_name = type.rpartition(".")[2].strip('"').replace('""', '"')
    is_constant = len(literal) > 1 and literal.startswith("'") and literal.endswith("'")
    return literal[1:-1] if separator and type_name == name and is_constant else None


def _as_is(text: str, _typmod: int) -> str:
    return text


def _integer(bits: int) -> Callable[[str, int], str]:
    def read(text: str, _typmod: int) -> str:
        if re.fullmatch(r"[+-]?\d+", text) is None or not -(1 << bits - 1) <= int(text) < 1 << bits - 1:
            raise ValueError(text)
        return str(int(text))

    return read


def _float(text: str, _typmod: int) -> str:
    if _NUMBER.fullmatch(text):
        return repr(float(text))
    if text not in ("NaN", "Infinity", "-Infinity"):
        raise ValueError(text)
    return text


def _numeric(text: str, typmod: int) -> str:
    if _NUMBER.fullmatch(text) is None:
        raise ValueError(text)
    value = Decimal(text)
    if typmod >= 4 and -int(value.as_tuple().exponent) > (typmod - 4) & 0x7FF:
        raise ValueError(text)
    return f"{value:f}"


def _boolean(text: str, _typmod: int) -> str:
    return "t" if text.lower() == "true" else "f"


def _uuid(text: str, _typmod: int) -> str:
    return str(UUID(text))


_KINDS: Mapping[int, tuple[str, Callable[[str, int], str]]] = {
    oids.BIT: ("00", _as_is),
    oids.VARBIT: ("0", _as_is),
    oids.BOOL: ("f", _boolean),
    **dict.fromkeys((oids.BPCHAR, oids.VARCHAR, oids.TEXT_OID, oids.XML), ("", _as_is)),
    oids.NUMERIC: ("0.0", _numeric),
    **dict.fromkeys((oids.FLOAT4, oids.FLOAT8), ("0.0", _float)),
    oids.INT2: ("0", _integer(16)),
    oids.INT4: ("0", _integer(32)),
    oids.INT8: ("0", _integer(64)),
    **dict.fromkeys((oids.JSON, oids.JSONB), ("{}", _as_is)),
    oids.UUID: (str(UUID(int=0)), _uuid),
    oids.DATE: ("1970-01-01", _as_is),
    oids.TIME: ("00:00:00", _as_is),
    oids.TIMESTAMP: ("1970-01-01 00:00:00", _as_is),
    oids.TIMESTAMPTZ: ("1970-01-01 00:00:00+00", _as_is),
    oids.INTERVAL: ("00:00:00", _as_is),
}
"""The types that have defaults: the empty value, and the reader of a value's text."""

_NOT_TRIMMED = frozenset({oids.BPCHAR, oids.VARCHAR, oids.TEXT_OID, oids.XML, oids.JSON, oids.JSONB})
