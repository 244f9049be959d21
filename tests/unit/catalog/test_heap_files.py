"""Pages of a relation's file, whatever segments it has and wherever they lie."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from headwater.catalog.copy.file_tree import Piece
from headwater.catalog.copy.heap_files import HeapFile
from headwater.catalog.pages import BLCKSZ
from headwater.errors import CatalogError


def page(number: int) -> bytes:
    return bytes([number]) * BLCKSZ


def heap(place: Path) -> HeapFile:
    """Make seven pages in segments of three, the second one after other bytes, and a part of an eighth."""
    (place / "one").write_bytes(page(0) + page(1) + page(2))
    (place / "two").write_bytes(b"other" + page(3) + page(4) + page(5) + b"bytes")
    (place / "three").write_bytes(page(6) + b"cut")
    pieces = [
        Piece(place / "one", 0, 3 * BLCKSZ),
        Piece(place / "two", 5, 3 * BLCKSZ),
        Piece(place / "three", 0, BLCKSZ + 3),
    ]
    return HeapFile(tuple(pieces), 3)


@pytest.mark.parametrize(("first", "count"), [(0, 7), (0, 2), (2, 3), (3, 3), (1, 9), (6, 1), (7, 2), (20, 1)])
def test_pages(tmp_path: Path, first: int, count: int) -> None:
    file = heap(tmp_path)
    assert file.blocks == 7
    out = np.full(count * BLCKSZ, 99, np.uint8)
    there = max(0, min(first + count, 7) - first)
    assert file.read(first, out) == there
    expected = [first + number if number < there else 99 for number in range(count)]
    assert out[::BLCKSZ].tolist() == expected == out[BLCKSZ - 1 :: BLCKSZ].tolist()


def test_bytes_of_a_segment(tmp_path: Path) -> None:
    data = heap(tmp_path).mapped(1)
    assert data[::BLCKSZ].tolist() == [3, 4, 5]
    assert len(data) == 3 * BLCKSZ


def test_no_file() -> None:
    empty = HeapFile((), 1)
    assert (empty.blocks, empty.read(0, np.zeros(BLCKSZ, np.uint8))) == (0, 0)


def test_a_file_that_is_shorter_now(tmp_path: Path) -> None:
    file = heap(tmp_path)
    (tmp_path / "one").write_bytes(page(0))
    with pytest.raises(CatalogError, match="it ends 16384 bytes early"):
        file.read(0, np.zeros(7 * BLCKSZ, np.uint8))
    (tmp_path / "one").unlink()
    with pytest.raises(CatalogError, match="No such file"):
        file.read(0, np.zeros(BLCKSZ, np.uint8))
