"""Rows as tasks write them into files, and as they are read there: block by block.

A block is two numbers, of payloads and of rows; the offsets of the payloads; their bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

import numpy as np

from headwater.walsender.copying.row_form import CopiedRows


def write_block(sink: BinaryIO, rows: CopiedRows) -> None:
    """Write a block."""
    head = np.array([len(rows.offsets) - 1, rows.rows], np.int64)
    for array in (head, rows.offsets, rows.data):
        sink.write(np.ascontiguousarray(array).data)


def blocks_in(path: str) -> Iterator[CopiedRows]:
    """Give the blocks of a file, each read when it is asked for."""
    with open(path, "rb") as file:
        while len(head := np.fromfile(file, np.int64, 2)):
            count, rows = head.tolist()
            offsets = np.fromfile(file, np.int64, count + 1)
            yield CopiedRows(np.fromfile(file, np.uint8, int(offsets[-1])), offsets, rows)
