"""A slot's stream in any pieces gives the same rows; any bytes give rows or an error of ours."""

from __future__ import annotations

import random
import struct
from collections.abc import Sequence
from contextlib import suppress
from itertools import pairwise
from types import EllipsisType
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from headwater.catalog.relation import TypeInfo
from headwater.errors import DecodingError, HeadwaterError
from headwater.pipeline.slices.row_batches import RowForm
from headwater.protocol.replication_messages import wal_data
from headwater.remote_slots.announced_relations import AnnouncedRelations
from headwater.remote_slots.printed_slices import SliceReader
from headwater.rows.session import SessionSettings

TYPE = TypeInfo(25, "text", "pg_catalog", "text", "b", -1, "i", False)
Value = bytes | EllipsisType | None
"""Of a column: its text, null, or unchanged."""


def framed(messages: Sequence[tuple[int, bytes]]) -> bytes:
    made = [wal_data(lsn, lsn, message) for lsn, message in messages]
    return b"".join(struct.pack(">cI", b"d", len(message) + 4) + message for message in made)


def relation(oid: int, columns: Sequence[str], identity: str = "d") -> bytes:
    parts = [b"R", struct.pack(">I", oid), b"public\0", f"t{oid}\0".encode(), identity.encode()]
    parts.append(struct.pack(">H", len(columns)))
    parts += [
        bytes([number == 0]) + name.encode() + b"\0" + struct.pack(">Ii", 25, -1) for number, name in enumerate(columns)
    ]
    return b"".join(parts)


def row(values: Sequence[Value]) -> bytes:
    parts = [struct.pack(">H", len(values))]
    for value in values:
        if isinstance(value, bytes):
            parts.append(b"t" + struct.pack(">I", len(value)) + value)
        else:
            parts.append(b"n" if value is None else b"u")
    return b"".join(parts)


def change(kind: bytes, oid: int, *tuples: tuple[bytes, Sequence[Value]]) -> bytes:
    return kind + struct.pack(">I", oid) + b"".join(mark + row(values) for mark, values in tuples)


def begin(lsn: int, xid: int) -> bytes:
    return b"B" + struct.pack(">QqI", lsn, 1_000_000 * xid, xid)


def commit(lsn: int) -> bytes:
    return b"C" + struct.pack(">BQQq", 0, lsn, lsn + 8, 0)


def stream() -> list[tuple[int, bytes]]:
    """Make messages of all kinds; a relation gets and loses columns, and several changes have one LSN."""
    some = [
        (100, begin(190, 7)),
        (100, b"O" + struct.pack(">Q", 5) + b"north\0"),
        (100, relation(16400, ["id", "a"])),
        (100, change(b"I", 16400, (b"N", [b"1", b"x"]))),
        (100, change(b"I", 16400, (b"N", [b"2", None]))),
        (100, change(b"I", 16400, (b"N", [b"3", "é".encode()]))),
        (110, change(b"U", 16400, (b"K", [b"1", None]), (b"N", [b"4", ...]))),
        (120, change(b"U", 16400, (b"N", [b"2", b"y"]))),
        (190, commit(190)),
    ]
    more = [
        (200, begin(290, 8)),
        (200, b"Y" + struct.pack(">I", 20000) + b"public\0mood\0"),
        (200, relation(16400, ["b", "id"])),
        (200, relation(16500, ["id"], "f")),
        (200, change(b"I", 16400, (b"N", [b"", b"5"]))),
        (210, change(b"U", 16500, (b"O", [b"1"]), (b"N", [b"2"]))),
        (220, change(b"D", 16500, (b"O", [b"2"]))),
        (230, b"T" + struct.pack(">IBII", 2, 1, 16400, 16500)),
        (240, change(b"D", 16400, (b"K", [None, b"4"]))),
        (290, commit(290)),
    ]
    return some + more


def reader() -> SliceReader:
    relations = AnnouncedRelations(lambda oids: [TYPE for _ in oids], lambda _oid, _name: {})
    return SliceReader(relations, lambda _: True, SessionSettings())


def table(pieces: Sequence[bytes]) -> pa.Table:
    made = reader()
    return pa.Table.from_batches([RowForm().batch(made.read(np.frombuffer(piece, np.uint8))) for piece in pieces])


def rows(pieces: Sequence[bytes]) -> list[dict[str, Any]]:
    return table(pieces).to_pylist()


def test_rows_are_those_of_the_messages() -> None:
    made = rows([framed(stream())])
    shown = [(row["_lsn"], row["_seq"], row["_op"], row["_table"], row["_before"], row["_after"]) for row in made]
    assert shown == [
        (100, 0, "insert", "t16400", None, [("id", "1"), ("a", "x")]),
        (100, 1, "insert", "t16400", None, [("id", "2"), ("a", None)]),
        (100, 2, "insert", "t16400", None, [("id", "3"), ("a", "é")]),
        (110, 0, "update", "t16400", [("id", "1")], [("id", "4")]),
        (120, 0, "update", "t16400", None, [("id", "2"), ("a", "y")]),
        (200, 0, "insert", "t16400", None, [("id", "5"), ("b", "")]),
        (210, 0, "update", "t16500", [("id", "1")], [("id", "2")]),
        (220, 0, "delete", "t16500", [("id", "2")], None),
        (230, 0, "truncate", "t16400", None, None),
        (230, 1, "truncate", "t16500", None, None),
        (240, 0, "delete", "t16400", [("id", "4")], None),
    ]
    assert [row["_origin"] for row in made] == ["north"] * 5 + [None] * 6
    assert {(row["_commit_lsn"], row["_xid"]) for row in made} == {(190, 7), (290, 8)}
    assert [row["_unchanged"] for row in made][3] == ["a"]


@pytest.mark.parametrize("seed", range(8))
def test_any_pieces_give_the_same_rows(seed: int) -> None:
    rng, messages = random.Random(seed), stream()
    cuts = sorted({0, len(messages), *(rng.randrange(len(messages)) for _ in range(rng.randrange(1, 12)))})
    pieces = [framed(messages[lo:hi]) for lo, hi in pairwise(cuts)]
    assert rows(pieces) == rows([framed(messages)])


def test_the_versions_that_pieces_use_are_told_beforehand() -> None:
    made, messages = reader(), stream()
    pieces = [np.frombuffer(framed(part), np.uint8) for part in (messages[:9], messages[9:])]
    used = made.used(pieces)
    assert [(schema.name, [column.name for column in schema.columns if not column.is_dropped]) for schema in used] == [
        ("t16400", ["id", "a"]),
        ("t16400", ["id", "b"]),
        ("t16500", ["id"]),
    ]
    assert made.relations.current == {}


@pytest.mark.parametrize("seed", range(200))
def test_any_bytes_are_rows_or_an_error(seed: int) -> None:
    rng, data = random.Random(seed), bytearray(framed(stream()))
    for _ in range(rng.randrange(1, 4)):
        data[rng.randrange(len(data))] = rng.randrange(256)
    cut = len(data) if seed % 4 else rng.randrange(len(data))
    with suppress(HeadwaterError):
        table([bytes(data[:cut])])


def test_a_change_of_what_was_not_announced_is_an_error() -> None:
    with pytest.raises(DecodingError, match="relation 16400 at 0/64, which was not announced"):
        rows([framed([(100, begin(190, 7)), (100, change(b"I", 16400, (b"N", [b"1", b"x"])))])])
    with pytest.raises(DecodingError, match="of kind b'S' is malformed, or was not asked for"):
        rows([framed([(100, b"S" + bytes(5))])])
