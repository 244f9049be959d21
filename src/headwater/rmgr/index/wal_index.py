"""The index of a run of WAL: what the driver needs to put transactions back together, without their rows.

In: framed records. Out: :class:`WalIndex`: a few flat arrays, and the few records that are kept whole (catalog changes,
running transactions, checkpoints). The size of the arrays follows the number of transactions and touched relations.
Mirrors the dispatch of decode.c; the rows themselves are read again by the decode tasks.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, TypeVar

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from headwater.errors import RecordError
from headwater.pg.version import VERSIONS
from headwater.rmgr import xact
from headwater.rmgr.header_slots import header_scratch
from headwater.rmgr.index import _index_tables as k
from headwater.rmgr.index._index import index_records
from headwater.rmgr.index._index_events import PARSED
from headwater.rmgr.index._index_tables import Tables
from headwater.rmgr.index._row_epochs import CLOCKS, FAMILIES
from headwater.rmgr.index.index_rows import (
    NO_ROWS,
    AssignTable,
    ChangeTable,
    CommandTable,
    EndTable,
    FileTable,
    InvalidationTable,
    MessageTable,
    PrepareTable,
    Ragged,
    Rows,
    Table,
    TruncateTable,
    XidTable,
    lists_of,
)
from headwater.rmgr.index.kept_records import NONE_KEPT, KeptRecords, keep_records
from headwater.rmgr.invalidation import MESSAGE_SIZE, message_columns
from headwater.rmgr.locator_hash import locator_hash
from headwater.rmgr.registry import XACT, known_table
from headwater.wal.layout import INFO_AT, PREV_AT, RMID_AT
from headwater.wal.records.frames import EndOfWal, Frames
from headwater.wal.records.record import parse_record

Locator = tuple[int, int, int]
"""A relation's file: tablespace OID, database OID, file number (``RelFileLocator``)."""

GRID = 4 << 20
"""Bytes between the LSN lines that no change row crosses; a huge transaction is cut at these lines only."""

Int64s = NDArray[np.int64]
_T = TypeVar("_T", bound=Table)


@dataclass(frozen=True)
class Request:
    """The choice that the index step looks for; it goes to every index task.

    Attributes:
        databases: sorted OIDs of the databases to decode.
        catalogs: files of the catalogs, whose records are kept whole.
        major: PostgreSQL's major version.
        grid: bytes between the LSN lines that no change row crosses.
        cuts: sorted LSNs of events that no change row crosses either (:class:`Refinement`).
        detailed: sorted stretches, first LSN and the LSN after the last, that do not meet (:class:`Refinement`).
        numbers_commands: whether all WAL is of wal_level logical; else commands are numbered by the LSNs of catalog
            changes, and tuples may lie in page images.
        change_size: sizeof(ReorderBufferChange) of the server whose memory is counted; 0: of the newest minor release.
    """

    databases: tuple[int, ...]
    catalogs: tuple[Locator, ...]
    major: int
    grid: int = GRID
    cuts: tuple[int, ...] = ()
    detailed: tuple[tuple[int, int], ...] = ()
    numbers_commands: bool = True
    change_size: int = 0

    def detailed_in(self, lo: int, hi: int) -> tuple[tuple[int, int], ...]:
        """Return the parts of the detailed stretches that lie in ``[lo, hi)``."""
        return tuple((max(lo, start), min(hi, end)) for start, end in self.detailed if start < hi and end > lo)


FROM_THE_WINDOW = int(np.iinfo(np.int64).max)
"""The LSN that says that nothing is wanted from before the window."""


@dataclass(frozen=True)
class Refinement:
    """The things that an index keeps beside those of the catalog at its start, taken from an index without them.

    Attributes:
        files: files that become catalogs inside the window, each with an LSN before which the WAL has nothing of it.
        cuts: LSNs of events that change rows must not cross, which an index cannot know by itself.
        detailed: stretches, first LSN and the LSN after the last, sorted, in which each change is a row of its own. So
            is each tuple of a MULTI_INSERT: such rows have the record's LSN, and are in the order of the tuples.
        since: for transactions that began there or later the detailed stretches are also wanted from before the window.
    """

    files: frozenset[tuple[Locator, int]] = frozenset()
    cuts: frozenset[int] = frozenset()
    detailed: tuple[tuple[int, int], ...] = ()
    since: int = FROM_THE_WINDOW

    def __or__(self, other: Refinement) -> Refinement:
        """Join both refinements."""
        detailed = joined_stretches((*self.detailed, *other.detailed))
        since = min(self.since, other.since)
        return Refinement(self.files | other.files, self.cuts | other.cuts, detailed, since)


def joined_stretches(stretches: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Join the stretches that meet or overlap, and sort them."""
    joined: list[tuple[int, int]] = []
    for lo, hi in sorted(stretches):
        if joined and lo <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], hi))
        else:
            joined.append((lo, hi))
    return tuple(joined)


UNREFINED = Refinement()
"""The refinement that the first index of a window is made with."""


@dataclass(frozen=True)
class RowDatabases:
    """The databases of the rows of an index that do not name a file; 0 stands for all databases.

    Attributes:
        kept, commands, truncates, messages: int64[n] the database of each row of the table of that name.
    """

    kept: Int64s
    commands: Int64s
    truncates: Int64s
    messages: Int64s


@dataclass(frozen=True)
class WalIndex:
    """The index of the records that start in ``[lo, hi)``.

    Attributes:
        lo: LSN where the index starts.
        hi: LSN where the index stops, or the end of the log.
        records: number of records.
        first_prev: ``xl_prev`` of its first record, 0 if it has none; last_lsn: start of its last record, 0 likewise;
            last_end: where the last record ends, before the header of a page that may follow.
        rows: the tables.
        kept: the records kept whole.
        custom: int64[128] number of records of each custom resource manager, from 128 on.
        end: set when the log ended inside.
        grid: the grid that was asked for (:class:`Request`).
        databases: the databases of the rows; None if one database was asked for.
    """

    lo: int
    hi: int
    records: int
    first_prev: int
    last_lsn: int
    last_end: int
    rows: Rows
    kept: KeptRecords = field(repr=False)
    custom: Int64s = field(repr=False)
    end: EndOfWal | None = None
    grid: int = GRID
    databases: RowDatabases | None = field(default=None, repr=False)

    def of_database(self, oid: int, sources: Sequence[int] = ()) -> WalIndex:
        """Return what an index has that was made for this database alone.

        Ends of transactions, xids, assignments and invalidations are of the whole cluster in both.

        Args:
            oid: one of the databases that were asked for.
            sources: other databases that were asked for, whose catalogs' records are also wanted.
        """
        if self.databases is None:
            return self
        rows, databases = self.rows, self.databases
        is_own = rows.locators[:, 1] == oid
        return replace(
            self,
            rows=replace(
                rows,
                changes=_chosen(rows.changes, is_own[rows.changes.locator]),
                commands=_chosen(rows.commands, _is_of(databases.commands, oid)),
                truncates=_chosen(rows.truncates, _is_of(databases.truncates, oid)),
                messages=_chosen(rows.messages, _is_of(databases.messages, oid)),
                files=_chosen(rows.files, is_own[rows.files.locator]),
            ).with_used_files(),
            kept=self.kept.take(_is_of(databases.kept, oid, *sources)),
            databases=None,
        )


def _is_of(databases: Int64s, *oids: int) -> NDArray[np.bool_]:
    return np.isin(databases, (0, *oids))


def _chosen(table: _T, is_wanted: NDArray[np.bool_]) -> _T:
    return table if is_wanted.all() else table.take(np.flatnonzero(is_wanted))


def no_index(lsn: int) -> WalIndex:
    """Make the index of no WAL at all, at an LSN."""
    custom = np.zeros(k.COUNTS - k.CUSTOM, np.int64)
    return WalIndex(lsn, lsn, 0, 0, 0, 0, NO_ROWS, NONE_KEPT, custom)


def index_bytes(index: WalIndex) -> int:
    """Count the bytes of an index's rows."""
    return sum(table.nbytes for _, table in index.rows.tables())


def _make_tables(records: int, catalogs: Sequence[Locator], major: int) -> Tables:
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
        changes=_change_rows(n),
        xacts=np.empty((15, n), np.int64),
        assigns=np.empty((3, n), np.int64),
        invals=np.empty((4, n), np.int64),
        commands=np.empty((4, n), np.int64),
        truncates=np.empty((7, n), np.int64),
        messages=np.empty((7, n), np.int64),
        files=np.empty((3, n), np.int64),
        kept=np.empty((2, n), np.int64),
        seen=np.zeros((2, k.CACHE), np.int64),
        open=np.zeros((3, k.CACHE), np.int64),
        families=np.zeros((3, FAMILIES), np.int64),
        clocks=np.zeros(CLOCKS, np.int64),
        counts=counts,
        headers=header_scratch(major),
        parsed=np.zeros(PARSED, np.int64),
    )


def _change_rows(n: int) -> k.ChangeRows:
    columns: Any = (np.empty(n, getattr(NO_ROWS.changes, f.name).dtype) for f in fields(ChangeTable))
    return k.ChangeRows(*columns)


def _with_more_locators(tables: Tables) -> Tables:
    width = tables.locators.shape[1]
    wider = np.zeros((3, 4 * width), np.int64)
    wider[:, :width] = tables.locators
    return tables._replace(locators=wider, slots=locator_hash(wider, int(tables.counts[k.N_LOCATORS])))


def _with_more_changes(tables: Tables) -> Tables:
    used, room = int(tables.counts[k.N_CHANGES]), 2 * len(tables.changes.xid) + 2 * k.MOST_TUPLES
    longer = _change_rows(room)
    pairs: Any = zip(longer, tables.changes, strict=True)
    for column, before in pairs:
        column[:used] = before[:used]
    return tables._replace(changes=longer)


def build_index(frames: Frames, lo: int, hi: int, request: Request) -> WalIndex:
    """Index framed records.

    Args:
        frames: the records whose start lies in ``[lo, hi)``.
        lo: LSN of the window's start.
        hi: LSN of its end.
        request: the choice of what to keep.

    Returns:
        the index.

    Raises:
        RecordError: a record is malformed, or of an unknown kind.
    """
    version = VERSIONS[request.major]
    edges = np.array(request.detailed, np.int64).reshape(-1)
    cuts = np.union1d(np.array(request.cuts, np.int64), edges)
    wanted = k.Wanted(
        known=known_table(request.major),
        databases=np.array(request.databases, np.int64),
        catalogs=len(request.catalogs),
        inplace_is_transactional=not version.has_inplace_invalidations,
        dropped_stats_size=version.dropped_stats_size,
        queues_bare_updates=version.queues_bare_updates,
        change_size=request.change_size or version.change_size,
        grid=request.grid,
        cuts=cuts,
        is_edge=np.isin(cuts, edges),
        numbers_commands=request.numbers_commands,
    )
    tables = _make_tables(len(frames.positions), request.catalogs, request.major)
    while status := index_records(frames.data, frames.positions, frames.lsns, wanted, tables):
        if status == k.NEED_LOCATORS:
            tables = _with_more_locators(tables)
        elif status == k.NEED_CHANGES:
            tables = _with_more_changes(tables)
        else:
            raise _record_error(frames, int(tables.counts[k.RECORD]), status)
    return _collect(frames, lo, hi, tables, request)


def _record_error(frames: Frames, number: int, status: int) -> RecordError:
    at = int(frames.positions[number])
    rmid, info = int(frames.data[at + RMID_AT]), int(frames.data[at + INFO_AT])
    lsn = int(frames.lsns[number])
    if status == k.UNKNOWN:
        return RecordError(f"unknown record: resource manager {rmid}, info {info:#04x}", lsn=lsn)
    return RecordError(f"malformed record of resource manager {rmid}, info {info:#04x}", lsn=lsn)


def _collect(frames: Frames, lo: int, hi: int, t: Tables, request: Request) -> WalIndex:
    n = len(frames.positions)
    next_lsn = frames.end.lsn if frames.end is not None else hi
    return WalIndex(
        lo=lo,
        hi=next_lsn,
        records=n,
        first_prev=_prev(frames, 0) if n else 0,
        last_lsn=int(frames.lsns[-1]) if n else 0,
        last_end=int(frames.end_lsns[-1]) if n else 0,
        rows=_rows(frames, t, request.major),
        kept=keep_records(frames, t.kept[0, : t.counts[k.N_KEPT]]),
        custom=t.counts[k.CUSTOM :].copy(),
        end=frames.end,
        grid=request.grid,
        databases=_row_databases(t) if len(request.databases) > 1 else None,
    )


def _row_databases(t: Tables) -> RowDatabases:
    return RowDatabases(
        kept=t.kept[1, : t.counts[k.N_KEPT]].copy(),
        commands=t.commands[3, : t.counts[k.N_COMMANDS]].copy(),
        truncates=t.truncates[6, : t.counts[k.N_TRUNCATES]].copy(),
        messages=t.messages[5, : t.counts[k.N_MESSAGES]].copy(),
    )


def _prev(frames: Frames, number: int) -> int:
    at = int(frames.positions[number])
    return int.from_bytes(frames.data[at + PREV_AT : at + INFO_AT].tobytes(), "little")


def _rows(frames: Frames, t: Tables, major: int) -> Rows:
    f = t.files[:, : t.counts[k.N_FILES]]
    columns: Any = (column[: t.counts[k.N_CHANGES]] for column in t.changes)
    return Rows(
        xids=_xids(t.xids[:, : t.counts[k.N_XIDS]]),
        changes=ChangeTable(*columns).narrowed(),
        ends=_ends(frames, t.xacts[:, : t.counts[k.N_XACTS]]).narrowed(),
        prepares=_prepares(frames, t.kept[0, : t.counts[k.N_KEPT]], major),
        assigns=AssignTable(*t.assigns[:, : t.counts[k.N_ASSIGNS]].copy()),
        invals=_invalidations(frames, t.invals[:, : t.counts[k.N_INVALS]], major),
        commands=CommandTable(*t.commands[:3, : t.counts[k.N_COMMANDS]].copy()),
        truncates=_truncates(frames, t.truncates[:, : t.counts[k.N_TRUNCATES]]),
        messages=_messages(frames, t.messages[:, : t.counts[k.N_MESSAGES]]),
        files=FileTable(f[0].copy(), f[1].copy(), f[2].astype(np.int32)),
        locators=t.locators[:, : t.counts[k.N_LOCATORS]].T.copy(),
    )


def _xids(rows: Int64s) -> XidTable:
    return XidTable(rows[0].copy(), rows[1].copy(), rows[2].astype(np.uint8))


def _ends(frames: Frames, xacts: Int64s) -> EndTable:
    return EndTable(
        xid=xacts[3].copy(),
        kind=xacts[0].copy(),
        lsn=xacts[1].copy(),
        next=frames.end_lsns[xacts[2]],
        time=xacts[4].copy(),
        database=xacts[5].copy(),
        origin=xacts[14].copy(),
        origin_lsn=xacts[11].copy(),
        origin_time=xacts[12].copy(),
        invals=xacts[8].copy(),
        subs=_lists(frames.data, xacts[7], xacts[6]),
    )


def _prepares(frames: Frames, numbers: Int64s, major: int) -> PrepareTable:
    """Parse the PREPARE records among the records that are kept whole."""
    at = frames.positions[numbers]
    is_prepare = (frames.data[at + RMID_AT] == XACT) & (frames.data[at + INFO_AT] & xact.OPMASK == xact.PREPARE)
    chosen = numbers[is_prepare]
    lsns, ends = frames.lsns[chosen], frames.end_lsns[chosen]
    each = zip(chosen.tolist(), lsns.tolist(), ends.tolist(), strict=True)
    records = [parse_record(frames.record(number), lsn, end, major) for number, lsn, end in each]
    prepares = [xact.parse_prepare(record.main_data, record.lsn, major) for record in records]
    return PrepareTable(
        xid=_column([p.xid for p in prepares]),
        lsn=lsns.astype(np.int64),
        next=ends.astype(np.int64),
        time=_column([p.origin_time or p.time for p in prepares]),
        database=_column([p.database for p in prepares]),
        origin=_column([record.origin for record in records]),
        origin_lsn=_column([p.origin_lsn for p in prepares]),
        subs=lists_of([p.subxacts for p in prepares]),
        gid=lists_of([p.gid for p in prepares]),
    )


def _column(values: list[int]) -> Int64s:
    return np.array(values, np.int64)


def _invalidations(frames: Frames, invals: Int64s, major: int) -> InvalidationTable:
    counts = invals[2]
    messages = _gather(frames.data, invals[3], counts, MESSAGE_SIZE)
    xid, lsn = np.repeat(invals[1], counts), np.repeat(invals[0], counts)
    return InvalidationTable(xid, lsn, *message_columns(messages, lsn, major))


def _truncates(frames: Frames, rows: Int64s) -> TruncateTable:
    xid, lsn, origin, flags = rows[:4].copy()
    return TruncateTable(xid, lsn, origin, flags, _lists(frames.data, rows[5], rows[4]))


def _messages(frames: Frames, rows: Int64s) -> MessageTable:
    xid, lsn, number, origin = rows[:4]
    return MessageTable(xid.copy(), lsn.copy(), frames.end_lsns[number], origin.copy(), rows[4] != 0, rows[6].copy())


def _lists(data: NDArray[np.uint8], at: Int64s, count: Int64s) -> Ragged:
    """Read ``count[i]`` OIDs or xids at each offset ``at[i]``."""
    starts = np.zeros(len(count) + 1, np.int64)
    np.cumsum(count, out=starts[1:])
    return Ragged(starts, _gather(data, at, count, 4).view("<u4").astype(np.int64))


def _gather(data: NDArray[np.uint8], at: Int64s, count: Int64s, size: int) -> NDArray[np.uint8]:
    """Read the bytes of ``count[i]`` items of ``size`` bytes at ``at[i]``, joined."""
    total, before = int(count.sum()), np.cumsum(count) - count
    if not total:
        return np.empty(0, np.uint8)
    places = np.repeat(at - before * size, count) + np.arange(total) * size
    return sliding_window_view(data, size)[places].reshape(-1)
