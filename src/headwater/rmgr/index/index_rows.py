"""The flat part of an index: tables of rows, each with an xid and an LSN, in the order of the LSNs.

A record that decoding has to know of stands in one row of one table; changes share rows with their neighbours. Every
table can be cut, chosen from and joined without knowing its columns. So the rows of open transactions go from one
window to the next.

Invariants: the columns of a table are of one length, and its rows ascend by ``lsn``. ``xid`` is the xid of the record's
header, for an end the xid that it ends. A column named ``locator`` holds indexes into :attr:`Rows.locators`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, TypeVar, get_args, get_type_hints

import numpy as np
from numpy.typing import NDArray

from headwater.base.constant_columns import (
    MAY_BE_CONSTANT,
    check_lengths,
    check_range,
    constant,
    is_constant,
    joined,
    memory_bytes,
    taken,
)

Int64s = NDArray[np.int64]
Int32s = NDArray[np.int32]
Bytes = NDArray[np.uint8]
Bools = NDArray[np.bool_]
Which = Int64s | slice
"""Numbers of rows, or a stretch of them."""


@dataclass(frozen=True)
class Ragged:
    """A column of lists, n of them.

    Attributes:
        starts: int64[n+1] from 0 on: list i is ``values[starts[i]:starts[i + 1]]``.
        values: int64[m].
    """

    starts: Int64s = field(metadata=MAY_BE_CONSTANT)
    values: Int64s

    def __len__(self) -> int:
        return len(self.starts) - 1

    def check_parts(self) -> None:
        """Check that every list lies in the values.

        Raises:
            ValueError: a list does not.
        """
        starts = self.starts
        if starts.ndim != 1 or self.values.ndim != 1 or not len(starts) or starts[0] != 0:
            raise ValueError("lists do not begin at 0")
        if starts[-1] != len(self.values) or (not is_constant(starts) and (np.diff(starts) < 0).any()):
            raise ValueError(f"lists end at {starts[-1]}, expected {len(self.values)}, in order")

    def __getitem__(self, which: Which) -> Ragged:
        low, counts = self.starts[:-1][which], np.diff(self.starts)[which]
        starts = np.zeros(len(counts) + 1, np.int64)
        np.cumsum(counts, out=starts[1:])
        return Ragged(starts, self.values[np.repeat(low - starts[:-1], counts) + np.arange(starts[-1])])

    @property
    def nbytes(self) -> int:
        """Bytes that both arrays hold in memory."""
        return memory_bytes(self.starts) + self.values.nbytes

    @property
    def counts(self) -> Int64s:
        """int64[n] lengths of the lists."""
        return np.diff(self.starts)


def lists_of(lists: Sequence[Sequence[int]]) -> Ragged:
    """Make a column of these lists."""
    starts = np.zeros(len(lists) + 1, np.int64)
    np.cumsum([len(values) for values in lists], out=starts[1:])
    return Ragged(starts, np.array([value for values in lists for value in values], np.int64))


@dataclass(frozen=True)
class Table:
    """Rows of one kind; its columns are the fields of the class that derives from it."""

    def __len__(self) -> int:
        return len(getattr(self, fields(self)[0].name))

    def check_parts(self) -> None:
        """Check that the columns are of one length.

        Raises:
            ValueError: the columns are not.
        """
        columns = [getattr(self, f.name) for f in fields(self)]
        rows = len(self)
        check_lengths([column for column in columns if not isinstance(column, Ragged)], rows)
        if any(len(column) != rows for column in columns if isinstance(column, Ragged)):
            raise ValueError(f"a column has not {rows} lists")

    @property
    def nbytes(self) -> int:
        """Bytes that all columns hold in memory."""
        columns = (getattr(self, f.name) for f in fields(self))
        return sum(column.nbytes if isinstance(column, Ragged) else memory_bytes(column) for column in columns)

    @property
    def owner(self) -> Int64s:
        """int64[n] the transaction or subtransaction that each row goes with, 0 for none."""
        columns: Any = self
        xid: Int64s = columns.xid.astype(np.int64)
        return xid

    def take(self: _T, which: Which) -> _T:
        """Return the rows that ``which`` names."""
        columns = {f.name: getattr(self, f.name) for f in fields(self)}
        return replace(
            self,
            **{
                name: column[which] if isinstance(column, Ragged) else taken(column, which)
                for name, column in columns.items()
            },
        )

    def narrowed(self: _T) -> _T:
        """Return the same rows, with columns that may be constant in as little memory as they can be."""
        columns: dict[str, Any] = {}
        for f in fields(self):
            column = getattr(self, f.name)
            if isinstance(column, Ragged):
                columns[f.name] = Ragged(constant(column.starts), column.values)
            elif f.metadata == MAY_BE_CONSTANT:
                columns[f.name] = constant(column)
        return replace(self, **columns)


_T = TypeVar("_T", bound=Table)


@dataclass(frozen=True)
class XidTable(Table):
    """The first row of each xid, and again the first with HAS_BASE (several times, if the index was made so).

    Attributes:
        xid: int64[n]; lsn: int64[n]; bits: uint8[n] HAS_BASE, CATALOG_CHANGE.
    """

    xid: Int64s
    lsn: Int64s
    bits: Bytes


@dataclass(frozen=True)
class ChangeTable(Table):
    """Changes of one (sub)transaction to one relation, as many as fit one row.

    These are the bulk of an index, and memory that is touched for the first time costs more than the work on it. Hence
    the columns are narrow, and some are mostly constant.

    Attributes:
        xid: uint32[n]; locator: int32[n] the file.
        kinds: uint16[n] bits of :mod:`headwater.rmgr.index.index_codes`; origin: uint16[n] replication origin.
        count: uint32[n] changes; bytes: uint32[n] of their records.
        first: int64[n] LSN of the first one; span: uint32[n] bytes from there to the last one.
        memory: uint32[n] bytes that the changes weigh in the server's accounting when they are queued, which decides
            what it spills or streams (logical_decoding_work_mem). Speculative inserts count as soon as they are logged,
            TOAST chunks as rows of their own; old and new tuples count. Not counted: the memory of a transaction beside
            its row changes (:mod:`headwater.reorder.commits.accounting`); and that values put together from chunks
            weigh more while they are output.
    """

    xid: NDArray[np.uint32]
    locator: Int32s
    kinds: NDArray[np.uint16]
    origin: NDArray[np.uint16] = field(metadata=MAY_BE_CONSTANT)
    count: NDArray[np.uint32] = field(metadata=MAY_BE_CONSTANT)
    bytes: NDArray[np.uint32]
    first: Int64s
    span: NDArray[np.uint32] = field(metadata=MAY_BE_CONSTANT)
    memory: NDArray[np.uint32]

    @property
    def lsn(self) -> Int64s:
        """int64[n] LSN of the row's first change."""
        return self.first

    @property
    def last(self) -> Int64s:
        """int64[n] LSN of the row's last change."""
        return self.first + self.span


@dataclass(frozen=True)
class EndTable(Table):
    """Commits and aborts.

    Attributes:
        xid: int64[n] the transaction that ended (of a two-phase end the prepared one).
        kind: int64[n] COMMIT and so on; lsn: int64[n] where the record starts; next: int64[n] where it ends.
        time: int64[n] microseconds since 2000-01-01; database: int64[n] OID, 0 if the record has none.
        origin: int64[n] replication origin; origin_lsn: int64[n]; origin_time: int64[n].
        invals: int64[n] number of invalidation messages.
        subs: n lists of xids: the subtransactions that the record names.
    """

    xid: Int64s
    kind: Int64s = field(metadata=MAY_BE_CONSTANT)
    lsn: Int64s
    next: Int64s
    time: Int64s
    database: Int64s = field(metadata=MAY_BE_CONSTANT)
    origin: Int64s = field(metadata=MAY_BE_CONSTANT)
    origin_lsn: Int64s = field(metadata=MAY_BE_CONSTANT)
    origin_time: Int64s = field(metadata=MAY_BE_CONSTANT)
    invals: Int64s = field(metadata=MAY_BE_CONSTANT)
    subs: Ragged


@dataclass(frozen=True)
class PrepareTable(Table):
    """Records of PREPARE TRANSACTION, of all databases.

    Attributes:
        xid: int64[n] the transaction that was prepared; lsn: int64[n] where the record starts; next: int64[n] where it
            ends.
        time: int64[n] microseconds since 2000-01-01, the origin's time if the record has one.
        database: int64[n] OID; origin: int64[n] replication origin; origin_lsn: int64[n].
        subs: n lists of xids: the transaction's subtransactions.
        gid: n lists of the bytes of the transaction's name.
    """

    xid: Int64s
    lsn: Int64s
    next: Int64s
    time: Int64s
    database: Int64s
    origin: Int64s
    origin_lsn: Int64s
    subs: Ragged
    gid: Ragged


@dataclass(frozen=True)
class AssignTable(Table):
    """Subtransactions and their toplevel transaction, as headers of records name them.

    Attributes:
        xid: int64[n] the subtransaction; top: int64[n] its toplevel transaction; lsn: int64[n].
    """

    xid: Int64s
    top: Int64s
    lsn: Int64s


@dataclass(frozen=True)
class InvalidationTable(Table):
    """Messages of XACT INVALIDATIONS records, one row a message (:class:`headwater.rmgr.invalidation.Invalidation`).

    Attributes:
        xid: int64[n] 0 if the messages take effect at once; lsn: int64[n] LSN of the record.
        id: int8[n] the catalog cache, or another thing that is invalidated.
        db: uint32[n] OID of the database, 0 all; value: uint32[n] hash value, OID, or file number.
    """

    xid: Int64s
    lsn: Int64s
    id: NDArray[np.int8]
    db: NDArray[np.uint32]
    value: NDArray[np.uint32]


@dataclass(frozen=True)
class CommandTable(Table):
    """NEW_CID records of the database and of shared catalogs.

    Attributes:
        xid: int64[n]; lsn: int64[n].
        command: int64[n] the command from which on the transaction sees what its commands before this one did.
    """

    xid: Int64s
    lsn: Int64s
    command: Int64s


@dataclass(frozen=True)
class TruncateTable(Table):
    """TRUNCATE records of the database.

    Attributes:
        xid: int64[n]; lsn: int64[n]; origin: int64[n] replication origin.
        flags: int64[n] TRUNCATE_CASCADE, TRUNCATE_RESTART_SEQS (:mod:`headwater.rmgr.heap`).
        relations: n lists of OIDs, in the record's order.
    """

    xid: Int64s
    lsn: Int64s
    origin: Int64s
    flags: Int64s
    relations: Ragged


@dataclass(frozen=True)
class MessageTable(Table):
    """The LSNs of logical messages of the database; prefix and content stay in the WAL.

    Attributes:
        xid: int64[n] the transaction that emitted the message; it may be 0 for one that is not transactional.
        lsn: int64[n] where the record starts; end: int64[n] where it ends.
        origin: int64[n] replication origin; transactional: bool[n].
        memory: int64[n] memory of the message in the server's accounting if it is transactional.
    """

    xid: Int64s
    lsn: Int64s
    end: Int64s
    origin: Int64s
    transactional: Bools
    memory: Int64s

    @property
    def owner(self) -> Int64s:
        """int64[n] the transaction that each message goes with, 0 if it stands alone."""
        return np.where(self.transactional, self.xid, 0)


@dataclass(frozen=True)
class FileTable(Table):
    """Main forks of relations that were created in the database (SMGR CREATE).

    Attributes:
        xid: int64[n] 0 if the transaction had none yet; lsn: int64[n]; locator: int32[n] the file.
    """

    xid: Int64s
    lsn: Int64s
    locator: Int32s


@dataclass(frozen=True)
class Rows:
    """All tables of an index, and the files that their rows name.

    Attributes:
        locators: int64[m, 3] files: tablespace OID, database OID, file number.
    """

    xids: XidTable
    changes: ChangeTable
    ends: EndTable
    prepares: PrepareTable
    assigns: AssignTable
    invals: InvalidationTable
    commands: CommandTable
    truncates: TruncateTable
    messages: MessageTable
    files: FileTable
    locators: Int64s

    def check_parts(self) -> None:
        """Check that every file that a row names is there.

        Raises:
            ValueError: a file is not there.
        """
        if self.locators.shape[1:] != (3,):
            raise ValueError(f"files have the shape {self.locators.shape}")
        for _, table in self.tables():
            check_range(getattr(table, "locator", self.locators[:0]), 0, len(self.locators))

    def of_transactions(self, wanted: Callable[[Int64s], Bools], since: int | None = None) -> Rows:
        """Choose the rows of some transactions, and all from an LSN on.

        Args:
            wanted: tells which of some xids, int64[n], are wanted; it is called once a table. 0 stands for no
                transaction.
            since: rows of any xid are wanted from here on; None for nowhere.

        Returns:
            these rows, with only the files that they name, sorted.
        """

        def chosen(table: Any) -> Table:
            take = wanted(table.owner)
            if since is not None:
                take = take | (table.lsn >= since)
            rows: Table = table if take.all() else table.take(np.flatnonzero(take))
            return rows

        return self._with({name: chosen(table) for name, table in self.tables()}).with_used_files()

    def with_used_files(self) -> Rows:
        """Return the same rows, with only the files that they name, sorted."""
        used = np.zeros(len(self.locators), np.bool_)
        for _, table in self.tables():
            used[getattr(table, "locator", slice(0))] = True
        places = np.flatnonzero(used)
        locators, (order,) = _numbered_anew([self.locators[places]])
        number = np.full(len(self.locators), -1, np.int32)
        number[places] = order
        return _renumbered(self, locators, number)

    def tables(self) -> Iterator[tuple[str, Table]]:
        """Give the tables by name."""
        for f in fields(self):
            value = getattr(self, f.name)
            if isinstance(value, Table):
                yield f.name, value

    def _with(self, changed: dict[str, Any]) -> Rows:
        return replace(self, **changed)


def join_rows(parts: Sequence[Rows]) -> Rows:
    """Join rows one after the other.

    Args:
        parts: at least one; the rows of each lie after those of the part before it.
    """
    if len(parts) == 1:
        return parts[0]
    locators, numbers = _numbered_anew([part.locators for part in parts])
    renumbered = [_renumbered(part, locators, number) for part, number in zip(parts, numbers, strict=True)]
    names = [name for name, _ in parts[0].tables()]
    return renumbered[0]._with({name: _join_tables([getattr(part, name) for part in renumbered]) for name in names})


def _join_tables(tables: Sequence[Table]) -> Table:
    columns = {f.name: [getattr(table, f.name) for table in tables] for f in fields(tables[0])}
    return replace(tables[0], **{name: _join_columns(parts) for name, parts in columns.items()})


def _join_columns(parts: Sequence[Any]) -> NDArray[np.generic] | Ragged:
    if not isinstance(parts[0], Ragged):
        return joined(parts)
    bases = np.cumsum([0] + [len(part.values) for part in parts])
    starts = [
        part.starts[:-1] + base if base else part.starts[:-1] for part, base in zip(parts, bases[:-1], strict=True)
    ]
    return Ragged(joined([*starts, constant(bases[-1:])]), np.concatenate([part.values for part in parts]))


def _numbered_anew(parts: Sequence[Int64s]) -> tuple[Int64s, list[Int32s]]:
    """Give all files new numbers: return each file once, sorted, and for each part the number of each of its files."""
    locators, inverse = np.unique(np.concatenate(parts), axis=0, return_inverse=True)
    cuts = np.cumsum([len(part) for part in parts])[:-1]
    return locators, list(np.split(inverse.reshape(-1).astype(np.int32), cuts))


def _renumbered(rows: Rows, locators: Int64s, number: Int32s) -> Rows:
    """Give the files of rows other numbers: int32[m] for each of their files."""
    changed: dict[str, Any] = {"locators": locators}
    for name, table in rows.tables():
        of_files: Any = table
        if hasattr(table, "locator"):
            changed[name] = replace(of_files, locator=number[of_files.locator])
    return rows._with(changed)


def _no_rows() -> Rows:
    """Make tables of the columns' types, without a row."""

    def empty(kind: Any) -> Any:
        if kind is Ragged:
            return Ragged(np.zeros(1, np.int64), np.empty(0, np.int64))
        if isinstance(kind, type) and issubclass(kind, Table):
            return kind(**{name: empty(hint) for name, hint in get_type_hints(kind).items()})
        return np.empty(0, get_args(get_args(kind)[1])[0])

    tables = {name: empty(kind) for name, kind in get_type_hints(Rows).items()}
    return Rows(**tables | {"locators": np.empty((0, 3), np.int64)})


NO_ROWS = _no_rows()
"""The rows of an index of nothing."""
