"""Plain Python twins of the text kernels: values encoded as the server stores them, and printed as it prints them."""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from headwater.catalog.relation import TypeInfo
from headwater.rows.session import SessionSettings
from headwater.rows.text._text import type_text
from headwater.rows.text_tables import TextTables, build_text_tables

ALIGNMENT = {"c": 1, "s": 2, "i": 4, "d": 8}
UTC = SessionSettings()

_BUILT_IN = {
    "bool": (16, 1, "c"),
    "bytea": (17, -1, "i"),
    "char": (18, 1, "c"),
    "name": (19, 64, "c"),
    "int8": (20, 8, "d"),
    "int2": (21, 2, "s"),
    "int2vector": (22, -1, "i"),
    "int4": (23, 4, "i"),
    "text": (25, -1, "i"),
    "oid": (26, 4, "i"),
    "tid": (27, 6, "s"),
    "oidvector": (30, -1, "i"),
    "point": (600, 16, "d"),
    "path": (602, -1, "d"),
    "circle": (718, 24, "d"),
    "money": (790, 8, "d"),
    "float4": (700, 4, "i"),
    "float8": (701, 8, "d"),
    "macaddr": (829, 6, "i"),
    "inet": (869, -1, "i"),
    "date": (1082, 4, "i"),
    "time": (1083, 8, "d"),
    "timestamp": (1114, 8, "d"),
    "timestamptz": (1184, 8, "d"),
    "interval": (1186, 16, "d"),
    "timetz": (1266, 12, "d"),
    "varbit": (1562, -1, "i"),
    "numeric": (1700, -1, "i"),
    "uuid": (2950, 16, "c"),
    "pg_lsn": (3220, 8, "d"),
    "jsonb": (3802, -1, "i"),
    "xid8": (5069, 8, "d"),
}


def built_in(name: str) -> TypeInfo:
    """Return a built-in type, or its array type for a name ending in ``[]``."""
    oid, length, align = _BUILT_IN[name.removesuffix("[]")]
    scalar = TypeInfo(oid, name, "pg_catalog", name, "b", length, align, 0 < length <= 8)
    return array_type(scalar) if name.endswith("[]") else scalar


def array_type(element: TypeInfo) -> TypeInfo:
    align = "d" if element.typalign == "d" else "i"
    name = f"{element.display_name}[]"
    return TypeInfo(90_000 + element.oid, name, "pg_catalog", name, "b", -1, align, False, element=element)


def domain(base: TypeInfo) -> TypeInfo:
    """Make a domain over a type, stored as that type is."""
    return TypeInfo(80_000, "d", "public", "d", "d", base.typlen, base.typalign, base.typbyval, base=base)


def nested_type(element: TypeInfo, levels: int) -> TypeInfo:
    """Make an array of domains over arrays, so many arrays in all."""
    for _ in range(levels - 1):
        element = domain(array_type(element))
    return array_type(element)


def enum_type(oid: int, labels: Sequence[tuple[int, str]]) -> TypeInfo:
    return TypeInfo(oid, "mood", "public", "mood", "e", 4, "i", True, labels=tuple(labels))


def run(
    tables: TextTables, column: int, payload: bytes, out: np.ndarray[Any, Any], *, at: int = 0, pad: bytes = b""
) -> int:
    """Return the kernel's answer for a payload that lies between two pads."""
    source = np.frombuffer(pad + payload + pad, dtype=np.uint8).copy()
    return int(type_text(tables, column, source, len(pad), len(payload), out, at))


def text_of(type: TypeInfo | str, payload: bytes, session: SessionSettings = UTC) -> str | int:
    """Return the kernel's text, or its status."""
    tables = build_text_tables([built_in(type) if isinstance(type, str) else type], session)
    out = np.zeros(300_000, dtype=np.uint8)
    end = run(tables, 0, payload, out)
    return out[:end].tobytes().decode() if end >= 0 else end


def varlena(payload: bytes) -> bytes:
    """Put a 4-byte header before a payload."""
    return struct.pack("<I", len(payload) + 4 << 2) + payload


def short_varlena(payload: bytes) -> bytes:
    """Put a 1-byte header before a payload."""
    return bytes([len(payload) + 1 << 1 | 1]) + payload


def numeric(value: Decimal, *, long_header: bool = False) -> bytes:
    """Make a finite numeric with the value's own scale."""
    sign, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    scale = max(-exponent, 0)
    whole = int("".join(map(str, digits)) or "0") * 10 ** max(exponent, 0)
    padded = whole * 10 ** (-scale % 4)
    groups: list[int] = []
    while padded:
        padded, group = divmod(padded, 10_000)
        groups.insert(0, group)
    weight = len(groups) - (scale + 3) // 4 - 1 if groups else 0
    while groups and groups[-1] == 0:
        groups.pop()
    negative = bool(sign) and bool(groups)
    body = struct.pack(f"<{len(groups)}H", *groups)
    if long_header or scale > 63 or not -64 <= weight <= 63:
        return struct.pack("<Hh", (0x4000 if negative else 0) | scale, weight) + body
    return struct.pack("<H", 0x8000 | (0x2000 if negative else 0) | scale << 7 | weight & 0x7F) + body


def numeric_text(value: Decimal) -> str:
    text = f"{value:f}"
    return text[1:] if text.startswith("-") and not any(c in "123456789" for c in text) else text


def shortest_float(value: float, bits: int) -> str:
    """Find the shortest decimal strictly inside the rounding interval, nearest to the value, by exact arithmetic."""
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "Infinity" if value > 0 else "-Infinity"
    sign = "-" if struct.pack(">d", value)[0] & 0x80 else ""
    if value == 0:
        return sign + "0"
    mantissa, exponent, lowest = _parts(abs(value), bits)
    exact = Fraction(mantissa) * Fraction(2) ** exponent
    below = exact - Fraction(2) ** exponent / (4 if lowest else 2)
    above = exact + Fraction(2) ** exponent / 2
    if exact.denominator == 1 and mantissa * Fraction(2) ** exponent < 2 ** (53 if bits == 64 else 24):
        return sign + _layout(int(exact), 0, 15 if bits == 64 else 6)
    power = 330
    while True:
        unit = Fraction(10) ** power
        low, high = below // unit + 1, -(-above // unit) - 1
        if low <= high:
            near = exact / unit
            digits = near.numerator // near.denominator
            rest = near - digits
            digits += rest > Fraction(1, 2) or (rest == Fraction(1, 2) and digits % 2 == 1)
            return sign + _layout(int(min(max(digits, low), high)), power, 15 if bits == 64 else 6)
        power -= 1


def _parts(value: float, bits: int) -> tuple[int, int, bool]:
    if bits == 64:
        raw = struct.unpack("<Q", struct.pack("<d", value))[0]
        biased, fraction, width, bias = raw >> 52, raw & (1 << 52) - 1, 52, 1075
    else:
        raw = struct.unpack("<I", struct.pack("<f", value))[0]
        biased, fraction, width, bias = raw >> 23, raw & (1 << 23) - 1, 23, 150
    if biased == 0:
        return fraction, 1 - bias, False
    return fraction | 1 << width, biased - bias, fraction == 0 and biased > 1


def _layout(digits: int, power: int, fixed_below: int) -> str:
    text = str(digits)
    display = power + len(text) - 1
    if -4 <= display < fixed_below:
        return f"{Decimal(digits).scaleb(power):f}"
    text = text.rstrip("0") or "0"
    tail = f".{text[1:]}" if len(text) > 1 else ""
    return f"{text[0]}{tail}e{'-' if display < 0 else '+'}{abs(display):02d}"


def timestamp_text(usec: int, east: int | None = None) -> str:
    """Print a timestamp by the Julian day algorithm of ``j2date``, which the kernel does not use."""
    local = usec + (east or 0) * 10**6
    days, micros = divmod(local, 86_400 * 10**6)
    year, month, day = julian_date(days + 2_451_545)
    seconds, fraction = divmod(micros, 10**6)
    text = f"{year if year > 0 else 1 - year:04d}-{month:02d}-{day:02d} "
    text += f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    text += f".{fraction:06d}".rstrip("0") if fraction else ""
    if east is not None:
        size = abs(east)
        text += f"{'-' if east < 0 else '+'}{size // 3600:02d}"
        text += f":{size // 60 % 60:02d}" if size % 3600 else ""
        text += f":{size % 60:02d}" if size % 60 else ""
    return text + (" BC" if year <= 0 else "")


def julian_date(day: int) -> tuple[int, int, int]:
    """Compute a date as ``j2date`` does."""
    julian = day + 32_044
    quad = julian // 146_097
    extra = (julian - quad * 146_097) * 4 + 3
    julian += 60 + quad * 3 + extra // 146_097
    quad = julian // 1461
    julian -= quad * 1461
    year = julian * 4 // 1461
    julian = ((julian + 305) % 365 if year else (julian + 306) % 366) + 123
    year += quad * 4
    quad = julian * 2141 // 65_536
    return year - 4800, (quad + 10) % 12 + 1, julian - 7834 * quad // 256


def interval_text(months: int, days: int, micros: int) -> str:
    """Print an interval as ``EncodeInterval`` does in style postgres."""
    parts = []
    before = False
    years, rest = (abs(months) // 12, abs(months) % 12)
    sign = -1 if months < 0 else 1
    for value, unit in ((sign * years, "year"), (sign * rest, "mon"), (days, "day")):
        if value:
            parts.append(f"{'+' if before and value > 0 else ''}{value} {unit}{'' if value == 1 else 's'}")
            before = value < 0
    if micros or not parts:
        seconds, fraction = divmod(abs(micros), 10**6)
        text = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
        text += f".{fraction:06d}".rstrip("0") if fraction else ""
        parts.append(("-" if micros < 0 else "+" if before else "") + text)
    return " ".join(parts)


@dataclass(frozen=True)
class ArrayValue:
    """Sizes and lower bounds of dimensions, and the elements' stored bytes (None: NULL) with their texts."""

    sizes: tuple[int, ...]
    lows: tuple[int, ...]
    stored: tuple[bytes | None, ...]
    texts: tuple[str | None, ...]


def array(value: ArrayValue, element: TypeInfo) -> bytes:
    """Make an array's payload."""
    has_nulls = None in value.stored
    body = struct.pack(f"<{2 * len(value.sizes)}i", *value.sizes, *value.lows)
    if has_nulls:
        bitmap = np.packbits([item is not None for item in value.stored], bitorder="little")
        body += bitmap.tobytes()
    body += bytes(-(16 + len(body)) % 8)
    offset = 16 + len(body)
    for item in value.stored:
        if item is not None:
            body += bytes(-(16 + len(body)) % ALIGNMENT[element.typalign]) + item
    return struct.pack("<iiI", len(value.sizes), offset if has_nulls else 0, element.oid) + body


def array_text(value: ArrayValue, delimiter: str = ",") -> str:
    """Print an array as ``array_out`` does."""
    if not value.texts:
        return "{}"
    items = [_quoted(text, delimiter) for text in value.texts]
    for size in reversed(value.sizes):
        items = ["{" + delimiter.join(items[i : i + size]) + "}" for i in range(0, len(items), size)]
    bounds = ""
    if any(low != 1 for low in value.lows):
        pairs = zip(value.lows, value.sizes, strict=True)
        bounds = "".join(f"[{low}:{low + size - 1}]" for low, size in pairs) + "="
    return bounds + items[0]


def _quoted(text: str | None, delimiter: str) -> str:
    if text is None:
        return "NULL"
    if text and text.lower() != "null" and not any(c in '"\\{} \t\n\r\v\f' + delimiter for c in text):
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def jsonb(value: Any) -> bytes:
    """Make a jsonb payload; a scalar is an array of one, flagged."""
    if isinstance(value, (dict, list)):
        return _container(value)
    return struct.pack("<I", 0x50000001) + _container([value])[4:]


def _container(value: Any) -> bytes:
    if isinstance(value, dict):
        pairs = sorted(value.items(), key=lambda pair: (len(pair[0].encode()), pair[0].encode()))
        children, header = [key for key, _ in pairs] + [item for _, item in pairs], 0x20000000 | len(pairs)
    else:
        children, header = value, 0x40000000 | len(value)
    entries, body = b"", b""
    for number, child in enumerate(children):
        begin = len(body)
        kind, data = _child(child)
        if kind in (0x10000000, 0x50000000):
            body += bytes(-len(body) % 4)
        body += data
        stride = number % 32 == 0
        size = len(body) | 0x80000000 if stride else len(body) - begin
        entries += struct.pack("<I", kind | size)
    return struct.pack("<I", header) + entries + body


def _child(value: Any) -> tuple[int, bytes]:
    if value is None:
        return 0x40000000, b""
    if isinstance(value, bool):
        return (0x30000000 if value else 0x20000000), b""
    if isinstance(value, str):
        return 0, value.encode()
    if isinstance(value, Decimal):
        return 0x10000000, varlena(numeric(value))
    return 0x50000000, _container(value)


def jsonb_text(value: Any) -> str:
    """Print jsonb as ``JsonbToCString`` does."""
    if isinstance(value, dict):
        pairs = sorted(value.items(), key=lambda pair: (len(pair[0].encode()), pair[0].encode()))
        return "{" + ", ".join(f"{jsonb_text(key)}: {jsonb_text(item)}" for key, item in pairs) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(jsonb_text, value)) + "]"
    if isinstance(value, Decimal):
        return numeric_text(value)
    return json.dumps(value, ensure_ascii=False)
