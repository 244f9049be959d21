"""Payloads of heap records, packed by hand; and bytes that make no sense."""

from __future__ import annotations

import struct
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import RecordError
from headwater.rmgr import heap, heap2, relmap, smgr
from headwater.rmgr.heap import TupleBytes

LSN = 0x1234
HEADER = struct.pack("<HHB", 3, 0x0802, 24)
TUPLE = HEADER + b"\0columns"
PARSED = TupleBytes(3, 0x0802, 24, b"\0columns")


def test_insert_and_lock() -> None:
    assert heap.parse_insert(b"\5\0\x0a", LSN) == heap.HeapInsert(5, 0x0A)
    assert heap.parse_lock(struct.pack("<IHBB", 700, 3, 4, 1), LSN) == heap.HeapLock(700, 3, 4, 1)
    assert heap.parse_confirm(b"\7\0", LSN) == 7


def test_delete_with_and_without_an_old_tuple() -> None:
    main = struct.pack("<IHBB", 700, 3, 0x10, heap.DELETE_CONTAINS_OLD_KEY)
    assert heap.parse_delete(main + TUPLE, LSN) == heap.HeapDelete(700, 3, 0x10, 4, PARSED)
    assert heap.parse_delete(main[:-1] + b"\0", LSN).old is None
    assert PARSED.body == b"columns"


def test_update_shares_bytes_at_both_ends() -> None:
    flags = heap.UPDATE_PREFIX_FROM_OLD | heap.UPDATE_SUFFIX_FROM_OLD
    main = struct.pack("<IHBBIH", 700, 1, 0, flags, 0, 2)
    update = heap.parse_update(main, LSN)
    assert (update.old_offnum, update.new_offnum, update.flags, update.old) == (1, 2, flags, None)
    shared = heap.parse_updated_tuple(struct.pack("<HH", 3, 2) + HEADER + b"\0NEW", flags, LSN)
    assert heap.restore_updated(shared, PARSED, LSN) == TupleBytes(3, 0x0802, 24, b"\0colNEWns")
    with pytest.raises(RecordError, match="takes 3 and 9 bytes from an old tuple of 7"):
        heap.restore_updated(heap.UpdatedTuple(3, 9, shared.rest), PARSED, LSN)


def test_truncate() -> None:
    main = struct.pack("<IIB3xII", 5, 2, 3, 16384, 16390)
    assert heap.parse_truncate(main, LSN) == heap.HeapTruncate(5, (16384, 16390), True, True)


def test_inplace_in_both_forms() -> None:
    assert heap.parse_inplace(b"\x09\0", 17, LSN) == heap.HeapInplace(9)
    main = struct.pack("<H2xII?3xi", 9, 5, 1663, True, 1) + bytes(range(16))
    assert heap.parse_inplace(main, 18, LSN) == heap.HeapInplace(9, 5, 1663, True, bytes(range(16)))


def test_multi_insert() -> None:
    main = struct.pack("<BxH", 2, 2)
    assert heap2.parse_multi_insert(main + b"\4\0\7\0", False, LSN) == heap2.MultiInsert(2, (4, 7))
    assert heap2.parse_multi_insert(main, True, LSN).offnums == (1, 2)
    first = struct.pack("<HHHB", 4, 1, 2, 24) + b"\0abc"
    second = struct.pack("<HHHB", 2, 1, 0, 24) + b"\0z"
    tuples = heap2.parse_multi_insert_tuples(first + b"\0" + second, 2, LSN)
    assert tuples == [TupleBytes(1, 2, 24, b"\0abc"), TupleBytes(1, 0, 24, b"\0z")]


def test_new_cid() -> None:
    main = struct.pack("<IIIIIIIHHH", 700, 3, 0xFFFFFFFF, 0xFFFFFFFF, 1663, 5, 1259, 1, 2, 9)
    expected = heap2.NewCid(700, 3, 0xFFFFFFFF, 0xFFFFFFFF, (1663, 5, 1259), (0x10002, 9))
    assert heap2.parse_new_cid(main, LSN) == expected


PRUNED = heap2.Prune(((1, 4), (2, 5)), (3,), (7, 8))


def test_prune_of_old() -> None:
    data = struct.pack("<7H", 1, 4, 2, 5, 3, 7, 8)
    for main, major in ((struct.pack("<IHH", 9, 2, 1), 15), (struct.pack("<IHHB", 9, 2, 1, 1), 16)):
        assert heap2.parse_prune(main, data, heap2.PRUNE, major, LSN) == PRUNED
    assert heap2.parse_prune(b"\2\0", b"\7\0\x08\0", heap2.VACUUM, 15, LSN).unused == (7, 8)
    assert heap2.parse_prune(bytes(8), bytes(24), heap2.FREEZE_PAGE, 16, LSN) == heap2.Prune()


@pytest.mark.parametrize("op", [0x10, 0x20, 0x30])
@pytest.mark.parametrize("plans", [0, 2])
@pytest.mark.parametrize("conflict", [0, 8])
def test_prune_of_new(op: int, plans: int, conflict: int) -> None:
    flags = 0x20 | 0x40 | 0x80 | (0x10 if plans else 0) | conflict
    main = bytes((0, flags)) + (b"\1\2\3\4" if conflict else b"")
    data = (struct.pack("<HH", plans, 0) + bytes(12 * plans)) if plans else b""
    data += struct.pack("<5H", 2, 1, 4, 2, 5) + struct.pack("<2H", 1, 3) + struct.pack("<3H", 2, 7, 8) + bytes(4)
    assert heap2.parse_prune(main, data, op, 17, LSN) == PRUNED
    assert heap2.parse_prune(main, b"", op, 17, LSN) == heap2.Prune()
    assert heap2.parse_freeze_plans(main, data, 17, LSN) == plans * (heap2.FreezePlan(0, 0, 0, ()),)
    assert heap2.parse_freeze_plans(main, b"", 17, LSN) == ()


def test_freeze_plans() -> None:
    """Offsets stand after all plans, those of the first one first."""
    plans = struct.pack("<IHHBxHIHHBxH", 9, 2, 3, 0, 2, 8, 4, 5, 0, 1)
    expected = (heap2.FreezePlan(9, 3, 2, (11, 12)), heap2.FreezePlan(8, 5, 4, (13,)))
    main, offsets = struct.pack("<IH?", 1, 2, False), struct.pack("<3H", 11, 12, 13)
    assert heap2.parse_freeze_plans(main, plans + offsets, 16, LSN) == expected
    newer = struct.pack("<HH", 2, 0) + plans + struct.pack("<HH", 1, 99) + struct.pack("<3H", 11, 12, 13)
    assert heap2.parse_freeze_plans(bytes((0, 0x10 | 0x40)), newer, 17, LSN) == expected
    with pytest.raises(RecordError, match="offset array"):
        heap2.parse_freeze_plans(struct.pack("<IH?", 1, 2, False), plans, 16, LSN)


def test_files_made_and_cut() -> None:
    assert smgr.parse_create(struct.pack("<IIIi", 1, 2, 3, 0), LSN) == smgr.SmgrCreate((1, 2, 3), 0)
    assert smgr.parse_truncate(struct.pack("<IIIIi", 9, 1, 2, 3, 7), LSN) == smgr.SmgrTruncate(9, (1, 2, 3), 7)


@pytest.mark.parametrize("size", [512, 524])
def test_relation_map(size: int) -> None:
    content = (struct.pack("<ii", 0x592717, 1) + struct.pack("<II", 1259, 2000)).ljust(size, b"\0")
    main = struct.pack("<IIi", 5, 1663, size) + content
    assert relmap.parse_update(main, LSN) == relmap.RelmapUpdate(5, 1663, {1259: 2000})
    assert relmap.crc_offset(content) in (504, 520)
    with pytest.raises(RecordError, match="magic"):
        relmap.parse_update(main[:12] + b"\0" + main[13:], LSN)


PARSERS: dict[str, Callable[[bytes], object]] = {
    "insert": lambda data: heap.parse_insert(data, LSN),
    "delete": lambda data: heap.parse_delete(data, LSN),
    "update": lambda data: heap.parse_update(data, LSN),
    "updated tuple": lambda data: heap.parse_updated_tuple(data, 0x60, LSN),
    "truncate": lambda data: heap.parse_truncate(data, LSN),
    "confirm": lambda data: heap.parse_confirm(data, LSN),
    "lock": lambda data: heap.parse_lock(data, LSN),
    "inplace": lambda data: heap.parse_inplace(data, 17, LSN),
    "inplace 18": lambda data: heap.parse_inplace(data, 18, LSN),
    "multi": lambda data: heap2.parse_multi_insert(data, False, LSN),
    "multi tuples": lambda data: heap2.parse_multi_insert_tuples(data, 3, LSN),
    "new cid": lambda data: heap2.parse_new_cid(data, LSN),
    "prune": lambda data: heap2.parse_prune(data[:8], data[8:], 0x10, 15, LSN),
    "prune 17": lambda data: heap2.parse_prune(data[:2], data[2:], 0x10, 17, LSN),
    "plans 16": lambda data: heap2.parse_freeze_plans(data[:8], data[8:], 16, LSN),
    "plans 17": lambda data: heap2.parse_freeze_plans(data[:2], data[2:], 17, LSN),
    "create": lambda data: smgr.parse_create(data, LSN),
    "cut": lambda data: smgr.parse_truncate(data, LSN),
    "relmap": lambda data: relmap.parse_update(data, LSN),
}


@pytest.mark.parametrize("name", PARSERS)
@given(st.binary(max_size=80))
def test_nonsense_raises_our_error_only(name: str, data: bytes) -> None:
    try:
        PARSERS[name](data)
    except RecordError as error:
        assert error.lsn == LSN  # noqa: PT017
