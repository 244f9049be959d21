# ruff: noqa: SIM300 - asserts read "expected == actual"
"""TOAST chunks and the tuples that point at them, in the orders in which the server writes them."""

from __future__ import annotations

import random
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import DecodingError, RecordError
from headwater.rows.items import CLEAR_TOAST, TEXT, UNCHANGED, Cells
from headwater.rows.session import SessionSettings
from headwater.rows.tuples._toast import append_chunk, find, make_pending, reset, value_size
from headwater.rows.tuples.layout import compile_layouts
from headwater.rows.tuples.render import render
from unit.rows.plain_tuples import (
    BYTEA,
    INT4,
    TEXT_TYPE,
    Slice,
    cells_at,
    compressed_payload,
    form_tuple,
    make_schema,
    short,
    toast_pointer,
)

SCHEMA = make_schema(INT4, TEXT_TYPE, TEXT_TYPE)
BIG = random.Random(1).randbytes(5000).replace(b"\0", b"x")
REPETITIVE = b"to be, or not to be, " * 400


def run(made: Slice, *, room: int | None = None) -> Cells:
    return render(made.array(), made.items(), compile_layouts([SCHEMA], SessionSettings()), room=room)


def row(key: int, first: bytes | None, second: bytes | None = None) -> bytes:
    return form_tuple(SCHEMA.columns, [struct.pack("<i", key), first, second])


def cells_of(cells: Cells, item: int) -> list[tuple[int, bytes]]:
    return cells_at(cells, int(cells.new_first[item]), 3)


@pytest.mark.parametrize("room", [None, 0])
@pytest.mark.parametrize("method", [None, 0, 1])
def test_a_toasted_value_is_put_together(method: int | None, room: int | None) -> None:
    raw = BIG if method is None else REPETITIVE
    stored = raw if method is None else compressed_payload(raw, method)
    made = Slice()
    made.toast(70001, stored, chunk_size=1996 if method is None else 100)
    made.insert(row(1, toast_pointer(70001, len(raw), len(stored), method or 0), short(b"tail")))
    cells = run(made, room=room)
    assert [(TEXT, b"1"), (TEXT, raw), (TEXT, b"tail")] == cells_of(cells, len(made.rows) - 1)
    assert [-1] * (len(made.rows) - 1) == cells.new_first[:-1].tolist()


def test_two_values_of_one_row_and_chunks_of_one_byte() -> None:
    made = Slice()
    made.toast(5, BIG[:50], chunk_size=1)
    made.toast(6, BIG[50:130], chunk_size=1)
    made.insert(row(1, toast_pointer(6, 80, 80), toast_pointer(5, 50, 50)))
    assert [(TEXT, b"1"), (TEXT, BIG[50:130]), (TEXT, BIG[:50])] == cells_of(run(made, room=1), 130)


def test_interleaved_values_do_not_mix() -> None:
    made = Slice()
    for sequence in range(3):
        made.chunk(1, sequence, b"a%d" % sequence)
        made.chunk(2, sequence, b"b%d" % sequence)
    made.insert(row(1, toast_pointer(1, 6, 6), toast_pointer(2, 6, 6)))
    assert [(TEXT, b"1"), (TEXT, b"a0a1a2"), (TEXT, b"b0b1b2")] == cells_of(run(made), 6)


def test_an_update_that_leaves_the_value_alone_shows_it_as_unchanged() -> None:
    """The insert's chunks were dropped with the insert, so that even its own transaction's update has none."""
    pointer = toast_pointer(7, len(BIG), len(BIG))
    made = Slice()
    made.toast(7, BIG)
    made.insert(row(1, pointer))
    made.update(row(2, pointer))
    assert [(TEXT, b"2"), (UNCHANGED, b"")] == cells_of(run(made), 4)[:2]


def test_a_value_id_may_come_again_after_its_chunks_were_dropped() -> None:
    made = Slice()
    for piece in (BIG[:3000], BIG[3000:]):
        made.toast(7, piece)
        made.insert(row(1, toast_pointer(7, len(piece), len(piece))))
    cells = run(made)
    assert (TEXT, BIG[:3000]) == cells_of(cells, 2)[1]
    assert (TEXT, BIG[3000:]) == cells_of(cells, 5)[1]


def test_chunks_of_a_batch_wait_for_its_last_row() -> None:
    made = Slice()
    for value in range(1000):
        made.toast(100_000 + value, BIG[value : value + 2500])
    for value in range(1000):
        last = value == 999
        pointer = toast_pointer(100_000 + value, 2500, 2500)
        made.insert(row(value, pointer), flags=CLEAR_TOAST if last else 0)
    made.update(row(0, toast_pointer(100_000, 2500, 2500)))
    cells = run(made)
    for value in range(1000):
        assert [(TEXT, b"%d" % value), (TEXT, BIG[value : value + 2500])] == cells_of(cells, 2000 + value)[:2]
    assert (UNCHANGED, b"") == cells_of(cells, 3000)[1]


def test_rows_without_toast_in_between_drop_the_chunks() -> None:
    made = Slice()
    made.toast(7, BIG)
    made.insert(row(1, short(b"other")))
    made.insert(row(2, toast_pointer(7, len(BIG), len(BIG))))
    assert (UNCHANGED, b"") == cells_of(run(made), 4)[1]


def test_another_transaction_does_not_see_the_chunks() -> None:
    made = Slice()
    made.toast(7, BIG)
    made.txn = 1
    made.update(row(1, toast_pointer(7, len(BIG), len(BIG))))
    assert (UNCHANGED, b"") == cells_of(run(made), 3)[1]


def test_literals_leave_chunks_alone() -> None:
    made = Slice()
    made.toast(7, BIG)
    made.literal()
    made.insert(row(1, toast_pointer(7, len(BIG), len(BIG))))
    assert (TEXT, BIG) == cells_of(run(made), 4)[1]


def test_old_tuples_never_take_chunks() -> None:
    pointer = toast_pointer(7, len(BIG), len(BIG))
    made = Slice()
    made.toast(7, BIG)
    made.update(row(1, pointer), row(1, pointer))
    cells = run(made)
    assert (UNCHANGED, b"") == cells_at(cells, int(cells.old_first[3]), 3)[1]
    assert (TEXT, BIG) == cells_of(cells, 3)[1]


@pytest.mark.parametrize(
    ("sequences", "message"),
    [
        ([1], "got sequence entry 1 for toast chunk 4000000001 instead of seq 0"),
        ([0, 2], "got sequence entry 2 for toast chunk 4000000001 instead of seq 1"),
        ([0, 1, 1], "got sequence entry 1 for toast chunk 4000000001 instead of seq 2"),
        ([0, -1], "got sequence entry -1 for toast chunk 4000000001 instead of seq 1"),
    ],
)
def test_chunks_out_of_sequence_are_the_servers_error(sequences: list[int], message: str) -> None:
    made = Slice()
    lsn = [made.chunk(4000000001, sequence, b"abc") for sequence in sequences][-1]
    with pytest.raises(DecodingError) as caught:
        run(made)
    assert (message, lsn) == (caught.value.message, caught.value.lsn)


def test_chunks_that_do_not_fill_the_value_are_an_error() -> None:
    made = Slice()
    made.toast(7, BIG[:-1])
    lsn = made.insert(row(1, toast_pointer(7, len(BIG), len(BIG))))
    with pytest.raises(DecodingError, match="toast value 7 has 4999 bytes in its chunks") as caught:
        run(made)
    assert lsn == caught.value.lsn


def test_corrupt_compressed_chunks_are_an_error() -> None:
    stored = bytearray(compressed_payload(REPETITIVE, 0))
    stored[4:] = b"\xff" * (len(stored) - 4)
    made = Slice()
    made.toast(7, bytes(stored))
    made.insert(row(1, toast_pointer(7, len(REPETITIVE), len(stored))))
    with pytest.raises(RecordError, match="compressed data of column"):
        run(made)


@pytest.mark.parametrize("tag", [0, 1, 2, 3, 17, 255])
def test_pointers_that_live_in_memory_only_are_an_error(tag: int) -> None:
    pointer = bytearray(toast_pointer(7, 100, 100))
    pointer[1] = tag
    made = Slice()
    made.insert(row(1, bytes(pointer)))
    with pytest.raises(RecordError, match="malformed tuple"):
        run(made)


@given(at=st.integers(0, 60), value=st.integers(0, 255), cut=st.integers(0, 40))
def test_mutated_chunk_rows_are_chunks_or_a_typed_error(at: int, value: int, cut: int) -> None:
    made = Slice()
    made.chunk(7, 0, b"0123456789")
    start, length = made.rows[0][5], made.rows[0][6]
    made.data[start + at % length] = value
    made.rows[0] = (*made.rows[0][:6], max(0, length - cut), *made.rows[0][7:])
    made.insert(row(1, toast_pointer(7, 10, 10)))
    try:
        cells = run(made)
    except (RecordError, DecodingError) as error:
        lsn = error.lsn
    else:
        lsn = 0x1000
        assert cells_of(cells, 1)[1][0] in (TEXT, UNCHANGED)
    assert lsn in (0x1000, 0x1040)


@given(st.lists(st.tuples(st.integers(0, 12), st.booleans()), max_size=60))
def test_pending_is_a_map_of_lists(steps: list[tuple[int, bool]]) -> None:
    made, pending = Slice(), make_pending(60)
    model: dict[int, list[int]] = {}
    for value, clears in steps:
        made.chunk(value * 2**28, len(model.get(value, [])), bytes([value]) * 5)
        row_at, row_length = made.rows[-1][5], made.rows[-1][6]
        assert 0 == append_chunk(made.array(), row_at, row_length, pending, np.zeros(3, dtype=np.int64))
        model.setdefault(value, []).append(row_at)
        if clears and value == 3:
            reset(pending)
            model = {}
        for known in range(13):
            index, _ = find(pending, known * 2**28)
            assert (index >= 0) == (known in model)
            if index >= 0:
                assert 5 * len(model[known]) == value_size(pending, index)


def test_bytea_in_toast_is_printed_in_hexadecimal() -> None:
    schema = make_schema(BYTEA)
    made = Slice()
    made.toast(7, BIG)
    made.insert(form_tuple(schema.columns, [toast_pointer(7, len(BIG), len(BIG))]))
    cells = render(made.array(), made.items(), compile_layouts([schema], SessionSettings()), room=1)
    assert [(TEXT, b"\\x" + BIG.hex().encode())] == cells_at(cells, 0, 1)
