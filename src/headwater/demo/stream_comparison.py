"""Comparison of two streams of messages, byte for byte, for the demo and the tests.

A stream is a table of ``lsn``, ``xid`` and ``data``. Streams are compared column by column; of unequal ones the first
message that differs is shown, with the messages before it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

_COLUMNS: Sequence[tuple[str, pa.DataType]] = [("lsn", pa.int64()), ("xid", pa.int64()), ("data", pa.large_binary())]
SCHEMA = pa.schema(_COLUMNS)
CONTEXT = 4
SHOWN_BYTES = 400


@dataclass(frozen=True)
class Difference:
    """The first difference of two streams.

    Attributes:
        position: index of the first message that differs.
        expected: (lsn, xid, data) there, or None when the stream had ended.
        actual: the same of the other stream.
        before: the messages before it, which both streams have.
    """

    position: int
    expected: tuple[int, int, bytes] | None
    actual: tuple[int, int, bytes] | None
    before: tuple[tuple[int, int, bytes], ...]

    def __str__(self) -> str:
        lines = [f"  {index}  {show(message)}" for index, message in self._numbered()]
        lines.append(f"- {self.position}  {show(self.expected)}   <- the server")
        lines.append(f"+ {self.position}  {show(self.actual)}   <- Headwater")
        if self.expected is not None and self.actual is not None:
            lines.append(_part(self.expected, self.actual))
        return "\n".join(lines)

    def _numbered(self) -> list[tuple[int, tuple[int, int, bytes]]]:
        return list(enumerate(self.before, self.position - len(self.before)))


def messages_table(messages: Iterable[tuple[int, int, bytes]]) -> pa.Table:
    """Make a stream from rows of (lsn, xid, data)."""
    columns = list(zip(*messages, strict=True)) or [(), (), ()]
    return pa.table(
        [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)], schema=SCHEMA
    )


def joined(tables: Iterable[pa.Table]) -> pa.Table:
    """Make a stream from the tables of a decode; text becomes the bytes that it consists of."""
    parts = []
    for table in tables:
        data = table.column("data")
        as_binary = data.cast(pa.binary() if data.type in (pa.string(), pa.binary()) else pa.large_binary())
        columns = [table.column("lsn"), table.column("xid"), as_binary]
        parts.append(pa.table(columns, ["lsn", "xid", "data"]).cast(SCHEMA))
    return pa.concat_tables(parts) if parts else SCHEMA.empty_table()


def first_difference(expected: pa.Table, actual: pa.Table) -> Difference | None:
    """Find the first difference of two streams, None when they are equal in every byte."""
    common = min(len(expected), len(actual))
    left, right = expected.slice(0, common).combine_chunks(), actual.slice(0, common).combine_chunks()
    if left.equals(right):
        return None if len(expected) == len(actual) else _difference(expected, actual, common)
    unequal = [pc.not_equal(left.column(name), right.column(name)) for name in SCHEMA.names]
    position = pc.index(pc.or_(pc.or_(unequal[0], unequal[1]), unequal[2]), value=True).as_py()
    return _difference(expected, actual, position)


def _difference(expected: pa.Table, actual: pa.Table, position: int) -> Difference:
    before = tuple(_row(expected, index) for index in range(max(0, position - CONTEXT), position))
    pair = [_row(table, position) if position < len(table) else None for table in (expected, actual)]
    return Difference(position, pair[0], pair[1], before)


def _row(table: pa.Table, index: int) -> tuple[int, int, bytes]:
    row: dict[str, Any] = table.slice(index, 1).to_pylist()[0]
    return row["lsn"], row["xid"], row["data"]


def show(message: tuple[int, int, bytes] | None) -> str:
    """Show a message on one line: LSN, xid, and its data with unprintable bytes escaped."""
    if message is None:
        return "(the stream has ended)"
    lsn, xid, data = message
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X} {xid} {_printable(data)}"


def _printable(data: bytes) -> str:
    text = repr(data[:SHOWN_BYTES].decode("utf-8", "backslashreplace"))[1:-1]
    return text if len(data) <= SHOWN_BYTES else f"{text}... ({len(data)} bytes)"


def _part(expected: tuple[int, int, bytes], actual: tuple[int, int, bytes]) -> str:
    for name, wanted, actual_value in zip(("lsn", "xid"), expected[:2], actual[:2], strict=True):
        if wanted != actual_value:
            return f"  {name} differs: {wanted} and {actual_value}"
    pairs = enumerate(zip(expected[2], actual[2], strict=False))
    at = next((i for i, (a, b) in pairs if a != b), min(len(expected[2]), len(actual[2])))
    left, right = (_printable(m[2][max(0, at - 20) : at + 60]) for m in (expected, actual))
    return f"  data differs at byte {at} of {len(expected[2])} and {len(actual[2])}: ...{left} and ...{right}"
