"""Records and frames made by hand, and the plain twin of the index kernel."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypedDict, Unpack

import numpy as np

from headwater.rmgr.heap import TupleBytes, parse_delete, parse_truncate, parse_tuple, parse_update
from headwater.rmgr.heap2 import parse_multi_insert_tuples, parse_new_cid
from headwater.rmgr.invalidation import parse_invalidations
from headwater.rmgr.logicalmsg import parse_message
from headwater.rmgr.smgr import parse_create
from headwater.wal.records.frames import Frames
from headwater.wal.records.record import Record, parse_record

DATABASE = 5
SPC = 1663


class Head(TypedDict, total=False):
    """The part of a record's header beside its xid."""

    toplevel: int
    origin: int


class HeadAndBlock(Head, total=False):
    """The same, and the database that its block is of."""

    database: int


def record(
    rmid: int,
    info: int,
    xid: int,
    main: bytes = b"",
    *,
    file: int = 0,
    database: int = DATABASE,
    block_data: bytes = b"",
    toplevel: int = 0,
    origin: int = 0,
    prev: int = 0,
) -> bytes:
    """Make one record with at most one block, its CRC left at zero (frames are verified elsewhere)."""
    headers, payload = b"", b""
    if file:
        headers += struct.pack("<BBH", 0, 0x20 if block_data else 0, len(block_data))
        headers += struct.pack("<IIII", SPC, database, file, 7)
        payload += block_data
    if origin:
        headers += struct.pack("<BH", 253, origin)
    if toplevel:
        headers += struct.pack("<BI", 252, toplevel)
    if main:
        headers += struct.pack("<BB", 255, len(main)) if len(main) < 256 else struct.pack("<BI", 254, len(main))
    body = headers + payload + main
    return struct.pack("<IIQBBHI", 24 + len(body), xid, prev, info, rmid, 0, 0) + body


def frames(records: Sequence[bytes], first_lsn: int = 0x1000028, step: int = 0) -> Frames:
    """Make frames over records, ``step`` bytes of log between them beyond their own length."""
    data, positions, lsns = b"", [], []
    lsn = first_lsn
    for raw in records:
        positions.append(len(data))
        lsns.append(lsn)
        data += raw + bytes(-len(raw) % 8)
        lsn += len(raw) + -len(raw) % 8 + step
    starts = np.array(lsns, np.int64)
    array = np.frombuffer(data or b"\0", np.uint8).copy()
    return Frames(array, np.array(positions, np.int64), starts, np.append(starts[1:], lsn), None)


def tuple_bytes(body: bytes = b"row") -> bytes:
    """Make an xl_heap_header and a body."""
    return struct.pack("<HHB", 1, 0, 24) + b"\0" + body


def insert(xid: int, file: int, *, flags: int = 8, body: bytes = b"row", **more: Unpack[HeadAndBlock]) -> bytes:
    """Make a heap INSERT that was logged for decoding; flag 4 makes it speculative."""
    return record(10, 0x00, xid, struct.pack("<HB", 1, flags), file=file, block_data=tuple_bytes(body), **more)


def confirm(xid: int, file: int, **more: Unpack[HeadAndBlock]) -> bytes:
    """Make a heap CONFIRM: the speculative insert stays."""
    return record(10, 0x50, xid, struct.pack("<H", 1), file=file, **more)


def update(xid: int, file: int, *, body: bytes = b"row", with_key: bool = False, **more: Unpack[HeadAndBlock]) -> bytes:
    """Make a heap UPDATE with its new tuple, and the old key if it changed."""
    main = struct.pack("<IHBBIH", 0, 1, 0, 0x18 if with_key else 0x10, 0, 2)
    main += tuple_bytes(b"old") if with_key else b""
    return record(10, 0x20, xid, main, file=file, block_data=tuple_bytes(body), **more)


def delete(
    xid: int, file: int, *, with_key: bool = True, super_delete: bool = False, **more: Unpack[HeadAndBlock]
) -> bytes:
    """Make a heap DELETE, with or without the old key."""
    flags = 0x08 if super_delete else 0x04 if with_key else 0
    main = struct.pack("<IHBB", xid, 1, 0, flags) + (tuple_bytes() if with_key else b"")
    return record(10, 0x10, xid, main, file=file, **more)


def multi_insert(xid: int, file: int, rows: int, *, last: bool = True, **more: Unpack[HeadAndBlock]) -> bytes:
    """Make a heap2 MULTI_INSERT of so many rows."""
    data = b""
    for i in range(rows):
        data += bytes(len(data) % 2)
        body = b"\0" + bytes([65 + i % 26]) * (1 + i % 5)
        data += struct.pack("<HHHB", len(body), 1, 0, 24) + body
    main = struct.pack("<BxH", 0x08 | (0x02 if last else 0), rows)
    return record(9, 0xD0, xid, main, file=file, block_data=data, **more)


def commit(xid: int, subs: Sequence[int] = (), *, time: int = 77, invals: bytes = b"") -> bytes:
    """Make a commit record with its database, subtransactions and invalidations."""
    xinfo = 1 | (2 if subs else 0) | (8 if invals else 0)
    main = struct.pack("<qIII", time, xinfo, DATABASE, SPC)
    if subs:
        main += struct.pack(f"<i{len(subs)}I", len(subs), *subs)
    if invals:
        main += struct.pack("<i", len(invals) // 16) + invals
    return record(1, 0x80, xid, main)


def abort(xid: int, subs: Sequence[int] = ()) -> bytes:
    """Make an abort record, of a transaction or of a subtransaction."""
    main = struct.pack("<q", 5)
    if subs:
        main += struct.pack(f"<Ii{len(subs)}I", 2, len(subs), *subs)
    return record(1, 0xA0 if subs else 0x20, xid, main)


def invalidations(xid: int, messages: bytes, **more: Unpack[Head]) -> bytes:
    """Make an XACT INVALIDATIONS record of 16-byte messages."""
    return record(1, 0x60, xid, struct.pack("<i", len(messages) // 16) + messages, **more)


def message(xid: int, content: bytes, *, transactional: bool = True, of: int = DATABASE, **more: Unpack[Head]) -> bytes:
    """Make a LOGICALMSG record of a database with the prefix "p"."""
    main = struct.pack("<IB3xQQ", of, transactional, 2, len(content)) + b"p\0" + content
    return record(21, 0x00, xid, main, **more)


def new_cid(
    xid: int,
    cmin: int,
    *,
    cmax: int = 0xFFFFFFFF,
    file: int = 1259,
    database: int = DATABASE,
    top: int = 0,
    **more: Unpack[Head],
) -> bytes:
    """Make a NEW_CID record of an insert into a catalog."""
    main = struct.pack("<IIII", top or xid, cmin, cmax, 0xFFFFFFFF)
    main += struct.pack("<IIIHHH", SPC, database, file, 0, 1, 1)
    return record(9, 0x70, xid, main, **more)


def truncate(
    xid: int, relations: Sequence[int], *, flags: int = 0, database: int = DATABASE, **more: Unpack[Head]
) -> bytes:
    """Make a heap TRUNCATE record."""
    main = struct.pack(f"<IIB3x{len(relations)}I", database, len(relations), flags, *relations)
    return record(10, 0x30, xid, main, **more)


def create_file(xid: int, file: int, *, fork: int = 0, database: int = DATABASE, **more: Unpack[Head]) -> bytes:
    """Make an SMGR CREATE record."""
    return record(2, 0x10, xid, struct.pack("<IIIi", SPC, database, file, fork), **more)


def inval_message(kind: int, value: int, database: int = DATABASE) -> bytes:
    """Make an invalidation message; those of files have a layout of their own."""
    if kind == -3:
        return struct.pack("<bbHIII", kind, 1, 2, SPC, database, value)
    return struct.pack("<b3xIII", kind, database, value, 0xEEEEEEEE)


@dataclass
class PlainIndex:
    """The rows that the kernel should find, one record at a time, nothing aggregated cleverly.

    Rows of truncates, messages and files are lists of what their tables' columns say. ``sizes`` has each record of
    changes: LSN, xid, its length, and what each change weighs.
    """

    changes: Counter[tuple[int, int, int, int]]
    ends: list[tuple[int, int, int]]
    first: dict[int, int]
    assigns: list[tuple[int, int]]
    commands: list[tuple[int, int, int]] = field(default_factory=list)
    truncates: list[tuple[int, int, int, int, tuple[int, ...]]] = field(default_factory=list)
    messages: list[tuple[int, int, int, int, bool, int]] = field(default_factory=list)
    files: list[tuple[int, int, int]] = field(default_factory=list)
    invals: list[tuple[int, int, int, int, int]] = field(default_factory=list)
    memory: Counter[tuple[int, int]] = field(default_factory=Counter)
    sizes: list[tuple[int, int, int, tuple[int, ...]]] = field(default_factory=list)


def plain_index(made: Frames) -> PlainIndex:
    """Index records plainly.

    The twin has (xid, file, kind bit, lsn) of every change, (kind, xid, lsn) of every end, first LSN of every xid.
    """
    twin = PlainIndex(Counter(), [], {}, [])
    for i in range(len(made.positions)):
        lsn = int(made.lsns[i])
        parsed = parse_record(made.record(i), lsn, int(made.end_lsns[i]), 16)
        op = parsed.info & 0x70
        if parsed.toplevel_xid and parsed.xid:
            twin.assigns.append((parsed.xid, parsed.toplevel_xid))
        if parsed.rmid == 1 and op in (0, 0x20):
            twin.ends.append((op >> 4, parsed.xid, lsn))
            continue
        if parsed.xid:
            twin.first.setdefault(parsed.xid, lsn)
        _event(twin, parsed)
        kind, count = _kind(parsed.rmid, op, parsed.main_data)
        if kind:
            twin.changes[parsed.xid, parsed.blocks[0].rel, kind, lsn] += count
            twin.sizes.append((lsn, parsed.xid, len(made.record(i)), tuple(_change_sizes(parsed))))
            twin.memory[parsed.xid, parsed.blocks[0].rel] += sum(twin.sizes[-1][3])
    return twin


def _event(twin: PlainIndex, parsed: Record) -> None:
    """Note a record that is no change."""
    main, op = parsed.main_data, parsed.info & 0x70
    if parsed.rmid == 9 and op == 0x70:
        change = parse_new_cid(main, parsed.lsn)
        if change.locator[1] in (0, DATABASE):
            command = max(c for c in (change.cmin, change.cmax) if c != 0xFFFFFFFF) + 1
            twin.commands.append((parsed.xid, parsed.lsn, command))
    elif parsed.rmid == 10 and op == 0x30:
        cut = parse_truncate(main, parsed.lsn)
        if cut.database == DATABASE:
            twin.truncates.append(
                (parsed.xid, parsed.lsn, parsed.origin, cut.cascade + 2 * cut.restart_seqs, cut.relations)
            )
    elif parsed.rmid == 21:
        logical = parse_message(main, parsed.lsn)
        if logical.database == DATABASE:
            size = 80 + len(logical.prefix) + 1 + len(logical.content) + 16
            twin.messages.append((parsed.xid, parsed.lsn, parsed.end_lsn, parsed.origin, logical.transactional, size))
    elif parsed.rmid == 2 and op == 0x10:
        made = parse_create(main, parsed.lsn)
        if made.fork == 0 and made.locator[1] == DATABASE:
            twin.files.append((parsed.xid, parsed.lsn, made.locator[2]))
    elif parsed.rmid == 1 and op == 0x60:
        for message in parse_invalidations(main[4:], parsed.lsn):
            twin.invals.append((parsed.xid, parsed.lsn, message.id, message.db, message.value))


def _change_sizes(parsed: Record) -> Iterator[int]:
    """Give the size of each change of a record: ReorderBufferChange, and for a tuple HeapTupleData and t_len bytes."""

    def tuples(*tuple_parts: TupleBytes | None) -> int:
        return 80 + sum(24 + 23 + len(t.tail) for t in tuple_parts if t is not None)

    main, block, op = parsed.main_data, parsed.blocks[0].data, parsed.info & 0x70
    if parsed.rmid == 9:
        for row in parse_multi_insert_tuples(block, struct.unpack_from("<H", main, 2)[0], parsed.lsn):
            yield tuples(row)
    elif op == 0x00:
        yield tuples(parse_tuple(block, parsed.lsn))
    elif op == 0x10:
        yield tuples(parse_delete(main, parsed.lsn).old)
    elif op == 0x50:
        yield tuples()
    else:
        new = parse_tuple(block, parsed.lsn) if main[7] & 0x10 else None
        yield tuples(new, parse_update(main, parsed.lsn).old)


def _kind(rmid: int, op: int, main: bytes) -> tuple[int, int]:
    if rmid == 9 and op == 0x50:
        return (1 if main[0] & 2 else 129), struct.unpack_from("<H", main, 2)[0]
    if rmid != 10:
        return 0, 0
    if op == 0x00:
        if not main[2] & 8:
            return 0, 0
        return (16 | 128, 0) if main[2] & 4 else (1, 1)
    if op == 0x10:
        return (64, 0) if main[7] & 8 else (4, 1) if main[7] & 6 else (8, 1)
    return {0x20: (2, 1), 0x40: (2, 1), 0x50: (32, 1)}.get(op, (0, 0))
