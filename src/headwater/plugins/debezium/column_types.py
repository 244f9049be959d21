"""The forms of columns in debezium: the schema of a field, and the style in which its values are written.

Mirrors ``PostgresValueConverter`` and ``UnchangedToastedPlaceholder`` of the connector, version 3.6.1, and what
``JsonConverter`` of Kafka Connect makes of their schemas. A type that the connector does not know has no form: its
columns are in no event.
"""

from __future__ import annotations

import base64
import hashlib
import json
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from headwater.catalog.relation import Column, TypeInfo
from headwater.plugins.debezium import _values as v
from headwater.plugins.debezium._times import AS_ISO, AS_MICROS, AS_MILLIS, AS_NANOS
from headwater.plugins.debezium.options import DebeziumOptions

Schema = dict[str, Any]

BOOL, BYTEA, CHAR, NAME, INT8, INT2, INT4, TEXT_OID, OID = 16, 17, 18, 19, 20, 21, 23, 25, 26
JSON, XML, POINT, FLOAT4, FLOAT8, MONEY, BPCHAR, VARCHAR = 114, 142, 600, 700, 701, 790, 1042, 1043
DATE, TIME, TIMESTAMP, TIMESTAMPTZ, INTERVAL, TIMETZ = 1082, 1083, 1114, 1184, 1186, 1266
BIT, VARBIT, NUMERIC, UUID, TSVECTOR, JSONB = 1560, 1562, 1700, 2950, 3614, 3802

_STRINGS = frozenset({CHAR, NAME, TEXT_OID, BPCHAR, VARCHAR, 650, 869, 829, 774, 3904, 3906, 3908, 3910, 3912, 3926})
"""The types that are shown as strings: strings, network addresses, and ranges except those of users."""

_NAMED_STRINGS = {JSON: "data.Json", JSONB: "data.Json", XML: "data.Xml", UUID: "data.Uuid", TSVECTOR: "data.Tsvector"}
_INTEGERS = {INT2: "int16", INT4: "int32", INT8: "int64", OID: "int64"}
_NO_ARRAYS = frozenset({NAME, XML, POINT, MONEY, INTERVAL, VARBIT})
"""The types whose arrays the connector omits."""

_LISTED = (_STRINGS - {NAME}) | set(_INTEGERS) | {JSON, JSONB, UUID, BOOL, BYTEA, FLOAT4, FLOAT8, NUMERIC, DATE, TIME}
_LISTED |= {TIMETZ, TIMESTAMP, TIMESTAMPTZ}
_EXTENSION_STRINGS = {"citext": None, "ltree": "io.debezium.data.Ltree", "isbn": None}
_LISTED_EXTENSIONS = frozenset({*_EXTENSION_STRINGS, "hstore", "geometry", "geography"})
"""The types whose arrays may have NULL elements; an array of another type that has one is shown as null."""

_LONGEST_BITS = 2147483647
_DEFAULT_PRECISION = 6
_MILLIS_DIGITS = 3


@dataclass(frozen=True)
class Form:
    """The form of a column in events.

    Attributes:
        schema: the schema of its field, without ``optional`` and ``field``.
        style, parameter: see :func:`headwater.plugins.debezium._values.put_scalar`.
        zero: the JSON that stands for NULL in a column that is NOT NULL; empty where the connector stops.
        placeholder: the JSON for a value that was not written again, null where the connector fails to show its own.
        is_optional: its field is optional, even if the column is NOT NULL.
    """

    schema: Schema
    style: int
    parameter: int = 0
    zero: str = "0"
    placeholder: str = "null"
    is_optional: bool = False


@dataclass(frozen=True)
class Forms:
    """A finder of forms, by options."""

    options: DebeziumOptions

    def form(self, column: Column) -> Form | None:
        """Return the form of a column; None if it is in no event."""
        type, typmod = root_type(column)
        if type.element is None:
            return self._scalar(type, typmod)
        return self._array(type.element, typmod)

    def _scalar(self, type: TypeInfo, typmod: int) -> Form | None:
        oid = type.oid
        if oid == NAME:
            return replace(self._string(None), style=v.NOTHING)
        if oid in _STRINGS:
            return self._string(None)
        if oid in _NAMED_STRINGS:
            return self._string(f"io.debezium.{_NAMED_STRINGS[oid]}")
        if oid in _INTEGERS:
            return Form({"type": _INTEGERS[oid]}, v.AS_IS)
        if type.typtype == "e":
            labels = {"allowed": ",".join(label for _, label in type.labels)}
            form = self._string("io.debezium.data.Enum")
            return replace(form, schema=form.schema | {"parameters": labels})
        if oid in _MADE:
            return _MADE[oid](self, typmod)
        return self._extension(type)

    def _extension(self, type: TypeInfo) -> Form | None:
        if not type.output:
            return None
        if type.name in _EXTENSION_FORMS:
            return _EXTENSION_FORMS[type.name]
        if type.name in _EXTENSION_STRINGS:
            return self._string(_EXTENSION_STRINGS[type.name])
        if type.name != "hstore":
            return None
        placeholder = {self.options.placeholder: self.options.placeholder}
        if self.options.hstore_mode == "map":
            schema = {"type": "map", "keys": _string_schema(False), "values": _string_schema(True)}
            return Form(schema, v.HSTORE_MAP, zero="{}", placeholder=json_text(placeholder))
        return Form(
            _named("string", "io.debezium.data.Json"), v.HSTORE_JSON, 0, '"{}"', json_text(json_text(placeholder))
        )

    def _array(self, element: TypeInfo, typmod: int) -> Form | None:
        if element.base is not None or element.oid in _NO_ARRAYS:
            return None
        if element.oid == BIT:
            return replace(self._bits(typmod), style=v.NOTHING, zero="")
        form = self._scalar(element, typmod)
        if form is None:
            return None
        is_strict = element.oid not in _LISTED and element.name not in _LISTED_EXTENSIONS
        schema = {"type": "array", "items": _with_optional(form.schema, not is_strict)}
        # The connector makes structures of another schema than its own of these, and shows null.
        shown = v.NOTHING if form.style == v.SPARSE_VECTOR else form.style
        style = v.array_style(shown, is_strict, ord(element.delimiter))
        return Form(schema, style, form.parameter, "[]", self._array_placeholder(element.oid))

    def _array_placeholder(self, oid: int) -> str:
        text = self.options.placeholder
        if oid in (TEXT_OID, VARCHAR, BPCHAR, JSON, JSONB):
            return json_text([text])
        if oid in (INT4, INT8) or (oid == DATE and self.options.time_mode != "isostring"):
            return json_text(list(text.encode()))
        if oid == UUID:
            return json_text([str(uuid.UUID(bytes=hashlib.md5(text.encode()).digest(), version=3))])
        if oid == BYTEA and self.options.binary_mode == "bytes":
            return json_text([base64.b64encode(text.encode()).decode()])
        return "null"

    def _string(self, name: str | None) -> Form:
        return Form(_named("string", name), v.STRING, 0, '""', json_text(self.options.placeholder))

    def _bytea(self, _typmod: int) -> Form:
        mode, text = self.options.binary_mode, self.options.placeholder
        if mode == "bytes":
            return Form({"type": "bytes"}, v.BYTES, 0, '""', json_text(base64.b64encode(text.encode()).decode()))
        if mode == "hex":
            return Form({"type": "string"}, v.HEX_BYTES, 0, '""', json_text(text))
        return Form({"type": "string"}, v.BYTES, int(mode == "base64-url-safe"), '""')

    def _bits(self, typmod: int) -> Form:
        length = typmod if typmod >= 0 else _LONGEST_BITS
        if length == 1:
            return Form({"type": "boolean"}, v.BIT, 0, "false")
        schema = _named("bytes", "io.debezium.data.Bits") | {"parameters": {"length": str(length)}}
        return Form(schema, v.BITS, 0, '""', "")

    def _numeric(self, typmod: int) -> Form:
        mode = self.options.decimal_mode
        precision, scale = ((typmod - 4) >> 16 & 0xFFFF, (typmod - 4) & 0x7FF) if typmod >= 4 else (0, -1)
        if mode == "double":
            return Form({"type": "double"}, v.DOUBLE_DECIMAL, 0, "0.0")
        if mode == "string":
            zero = json_text("0" if scale <= 0 else "0." + "0" * scale)
            return Form({"type": "string"}, v.TEXT_DECIMAL, scale, zero, json_text(self.options.placeholder))
        if scale < 0:
            return Form(_VARIABLE_SCALE, v.VARIABLE_DECIMAL, 0, '{"scale":0,"value":"AA=="}')
        return Form(_decimal_schema(scale, precision), v.DECIMAL, scale, '"AA=="')

    def _money(self, _typmod: int) -> Form:
        mode, digits = self.options.decimal_mode, self.options.money_digits
        if mode == "double":
            return Form({"type": "double"}, v.DOUBLE_MONEY, 0, "0.0")
        if mode == "string":
            return Form({"type": "string"}, v.TEXT_MONEY, 0, json_text("0." + "0" * digits))
        return Form(_decimal_schema(digits), v.MONEY, digits, '"AA=="')

    def _date(self, _typmod: int) -> Form:
        mode = self.options.time_mode
        if mode == "isostring":
            return Form(_named("string", "io.debezium.time.IsoDate"), v.DATE, AS_ISO, '"1970-01-01Z"')
        return Form(_named("int32", f"{_KAFKA if mode == 'connect' else _DEBEZIUM}.Date"), v.DATE, AS_MICROS)

    def _time(self, typmod: int) -> Form:
        form, is_kafka = self._unit(typmod, "adaptive_time_microseconds")
        if form == AS_ISO:
            return Form(_named("string", "io.debezium.time.IsoTime"), v.TIME, AS_ISO, '"00:00:00Z"')
        if form == AS_MILLIS:
            return Form(_named("int32", f"{_KAFKA if is_kafka else _DEBEZIUM}.Time"), v.TIME, AS_MILLIS)
        return Form(_named("int64", f"{_DEBEZIUM}.{_UNITS[form]}Time"), v.TIME, form)

    def _timestamp(self, typmod: int) -> Form:
        form, is_kafka = self._unit(typmod, "")
        if form == AS_ISO:
            schema = _named("string", "io.debezium.time.IsoTimestamp")
            return Form(schema, v.TIMESTAMP, AS_ISO, '"1970-01-01T00:00:00Z"')
        if form == AS_MILLIS:
            return Form(_named("int64", f"{_KAFKA if is_kafka else _DEBEZIUM}.Timestamp"), v.TIMESTAMP, AS_MILLIS)
        schema = _named("int64", f"{_DEBEZIUM}.{_UNITS[form]}Timestamp")
        return Form(schema, v.TIMESTAMP, form, "" if form == AS_NANOS else "0")

    def _unit(self, typmod: int, always_micros: str) -> tuple[int, bool]:
        """Return the form of a moment, and whether its type is one of Kafka Connect's own."""
        mode = self.options.time_mode
        if mode in _UNIT_MODES:
            return _UNIT_MODES[mode], mode == "connect"
        precision = typmod if typmod >= 0 else _DEFAULT_PRECISION
        if mode == always_micros or precision > _MILLIS_DIGITS:
            return AS_MICROS, False
        return AS_MILLIS, False

    def _timestamptz(self, typmod: int) -> Form:
        digits = _DEFAULT_PRECISION if typmod < 0 else typmod or -1
        return Form(_named("string", f"{_DEBEZIUM}.ZonedTimestamp"), v.TIMESTAMPTZ, digits, '"1970-01-01T00:00:00Z"')

    def _timetz(self, _typmod: int) -> Form:
        return Form(_named("string", f"{_DEBEZIUM}.ZonedTime"), v.TIMETZ, 0, '"00:00:00Z"')

    def _interval(self, _typmod: int) -> Form:
        if self.options.interval_mode == "string":
            return Form(_named("string", f"{_DEBEZIUM}.Interval"), v.INTERVAL, AS_ISO, '"P0Y0M0DT0H0M0S"')
        return Form(_named("int64", f"{_DEBEZIUM}.MicroDuration"), v.INTERVAL)


_MADE: Mapping[int, Callable[[Forms, int], Form]] = {
    BOOL: lambda _forms, _typmod: Form({"type": "boolean"}, v.BOOLEAN, 0, "false"),
    FLOAT4: lambda _forms, _typmod: Form({"type": "float"}, v.FLOAT, 0, "0.0"),
    FLOAT8: lambda _forms, _typmod: Form({"type": "double"}, v.FLOAT, 0, "0.0"),
    BYTEA: Forms._bytea,
    BIT: Forms._bits,
    VARBIT: Forms._bits,
    NUMERIC: Forms._numeric,
    MONEY: Forms._money,
    DATE: Forms._date,
    TIME: Forms._time,
    TIMETZ: Forms._timetz,
    TIMESTAMP: Forms._timestamp,
    TIMESTAMPTZ: Forms._timestamptz,
    INTERVAL: Forms._interval,
    POINT: lambda _forms, _typmod: Form(_POINT, v.COORDINATES, 0, _ORIGIN),
}

_DEBEZIUM, _KAFKA = "io.debezium.time", "org.apache.kafka.connect.data"
_UNITS = {AS_MICROS: "Micro", AS_NANOS: "Nano"}
_UNIT_MODES = {"connect": AS_MILLIS, "isostring": AS_ISO, "microseconds": AS_MICROS, "nanoseconds": AS_NANOS}
_VARIABLE_SCALE: Schema = {
    "type": "struct",
    "fields": [
        {"type": "int32", "optional": False, "field": "scale"},
        {"type": "bytes", "optional": False, "field": "value"},
    ],
    "name": "io.debezium.data.VariableScaleDecimal",
    "version": 1,
    "doc": "Variable scaled decimal",
}


_ORIGIN = '{"x":0.0,"y":0.0,"wkb":"AQEAAAAAAAAAAAAAAAAAAAAAAAAA","srid":null}'
_POINT: Schema = {
    "type": "struct",
    "fields": [
        {"type": "double", "optional": False, "field": "x"},
        {"type": "double", "optional": False, "field": "y"},
        {"type": "bytes", "optional": True, "field": "wkb"},
        {"type": "int32", "optional": True, "field": "srid"},
    ],
    "name": "io.debezium.data.geometry.Point",
    "version": 1,
    "doc": "Geometry (POINT)",
}
_SPARSE_VECTOR: Schema = {
    "type": "struct",
    "fields": [
        {"type": "int16", "optional": False, "field": "dimensions"},
        {
            "type": "map",
            "keys": {"type": "int16", "optional": False},
            "values": {"type": "double", "optional": False},
            "optional": False,
            "field": "vector",
        },
    ],
    "name": "io.debezium.data.SparseDoubleVector",
    "version": 1,
    "doc": "Sparse double vector",
}


def _geometry(name: str, *, is_optional: bool) -> Form:
    fields: list[Schema] = [
        {"type": "bytes", "optional": False, "field": "wkb"},
        {"type": "int32", "optional": True, "field": "srid"},
    ]
    schema = {
        "type": "struct",
        "fields": fields,
        "name": f"io.debezium.data.geometry.{name}",
        "version": 1,
        "doc": name,
    }
    return Form(schema, v.GEOMETRY, 0, '{"wkb":"AQcAAAAAAAAA","srid":null}', is_optional=is_optional)


def _vector(name: str, type: str) -> Form:
    items = {"type": type, "optional": False}
    schema = {"type": "array", "items": items, "name": f"io.debezium.data.{name}", "version": 1}
    return Form(schema, v.VECTOR, 0, "[]")


_EXTENSION_FORMS: Mapping[str, Form] = {
    "geometry": _geometry("Geometry", is_optional=True),
    "geography": _geometry("Geography", is_optional=False),
    "vector": _vector("DoubleVector", "double"),
    "halfvec": _vector("FloatVector", "float"),
    "sparsevec": Form(_SPARSE_VECTOR, v.SPARSE_VECTOR, 0, ""),
}
"""The forms of types of extensions, by their names."""


def field_schema(form: Form, name: str, is_optional: bool, default: Any = None) -> Schema:
    """Make the schema of a field, its entries in the order of ``JsonConverter``; a default of None is none."""
    default_entry = {} if default is None else {"default": default}
    return _with_optional(form.schema, is_optional or form.is_optional) | default_entry | {"field": name}


def _with_optional(schema: Schema, is_optional: bool) -> Schema:
    """Put the entry ``optional`` in its place in a schema: after the entries that describe the values' parts."""
    rest = dict(schema)
    head = {key: rest.pop(key) for key in ("type", "fields", "keys", "values", "items") if key in rest}
    return head | {"optional": is_optional} | rest


def root_type(column: Column) -> tuple[TypeInfo, int]:
    """Return the type of a column, of a domain its base type, and the modifiers that count."""
    assert column.type is not None
    type, typmod = column.type, column.typmod
    while type.domain_of is not None:
        typmod = type.domain_typmod if type.domain_typmod >= 0 else typmod
        type = type.domain_of
    return type, typmod


def _named(type: str, name: str | None) -> Schema:
    return {"type": type} | ({"name": name, "version": 1} if name and name != "isbn" else {})


def _string_schema(is_optional: bool) -> Schema:
    return {"type": "string", "optional": is_optional}


def _decimal_schema(scale: int, precision: int | None = None) -> Schema:
    parameters = {"scale": str(scale)} | ({} if precision is None else {"connect.decimal.precision": str(precision)})
    return _named("bytes", f"{_KAFKA}.Decimal") | {"parameters": parameters}


def json_text(value: object) -> str:
    """Print a value as ``JsonConverter`` prints it."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
