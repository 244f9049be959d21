"""Rows of COPY out of cells, against a plain twin; the parts of a condition."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest

from headwater.rows.items import ABSENT, BINARY, NULL, REFUSED, TEXT, Cells
from headwater.walsender.copying.row_conditions import split_condition
from headwater.walsender.copying.row_form import (
    BINARY_HEADER,
    BINARY_TRAILER,
    CopiedRows,
    UnsendableCell,
    escape_actions,
    in_binary,
    rows_of_cells,
)

ESCAPES = {b: f"\\{letter}".encode() for b, letter in zip(b"\b\f\n\r\t\v\\", "bfnrtv\\", strict=True)}

Row = Sequence[bytes | None]


def cells_of(rows: Sequence[Row], kind: int) -> tuple[Cells, np.ndarray[tuple[int], np.dtype[np.int64]]]:
    """Lay values out as cells, with a dropped column before each row."""
    values = [value for row in rows for value in (b"", *row)]
    kinds = [k for row in rows for k in (ABSENT, *(NULL if value is None else kind for value in row))]
    lengths = [len(value or b"") for value in values]
    width = len(rows[0]) + 1 if rows else 1
    firsts = np.arange(len(rows), dtype=np.int64) * width
    starts = np.cumsum([0, *lengths])[:-1].astype(np.int64)
    text = np.frombuffer(bytearray(b"".join(value or b"" for value in values)), np.uint8)
    old = np.full(len(rows), -1, np.int64)
    cells = Cells(firsts, old, np.array(kinds, np.uint8), starts, np.array(lengths, np.int32), text)
    return cells, firsts


def payloads(rows: CopiedRows) -> list[bytes]:
    data, offsets = rows.data.tobytes(), rows.offsets.tolist()
    return [data[low:high] for low, high in pairwise(offsets)]


def made(rows: Sequence[Row], *, is_binary: bool = False, encoding: str = "UTF8") -> list[bytes]:
    cells, firsts = cells_of(rows, BINARY if is_binary else TEXT)
    fields = np.arange(1, len(rows[0]) + 1 if rows else 1, dtype=np.int64)
    return payloads(rows_of_cells(cells, firsts, fields, encoding, is_binary=is_binary))


def text_twin(row: Row) -> bytes:
    fields = (rb"\N" if value is None else b"".join(ESCAPES.get(b, bytes([b])) for b in value) for value in row)
    return b"\t".join(fields) + b"\n"


def binary_twin(row: Row) -> bytes:
    fields = (b"\xff" * 4 if value is None else len(value).to_bytes(4, "big") + value for value in row)
    return len(row).to_bytes(2, "big") + b"".join(fields)


def random_rows(rng: random.Random) -> list[Row]:
    width = rng.randrange(5)

    def value() -> bytes | None:
        size = rng.choice((0, 1, 3, 70, 500))
        alphabet = rng.choice((b"\b\f\n\r\t\v\\", b"ab\\N.\x01\x7f", bytes(range(256))))
        return None if rng.random() < 0.2 else bytes(rng.choice(alphabet) for _ in range(size))

    return [[value() for _ in range(width)] for _ in range(rng.randrange(30))]


def test_rows_are_those_of_the_twin() -> None:
    rng = random.Random(5)
    for _ in range(300):
        rows = random_rows(rng)
        assert made(rows) == list(map(text_twin, rows))
        assert made(rows, is_binary=True) == list(map(binary_twin, rows))


def test_room_grows() -> None:
    rows: list[Row] = [[b"\\" * 100_000], [None], [b"\n" * 300_000]]
    assert made(rows) == list(map(text_twin, rows))


@pytest.mark.parametrize(
    ("encoding", "value", "expected"),
    [
        ("SJIS", "表\\".encode("cp932"), "表".encode("cp932") + b"\\\\"),
        ("SJIS", b"\xb1\\", b"\xb1\\\\"),
        ("BIG5", "功\t".encode("big5"), "功".encode("big5") + rb"\t"),
        ("GBK", b"\x81\x5c\x5c", b"\x81\x5c\x5c\x5c"),
        ("GB18030", b"\x81\x30\x81\x30\n", b"\x81\x30\x81\x30" + rb"\n"),
        ("JOHAB", b"\x8f\xa1\xa1\\", b"\x8f\xa1\xa1\\\\"),
        ("UTF8", "é\\".encode(), "é".encode() + b"\\\\"),
        ("LATIN1", b"\x95\\", b"\x95\\\\"),
        ("SJIS", b"\x95", b"\x95"),
    ],
)
def test_bytes_inside_of_characters_stay(encoding: str, value: bytes, expected: bytes) -> None:
    assert made([[value]], encoding=encoding) == [expected + b"\n"]


def test_only_ascii_is_escaped_in_encodings_of_servers() -> None:
    assert not escape_actions("EUC_JP")[0x80:].any()


def test_what_cannot_be_sent_is_named() -> None:
    cells, firsts = cells_of([[b"a", b"b"], [b"c", b"d"]], TEXT)
    cells.kind[5] = REFUSED
    for is_binary in (False, True):
        with pytest.raises(UnsendableCell) as caught:
            rows_of_cells(cells, firsts, np.array([1, 2], np.int64), "UTF8", is_binary=is_binary)
        assert caught.value.cell == 5


def test_the_header_comes_with_the_first_row() -> None:
    cells, firsts = cells_of([[b"a"], [b"b"]], BINARY)
    rows = rows_of_cells(cells, firsts, np.array([1], np.int64), "UTF8", is_binary=True)
    first, second = payloads(rows)
    sent = [payload for batch in in_binary(rows.blocks()) for payload in payloads(batch)]
    assert sent == [BINARY_HEADER + first, second, BINARY_TRAILER]
    assert [payload for batch in in_binary([]) for payload in payloads(batch)] == [BINARY_HEADER + BINARY_TRAILER]


def test_large_rows_come_alone() -> None:
    rows: list[Row] = [[b"x" * 900_000], [b"y"], [b"z" * 3_000_000], [b"w"]]
    cells, firsts = cells_of(rows, TEXT)
    whole = rows_of_cells(cells, firsts, np.array([1], np.int64), "UTF8", is_binary=False)
    assert [block.rows for block in whole.blocks()] == [2, 1, 1]
    assert [payload for block in whole.blocks() for payload in payloads(block)] == list(map(text_twin, rows))


def test_conditions_are_split_into_known_texts() -> None:
    texts = dict.fromkeys(("a", "(b OR c)", "a OR d", "f('x OR y'::text)"), "")
    assert split_condition("a", texts) == ("a",)
    assert split_condition("(b OR c) OR a", texts) == ("(b OR c)", "a")
    assert split_condition("a OR d OR f('x OR y'::text)", texts) == ("a OR d", "f('x OR y'::text)")
    assert split_condition("a OR a", texts) == ("a", "a")
    for other in ("b", "a OR", "a  OR a", "a OR b", "", "a AND a", "aa"):
        assert split_condition(other, texts) is None
