"""Control records, while the log is read in order: they tell where decoding begins, wal_level, which xids are alive.

In: the kept records of an index and what was known before them. Out: :class:`Control`, a value that goes from window to
window, and the catalog rolled forward: catalog records go to the store in the same pass. This is the only step that
goes record by record in Python; it sees catalog changes and control records only.
Mirrors decode.c (xlog_decode, standby_decode) and snapbuild.c. Xids of :class:`Control` are 64-bit.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace

import numpy as np

from headwater.catalog.copy.prepared import PreparedTransaction
from headwater.catalog.snapshot import SnapBuilder, full_xid, full_xids, xid_precedes
from headwater.catalog.store.catalog_store import CatalogStore
from headwater.reorder.commits.transactions import NEVER
from headwater.reorder.commits.wal_levels import Decodable, LevelGap
from headwater.rmgr.heap import OPMASK, TRUNCATE
from headwater.rmgr.index.index_codes import ABORT_PREPARED, COMMIT_PREPARED
from headwater.rmgr.index.wal_index import WalIndex
from headwater.rmgr.registry import DBASE, HEAP, HEAP2, RELMAP, SMGR, STANDBY, XACT, XLOG
from headwater.rmgr.standby import parse_running_xacts
from headwater.rmgr.xact import parse_prepare
from headwater.rmgr.xlog import (
    BACKUP_END,
    CHECKPOINT_ONLINE,
    CHECKPOINT_SHUTDOWN,
    FPI,
    FPI_FOR_HINT,
    LOGICAL_DECODING_STATUS_CHANGE,
    PARAMETER_CHANGE,
    WAL_LEVEL_LOGICAL,
    WAL_LEVEL_REPLICA,
    parse_backup_end,
    parse_checkpoint,
    parse_decoding_status,
    parse_parameter_change,
)
from headwater.wal.control import check_next_xid
from headwater.wal.records.record import Record, parse_record


@dataclass(frozen=True)
class Control:
    """The known facts about the server at an LSN.

    Attributes:
        configured_level: wal_level as the server was started: 0 minimal, 1 replica, 2 logical.
        next_xid: no xid from this one on has been met.
        oldest_running_xid: transactions before it that have not ended never will: their server crashed.
        builder: where decoding begins, again after a gap.
        raised: LSN where wal_level rose to what is needed last, None if it never did.
        gap: since the level fell below that, once decoding had begun; None if it did not, or has risen again.
        has_begun: decoding had begun before the level fell last.
        prepared: until decoding can begin: transactions that began before the catalog was taken, and were prepared.
        ended: likewise those of them that have ended, and where.
        touching: transactions and subtransactions that changed the catalog and have not ended, sorted.
        is_switched_on: logical decoding is on although wal_level may be replica, as some slot needs it (19 and newer).
        needed: the lowest wal_level that is decoded, the same for the life of a state; below logical the WAL numbers no
            commands, and a transaction sees its own catalog changes by their LSNs.
    """

    configured_level: int
    next_xid: int
    oldest_running_xid: int = 0
    builder: SnapBuilder = field(default_factory=SnapBuilder)
    raised: int | None = None
    gap: LevelGap | None = None
    has_begun: bool = False
    prepared: tuple[PreparedTransaction, ...] = ()
    ended: tuple[tuple[PreparedTransaction, int], ...] = ()
    touching: tuple[int, ...] = ()
    is_switched_on: bool = False
    needed: int = WAL_LEVEL_LOGICAL

    @property
    def wal_level(self) -> int:
        """The level that the server writes (effective_wal_level): 0 minimal, 1 replica, 2 logical."""
        is_raised = self.is_switched_on and self.configured_level == WAL_LEVEL_REPLICA
        return WAL_LEVEL_LOGICAL if is_raised else self.configured_level

    @property
    def is_high_enough(self) -> bool:
        """True if the WAL has all that decoding needs."""
        return self.wal_level >= self.needed

    def decodable(self, stop: int = NEVER) -> tuple[Decodable, ...]:
        """Return the stretch that decoding is in, up to an LSN; none if it has not begun."""
        builder = self.builder
        return (Decodable(self.raised or 0, builder.start_decoding_at, stop),) if builder.is_consistent else ()

    def shut_down(self, lsn: int) -> Control:
        """Note that a server that ran with wal_level = logical was down when the log was at ``lsn``."""
        return replace(
            self, builder=self.builder.clean_shutdown(lsn, [transaction.xid for transaction in self.prepared])
        )

    def level_changed(self, lsn: int, level: int) -> Control:
        """Note that the server was started with a wal_level, which is another one or was not known before."""
        changed = replace(self, configured_level=level)
        if not changed.is_high_enough:
            return changed._fallen(lsn)
        if self.is_high_enough:
            return changed
        # The level is logged by a server that has just started: nothing runs yet.
        return replace(changed, raised=lsn, gap=None).shut_down(lsn)

    def switched(self, lsn: int, is_on: bool) -> Control:
        """Note that the server began or ceased to write what logical decoding needs, while it ran.

        Transactions that run go on as they began, so that decoding can begin as after a backup only. What a control
        file said may have been so since this record.
        """
        changed = replace(self, is_switched_on=is_on)
        if not changed.is_high_enough:
            return changed._fallen(lsn)
        if self.configured_level >= self.needed:
            return changed
        return replace(changed, raised=lsn, gap=None, builder=SnapBuilder(start_decoding_at=lsn))

    def _fallen(self, lsn: int) -> Control:
        """Note that the level is too low: decoding has to begin once more, if it had begun."""
        builder, gap = self.builder, self.gap
        if gap is None and builder.is_consistent:
            gap = LevelGap(self.wal_level, lsn)
        elif gap is not None:
            gap = replace(gap, level=min(gap.level, self.wal_level))
        has_begun = self.has_begun or builder.is_consistent
        return replace(self, builder=SnapBuilder(builder.start_decoding_at), gap=gap, has_begun=has_begun)

    def was_prepared(self, transaction: PreparedTransaction) -> Control:
        """Note that a transaction was prepared of which the log at hand has not all."""
        return self if self.builder.is_consistent else replace(self, prepared=(*self.prepared, transaction))

    def prepared_ended(self, lsn: int, xid: int) -> Control:
        """Note that a transaction that had been prepared was committed or rolled back."""
        ended = next((transaction for transaction in self.prepared if transaction.xid == xid), None)
        if ended is None:
            return self
        rest = tuple(transaction for transaction in self.prepared if transaction is not ended)
        builder = self.builder.prepared_ended(lsn, xid)
        return replace(self, prepared=rest, ended=(*self.ended, (ended, lsn)), builder=builder)


@dataclass(frozen=True)
class Followed:
    """The facts that a window's records have told.

    Attributes:
        control: at its end.
        levels: (LSN, wal_level from there on), the first at its start.
        decodable: where its transactions can be decoded.
        gaps: WAL that cannot, though decoding had begun before it; of one that goes on after it the end is not known.
        touched: xids that changed the catalog in it.
        running: (LSN, oldest xid that runs, its low half) of its RUNNING_XACTS records.
        completed_at: LSN of the record by which a copy of files was complete; None if that was before, or comes yet.
    """

    control: Control
    levels: tuple[tuple[int, int], ...]
    decodable: tuple[Decodable, ...]
    gaps: tuple[LevelGap, ...]
    touched: frozenset[int]
    running: tuple[tuple[int, int], ...] = ()
    completed_at: int | None = None


def control_at(store: CatalogStore, whole: Collection[int] = (), needed: int = WAL_LEVEL_LOGICAL) -> Control:
    """Make the control of a server from its catalog as of when that was taken.

    Args:
        store: the catalog, not rolled forward.
        whole: xids of transactions that the index has all of, though they began before.
        needed: the lowest wal_level that is decoded.
    """
    prepared = tuple(transaction for transaction in store.origin.prepared if transaction.xid not in whole)
    origin = store.origin
    builder = SnapBuilder(start_decoding_at=origin.consistent_lsn)
    before = _from_before(prepared, store)
    control = Control(
        origin.wal_level,
        origin.next_full_xid,
        builder=builder,
        prepared=before,
        is_switched_on=origin.decodes_on_demand,
        needed=needed,
    )
    is_down = store.origin.is_shutdown and control.is_high_enough
    return control.shut_down(store.start_lsn) if is_down else control


def _from_before(prepared: tuple[PreparedTransaction, ...], store: CatalogStore) -> tuple[PreparedTransaction, ...]:
    """Return the transactions that had begun when the catalog was taken."""
    return tuple(transaction for transaction in prepared if xid_precedes(transaction.xid, store.origin.next_xid))


def follow(control: Control, index: WalIndex, store: CatalogStore) -> Followed:
    """Roll the catalog forward over a window, and learn what its control records tell.

    Args:
        control: at the window's start.
        index: of the window.
        store: the catalog at the window's start; changed in place.

    Raises:
        WalError: a record is malformed.
        CatalogError: the catalog cannot follow a record.
    """
    follower = _Follower(control, store, index.lo, _prepared_ends(index, store))
    for record in index.kept:
        follower.take(parse_record(record.data, record.lsn, record.end_lsn, store.major))
    return follower.followed(index)


def _prepared_ends(index: WalIndex, store: CatalogStore) -> list[tuple[int, int]]:
    """Return (LSN, xid) of the ends of prepared transactions begun before the catalog was taken, last one first."""
    ends = index.rows.ends
    before = (ends.xid - store.origin.next_xid) & 0xFFFFFFFF >= 0x80000000
    ends = ends.take(np.flatnonzero(((ends.kind == COMMIT_PREPARED) | (ends.kind == ABORT_PREPARED)) & before))
    pairs = zip(ends.lsn.tolist(), ends.xid.tolist(), strict=True)
    return sorted(pairs, reverse=True)


class _Follower:
    """A run of :func:`follow`."""

    def __init__(self, control: Control, store: CatalogStore, lo: int, prepared_ends: list[tuple[int, int]]) -> None:
        self.control = control
        self.store = store
        self.levels = [(lo, control.wal_level)]
        self.decodable: list[Decodable] = []
        self.gaps: list[LevelGap] = []
        self.touched: set[int] = set()
        self.running: list[tuple[int, int]] = []
        self.completed_at: int | None = None
        self._ends = prepared_ends

    def take(self, record: Record) -> None:
        """Take one kept record, in LSN order."""
        if self._ends:
            self._pass_ends(record.lsn)
        self._pass_export(record.lsn)
        rmid, kind = record.rmid, record.kind
        if rmid == HEAP2 or (rmid == HEAP and kind & OPMASK != TRUNCATE) or rmid in (SMGR, RELMAP):
            self._catalog(record)
        elif rmid == XLOG and kind in (FPI, FPI_FOR_HINT):
            self._catalog(record)
        elif rmid == DBASE:
            self.store.apply(record)
        elif rmid == XLOG:
            self._xlog(record, kind)
        elif rmid == STANDBY:
            self._running_xacts(record)
        elif rmid == XACT:
            self._prepare(record)

    def _catalog(self, record: Record) -> None:
        self.touched.add(record.xid)
        self.store.apply(record)

    def _pass_ends(self, lsn: int) -> None:
        while self._ends and self._ends[-1][0] < lsn:
            self.control = self.control.prepared_ended(*self._ends.pop())

    def _pass_export(self, lsn: int) -> None:
        """Complete the files at an LSN if all that an exported catalog shows has happened before it."""
        store = self.store
        if store.origin.is_exported and not store.files.is_complete and lsn >= store.origin.consistent_lsn:
            store.files.complete()

    def _xlog(self, record: Record, kind: int) -> None:
        if kind == PARAMETER_CHANGE:
            change = parse_parameter_change(record.main_data, record.lsn)
            self._restarted(record.lsn, change.wal_level)
        elif kind == LOGICAL_DECODING_STATUS_CHANGE:
            is_on = parse_decoding_status(record.main_data, record.lsn)
            self._set(record.lsn, self.control, self.control.switched(record.lsn, is_on))
        elif kind in (CHECKPOINT_SHUTDOWN, CHECKPOINT_ONLINE):
            checkpoint = parse_checkpoint(record.main_data, record.lsn, self.store.major)
            check_next_xid(checkpoint.next_xid, lsn=record.lsn)
            self._met(checkpoint.next_xid)
            origin = self.store.origin
            if origin.backup_start is None and not origin.is_exported and checkpoint.redo > origin.start_lsn:
                self._complete(record.lsn)
            if kind == CHECKPOINT_SHUTDOWN and self.control.is_high_enough and record.lsn >= self.store.start_lsn:
                self.control = self.control.shut_down(record.lsn)
        elif kind == BACKUP_END and parse_backup_end(record.main_data, record.lsn) == self.store.origin.backup_start:
            self._complete(record.lsn)

    def _complete(self, lsn: int) -> None:
        if not self.store.files.is_complete and self.completed_at is None:
            self.completed_at = lsn
        self.store.files.complete()

    def _restarted(self, lsn: int, level: int) -> None:
        """Note that the server was started with a wal_level."""
        before = self.control
        if not (self.store.files.is_complete or self.store.origin.is_shutdown):
            # The copy may have got its pg_control after this record: what it was before is not known.
            before = replace(before, configured_level=0, builder=SnapBuilder(before.builder.start_decoding_at))
        self._set(lsn, before, before.level_changed(lsn, level))

    def _set(self, lsn: int, before: Control, control: Control) -> None:
        """Note that the server writes more, or less, from here on."""
        self.control = control
        self.levels.append((lsn, control.wal_level))
        if not control.is_high_enough:
            self.decodable += before.decodable(lsn)
        elif before.gap is not None:
            self.gaps.append(replace(before.gap, hi=lsn))

    def _running_xacts(self, record: Record) -> None:
        running = parse_running_xacts(record.main_data, record.lsn)
        next_xid = full_xid(running.next_xid, self.control.next_xid)
        oldest = full_xid(running.oldest_running_xid, next_xid)
        self._met(next_xid)
        self.running.append((record.lsn, running.oldest_running_xid))
        builder = self.control.builder
        if self.control.is_high_enough:
            builder = builder.running_xacts(record.lsn, next_xid, oldest)
        self.control = replace(self.control, oldest_running_xid=oldest, builder=builder)

    def _prepare(self, record: Record) -> None:
        prepare = parse_prepare(record.main_data, record.lsn, self.store.major)
        if prepare.database == self.store.database_oid:
            for transaction in _from_before((PreparedTransaction.of_record(prepare),), self.store):
                self.control = self.control.was_prepared(transaction)

    def _met(self, next_xid: int) -> None:
        self.control = replace(self.control, next_xid=max(self.control.next_xid, next_xid))

    def followed(self, index: WalIndex) -> Followed:
        """Return all that was learned, once every record was taken."""
        self._pass_ends(index.hi)
        self._pass_export(index.hi)
        if len(index.rows.xids):
            self._met(int(full_xids(index.rows.xids.xid, self.control.next_xid).max()) + 1)
        control = self.control
        return Followed(
            control=control,
            levels=tuple(self.levels),
            decodable=(*self.decodable, *control.decodable()),
            gaps=tuple(self.gaps) if control.gap is None else (*self.gaps, control.gap),
            touched=frozenset(self.touched - {0}),
            running=tuple(self.running),
            completed_at=self.completed_at,
        )


def once_consistent(control: Control) -> Control:
    """Return the control without what only tells why decoding could not begin earlier."""
    return replace(control, prepared=(), ended=()) if control.builder.is_consistent else control
