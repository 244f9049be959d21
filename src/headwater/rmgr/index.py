"""The index of a run of WAL: what the driver needs to put transactions back together, without their rows.

In: framed records. Out: :class:`WalIndex`, a few flat arrays whose size follows the number of transactions and touched
relations, plus the few records that are kept whole (catalog changes, running transactions, messages, truncates).
Mirrors the dispatch of decode.c; the rows themselves are read again by the decode tasks.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from headwater.errors import RecordError
from headwater.pg.version import VERSIONS
from headwater.rmgr import _index as k
from headwater.rmgr._index import Tables
from headwater.rmgr._record import parse_headers
from headwater.rmgr.header_slots import HEADERS_LENGTH, ORIGIN
from headwater.rmgr.locator_hash import locator_hash
from headwater.rmgr.registry import known_table
from headwater.wal.frames import EndOfWal, Frames

Locator = tuple[int, int, int]
"""A relation's file: tablespace OID, database OID, file number (``RelFileLocator``)."""

GRID = 4 << 20
"""Bytes between the LSN lines that no change row crosses; a huge transaction is cut at these lines only."""

Int64s = NDArray[np.int64]


@dataclass(frozen=True)
class Request:
    """What the index step looks for; goes to every index task.

    Attributes:
        database: OID of the database to decode.
        catalogs: files of the catalogs, whose records are kept whole.
        major: PostgreSQL's.
        grid: bytes between the LSN lines that no change row crosses.
        cuts: sorted LSNs of commits that no change row crosses either (:class:`Refinement`).
    """

    database: int
    catalogs: tuple[Locator, ...]
    major: int
    grid: int = GRID
    cuts: tuple[int, ...] = ()


@dataclass(frozen=True)
class Refinement:
    """What an index has to keep beside what the catalog at its start tells, found out from an index without it.

    Attributes:
        locators: files that become catalogs inside the window.
        cuts: LSNs of commits that change rows must not cross, though the commit records do not say so.
    """

    locators: frozenset[Locator] = frozenset()
    cuts: frozenset[int] = frozenset()

    def __or__(self, other: Refinement) -> Refinement:
        """Both."""
        return Refinement(self.locators | other.locators, self.cuts | other.cuts)


UNREFINED = Refinement()
"""What the first index of a window is made with."""


@dataclass(frozen=True)
class KeptRecord:
    """A record kept whole: its start and end LSN and its bytes."""

    lsn: int
    end_lsn: int
    data: bytes


@dataclass(frozen=True)
class Rows:
    """The flat part of an index; rows in LSN order of their first record.

    Arrays have one element a row. They are int64 but for the columns of changes: these are the bulk of an index, and
    memory that is touched for the first time costs more than the work on it.

    Attributes:
        xid, xid_lsn, xid_bits: xids met, where first, and HAS_BASE / CATALOG_CHANGE.
        change_xid, change_locator, change_kinds, change_origin, change_count, change_bytes, change_first,
            change_last: changes of one (sub)transaction to one relation; locator is an index into ``locators``.
        locators: int64[m, 3].
        end_kind, end_lsn, end_next, end_xid, end_time, end_database, end_origin, end_origin_lsn, end_origin_time:
            commits and aborts: LSN of the record's start and end, commit time in microseconds since 2000-01-01.
        end_subs: int64[e+1] offsets into ``sub_xids``: the subtransactions named in the record.
        end_invals: int64[e] number of invalidation messages.
        assign_sub, assign_top, assign_lsn: subtransactions and their toplevel transaction as records name them.
        inval_lsn, inval_xid: XACT_INVALIDATIONS records, their messages are ``inval_data``, 16 bytes each, in
            ``[inval_at[i], inval_at[i+1])``.
    """

    xid: Int64s
    xid_lsn: Int64s
    xid_bits: Int64s
    change_xid: NDArray[np.uint32]
    change_locator: NDArray[np.int32]
    change_kinds: NDArray[np.uint8]
    change_origin: NDArray[np.uint16]
    change_count: NDArray[np.uint32]
    change_bytes: NDArray[np.uint32]
    change_first: Int64s
    change_last: Int64s
    locators: Int64s
    end_kind: Int64s
    end_lsn: Int64s
    end_next: Int64s
    end_xid: Int64s
    end_time: Int64s
    end_database: Int64s
    end_origin: Int64s
    end_origin_lsn: Int64s
    end_origin_time: Int64s
    end_subs: Int64s
    end_invals: Int64s
    sub_xids: Int64s
    assign_sub: Int64s
    assign_top: Int64s
    assign_lsn: Int64s
    inval_lsn: Int64s
    inval_xid: Int64s
    inval_at: Int64s
    inval_data: NDArray[np.uint8]


@dataclass(frozen=True)
class WalIndex:
    """The index of the records that start in ``[lo, hi)``.

    Attributes:
        lo: LSN where it starts.
        hi: LSN where it stops, or the end of the log.
        records: number of records.
        first_prev: ``xl_prev`` of its first record, 0 if it has none; last_lsn: start of its last record, 0 likewise.
        rows: the flat arrays.
        kept: the records kept whole, in LSN order.
        custom: int64[128] number of records of each custom resource manager, from 128 on.
        end: set when the log ended inside.
        grid: as it was asked for (:class:`Request`).
    """

    lo: int
    hi: int
    records: int
    first_prev: int
    last_lsn: int
    rows: Rows
    kept: tuple[KeptRecord, ...] = field(repr=False)
    custom: Int64s = field(repr=False)
    end: EndOfWal | None = None
    grid: int = GRID


def _make_tables(records: int, catalogs: Sequence[Locator]) -> Tables:
    n = records + 1
    locators = np.zeros((3, max(1024, 4 * len(catalogs))), np.int64)
    for i, locator in enumerate(catalogs):
        locators[:, i] = locator
    counts = np.zeros(k.COUNTS, np.int64)
    counts[k.N_LOCATORS] = len(catalogs)
    counts[k.LINE] = -1
    return Tables(
        locators=locators,
        slots=locator_hash(locators, len(catalogs)),
        xids=np.empty((3, n), np.int64),
        changes=np.empty((8, n), np.int64),
        xacts=np.empty((14, n), np.int64),
        assigns=np.empty((3, n), np.int64),
        invals=np.empty((4, n), np.int64),
        kept=np.empty(n, np.int64),
        seen=np.zeros((2, k.CACHE), np.int64),
        open=np.zeros((3, k.CACHE), np.int64),
        counts=counts,
        headers=np.zeros(HEADERS_LENGTH, np.int64),
        parsed=np.zeros(10, np.int64),
    )


def _with_more_locators(tables: Tables) -> Tables:
    width = tables.locators.shape[1]
    wider = np.zeros((3, 4 * width), np.int64)
    wider[:, :width] = tables.locators
    return tables._replace(locators=wider, slots=locator_hash(wider, int(tables.counts[k.N_LOCATORS])))


def build_index(frames: Frames, lo: int, hi: int, request: Request) -> WalIndex:
    """Index framed records.

    Args:
        frames: the records whose start lies in ``[lo, hi)``.
        lo: LSN of the window's start.
        hi: LSN of its end.
        request: what to keep.

    Returns:
        the index.

    Raises:
        RecordError: a record is malformed, or of an unknown kind.
    """
    version = VERSIONS[request.major]
    wanted = k.Wanted(
        known=known_table(request.major),
        database=request.database,
        catalogs=len(request.catalogs),
        inplace_is_transactional=not version.has_inplace_invalidations,
        dropped_stats_size=version.dropped_stats_size,
        grid=request.grid,
        cuts=np.array(request.cuts, np.int64),
    )
    tables = _make_tables(len(frames.positions), request.catalogs)
    while status := k.index_records(frames.data, frames.positions, frames.lsns, wanted, tables):
        if status != k.NEED_LOCATORS:
            raise _record_error(frames, int(tables.counts[k.RECORD]), status)
        tables = _with_more_locators(tables)
    return _collect(frames, lo, hi, tables, request.grid)


def _record_error(frames: Frames, number: int, status: int) -> RecordError:
    at = int(frames.positions[number])
    rmid, info = int(frames.data[at + 17]), int(frames.data[at + 16])
    lsn = int(frames.lsns[number])
    if status == k.UNKNOWN:
        return RecordError(f"unknown record: resource manager {rmid}, info {info:#04x}", lsn=lsn)
    return RecordError(f"malformed record of resource manager {rmid}, info {info:#04x}", lsn=lsn)


def _collect(frames: Frames, lo: int, hi: int, t: Tables, grid: int) -> WalIndex:
    n = len(frames.positions)
    next_lsn = frames.end.lsn if frames.end is not None else hi
    return WalIndex(
        lo=lo,
        hi=next_lsn,
        records=n,
        first_prev=_prev(frames, 0) if n else 0,
        last_lsn=int(frames.lsns[-1]) if n else 0,
        rows=_rows(frames, t),
        kept=tuple(_kept(frames, t.kept[: t.counts[k.N_KEPT]])),
        custom=t.counts[k.CUSTOM :].copy(),
        end=frames.end,
        grid=grid,
    )


def _prev(frames: Frames, number: int) -> int:
    at = int(frames.positions[number])
    return int.from_bytes(frames.data[at + 8 : at + 16].tobytes(), "little")


def _kept(frames: Frames, numbers: Int64s) -> Iterable[KeptRecord]:
    for i in numbers:
        at = int(frames.positions[i])
        length = int.from_bytes(frames.data[at : at + 4].tobytes(), "little")
        yield KeptRecord(int(frames.lsns[i]), int(frames.end_lsns[i]), frames.data[at : at + length].tobytes())


def _rows(frames: Frames, t: Tables) -> Rows:
    xacts = t.xacts[:, : t.counts[k.N_XACTS]]
    invals = t.invals[:, : t.counts[k.N_INVALS]]
    subs, sub_data = _gather(frames.data, xacts[7], xacts[6], 4)
    inval_at, inval_data = _gather(frames.data, invals[3], invals[2], 16)
    c = t.changes[:, : t.counts[k.N_CHANGES]]
    x = t.xids[:, : t.counts[k.N_XIDS]].copy()
    a = t.assigns[:, : t.counts[k.N_ASSIGNS]].copy()
    return Rows(
        xid=x[0],
        xid_lsn=x[1],
        xid_bits=x[2],
        change_xid=c[0].astype(np.uint32),
        change_locator=c[1].astype(np.int32),
        change_kinds=c[2].astype(np.uint8),
        change_origin=c[3].astype(np.uint16),
        change_count=c[4].astype(np.uint32),
        change_bytes=c[5].astype(np.uint32),
        change_first=c[6].copy(),
        change_last=c[7].copy(),
        locators=t.locators[:, : t.counts[k.N_LOCATORS]].T.copy(),
        end_kind=xacts[0].copy(),
        end_lsn=xacts[1].copy(),
        end_next=frames.end_lsns[xacts[2]],
        end_xid=xacts[3].copy(),
        end_time=xacts[4].copy(),
        end_database=xacts[5].copy(),
        end_origin=_origins(frames, xacts),
        end_origin_lsn=xacts[11].copy(),
        end_origin_time=xacts[12].copy(),
        end_subs=subs,
        end_invals=xacts[8].copy(),
        sub_xids=sub_data.view("<u4").astype(np.int64),
        assign_sub=a[0],
        assign_top=a[1],
        assign_lsn=a[2],
        inval_lsn=invals[0].copy(),
        inval_xid=invals[1].copy(),
        inval_at=inval_at,
        inval_data=inval_data,
    )


def _origins(frames: Frames, xacts: Int64s) -> Int64s:
    """The replication origin in the headers of commit records that carry origin data."""
    origins = np.zeros(xacts.shape[1], np.int64)
    headers = np.zeros(HEADERS_LENGTH, np.int64)
    for i in np.flatnonzero(xacts[13] & (1 << 5)):
        at = int(frames.positions[xacts[2, i]])
        length = int.from_bytes(frames.data[at : at + 4].tobytes(), "little")
        parse_headers(frames.data, at, at + length, headers)
        origins[i] = headers[ORIGIN]
    return origins


def _gather(data: NDArray[np.uint8], at: Int64s, count: Int64s, size: int) -> tuple[Int64s, NDArray[np.uint8]]:
    """Bytes of ``count[i]`` items of ``size`` bytes at ``at[i]``, joined, with the item offsets int64[n+1]."""
    offsets = np.zeros(len(count) + 1, np.int64)
    np.cumsum(count, out=offsets[1:])
    out = np.empty(int(offsets[-1]) * size, np.uint8)
    for i in np.flatnonzero(count):
        out[offsets[i] * size : offsets[i + 1] * size] = data[at[i] : at[i] + int(count[i]) * size]
    return offsets, out
