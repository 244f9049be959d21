"""Stored values of each type, to cut short and to break."""

from __future__ import annotations

import struct
from decimal import Decimal

from headwater.catalog.relation import TypeInfo
from unit.rows.plain_text import (
    ArrayValue,
    array,
    array_type,
    built_in,
    domain,
    enum_type,
    jsonb,
    nested_type,
    numeric,
    varlena,
)
from unit.rows.stored_values import STORED

_WORDS = ArrayValue(
    (2, 2), (0, 1), (varlena(b'a"b'), None, varlena(b"null"), varlena(b"x")), ('a"b', None, "null", "x")
)
_NUMBERS = ArrayValue((3,), (1,), tuple(struct.pack("<i", i) for i in (1, -22, 333)), ("1", "-22", "333"))
_LISTS = ArrayValue((2,), (1,), (varlena(array(_WORDS, built_in("text"))), None), ("", None))
_POINTS = struct.pack("<iii4d", 2, 1, 0, 1.5, -2.5, 1e300, 0.1)

SAMPLES: list[tuple[TypeInfo, bytes]] = [
    (built_in("bool"), b"\1"),
    (built_in("int2"), struct.pack("<h", -123)),
    (built_in("int4"), struct.pack("<i", -123456)),
    (built_in("int8"), struct.pack("<q", -(1 << 63))),
    (built_in("oid"), struct.pack("<I", 4_000_000_000)),
    (built_in("xid8"), struct.pack("<Q", (1 << 64) - 1)),
    (built_in("numeric"), numeric(Decimal("-123456789.123456789"))),
    (built_in("numeric"), numeric(Decimal("0.000012"))),
    (built_in("numeric"), struct.pack("<H", 0xF000)),
    (built_in("float4"), struct.pack("<f", 1.5e-30)),
    (built_in("float8"), struct.pack("<d", -1.7976931348623157e308)),
    (built_in("float8"), struct.pack("<d", 123.456)),
    (built_in("money"), struct.pack("<q", -123456789)),
    (built_in("text"), "héllo".encode()),
    (built_in("char"), b"\xe9"),
    (built_in("name"), b"name".ljust(64, b"\0")),
    (built_in("bytea"), b"\0\xff\\a"),
    (built_in("uuid"), bytes(range(16))),
    (built_in("date"), struct.pack("<i", -800_000)),
    (built_in("time"), struct.pack("<q", 86_399_999_999)),
    (built_in("timetz"), struct.pack("<qi", 86_399_999_999, 12_345)),
    (built_in("timestamp"), struct.pack("<q", -63_113_904_000_000_001)),
    (built_in("timestamptz"), struct.pack("<q", 9_000_000_000_000_000_001)),
    (built_in("timestamptz"), struct.pack("<q", -(1 << 63))),
    (built_in("interval"), struct.pack("<qii", -3_600_000_001, 4, -14)),
    (built_in("jsonb"), jsonb({"a": [1 and Decimal("1.5"), None, True, "x\n\1"], "b": {"c": {}}})),
    (built_in("jsonb"), jsonb("scalar")),
    (built_in("varbit"), struct.pack("<i", 13) + b"\xa5\x80"),
    (built_in("inet"), b"\2\x18\x0a\0\0\1"),
    (built_in("inet"), b"\3\x40" + bytes(15) + b"\1"),
    (built_in("macaddr"), b"\1\2\3\4\5\6"),
    (built_in("pg_lsn"), struct.pack("<Q", 0x16_0ABCDEF0)),
    (built_in("tid"), struct.pack("<HHH", 1, 2, 3)),
    (built_in("point"), struct.pack("<dd", 1.5, -2.25)),
    (built_in("circle"), struct.pack("<ddd", 1.5, -2.25, 3)),
    (built_in("path"), _POINTS),
    (built_in("int2vector"), struct.pack("<iiIii2h", 1, 0, 21, 2, 0, 7, -8)),
    (built_in("oidvector"), struct.pack("<iiIii2I", 1, 0, 26, 2, 0, 7, 8)),
    (enum_type(1, [(7, "seven"), (8, "eight")]), struct.pack("<I", 8)),
    (array_type(built_in("text")), array(_WORDS, built_in("text"))),
    (array_type(built_in("int4")), array(_NUMBERS, built_in("int4"))),
    (nested_type(built_in("text"), 2), array(_LISTS, domain(array_type(built_in("text"))))),
    *((stored.type, stored.payload) for stored in STORED),
]
