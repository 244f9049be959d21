"""DDL of a window of WAL as events, in commit order: planned as decoding is, and nothing is decoded.

In: a request that follows definitions. Out: what each transaction has changed of the catalog, with its place in the
log. The index step and the catalog are those of decoding (:mod:`headwater.pipeline.windows`); events are made of the
catalog's versions, for the transactions that changed it, by the keys of the rows that they touched.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from headwater.definitions.events import DdlEvent, ddl_events
from headwater.pipeline.assemble import RolledWindow
from headwater.pipeline.request import OpenRequest
from headwater.pipeline.run_index import DEFAULT_BOUNDS, WindowBounds
from headwater.pipeline.window import NO_COMMIT, Scope
from headwater.pipeline.windows import windows_in_threads
from headwater.reorder.wal_levels import is_decodable, starting_at


class PlacedDdl(NamedTuple):
    """An event with its place in the log.

    Attributes:
        lsn: where it takes its place among the changes of its transaction.
        number: among the events of its transaction, from 0 on.
        xid: the transaction's, 32 bits.
        commit_lsn: where the commit record starts; commit_time: microseconds since 2000-01-01.
        event: it.
    """

    lsn: int
    number: int
    xid: int
    commit_lsn: int
    commit_time: int
    event: DdlEvent


def ddl_of_window(window: RolledWindow, start: int) -> Iterator[PlacedDdl]:
    """The DDL of the transactions that committed in a window.

    Args:
        window: it; the store follows definitions.
        start: transactions whose commit record starts before it are left out.

    Raises:
        CatalogError: the catalog is inconsistent.
    """
    txns, store = window.commits, window.store
    wanted = txns.changes_catalog & (txns.database == store.database_oid)
    wanted &= is_decodable(txns.commit_lsn, txns.first_lsn, starting_at(window.decodable, start))
    for number in np.flatnonzero(wanted).tolist():
        lsn, xids = int(txns.commit_lsn[number]), txns.members(number).tolist()
        # Versions are kept by the low halves of xids, as the log has them.
        touched = store.touched_by(xid & 0xFFFFFFFF for xid in xids)
        if not touched:
            continue
        events = ddl_events(store.view(lsn), store.view(lsn + 1), touched)
        xid, time = int(txns.xid[number]) & 0xFFFFFFFF, int(txns.commit_time[number])
        yield from (PlacedDdl(lsn, at, xid, lsn, time, event) for at, event in enumerate(events))


@dataclass
class DdlWatch:
    """Collects the DDL of one window after the other.

    Attributes:
        found: what was collected and not taken yet.
    """

    found: list[PlacedDdl] = field(default_factory=list)

    def __call__(self, window: RolledWindow, scope: Scope) -> None:
        """Collect that of a window."""
        self.found += ddl_of_window(window, scope.start)

    def take(self) -> list[PlacedDdl]:
        """What was collected since the last call."""
        taken, self.found = self.found, []
        return taken


def read_ddl(opened: OpenRequest, bounds: WindowBounds = DEFAULT_BOUNDS) -> Iterator[PlacedDdl]:
    """The DDL of a request, in commit order, window by window.

    Args:
        opened: the request; it was asked for with its DDL.
        bounds: of a window.

    Raises:
        HeadwaterError: the WAL or the catalog cannot be followed.
    """
    watch = DdlWatch()
    scope = Scope(opened.directory.segment_size, opened.request.start or 0, commits=NO_COMMIT)
    for _ in windows_in_threads(opened, scope, bounds, watch=watch):
        yield from watch.take()
