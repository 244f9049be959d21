"""Counts out of pgoutput messages written by hand after the protocol's description."""

from __future__ import annotations

import struct

from headwater.demo.change_counts import OTHER, TableCounts, count_changes
from headwater.demo.stream_comparison import messages_table


def relation(oid: int, schema: str, name: str) -> bytes:
    return b"R" + struct.pack(">I", oid) + schema.encode() + b"\0" + name.encode() + b"\0d" + struct.pack(">H", 0)


def change(letter: str, oid: int, rest: bytes = b"N\0\0") -> bytes:
    return letter.encode() + struct.pack(">I", oid) + rest


def test_counts_by_table() -> None:
    truncate = b"T" + struct.pack(">IB", 2, 0) + struct.pack(">II", 16384, 99999)
    data = [
        b"B" + bytes(20),
        relation(16384, "public", "t"),
        change("I", 16384),
        change("I", 16384),
        change("D", 16384),
    ]
    data += [relation(16384, "public", "renamed"), relation(99999, "", "pg_thing"), change("U", 99999), truncate]
    data += [b"C" + bytes(25), b"M" + bytes(14)]
    counts = count_changes(messages_table((16 * at, 7, message) for at, message in enumerate(data)))
    sizes = [sum(len(m) for m in data[1:6]) + len(truncate), len(data[6]) + len(data[7]), 21 + 26 + 15]
    assert counts == [
        TableCounts("pg_catalog.pg_thing", updates=1, truncates=1, messages=2, size=sizes[1]),
        TableCounts("public.renamed", inserts=2, deletes=1, truncates=1, messages=6, size=sizes[0]),
        TableCounts(OTHER, messages=3, size=sizes[2]),
    ]


def test_nothing_to_count() -> None:
    assert count_changes(messages_table([])) == []
