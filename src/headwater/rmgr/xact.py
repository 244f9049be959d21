"""Payloads of the XACT resource manager: the ends of transactions (PostgreSQL: ``access/xact.h``, ``xactdesc.c``).

In: a record's main data. Out: one dataclass per record, and its description. Optional parts follow each other in a
fixed order, as the bits of ``xinfo`` say. Mirrors ParseCommitRecord, ParseAbortRecord and ParsePrepareRecord.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from headwater.pg.version import VERSIONS
from headwater.rmgr.description_parts import Style, file_path, invalidations_text, shown_bytes
from headwater.rmgr.invalidation import MESSAGE_SIZE, Invalidation, parse_invalidations
from headwater.rmgr.payload import Payload
from headwater.wal.records.record import Record

COMMIT, PREPARE, ABORT, COMMIT_PREPARED, ABORT_PREPARED, ASSIGNMENT, INVALIDATIONS = range(0x00, 0x70, 0x10)
OPMASK, HAS_INFO = 0x70, 0x80
"""The operation in a record's info, and the flag that ``xinfo`` follows."""

HAS_DBINFO, HAS_SUBXACTS, HAS_RELFILELOCATORS, HAS_INVALS = 1 << 0, 1 << 1, 1 << 2, 1 << 3
HAS_TWOPHASE, HAS_ORIGIN, HAS_AE_LOCKS, HAS_GID, HAS_DROPPED_STATS = 1 << 4, 1 << 5, 1 << 6, 1 << 7, 1 << 8
APPLY_FEEDBACK, UPDATE_RELCACHE_FILE, FORCE_SYNC_COMMIT = 1 << 29, 1 << 30, 1 << 31
"""The bits of ``xinfo``."""

GIDSIZE = 200
TWOPHASE_MAGIC = 0x57F94534

Locator = tuple[int, int, int]

StatsEntry = tuple[int, int, int]
"""A statistics entry: kind, database, object."""


@dataclass(frozen=True, slots=True)
class TransactionEnd:
    """The end of a transaction: COMMIT, ABORT, COMMIT PREPARED or ABORT PREPARED.

    Attributes:
        xid: the transaction that ended: the prepared one's, or ``xl_xid``.
        is_commit: whether the transaction committed.
        is_prepared: whether the transaction had been prepared.
        time: microseconds since 2000-01-01.
        xinfo: the bits above.
        database: OID, 0 if the record does not say.
        tablespace: the database's, 0 likewise.
        subxacts: subtransactions that ended with the transaction.
        relations: files to delete.
        dropped_stats: statistics entries to drop.
        invalidations: messages to other sessions; commits only.
        gid: name of a prepared transaction, as bytes.
        origin_lsn: position at the origin, 0 none.
        origin_time: commit time at the origin, 0 none.
    """

    xid: int
    is_commit: bool
    is_prepared: bool
    time: int
    xinfo: int = 0
    database: int = 0
    tablespace: int = 0
    subxacts: tuple[int, ...] = ()
    relations: tuple[Locator, ...] = ()
    dropped_stats: tuple[StatsEntry, ...] = ()
    invalidations: tuple[Invalidation, ...] = ()
    gid: bytes = b""
    origin_lsn: int = 0
    origin_time: int = 0


@dataclass(frozen=True, slots=True)
class Prepare:
    """PREPARE TRANSACTION (``xl_xact_prepare``); fields as in :class:`TransactionEnd`.

    Attributes:
        xid: the prepared transaction.
        database: OID.
        time: microseconds since 2000-01-01.
        owner: OID of the role.
        subxacts: the transaction's subtransactions.
        commit_relations: files to delete if it commits.
        abort_relations: files to delete if it aborts.
        commit_stats: statistics entries to drop if it commits.
        abort_stats: statistics entries to drop if it aborts.
        invalidations: messages to send if it commits.
        init_file: whether the relation cache's init file is removed if the transaction commits.
        gid: the transaction's name.
        origin_lsn: position at the origin, 0 none.
        origin_time: prepare time at the origin, 0 none.
    """

    xid: int
    database: int
    time: int
    owner: int
    subxacts: tuple[int, ...]
    commit_relations: tuple[Locator, ...]
    abort_relations: tuple[Locator, ...]
    commit_stats: tuple[StatsEntry, ...]
    abort_stats: tuple[StatsEntry, ...]
    invalidations: tuple[Invalidation, ...]
    init_file: bool
    gid: bytes
    origin_lsn: int
    origin_time: int


@dataclass(frozen=True, slots=True)
class Assignment:
    """ASSIGNMENT: 64 subtransactions of ``toplevel_xid``, logged for hot standby."""

    toplevel_xid: int
    subxacts: tuple[int, ...]


def parse_end(record: Record, major: int) -> TransactionEnd:
    """Read COMMIT, ABORT, COMMIT PREPARED or ABORT PREPARED.

    Args:
        record: one of these.
        major: PostgreSQL's major version.

    Raises:
        RecordError: malformed, or another kind of record.
    """
    operation = record.info & OPMASK
    p = Payload(record.main_data, "transaction end", record.lsn)
    if operation not in (COMMIT, ABORT, COMMIT_PREPARED, ABORT_PREPARED):
        raise p.error(f"found operation {operation:#04x}, expected a commit or an abort")
    is_commit = operation in (COMMIT, COMMIT_PREPARED)
    time = p.i64()
    xinfo = p.u32() if record.info & HAS_INFO else 0
    database, tablespace = (p.u32(), p.u32()) if xinfo & HAS_DBINFO else (0, 0)
    subxacts = p.u32s(p.i32()) if xinfo & HAS_SUBXACTS else ()
    relations = p.locators(p.i32()) if xinfo & HAS_RELFILELOCATORS else ()
    dropped_stats = _stats(p, p.i32(), major) if xinfo & HAS_DROPPED_STATS else ()
    invals = p.items(p.i32(), MESSAGE_SIZE) if is_commit and xinfo & HAS_INVALS else b""
    xid, gid = (p.u32(), _gid(p, xinfo)) if xinfo & HAS_TWOPHASE else (0, b"")
    origin_lsn, origin_time = (p.u64(), p.i64()) if xinfo & HAS_ORIGIN else (0, 0)
    return TransactionEnd(
        xid=xid or record.xid,
        is_commit=is_commit,
        is_prepared=operation in (COMMIT_PREPARED, ABORT_PREPARED),
        time=time,
        xinfo=xinfo,
        database=database,
        tablespace=tablespace,
        subxacts=subxacts,
        relations=relations,
        dropped_stats=dropped_stats,
        invalidations=parse_invalidations(invals, record.lsn, major),
        gid=gid,
        origin_lsn=origin_lsn,
        origin_time=origin_time,
    )


def _stats(p: Payload, count: int, major: int) -> tuple[StatsEntry, ...]:
    """Read statistics entries: kind, database and object, which is of 64 bits in two halves from 18 on."""
    size = VERSIONS[major].dropped_stats_size
    words = struct.iter_unpack(f"<i{size // 4 - 1}I", p.items(count, size))
    return tuple((kind, database, low | (high[0] << 32 if high else 0)) for kind, database, low, *high in words)


def _gid(p: Payload, xinfo: int) -> bytes:
    if not xinfo & HAS_GID:
        return b""
    gid = p.cstring()
    if len(gid) >= GIDSIZE:
        raise p.error(f"transaction name has {len(gid)} bytes, expected less than {GIDSIZE}")
    return gid


def parse_prepare(main_data: bytes, lsn: int, major: int) -> Prepare:
    """Read PREPARE; the state of other resource managers after the messages is not read.

    Raises:
        RecordError: malformed.
    """
    p = Payload(main_data, "PREPARE", lsn)
    magic, _ = p.u32(), p.u32()
    if magic != TWOPHASE_MAGIC:
        raise p.error(f"magic number {magic:08X}, expected {TWOPHASE_MAGIC:08X}")
    xid, database, time, owner = p.u32(), p.u32(), p.i64(), p.u32()
    n_sub, n_commit, n_abort = p.i32(), p.i32(), p.i32()
    n_commit_stats, n_abort_stats = (p.i32(), p.i32()) if VERSIONS[major].has_dropped_stats else (0, 0)
    n_invals = p.i32()
    init_file = p.flag()
    p.align(2)
    gid_length, origin_lsn, origin_time = p.u16(), p.u64(), p.i64()
    gid = _aligned(p, gid_length, 1)
    subxacts = _aligned(p, n_sub, 4)
    commit_relations, abort_relations = _aligned(p, n_commit, 12), _aligned(p, n_abort, 12)
    p.align(8)
    commit_stats = _stats(p, n_commit_stats, major)
    p.align(8)
    abort_stats = _stats(p, n_abort_stats, major)
    invals = _aligned(p, n_invals, MESSAGE_SIZE)
    return Prepare(
        xid=xid,
        database=database,
        time=time,
        owner=owner,
        subxacts=Payload(subxacts, "PREPARE", lsn).u32s(n_sub),
        commit_relations=Payload(commit_relations, "PREPARE", lsn).locators(n_commit),
        abort_relations=Payload(abort_relations, "PREPARE", lsn).locators(n_abort),
        commit_stats=commit_stats,
        abort_stats=abort_stats,
        invalidations=parse_invalidations(invals, lsn, major),
        init_file=init_file,
        gid=gid.split(b"\0", 1)[0],
        origin_lsn=origin_lsn,
        origin_time=origin_time,
    )


def _aligned(p: Payload, count: int, size: int) -> bytes:
    """Read an array that begins MAXALIGNed."""
    p.align(8)
    return p.items(count, size)


def parse_assignment(main_data: bytes, lsn: int) -> Assignment:
    """Read ASSIGNMENT.

    Raises:
        RecordError: malformed.
    """
    p = Payload(main_data, "ASSIGNMENT", lsn)
    return Assignment(p.u32(), p.u32s(p.i32()))


def parse_invalidation_record(main_data: bytes, lsn: int, major: int) -> tuple[Invalidation, ...]:
    """Read XACT INVALIDATION: the messages of one command of a transaction, or of a change without a transaction.

    Raises:
        RecordError: malformed.
    """
    p = Payload(main_data, "INVALIDATION", lsn)
    return parse_invalidations(p.items(p.i32(), MESSAGE_SIZE), lsn, major)


def describe(record: Record, style: Style) -> str:
    """Describe a record as ``pg_waldump`` does (xact_desc).

    Raises:
        RecordError: malformed.
    """
    operation, major = record.info & OPMASK, style.version.major
    if operation == PREPARE:
        return _prepare_text(parse_prepare(record.main_data, record.lsn, major), record.origin, style)
    if operation == ASSIGNMENT:
        assignment = parse_assignment(record.main_data, record.lsn)
        return f"xtop {assignment.toplevel_xid}: subxacts:{''.join(f' {xid}' for xid in assignment.subxacts)}"
    if operation == INVALIDATIONS:
        return invalidations_text(parse_invalidation_record(record.main_data, record.lsn, major))
    return _end_text(parse_end(record, major), record.origin, style)


def _end_text(end: TransactionEnd, origin: int, style: Style) -> str:
    prepared = f"{end.xid}: " if end.xinfo & HAS_TWOPHASE else ""
    head = prepared + style.stamp(end.time) + _relations("rels", end.relations, style) + _subxacts(end.subxacts)
    came_from = _origin(end.origin_lsn, end.origin_time, origin, style) if end.xinfo & HAS_ORIGIN else ""
    describes_all = style.version.describes_origins_of_all_ends
    if not end.is_commit:
        return head + (came_from if describes_all else "") + _stats_text("", end.dropped_stats)
    init_file = (end.database, end.tablespace) if end.xinfo & UPDATE_RELCACHE_FILE else None
    text = head + _stats_text("", end.dropped_stats) + invalidations_text(end.invalidations, init_file)
    text += "; apply_feedback" if describes_all and end.xinfo & APPLY_FEEDBACK else ""
    return text + ("; sync" if end.xinfo & FORCE_SYNC_COMMIT else "") + came_from


def _prepare_text(prepare: Prepare, origin: int, style: Style) -> str:
    head = f"gid {shown_bytes(prepare.gid)}: {style.stamp(prepare.time)}"
    head += _relations("rels(commit)", prepare.commit_relations, style)
    head += _relations("rels(abort)", prepare.abort_relations, style)
    stats = _stats_text("commit ", prepare.commit_stats) + _stats_text("abort ", prepare.abort_stats)
    # The record does not say in which tablespace the database is.
    invals = invalidations_text(prepare.invalidations, (prepare.database, 0) if prepare.init_file else None)
    is_shown = origin and style.version.describes_origins_of_all_ends
    came_from = _origin(prepare.origin_lsn, prepare.origin_time, origin, style) if is_shown else ""
    return head + stats + _subxacts(prepare.subxacts) + invals + came_from


def _relations(label: str, relations: tuple[Locator, ...], style: Style) -> str:
    paths = "".join(f" {file_path(locator, 0, style.version)}" for locator in relations)
    return f"; {label}:{paths}" if relations else ""


def _subxacts(xids: tuple[int, ...]) -> str:
    return f"; subxacts:{''.join(f' {xid}' for xid in xids)}" if xids else ""


def _stats_text(when: str, entries: tuple[StatsEntry, ...]) -> str:
    shown = "".join(f" {kind}/{database}/{number}" for kind, database, number in entries)
    return f"; {when}dropped stats:{shown}" if entries else ""


def _origin(lsn: int, time: int, node: int, style: Style) -> str:
    return f"; origin: node {node}, lsn {style.lsn(lsn)}, at {style.stamp(time)}"
