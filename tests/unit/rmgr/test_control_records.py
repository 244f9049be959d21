"""Payloads of control records, packed by hand; and bytes that make no sense."""

from __future__ import annotations

import struct
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import RecordError
from headwater.rmgr import dbase, invalidation, logicalmsg, replorigin, standby, xact, xlog
from headwater.rmgr.invalidation import Invalidation, parse_invalidations
from headwater.wal.records.record import Record

LSN = 0x1234
CATCACHE = struct.pack("<b3xII4x", 55, 5, 0xDEADBEEF)
RELCACHE = struct.pack("<b3xII4x", -2, 5, 16400)
MESSAGES = CATCACHE + RELCACHE
PARSED_MESSAGES = (Invalidation(55, 5, 0xDEADBEEF), Invalidation(-2, 5, 16400))


def xact_record(info: int, main: bytes, xid: int = 700) -> Record:
    return Record(LSN, LSN + 100, xid, info, 1, main_data=main)


def stats(major: int, count: int) -> bytes:
    """Make dropped statistics: the i-th of kind i, in database 5, its object with a higher half from 18 on."""
    entries = (struct.pack("<iII", i, 5, 7) + (struct.pack("<I", 9) if major >= 18 else b"") for i in range(count))
    return struct.pack("<i", count) + b"".join(entries)


def parsed_stats(major: int, count: int) -> tuple[tuple[int, int, int], ...]:
    return tuple((i, 5, 7 | (9 << 32 if major >= 18 else 0)) for i in range(count))


def full_end(major: int, with_invals: bool) -> bytes:
    """Make a commit or abort with every optional part."""
    xinfo = 0x1FF if with_invals else 0x1FF & ~xact.HAS_INVALS
    data = struct.pack("<qI", 123456789, xinfo)
    data += struct.pack("<II", 5, 1663)
    data += struct.pack("<iII", 2, 701, 702)
    data += struct.pack("<iIII", 1, 1663, 5, 16384)
    data += stats(major, 3)
    if with_invals:
        data += struct.pack("<i", 2) + MESSAGES
    data += struct.pack("<I", 699) + b"it's\0"
    return data + struct.pack("<Qq", 0xABCD, 987654321)


@pytest.mark.parametrize("major", [15, 16, 17, 18, 19])
@pytest.mark.parametrize(
    ("operation", "is_commit", "is_prepared"),
    [(0x00, True, False), (0x20, False, False), (0x30, True, True), (0x40, False, True)],
)
def test_every_part_of_a_transaction_end(major: int, operation: int, is_commit: bool, is_prepared: bool) -> None:
    end = xact.parse_end(xact_record(operation | 0x80, full_end(major, is_commit)), major)
    assert end == xact.TransactionEnd(
        xid=699,
        is_commit=is_commit,
        is_prepared=is_prepared,
        time=123456789,
        xinfo=0x1FF if is_commit else 0x1FF & ~xact.HAS_INVALS,
        database=5,
        tablespace=1663,
        subxacts=(701, 702),
        relations=((1663, 5, 16384),),
        dropped_stats=parsed_stats(major, 3),
        invalidations=PARSED_MESSAGES if is_commit else (),
        gid=b"it's",
        origin_lsn=0xABCD,
        origin_time=987654321,
    )


def test_the_smallest_transaction_ends() -> None:
    assert xact.TransactionEnd(700, True, False, -5) == xact.parse_end(xact_record(0, struct.pack("<q", -5)), 16)
    assert xact.TransactionEnd(700, False, False, 9) == xact.parse_end(xact_record(0x20, struct.pack("<q", 9)), 16)


def test_not_a_transaction_end() -> None:
    with pytest.raises(RecordError, match="found operation 0x10"):
        xact.parse_end(xact_record(0x10, bytes(100)), 16)


def test_a_transaction_name_has_an_end() -> None:
    head = struct.pack("<qII", 1, xact.HAS_TWOPHASE | xact.HAS_GID, 699)
    with pytest.raises(RecordError, match="a string has no end"):
        xact.parse_end(xact_record(0xB0, head + b"x" * 10), 16)
    with pytest.raises(RecordError, match="transaction name has 200 bytes"):
        xact.parse_end(xact_record(0xB0, head + b"x" * 200 + b"\0"), 16)


def prepare_bytes(major: int) -> bytes:
    gid = b"a name\0"
    counts = (3, 1, 2, 2) if major == 14 else (3, 1, 2, 1, 0, 2)
    data = struct.pack("<IIIIqI", 0x57F94534, 0, 700, 5, 42, 10)
    data += struct.pack(f"<{len(counts)}i?xHQq", *counts, True, len(gid), 7, 8)
    for part in (
        gid,
        struct.pack("<III", 701, 702, 703),
        struct.pack("<III", 1663, 5, 1),
        struct.pack("<IIIIII", 1663, 5, 2, 1663, 5, 3),
        stats(major, 1)[4:] if major > 14 else b"",
        b"",
        MESSAGES,
    ):
        data += bytes(-len(data) % 8) + part
    return data + b"state of other resource managers"


@pytest.mark.parametrize("major", [14, 15, 16, 17, 18, 19])
def test_every_part_of_a_prepare(major: int) -> None:
    assert xact.Prepare(
        xid=700,
        database=5,
        time=42,
        owner=10,
        subxacts=(701, 702, 703),
        commit_relations=((1663, 5, 1),),
        abort_relations=((1663, 5, 2), (1663, 5, 3)),
        commit_stats=parsed_stats(major, 1) if major > 14 else (),
        abort_stats=(),
        invalidations=PARSED_MESSAGES,
        init_file=True,
        gid=b"a name",
        origin_lsn=7,
        origin_time=8,
    ) == xact.parse_prepare(prepare_bytes(major), LSN, major)


def test_other_xact_records() -> None:
    assert xact.Assignment(700, (701, 702)) == xact.parse_assignment(struct.pack("<IiII", 700, 2, 701, 702), LSN)
    assert xact.parse_invalidation_record(struct.pack("<i", 2) + MESSAGES, LSN, 16) == PARSED_MESSAGES


def test_invalidation_messages() -> None:
    data = b"".join(
        [
            struct.pack("<b3xII4x", -1, 5, 2619),
            struct.pack("<bbHIII", -3, 0, 9, 1663, 5, 16384),
            struct.pack("<b3xI8s", -4, 5, b"\x7f" * 8),
            struct.pack("<b3xII4x", -5, 0, 1262),
            struct.pack("<b3xII4x", -6, 5, 16400),
        ]
    )
    expected = [(-1, 5, 2619), (-3, 5, 16384), (-4, 5, 0), (-5, 0, 1262), (-6, 5, 16400)]
    assert expected == [(m.id, m.db, m.value) for m in parse_invalidations(data, LSN, 18)]
    with pytest.raises(RecordError, match="unrecognized SI message ID: -6"):
        parse_invalidations(data, LSN, 17)
    with pytest.raises(RecordError, match="expected a multiple of 16"):
        parse_invalidations(data[:-1], LSN, 18)


def test_standby_records() -> None:
    running = struct.pack("<ii?3xIIIIII", 2, 1, True, 760, 750, 759, 750, 755, 757)
    assert standby.RunningXacts(760, 750, 759, True, (750, 755), (757,)) == standby.parse_running_xacts(running, LSN)
    locks = struct.pack("<iIIIIII", 2, 1, 2, 3, 4, 5, 6)
    assert (standby.StandbyLock(1, 2, 3), standby.StandbyLock(4, 5, 6)) == standby.parse_locks(locks, LSN)
    invals = struct.pack("<II?3xi", 5, 1663, True, 2) + MESSAGES
    assert standby.StandbyInvalidations(5, 1663, True, PARSED_MESSAGES) == standby.parse_standby_invalidations(
        invals, LSN, 16
    )


@pytest.mark.parametrize(("major", "level", "decodes"), [(16, None, None), (17, 2, None), (18, 2, None), (19, 2, True)])
def test_a_checkpoint(major: int, level: int | None, decodes: bool | None) -> None:
    counters = (1 << 32) + 755, 24576, 11, 22, 722, 1, 33, 1
    data = struct.pack("<QII?3xI", 0x5000000, 3, 2, True, 2)
    if decodes is None:
        data += struct.pack("<QIIIIIII4x", *counters)
    else:
        data += struct.pack("<?7xQIIQIIII", decodes, *counters)
    data += struct.pack("<qIII4x", 1_700_000_001, 44, 55, 750)
    assert len(data) == (88 if decodes is None else 96)
    assert xlog.CheckPoint(
        0x5000000, 3, 2, True, level, decodes, *counters, 1_700_000_001, 44, 55, 750
    ) == xlog.parse_checkpoint(data, LSN, major)


def test_other_xlog_records() -> None:
    change = struct.pack("<iiiiii??2x", 100, 8, 10, 5, 64, 2, True, False)
    assert xlog.ParameterChange(100, 8, 10, 5, 64, 2, True, False) == xlog.parse_parameter_change(change, LSN)
    end = struct.pack("<qIIi4x", 9, 2, 1, 2)
    assert xlog.EndOfRecovery(9, 2, 1, 2) == xlog.parse_end_of_recovery(end, LSN, 17)
    assert xlog.EndOfRecovery(9, 2, 1, None) == xlog.parse_end_of_recovery(end[:16], LSN, 16)
    cut = struct.pack("<Qq", 0x3000, 7)
    assert xlog.OverwriteContrecord(0x3000, 7) == xlog.parse_overwrite_contrecord(cut, LSN)
    point = struct.pack("<q64s", 7, b"here")
    assert xlog.RestorePoint(7, b"here") == xlog.parse_restore_point(point, LSN)
    assert xlog.parse_backup_end(struct.pack("<Q", 0x77), LSN) == 0x77
    assert [xlog.parse_decoding_status(data, LSN) for data in (b"\0", b"\1")] == [False, True]


def test_a_logical_message() -> None:
    data = struct.pack("<I?3xQQ", 5, True, 4, 3) + b"pfx\0" + b"\0\1\2"
    assert logicalmsg.LogicalMessage(5, True, b"pfx", b"\0\1\2") == logicalmsg.parse_message(data, LSN)
    with pytest.raises(RecordError, match="its prefix has no end"):
        logicalmsg.parse_message(struct.pack("<I?3xQQ", 5, True, 3, 3) + b"pfxabc", LSN)


def test_origins_databases_and_tablespaces() -> None:
    assert replorigin.OriginSet(0xABC, 3, True) == replorigin.parse_set(struct.pack("<QH?5x", 0xABC, 3, True), LSN)
    assert replorigin.parse_drop(struct.pack("<H", 3), LSN) == 3
    assert dbase.DatabaseCopy(9, 1663, 1, 1664) == dbase.parse_file_copy(struct.pack("<IIII", 9, 1663, 1, 1664), LSN)
    assert dbase.DatabaseCreate(9, 1663) == dbase.parse_wal_log(struct.pack("<II", 9, 1663), LSN)
    assert dbase.DatabaseDrop(9, (1663, 7)) == dbase.parse_drop(struct.pack("<IiII", 9, 2, 1663, 7), LSN)
    assert dbase.TablespaceCreate(7, b"/x") == dbase.parse_tablespace_create(struct.pack("<I", 7) + b"/x\0", LSN)
    assert dbase.parse_tablespace_drop(struct.pack("<I", 7), LSN) == 7


PARSERS: list[Callable[[bytes], object]] = [
    lambda data: xact.parse_end(xact_record(0x80, data), 15),
    lambda data: xact.parse_end(xact_record(0xC0, data), 18),
    lambda data: xact.parse_prepare(data, LSN, 16),
    lambda data: xact.parse_assignment(data, LSN),
    lambda data: xact.parse_invalidation_record(data, LSN, 17),
    lambda data: standby.parse_running_xacts(data, LSN),
    lambda data: standby.parse_locks(data, LSN),
    lambda data: standby.parse_standby_invalidations(data, LSN, 18),
    lambda data: xlog.parse_checkpoint(data, LSN, 18),
    lambda data: xlog.parse_parameter_change(data, LSN),
    lambda data: xlog.parse_end_of_recovery(data, LSN, 18),
    lambda data: xlog.parse_overwrite_contrecord(data, LSN),
    lambda data: xlog.parse_restore_point(data, LSN),
    lambda data: xlog.parse_backup_end(data, LSN),
    lambda data: logicalmsg.parse_message(data, LSN),
    lambda data: replorigin.parse_set(data, LSN),
    lambda data: replorigin.parse_drop(data, LSN),
    lambda data: dbase.parse_file_copy(data, LSN),
    lambda data: dbase.parse_wal_log(data, LSN),
    lambda data: dbase.parse_drop(data, LSN),
    lambda data: dbase.parse_tablespace_create(data, LSN),
    lambda data: dbase.parse_tablespace_drop(data, LSN),
    lambda data: invalidation.parse_invalidations(data, LSN),
]
SEEDS = [
    full_end(15, True),
    full_end(18, False),
    prepare_bytes(16),
    struct.pack("<I?3xQQ", 5, True, 4, 3) + b"pfx\0abc",
]


@st.composite
def odd_bytes(draw: st.DrawFn) -> bytes:
    """Draw arbitrary bytes, or a sound payload cut short and with changed bytes."""
    data = bytearray(draw(st.one_of(st.binary(max_size=150), st.sampled_from(SEEDS))))
    for at, value in draw(st.lists(st.tuples(st.integers(0, 200), st.integers(0, 255)), max_size=4)):
        if at < len(data):
            data[at] = value
    return bytes(data[: draw(st.integers(0, len(data)))])


@pytest.mark.parametrize("parser", PARSERS)
@given(data=odd_bytes())
def test_odd_bytes_only_ever_raise_record_errors(parser: Callable[[bytes], object], data: bytes) -> None:
    try:
        parser(data)
    except RecordError as error:
        assert error.lsn == LSN  # noqa: PT017
