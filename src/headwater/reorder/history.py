"""The sequential reading of an index's kept records: catalog and consistency.

In: a merged index and a catalog store at the index's start. Out: :class:`History`: the store rolled forward over the
window, and where decoding begins. This is the only step that goes record by record in Python; it sees catalog changes
and control records only, never a row of a user's table.
Mirrors decode.c (xlog_decode, standby_decode) and snapbuild.c.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from headwater.catalog.prepared import PreparedTransaction
from headwater.catalog.snapshot import SnapBuilder, xid_precedes
from headwater.catalog.store import CatalogStore
from headwater.errors import WalError
from headwater.pg.lsn import Lsn
from headwater.reorder.transactions import CommittedTransactions, toplevel_of
from headwater.rmgr.index import WalIndex
from headwater.rmgr.index_codes import ABORT_PREPARED, COMMIT_PREPARED
from headwater.rmgr.standby import parse_running_xacts
from headwater.rmgr.xact import parse_prepare
from headwater.rmgr.xlog import parse_checkpoint, parse_parameter_change
from headwater.wal.record import Record, parse_record

WAL_LEVEL_LOGICAL = 2
WAL_LEVELS = ("minimal", "replica", "logical")


@dataclass
class History:
    """What the kept records tell.

    Attributes:
        store: the catalog, rolled forward.
        builder: where decoding begins.
        wal_level: at the end of what was read.
        too_low: LSN where wal_level fell below logical after the consistent point, None if it never did.
        levels: (LSN, wal_level from there on), the first as the catalog has it.
        raised: LSN where wal_level rose to logical last, None if it never did.
        old_prepared: transactions that were prepared after they had begun before the catalog's LSN.
        prepared_ends: per such xid, where a record says that it committed or was rolled back.
    """

    store: CatalogStore
    builder: SnapBuilder
    wal_level: int = 0
    too_low: int | None = None
    levels: list[tuple[int, int]] = field(default_factory=list)
    raised: int | None = None
    old_prepared: dict[int, PreparedTransaction] = field(default_factory=dict)
    prepared_ends: dict[int, int] = field(default_factory=dict)

    def shut_down(self, lsn: int) -> None:
        """A server that ran with wal_level = logical was down when the log was at ``lsn``."""
        ends = (self.prepared_ends.get(xid) for xid in self.old_prepared)
        self.builder.clean_shutdown(lsn, [end for end in ends if end is None or end >= lsn])


def read_history(
    index: WalIndex,
    txns: CommittedTransactions,
    store: CatalogStore,
    builder: SnapBuilder,
    whole: frozenset[int] = frozenset(),
) -> History:
    """Roll the catalog forward over a window, and find where decoding begins.

    Args:
        index: the merged index; it starts at ``store.start_lsn``.
        txns: its committed transactions.
        store: the catalog at the window's start; changed in place.
        builder: changed in place.
        whole: xids of transactions that the index has all of, though they began before ``store.start_lsn``.

    Returns:
        the history.

    Raises:
        WalError: a record is malformed.
        CatalogError: the catalog cannot follow a record.
    """
    history = History(store, builder, wal_level=store.wal_level)
    history.levels.append((store.start_lsn, store.wal_level))
    for one in store.prepared:
        if one.xid not in whole:
            _prepared(one, history)
    ends = index.rows.ends
    ends = ends.take(np.flatnonzero((ends.kind == COMMIT_PREPARED) | (ends.kind == ABORT_PREPARED)))
    history.prepared_ends = dict(zip(ends.xid.tolist(), ends.lsn.tolist(), strict=True))
    if store.is_shutdown and store.wal_level >= WAL_LEVEL_LOGICAL:
        history.shut_down(store.start_lsn)
    touched: set[int] = set()
    for record in _records(index, store.major):
        _dispatch(record, history, touched)
    _settle(index, txns, store, touched)
    return history


def _records(index: WalIndex, major: int) -> Iterator[Record]:
    for kept in index.kept:
        yield parse_record(kept.data, kept.lsn, kept.end_lsn, major)


def _dispatch(record: Record, history: History, touched: set[int]) -> None:
    if record.rmid == 0 and record.info & 0xF0 not in (0xA0, 0xB0):
        _xlog(record, history)
    elif record.rmid == 8:
        running = parse_running_xacts(record.main_data, record.lsn)
        if history.wal_level >= WAL_LEVEL_LOGICAL:
            history.builder.running_xacts(record.lsn, running.next_xid, running.oldest_running_xid)
    elif record.rmid == 1:
        prepare = parse_prepare(record.main_data, record.lsn, history.store.major)
        if prepare.database == history.store.database_oid:
            _prepared(PreparedTransaction.of_record(prepare), history)
    elif record.rmid in (0, 2, 7, 9, 10):
        touched.add(record.xid)
        history.store.apply(record)


def _xlog(record: Record, history: History) -> None:
    kind = record.info & 0xF0
    if kind == 0x60:
        _wal_level(record.lsn, parse_parameter_change(record.main_data, record.lsn).wal_level, history)
    elif kind == 0x00:
        parse_checkpoint(record.main_data, record.lsn)
        if history.wal_level >= WAL_LEVEL_LOGICAL and record.lsn >= history.store.start_lsn:
            history.shut_down(record.lsn)


def _prepared(one: PreparedTransaction, history: History) -> None:
    """Note a transaction that was prepared, unless it is known that all of it lies behind the catalog's LSN."""
    if xid_precedes(one.xid, history.store.next_xid):
        history.old_prepared[one.xid] = one


def _wal_level(lsn: int, level: int, history: History) -> None:
    if history.wal_level < WAL_LEVEL_LOGICAL <= level:
        history.raised = lsn
        # The level is logged by a server that has just started: nothing runs yet.
        history.shut_down(lsn)
    history.wal_level = level
    history.levels.append((lsn, level))
    if level < WAL_LEVEL_LOGICAL and history.builder.consistent_at is not None and history.too_low is None:
        history.too_low = lsn


def began_before(txns: CommittedTransactions, next_xid: int) -> NDArray[np.bool_]:
    """bool[t]: transactions that had their xid already when ``next_xid`` was the next one."""
    before: NDArray[np.bool_] = (txns.xid - next_xid) & 0xFFFFFFFF >= 0x80000000
    return before


def _settle(index: WalIndex, txns: CommittedTransactions, store: CatalogStore, touched: set[int]) -> None:
    """Tell the store the fate of every xid that changed the catalog, and of those that ran when it was taken."""
    rows = index.rows
    top = toplevel_of(rows)
    wanted = np.unique(top(np.fromiter(touched, np.int64, len(touched))))
    settles = np.isin(txns.xid, wanted) | began_before(txns, store.next_xid) | txns.changes_catalog
    for txn in np.flatnonzero(settles):
        store.commit([int(x) for x in txns.members(int(txn))], int(txns.commit_lsn[txn]))


def check_wal_level(history: History, end: int | None = None) -> None:
    """Refuse a window that was not written for logical decoding.

    Args:
        history: the window's.
        end: LSN at which the window ends, None for the end of the log; the index may reach a little further.

    Raises:
        WalError: ``wal_level`` was below logical.
    """
    if history.too_low is not None and end is not None and history.too_low >= end:
        return
    if history.too_low is not None:
        name = WAL_LEVELS[max(0, min(history.wal_level, 2))]
        raise WalError(
            f"wal_level fell to {name}, expected logical",
            lsn=history.too_low,
            hint=f"decode up to that point with --end {Lsn(history.too_low)}",
        )
    if history.wal_level < WAL_LEVEL_LOGICAL:
        raise WalError(
            f"the server ran with wal_level = {WAL_LEVELS[max(0, history.wal_level)]}, expected logical",
            lsn=history.store.start_lsn,
            hint="set wal_level = logical, restart the server and take a new base backup",
        )
