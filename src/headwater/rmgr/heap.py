"""Payloads of the HEAP resource manager (PostgreSQL: ``access/heapam_xlog.h``, ``heapam.c``, 18: ``heapam_xlog.c``).

In: a record's main data and block data. Out: one dataclass per record, and its description (``heapdesc.c``). Tuples
come as the WAL holds them: the three header fields of ``xl_heap_header`` and the bytes from tuple offset 23 on (null
bitmap, padding, columns).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import NamedTuple

from headwater.errors import RecordError
from headwater.pg.version import VERSIONS
from headwater.rmgr.description_parts import Style, invalidations_text, joined
from headwater.rmgr.invalidation import parse_invalidations
from headwater.wal.records.record import Record

INSERT, DELETE, UPDATE, TRUNCATE, HOT_UPDATE, CONFIRM, LOCK, INPLACE = range(0x00, 0x80, 0x10)
OPMASK, INIT_PAGE = 0x70, 0x80
"""The operation in a record's info, and the flag that the page is made again."""

HEADER_SIZE = 23
"""SizeofHeapTupleHeader: where a tuple's null bitmap, or its padding, begins."""

INSERT_LAST_IN_MULTI, INSERT_IS_SPECULATIVE, INSERT_CONTAINS_NEW_TUPLE, INSERT_ON_TOAST = 0x02, 0x04, 0x08, 0x10
UPDATE_CONTAINS_OLD_TUPLE, UPDATE_CONTAINS_OLD_KEY, UPDATE_CONTAINS_NEW_TUPLE = 0x04, 0x08, 0x10
UPDATE_PREFIX_FROM_OLD, UPDATE_SUFFIX_FROM_OLD = 0x20, 0x40
DELETE_CONTAINS_OLD_TUPLE, DELETE_CONTAINS_OLD_KEY, DELETE_IS_SUPER, DELETE_IS_PARTITION_MOVE = 0x02, 0x04, 0x08, 0x10
TRUNCATE_CASCADE, TRUNCATE_RESTART_SEQS = 0x01, 0x02
DELETE_NO_LOGICAL = 0x20
"""The flag, from 19 on, of a deletion by REPACK (CONCURRENTLY), which is no logical change."""
DELETE_CONTAINS_OLD = DELETE_CONTAINS_OLD_TUPLE | DELETE_CONTAINS_OLD_KEY
UPDATE_CONTAINS_OLD = UPDATE_CONTAINS_OLD_TUPLE | UPDATE_CONTAINS_OLD_KEY
UPDATE_SHARES_WITH_OLD = UPDATE_PREFIX_FROM_OLD | UPDATE_SUFFIX_FROM_OLD

_INFOBITS = {0x01: "IS_MULTI", 0x02: "LOCK_ONLY", 0x04: "EXCL_LOCK", 0x08: "KEYSHR_LOCK", 0x10: "KEYS_UPDATED"}

_INSERT = struct.Struct("<HB")
_DELETE = struct.Struct("<IHBB")
_UPDATE = struct.Struct("<IHBBIH")
_TRUNCATE = struct.Struct("<IIB3x")
_LOCK = struct.Struct("<IHBB")
_INPLACE_18 = struct.Struct("<H2xII?3xi")
_HEADER = struct.Struct("<HHB")


class TupleBytes(NamedTuple):
    """A heap tuple without its transaction fields.

    Attributes:
        infomask2: ``t_infomask2``.
        infomask: ``t_infomask``.
        hoff: ``t_hoff``.
        tail: the bytes from tuple offset 23 on; column data begins at ``hoff - 23``.
    """

    infomask2: int
    infomask: int
    hoff: int
    tail: bytes

    @property
    def body(self) -> bytes:
        """The columns, from ``t_hoff`` on."""
        return self.tail[self.hoff - HEADER_SIZE :]


class HeapInsert(NamedTuple):
    """``xl_heap_insert``: a tuple's offset number and flags."""

    offnum: int
    flags: int


class HeapDelete(NamedTuple):
    """``xl_heap_delete``; ``old`` is the old tuple or key, if the record has one."""

    xmax: int
    offnum: int
    infobits: int
    flags: int
    old: TupleBytes | None


@dataclass(frozen=True, slots=True)
class HeapUpdate:
    """``xl_heap_update``; ``old`` is the old tuple or key, if the record has one."""

    old_xmax: int
    old_offnum: int
    old_infobits: int
    flags: int
    new_xmax: int
    new_offnum: int
    old: TupleBytes | None


@dataclass(frozen=True, slots=True)
class UpdatedTuple:
    """The data of block 0 of an update: a tuple whose columns may lack bytes that the old tuple has at either end.

    Attributes:
        prefix: bytes to take from the start of the old tuple's columns.
        suffix: bytes to take from their end.
        rest: header and the bytes in between (null bitmap and padding are whole).
    """

    prefix: int
    suffix: int
    rest: TupleBytes


@dataclass(frozen=True, slots=True)
class HeapTruncate:
    """``xl_heap_truncate``: the relations that were truncated."""

    database: int
    relations: tuple[int, ...]
    cascade: bool
    restart_seqs: bool


@dataclass(frozen=True, slots=True)
class HeapLock:
    """``xl_heap_lock``: the lock of a tuple."""

    xmax: int
    offnum: int
    infobits: int
    flags: int


@dataclass(frozen=True, slots=True)
class HeapInplace:
    """``xl_heap_inplace``.

    Before 18 only ``offnum`` is known. ``messages`` are raw, 16 bytes each.
    """

    offnum: int
    database: int = 0
    tablespace: int = 0
    init_file: bool = False
    messages: bytes = b""


def parse_tuple(data: bytes, lsn: int) -> TupleBytes:
    """Read ``xl_heap_header`` and the bytes after it.

    Raises:
        RecordError: the data is too short, or ``t_hoff`` points outside.
    """
    if len(data) < _HEADER.size:
        raise _short("tuple header", _HEADER.size, data, lsn)
    infomask2, infomask, hoff = _HEADER.unpack_from(data)
    tail = data[_HEADER.size :]
    if not HEADER_SIZE <= hoff <= HEADER_SIZE + len(tail):
        raise RecordError(f"tuple of {HEADER_SIZE + len(tail)} bytes has t_hoff {hoff}", lsn=lsn)
    return TupleBytes(infomask2, infomask, hoff, tail)


def parse_insert(main_data: bytes, lsn: int) -> HeapInsert:
    """Read INSERT's main data. Raises RecordError on a wrong size."""
    if len(main_data) != _INSERT.size:
        raise _short("HEAP INSERT", _INSERT.size, main_data, lsn)
    return HeapInsert(*_INSERT.unpack(main_data))


def parse_delete(main_data: bytes, lsn: int) -> HeapDelete:
    """Read DELETE's main data. Raises RecordError on a wrong size."""
    if len(main_data) < _DELETE.size:
        raise _short("HEAP DELETE", _DELETE.size, main_data, lsn)
    xmax, offnum, infobits, flags = _DELETE.unpack_from(main_data)
    has_old = flags & DELETE_CONTAINS_OLD
    return HeapDelete(xmax, offnum, infobits, flags, parse_tuple(main_data[_DELETE.size :], lsn) if has_old else None)


def parse_update(main_data: bytes, lsn: int) -> HeapUpdate:
    """Read UPDATE's or HOT_UPDATE's main data. Raises RecordError on a wrong size."""
    if len(main_data) < _UPDATE.size:
        raise _short("HEAP UPDATE", _UPDATE.size, main_data, lsn)
    old_xmax, old_offnum, infobits, flags, new_xmax, new_offnum = _UPDATE.unpack_from(main_data)
    has_old = flags & UPDATE_CONTAINS_OLD
    old = parse_tuple(main_data[_UPDATE.size :], lsn) if has_old else None
    return HeapUpdate(old_xmax, old_offnum, infobits, flags, new_xmax, new_offnum, old)


def parse_updated_tuple(block_data: bytes, flags: int, lsn: int) -> UpdatedTuple:
    """Read block 0's data of an update with these flags. Raises RecordError if it is too short."""
    at, lengths = 0, []
    for flag in (UPDATE_PREFIX_FROM_OLD, UPDATE_SUFFIX_FROM_OLD):
        lengths.append(int.from_bytes(block_data[at : at + 2], "little") if flags & flag else 0)
        at += 2 if flags & flag else 0
    return UpdatedTuple(lengths[0], lengths[1], parse_tuple(block_data[at:], lsn))


def restore_updated(updated: UpdatedTuple, old: TupleBytes, lsn: int) -> TupleBytes:
    """Put the new tuple together, with the bytes it shares with the old one (heap_xlog_update).

    Raises:
        RecordError: the old tuple is shorter than the bytes to take from it.
    """
    rest, shared = updated.rest, old.body
    if updated.prefix + updated.suffix > len(shared) + len(rest.tail) or max(updated.prefix, updated.suffix) > len(
        shared
    ):
        raise RecordError(
            f"update takes {updated.prefix} and {updated.suffix} bytes from an old tuple of {len(shared)}", lsn=lsn
        )
    bitmap = rest.hoff - HEADER_SIZE
    suffix = shared[len(shared) - updated.suffix :]
    tail = rest.tail[:bitmap] + shared[: updated.prefix] + rest.tail[bitmap:] + suffix
    return TupleBytes(rest.infomask2, rest.infomask, rest.hoff, tail)


def parse_truncate(main_data: bytes, lsn: int) -> HeapTruncate:
    """Read TRUNCATE's main data. Raises RecordError on a wrong size."""
    if len(main_data) < _TRUNCATE.size:
        raise _short("HEAP TRUNCATE", _TRUNCATE.size, main_data, lsn)
    database, count, flags = _TRUNCATE.unpack_from(main_data)
    if len(main_data) != _TRUNCATE.size + 4 * count:
        raise _short("HEAP TRUNCATE", _TRUNCATE.size + 4 * count, main_data, lsn)
    relations = struct.unpack_from(f"<{count}I", main_data, _TRUNCATE.size)
    return HeapTruncate(database, relations, bool(flags & TRUNCATE_CASCADE), bool(flags & TRUNCATE_RESTART_SEQS))


def parse_confirm(main_data: bytes, lsn: int) -> int:
    """Read CONFIRM's offset number. Raises RecordError on a wrong size."""
    if len(main_data) != 2:
        raise _short("HEAP CONFIRM", 2, main_data, lsn)
    return int.from_bytes(main_data, "little")


def parse_lock(main_data: bytes, lsn: int) -> HeapLock:
    """Read LOCK's main data. Raises RecordError on a wrong size."""
    if len(main_data) != _LOCK.size:
        raise _short("HEAP LOCK", _LOCK.size, main_data, lsn)
    return HeapLock(*_LOCK.unpack(main_data))


def parse_inplace(main_data: bytes, major: int, lsn: int) -> HeapInplace:
    """Read INPLACE's main data in either form. Raises RecordError on a wrong size."""
    if not VERSIONS[major].has_inplace_invalidations:
        if len(main_data) < 2:
            raise _short("HEAP INPLACE", 2, main_data, lsn)
        return HeapInplace(int.from_bytes(main_data[:2], "little"))
    if len(main_data) < _INPLACE_18.size:
        raise _short("HEAP INPLACE", _INPLACE_18.size, main_data, lsn)
    offnum, database, tablespace, init_file, count = _INPLACE_18.unpack_from(main_data)
    messages = main_data[_INPLACE_18.size :]
    if count < 0 or len(messages) != 16 * count:
        raise _short("HEAP INPLACE", _INPLACE_18.size + 16 * max(count, 0), main_data, lsn)
    return HeapInplace(offnum, database, tablespace, init_file, messages)


def describe(record: Record, style: Style) -> str:
    """Describe a record as ``pg_waldump`` does (heap_desc).

    Raises:
        RecordError: malformed.
    """
    op, data, lsn = record.info & OPMASK, record.main_data, record.lsn
    named = style.version.describes_with_colons
    if op == INSERT:
        insert = parse_insert(data, lsn)
        return _valued(named, ("off", insert.offnum), ("flags", hex_byte(insert.flags)))
    if op == DELETE:
        return _deletion(data, named, lsn)
    if op in (UPDATE, HOT_UPDATE):
        return _update(data, named, lsn)
    if op == TRUNCATE:
        return _truncation(parse_truncate(data, lsn), named)
    if op == CONFIRM:
        return _valued(named, ("off", parse_confirm(data, lsn)))
    if op == LOCK:
        return lock_text(data, named, "xid", lsn)
    inplace = parse_inplace(data, style.version.major, lsn)
    messages = parse_invalidations(inplace.messages, lsn, style.version.major)
    init_file = (inplace.database, inplace.tablespace) if inplace.init_file else None
    return _valued(named, ("off", inplace.offnum)) + invalidations_text(messages, init_file)


def _valued(named: bool, *values: tuple[str, object]) -> str:
    return (
        ", ".join(f"{name}: {value}" for name, value in values)
        if named
        else " ".join(f"{name} {value}" for name, value in values)
    )


def hex_byte(value: int) -> str:
    """Write a byte of flags as descriptions show it."""
    return f"0x{value:02X}"


def _infobits(bits: int, named: bool) -> str:
    words = [word for bit, word in _INFOBITS.items() if bits & bit]
    return joined(words) if named else "".join(f"{word} " for word in words)


def _deletion(data: bytes, named: bool, lsn: int) -> str:
    delete = parse_delete(data, lsn)
    bits, flags = _infobits(delete.infobits, named), hex_byte(delete.flags)
    if not named:
        return f"off {delete.offnum} flags {flags} {bits}"
    return f"xmax: {delete.xmax}, off: {delete.offnum}, infobits: {bits}, flags: {flags}"


def _update(data: bytes, named: bool, lsn: int) -> str:
    update = parse_update(data, lsn)
    bits, flags = _infobits(update.old_infobits, named), hex_byte(update.flags)
    if not named:
        old = f"off {update.old_offnum} xmax {update.old_xmax} flags {flags} {bits}"
        return f"{old}; new off {update.new_offnum} xmax {update.new_xmax}"
    old = f"old_xmax: {update.old_xmax}, old_off: {update.old_offnum}, old_infobits: {bits}, flags: {flags}"
    return f"{old}, new_xmax: {update.new_xmax}, new_off: {update.new_offnum}"


def _truncation(truncate: HeapTruncate, named: bool) -> str:
    count, relations = len(truncate.relations), truncate.relations
    if not named:
        flags = "cascade " * truncate.cascade + "restart_seqs " * truncate.restart_seqs
        return f"{flags}nrelids {count} relids {' '.join(map(str, relations))}"
    words = ["CASCADE"] * truncate.cascade + ["RESTART_SEQS"] * truncate.restart_seqs
    return f"flags: {joined(words)}, nrelids: {count}, relids: {joined(relations)}"


def lock_text(main_data: bytes, named: bool, xid_word: str, lsn: int) -> str:
    """Describe LOCK of HEAP or LOCK_UPDATED of HEAP2, which look alike.

    Args:
        main_data: the record's main data.
        named: whether values are named, with colons.
        xid_word: the word for the locker where values are not named.
        lsn: the record's LSN, for errors.

    Raises:
        RecordError: malformed.
    """
    lock = parse_lock(main_data, lsn)
    bits, flags = _infobits(lock.infobits, named), hex_byte(lock.flags)
    if not named:
        return f"off {lock.offnum}: {xid_word} {lock.xmax}: flags {flags} {bits}"
    return f"xmax: {lock.xmax}, off: {lock.offnum}, infobits: {bits}, flags: {flags}"


def _short(what: str, expected: int, data: bytes, lsn: int) -> RecordError:
    return RecordError(f"{what} has {len(data)} bytes, expected {expected}", lsn=lsn)
