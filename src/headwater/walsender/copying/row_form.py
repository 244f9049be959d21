r"""Rows of cells as COPY sends them: text with backslashes, or binary with lengths.

In: cells, as the types' output or send functions make them, in the client's encoding. Out: :class:`CopiedRows`.

PostgreSQL: copyto.c. Text has tabs between fields, ``\N`` for NULL and a newline at the end. The header of the binary
form comes with its first row, its trailer alone.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from headwater.pg.encodings import ENCODINGS, first_byte_length
from headwater.rows.items import Cells
from headwater.walsender.copying import _copy_rows as k

Bytes = NDArray[np.uint8]
Int64s = NDArray[np.int64]

BINARY_HEADER = b"PGCOPY\n\xff\r\n\0" + bytes(8)
"""Signature, flags, and the length of an extension of the header."""

BINARY_TRAILER = b"\xff\xff"

BLOCK_BYTES = 1 << 20
"""Rows that are handed on together have at most so many bytes, unless a single one has more."""

_LETTERS = {0x08: "b", 0x09: "t", 0x0A: "n", 0x0B: "v", 0x0C: "f", 0x0D: "r", 0x5C: "\\"}


@dataclass(frozen=True, eq=False)
class CopiedRows:
    """The payloads of CopyData, k of them.

    Attributes:
        data: uint8[]; offsets: int64[k+1] payload i is ``data[offsets[i]:offsets[i+1]]``, the first offset is 0.
        rows: how many of them are rows: the trailer of the binary form is none.
    """

    data: Bytes
    offsets: Int64s
    rows: int

    def blocks(self) -> Iterator[CopiedRows]:
        """Give the same in pieces that are not large."""
        start, count = 0, len(self.offsets) - 1
        while start < count:
            end = int(np.searchsorted(self.offsets, self.offsets[start] + BLOCK_BYTES, "right")) - 1
            stop = max(end, start + 1)
            low, high = int(self.offsets[start]), int(self.offsets[stop])
            yield CopiedRows(self.data[low:high], self.offsets[start : stop + 1] - low, stop - start)
            start = stop


class UnsendableCell(Exception):
    """A value has a character that the client's encoding lacks; its cell."""

    def __init__(self, cell: int) -> None:
        super().__init__(cell)
        self.cell = cell


def rows_of_cells(cells: Cells, firsts: Int64s, fields: Int64s, encoding: str, *, is_binary: bool) -> CopiedRows:
    """Make rows.

    Args:
        cells: all values.
        firsts: int64[n] the first cell of each row.
        fields: int64[f] which cell of a row each field is.
        encoding: the client's.
        is_binary: in which form.

    Raises:
        UnsendableCell: a value cannot be sent.
    """
    row_cells = k.RowCells(firsts, fields, cells.kind, cells.start, cells.length, cells.text)
    offsets, state = np.zeros(len(firsts) + 1, np.int64), np.zeros(k.STATE_SIZE, np.int64)
    out = np.empty(len(cells.text) + len(cells.text) // 16 + 5 * len(firsts) * (len(fields) + 1) + 64, np.uint8)
    actions = escape_actions(encoding)
    while status := k.write_rows(row_cells, is_binary, actions, out, offsets, state):
        if status == k.REFUSES:
            raise UnsendableCell(int(state[k.CELL]))
        used = int(offsets[state[k.ROW]])
        larger = np.empty(max(2 * len(out), int(state[k.NEEDED])), np.uint8)
        larger[:used] = out[:used]
        out = larger
    return CopiedRows(out[: offsets[-1]], offsets, len(firsts))


@lru_cache(maxsize=4)
def escape_actions(encoding: str) -> Bytes:
    """Return what becomes of each byte of text in an encoding; see :func:`._copy_rows.write_rows`."""
    actions = np.zeros(256, np.uint8)
    for byte, letter in _LETTERS.items():
        actions[byte] = ord(letter)
    if encoding not in ENCODINGS:
        # Only encodings of clients have characters with bytes in them that look like ASCII.
        actions[0x80:] = [first_byte_length(encoding, byte) for byte in range(0x80, 0x100)]
    return actions


def in_binary(batches: Iterable[CopiedRows]) -> Generator[CopiedRows]:
    """Put the header of the binary form before rows, and its trailer behind them."""
    header = BINARY_HEADER
    for batch in batches:
        if header:
            data = np.concatenate([np.frombuffer(header, np.uint8), batch.data])
            offsets = np.append(0, batch.offsets[1:] + len(header))
            header, batch = b"", CopiedRows(data, offsets, batch.rows)
        yield batch
    end = np.frombuffer(header + BINARY_TRAILER, np.uint8)
    yield CopiedRows(end, np.array([0, len(end)], np.int64), 0)
