"""The types of what our functions and views tell: their input, output, receive and send functions.

Values are Python's: bool, int, str, Decimal, bytes; of ``timestamptz`` microseconds since 2000-01-01 UTC, of
``interval`` microseconds, of an array a tuple, of a record a tuple of :class:`TypedValue`. None is NULL.

PostgreSQL: the files of utils/adt that bool.c, int.c, oid.c, varlena.c, numeric.c, pg_lsn.c, rowtypes.c, arrayfuncs.c
stand for. Known gaps: input of times and intervals; arrays of more than one dimension.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from functools import partial
from typing import Any

from headwater.catalog.relation import TypeInfo
from headwater.errors import SessionError, UsageError
from headwater.pg.identifiers import cut_name
from headwater.pg.lsn import Lsn, lsn_text
from headwater.pg.sqlstates import (
    FEATURE_NOT_SUPPORTED,
    INVALID_BINARY_REPRESENTATION,
    INVALID_TEXT_REPRESENTATION,
    NUMERIC_OUT_OF_RANGE,
    PROTOCOL_VIOLATION,
)
from headwater.pg.version import Version
from headwater.protocol.backend_messages import Column, Value
from headwater.protocol.startup import parsed_bool
from headwater.rows.session import SessionSettings
from headwater.rows.tuples.print_value import value_text
from headwater.walsender.queries.special_numbers import read_special, special_of_sign, special_sign

_TEXT = "utf-8", "surrogateescape"


@dataclass(frozen=True)
class Printing:
    """The things that output functions go by.

    Attributes:
        version: of the server that is stood for; session: the settings of the session.
    """

    version: Version
    session: SessionSettings


@dataclass(frozen=True)
class ValueType:
    """A type.

    Attributes:
        oid: its OID; name: as messages show it; size: ``typlen``.
        read: the input function, of text; write: the output function.
        receive: the input function of binary form; send: the output function.
        element: of an array, the type of its elements.
        family: types of one family are compared with each other.
    """

    oid: int
    name: str
    size: int
    read: Callable[[str], Any]
    write: Callable[[Any, Printing], str]
    receive: Callable[[bytes], Any]
    send: Callable[[Any, Printing], bytes]
    element: ValueType | None = None
    family: str = ""

    def column(self, name: str, table: int = 0, number: int = 0) -> Column:
        """Return a column of a result of this type."""
        return Column(name, self.oid, self.size, -1, table, number)

    def sent(self, value: Any, is_binary: bool, printing: Printing) -> Value:
        """Return a value as it is sent."""
        if value is None:
            return None
        return self.send(value, printing) if is_binary else self.write(value, printing).encode(*_TEXT)

    def taken(self, value: Value, is_binary: bool) -> Any:
        """Return a value that a client has sent.

        Raises:
            SessionError: it is none of this type.
        """
        if value is None:
            return None
        return self.receive(value) if is_binary else self.read(value.decode(*_TEXT))


@dataclass(frozen=True)
class TypedValue:
    """A field of a record."""

    type: ValueType
    value: Any


def _invalid(name: str, text: str) -> SessionError:
    return SessionError(f'invalid input syntax for type {name}: "{text}"', sqlstate=INVALID_TEXT_REPRESENTATION)


def _malformed(*_: object) -> SessionError:
    return SessionError("incorrect binary data format", sqlstate=INVALID_BINARY_REPRESENTATION)


def _read_bool(text: str) -> bool:
    value = parsed_bool(text.strip())
    if value is None:
        raise _invalid("boolean", text)
    return value


def _packed(form: str, receives: type = int) -> tuple[Callable[[bytes], Any], Callable[[Any, Printing], bytes]]:
    """Return the receive and the send function of values of fixed length."""
    packing = struct.Struct(form)

    def receive(data: bytes) -> Any:
        if len(data) < packing.size:
            raise SessionError("insufficient data left in message", sqlstate=PROTOCOL_VIOLATION)
        if len(data) > packing.size:
            raise _malformed()
        return receives(packing.unpack(data)[0])

    return receive, lambda value, _: packing.pack(value)


def _integer(oid: int, name: str, size: int) -> ValueType:
    bits = 8 * size - 1

    def read(text: str) -> int:
        if re.fullmatch(r"\s*[-+]?\d+\s*", text, re.ASCII) is None:
            raise _invalid(name, text)
        value = _whole(text)
        if not -(1 << bits) <= value < 1 << bits:
            raise SessionError(f'value "{text}" is out of range for type {name}', sqlstate=NUMERIC_OUT_OF_RANGE)
        return value

    form = {2: ">h", 4: ">i", 8: ">q"}[size]
    return ValueType(oid, name, size, read, _plain, *_packed(form), family="number")


def _whole(text: str) -> int:
    """Return the number of a text of digits; of more than any type takes, one that is too large as well."""
    digits = text.strip().lstrip("+-").lstrip("0")
    return int(("-" if "-" in text else "") + (digits[:40] or "0"))


def _plain(value: Any, _: Printing) -> str:
    return str(value)


def _unsigned(oid: int, name: str, family: str) -> ValueType:
    def read(text: str) -> int:
        if re.fullmatch(r"\s*[-+]?\d+\s*", text, re.ASCII) is None:
            raise _invalid(name, text)
        value = _whole(text)
        if not -(1 << 31) <= value < 1 << 32:
            raise SessionError(f'value "{text}" is out of range for type {name}', sqlstate=NUMERIC_OUT_OF_RANGE)
        return value & 0xFFFFFFFF

    return ValueType(oid, name, 4, read, _plain, *_packed(">I"), family=family)


def _text_type(oid: int, name: str, size: int, read: Callable[[str], str] = str, family: str = "text") -> ValueType:
    return ValueType(
        *(oid, name, size, read, _plain),
        receive=lambda data: read(data.decode(*_TEXT)),
        send=lambda value, _: str(value).encode(*_TEXT),
        family=family,
    )


def as_name(text: str) -> str:
    """Cut a text to the length of a name (namein)."""
    return cut_name(text)


def _read_lsn(text: str) -> int:
    try:
        if text != text.strip():
            raise UsageError("blanks")
        return int(Lsn.parse(text))
    except UsageError:
        raise _invalid("pg_lsn", text) from None


MOST_DIGITS = 1000
"""Digits of a number that is computed with here, before its point and behind it."""

_MOST_WEIGHT = 131_072
"""Digits that a number of the server has before its point, at most (NUMERIC_WEIGHT_MAX)."""


def checked_numeric(value: Decimal) -> Decimal:
    """Return a number that can be computed with here.

    Raises:
        SessionError: it has too many digits, for the server or for this.
    """
    if not value:
        value = value.copy_abs()  # The server's zero has no sign.
    if not value.is_finite():
        return value
    if value and value.adjusted() >= _MOST_WEIGHT:
        raise SessionError("value overflows numeric format", sqlstate=NUMERIC_OUT_OF_RANGE)
    if value.adjusted() >= MOST_DIGITS or int(value.as_tuple().exponent) < -MOST_DIGITS:
        raise SessionError(
            f"numbers of more than {MOST_DIGITS} digits are not known here", sqlstate=FEATURE_NOT_SUPPORTED
        )
    return value


def _read_numeric(text: str) -> Decimal:
    special = read_special(text)
    if special is not None:
        return special
    try:
        if not re.fullmatch(r"\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\s*", text, re.ASCII):
            raise _invalid("numeric", text)
        return checked_numeric(Decimal(text.strip()))
    except InvalidOperation:
        raise _invalid("numeric", text) from None


def _send_numeric(value: Decimal, _: Printing) -> bytes:
    """Return the binary form: groups of four decimal digits (numeric_send)."""
    if not value.is_finite():
        return struct.pack(">hhHh", 0, 0, *special_sign(value))
    sign, digits, exponent = value.as_tuple()
    scale = max(0, -int(exponent))
    text = "".join(map(str, digits)) + "0" * max(0, int(exponent))
    whole, fraction = (text[:-scale], text[-scale:].rjust(scale, "0")) if scale else (text, "")
    whole = whole.rjust(-(-len(whole) // 4) * 4, "0")
    fraction = fraction.ljust(-(-scale // 4) * 4, "0")
    groups = [int(part[i : i + 4]) for part in (whole, fraction) for i in range(0, len(part), 4)]
    weight = len(whole) // 4 - 1
    while groups and groups[0] == 0:
        groups.pop(0)
        weight -= 1
    while groups and groups[-1] == 0:
        groups.pop()
    is_negative = bool(sign and groups)
    head = len(groups), weight if groups else 0, 0x4000 if is_negative else 0, scale
    return struct.pack(f">hhHh{len(groups)}h", *head, *groups)


def _receive_numeric(data: bytes) -> Decimal:
    if len(data) < 8:
        raise _malformed()
    count, weight, sign, scale = struct.unpack_from(">hhHh", data)
    special = special_of_sign(sign)
    if (sign not in (0, 0x4000) and special is None) or len(data) != 8 + 2 * count:
        raise _malformed()
    groups = struct.unpack_from(f">{count}h", data, 8)
    if scale < 0 or any(not 0 <= group < 10_000 for group in groups):
        raise _malformed()
    if special is not None:
        return special
    # Digits, not arithmetic, which would round.
    digits = "".join(f"{group:04}" for group in groups)
    point = 4 * (weight + 1)
    whole = digits[: max(point, 0)].ljust(point, "0") or "0"
    fraction = ("0" * -min(point, 0) + digits[max(point, 0) :]).ljust(scale, "0")[:scale]
    return checked_numeric(
        Decimal(f"{'-' if sign else ''}{whole}.{fraction}" if scale else f"{'-' if sign else ''}{whole}")
    )


def write_numeric(value: Decimal, _: Printing) -> str:
    """Print a number without an exponent."""
    return format(value, "f")


_TIMESTAMPTZ = TypeInfo(1184, "timestamptz", "pg_catalog", "timestamp with time zone", "b", 8, "d", True)
_INTERVAL = TypeInfo(1186, "interval", "pg_catalog", "interval", "b", 16, "d", False)


def _write_timestamp(value: int, printing: Printing) -> str:
    return value_text(_TIMESTAMPTZ, struct.pack("<q", value), printing.session)


def _write_interval(value: int, printing: Printing) -> str:
    return value_text(_INTERVAL, struct.pack("<qii", *_interval(value)), printing.session)


def _interval(value: int) -> tuple[int, int, int]:
    """Return microseconds, days and months, as the difference of two times is (timestamp_mi)."""
    days = abs(value) // 86_400_000_000 * (1 if value >= 0 else -1)
    return value - days * 86_400_000_000, days, 0


def _no_input(name: str, *_: object) -> Any:
    raise SessionError(f"constants of type {name} are not read here", sqlstate=FEATURE_NOT_SUPPORTED)


def _array(oid: int, element: ValueType) -> ValueType:
    return ValueType(
        *(oid, f"{element.name}[]", -1),
        read=partial(_read_array, element),
        write=lambda value, printing: _write_array(value, element, printing),
        receive=partial(_receive_array, element),
        send=lambda value, printing: _send_array(value, element, printing),
        element=element,
    )


def _write_array(values: Sequence[Any], element: ValueType, printing: Printing) -> str:
    texts = ("NULL" if v is None else quoted_element(element.write(v, printing)) for v in values)
    return "{" + ",".join(texts) + "}"


def quoted_element(text: str) -> str:
    """Quote an element of an array where it must be (array_out)."""
    if text and text.upper() != "NULL" and not any(letter in '"\\{}, \t\n\r\v\f' for letter in text):
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


_ELEMENT = re.compile(r'\s*(?:"((?:[^"\\]|\\.)*)"|((?:[^"\\{},]|\\.)*?))\s*([,}])', re.S)


def _read_array(element: ValueType, text: str) -> tuple[Any, ...]:
    malformed = SessionError(f'malformed array literal: "{text}"', sqlstate=INVALID_TEXT_REPRESENTATION)
    stripped = text.strip()
    if not stripped.startswith("{") or not stripped.endswith("}"):
        malformed.detail = 'Array value must start with "{" or dimension information.'
        raise malformed
    if not stripped[1:-1].strip():
        return ()
    at, values = 1, list[Any]()
    while at < len(stripped):
        match = _ELEMENT.match(stripped, at)
        if match is None or (match[1] is None and not match[2]):
            raise malformed
        is_null = match[1] is None and match[2].upper() == "NULL"
        content = re.sub(r"\\(.)", r"\1", match[2] if match[1] is None else match[1], flags=re.S)
        values.append(None if is_null else element.read(content))
        at = match.end()
        if match[3] == "}" and at != len(stripped):
            raise malformed
    return tuple(values)


def _send_array(values: Sequence[Any], element: ValueType, printing: Printing, lower: int = 1) -> bytes:
    head = struct.pack(">iiI", int(bool(values)), int(None in values), element.oid)
    head += struct.pack(">ii", len(values), lower) if values else b""
    return head + b"".join(_sized(None if v is None else element.send(v, printing)) for v in values)


def _sized(data: bytes | None) -> bytes:
    return struct.pack(">i", -1) if data is None else struct.pack(">i", len(data)) + data


def _receive_array(element: ValueType, data: bytes) -> tuple[Any, ...]:
    try:
        dimensions, _, oid = struct.unpack_from(">iiI", data)
        if dimensions not in (0, 1) or oid != element.oid:
            raise _malformed()
        if not dimensions:
            return ()
        (count, _), at, values = struct.unpack_from(">ii", data, 12), 20, list[Any]()
        for _ in range(count):
            (size,) = struct.unpack_from(">i", data, at)
            values.append(None if size < 0 else element.receive(data[at + 4 : at + 4 + size]))
            at += 4 + max(size, 0)
    except struct.error:
        raise _malformed() from None
    if at != len(data):
        raise _malformed()
    return tuple(values)


def _write_record(fields: Sequence[TypedValue], printing: Printing) -> str:
    return "(" + ",".join(_record_field(field, printing) for field in fields) + ")"


def _record_field(field: TypedValue, printing: Printing) -> str:
    if field.value is None:
        return ""
    text = field.type.write(field.value, printing)
    if text and not any(letter in '"\\(), \t\n\r\v\f' for letter in text):
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '""') + '"'


def _send_record(fields: Sequence[TypedValue], printing: Printing) -> bytes:
    sent = (
        struct.pack(">I", item.type.oid) + _sized(None if item.value is None else item.type.send(item.value, printing))
        for item in fields
    )
    return struct.pack(">i", len(fields)) + b"".join(sent)


def _read_bytes(text: str) -> bytes:
    try:
        if text.startswith("\\x"):
            return bytes.fromhex(text[2:])
    except ValueError:
        pass
    raise SessionError(f"constants of type bytea are read in the form \\x only: {text}", sqlstate=FEATURE_NOT_SUPPORTED)


def _write_bytes(value: bytes, printing: Printing) -> str:
    if printing.session.bytea_output == "hex":
        return "\\x" + value.hex()
    return "".join("\\\\" if b == 92 else chr(b) if 32 <= b < 127 else f"\\{b:03o}" for b in value)


def _vector(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split()))


BOOL = ValueType(
    *(16, "boolean", 1, _read_bool, lambda value, _: "t" if value else "f"),
    *_packed(">?", bool),
    family="boolean",
)
BYTEA = ValueType(17, "bytea", -1, _read_bytes, _write_bytes, bytes, lambda value, _: value, family="bytea")
CHAR = _text_type(18, '"char"', 1, lambda text: text[:1])
NAME = _text_type(19, "name", 64, as_name)
INT8, INT2, INT4 = _integer(20, "bigint", 8), _integer(21, "smallint", 2), _integer(23, "integer", 4)
TEXT = _text_type(25, "text", -1)
OID, XID = _unsigned(26, "oid", "number"), _unsigned(28, "xid", "xid")
UNKNOWN = _text_type(705, "unknown", -2, family="unknown")
INET = _text_type(869, "inet", -1, family="inet")
VARCHAR = _text_type(1043, "character varying", -1)
TIMESTAMPTZ = ValueType(
    *(1184, "timestamp with time zone", 8, partial(_no_input, "timestamp with time zone"), _write_timestamp),
    *_packed(">q"),
    family="timestamptz",
)
INTERVAL = ValueType(
    *(1186, "interval", 16, partial(_no_input, "interval"), _write_interval, partial(_no_input, "interval")),
    lambda value, _: struct.pack(">qii", *_interval(value)),
    family="interval",
)
NUMERIC = ValueType(1700, "numeric", -1, _read_numeric, write_numeric, _receive_numeric, _send_numeric, family="number")
RECORD = ValueType(
    2249, "record", -1, partial(_no_input, "record"), _write_record, partial(_no_input, "record"), _send_record
)
VOID = ValueType(2278, "void", 4, lambda _: "", lambda *_: "", lambda _: "", lambda *_: b"")
PG_LSN = ValueType(
    *(3220, "pg_lsn", 8, _read_lsn, lambda value, printing: lsn_text(value, printing.version)),
    *_packed(">Q"),
    family="pg_lsn",
)
TEXT_ARRAY, NAME_ARRAY, INT4_ARRAY = _array(1009, TEXT), _array(1003, NAME), _array(1007, INT4)
INT2_VECTOR = ValueType(
    *(22, "int2vector", -1, _vector, lambda value, _: " ".join(map(str, value)), partial(_receive_array, INT2)),
    lambda value, printing: _send_array(value, INT2, printing, lower=0),
)

_ALL = (BOOL, BYTEA, CHAR, NAME, INT8, INT2, INT4, TEXT, OID, XID, UNKNOWN, INET, VARCHAR, TIMESTAMPTZ, INTERVAL)
TYPES = {
    type.oid: type for type in (*_ALL, NUMERIC, RECORD, VOID, PG_LSN, TEXT_ARRAY, NAME_ARRAY, INT4_ARRAY, INT2_VECTOR)
}
"""The types, by OID."""

TYPE_NAMES = {
    "bool": BOOL,
    "boolean": BOOL,
    "bytea": BYTEA,
    "char": CHAR,
    "name": NAME,
    "int8": INT8,
    "int2": INT2,
    "int4": INT4,
    "text": TEXT,
    "oid": OID,
    "xid": XID,
    "varchar": VARCHAR,
    "numeric": NUMERIC,
    "pg_lsn": PG_LSN,
    "timestamptz": TIMESTAMPTZ,
    "interval": INTERVAL,
    "inet": INET,
}
"""Types by the names that the grammar gives them."""

ARRAYS = {TEXT.oid: TEXT_ARRAY, NAME.oid: NAME_ARRAY, INT4.oid: INT4_ARRAY}
"""Arrays, by the OID of their elements."""
