"""Which version of which relation each row of changes is decoded with, and which of its changes are wanted.

The relation of a change is looked up as of the change: other transactions' catalog changes count from their commit
on, the transaction's own from the command on that follows them. As no row of the index crosses a catalog event, one
look-up serves a whole row, and rows of transactions without catalog changes share their look-ups between two commits
of catalog changes. Mirrors ReorderBufferProcessTXN (relation checks) and the historic snapshots of snapbuild.c.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from headwater.catalog.history import HistoricCatalog
from headwater.catalog.relation import RelationSchema
from headwater.catalog.store import CatalogStore
from headwater.catalog.versions import OwnCommands
from headwater.errors import DecodingError, HeadwaterError
from headwater.reorder.history import Command, History
from headwater.reorder.transactions import CommittedTransactions
from headwater.rmgr._index import CONFIRMS, DELETES_BARE, DELETES_OLD, INSERTS, SPECULATIVE, UPDATES

Int64s = NDArray[np.int64]

WANT_INSERT, WANT_UPDATE, WANT_DELETE_OLD, WANT_DELETE_BARE, WANT_TRUNCATE = 1, 2, 4, 8, 16
"""Which changes of a relation a plugin makes a message of (``OutputPlugin.wants``)."""

FIRST_NORMAL_CATALOG = 12000
"""Relations below are catalogs, whose changes are never logged logically (FirstUnpinnedObjectId)."""

Describe = Callable[[RelationSchema, HistoricCatalog], tuple[int, tuple[bytes, ...]]]
"""Which changes of a relation the plugin wants, and its schema messages, as of a view."""


@dataclass(frozen=True)
class Resolution:
    """A relation as one row of changes sees it.

    Attributes:
        schema: the relation.
        wants: bits of WANT_*; 0 for a TOAST relation.
        is_toast: its rows are chunks.
        messages: what the plugin sends to announce it.
    """

    schema: RelationSchema
    wants: int
    is_toast: bool = False
    messages: tuple[bytes, ...] = ()


@dataclass
class Resolver:
    """Looks relations up as of a place in the log, each place once.

    Attributes:
        history: the rolled-forward catalog and the commands.
        txns: the committed transactions.
        describe: asks the plugin.
        resolutions: all distinct answers, numbered by first use.
    """

    history: History
    txns: CommittedTransactions
    describe: Describe
    resolutions: list[Resolution] = field(default_factory=list)
    _numbers: dict[Resolution, int] = field(default_factory=dict)
    _own_xids: dict[int, frozenset[int]] = field(default_factory=dict)
    _own_commands: dict[int, tuple[list[int], list[int]]] = field(default_factory=dict)

    @property
    def store(self) -> CatalogStore:
        """The catalog."""
        return self.history.store

    def rows(self, txn: Int64s, locator: Int64s, first_lsn: Int64s, kinds: Int64s, locators: Int64s) -> Int64s:
        """The resolution of each row of changes.

        Args:
            txn: int64[n]; locator: int64[n] index into ``locators``; first_lsn: int64[n]; kinds: int64[n].
            locators: int64[m, 3] files.

        Returns:
            int64[n] numbers of resolutions, -1 for rows that decoding passes over.

        Raises:
            DecodingError: a file belongs to no relation the catalog knows.
        """
        own = self.txns.changes_catalog[txn]
        commits = np.sort(self.txns.commit_lsn[self.txns.changes_catalog])
        epoch = np.searchsorted(commits, first_lsn)
        result = np.empty(len(txn), np.int64)
        key = np.where(own, 0, epoch * len(locators) + locator)
        _, at, inverse = np.unique(key[~own], return_index=True, return_inverse=True)
        plain = np.flatnonzero(~own)
        answers = [self._row(-1, locators[locator[i]], int(first_lsn[i]), int(kinds[i])) for i in plain[at]]
        result[plain] = np.array(answers, np.int64)[inverse] if len(plain) else []
        for i in np.flatnonzero(own):
            result[i] = self._row(int(txn[i]), locators[locator[i]], int(first_lsn[i]), int(kinds[i]))
        return result

    def view(self, txn: int, lsn: int) -> HistoricCatalog:
        """The catalog as transaction ``txn`` (-1: any without catalog changes) sees it at ``lsn``."""
        if txn < 0 or not self.txns.changes_catalog[txn]:
            return self.store.view(lsn)
        return self.store.view(lsn, OwnCommands(self._xids(txn), self._command_id(txn, lsn)))

    def number(self, schema: RelationSchema, catalog: HistoricCatalog, lsn: int) -> int:
        """The number of a relation's resolution, -1 if its changes are never decoded."""
        if schema.oid < FIRST_NORMAL_CATALOG or schema.persistence != "p" or schema.kind == "S":
            return -1
        is_toast = schema.kind == "t"
        try:
            wants, messages = (0, ()) if is_toast else self.describe(schema, catalog)
        except HeadwaterError as error:
            error.lsn = error.lsn if error.lsn is not None else lsn
            raise
        return self._numbered(Resolution(schema, wants, is_toast, messages))

    def _numbered(self, resolution: Resolution) -> int:
        number = self._numbers.setdefault(resolution, len(self.resolutions))
        if number == len(self.resolutions):
            self.resolutions.append(resolution)
        return number

    def _row(self, txn: int, locator: Int64s, lsn: int, kinds: int) -> int:
        tablespace, _, filenode = (int(x) for x in locator)
        catalog = self.view(txn, lsn)
        schema = catalog.relation_by_filenode(tablespace, filenode)
        if schema is not None:
            return self.number(schema, catalog, lsn)
        if kinds & (INSERTS | SPECULATIVE | CONFIRMS | DELETES_OLD):
            raise DecodingError(
                f"could not map file {tablespace}/{self.store.database_oid}/{filenode} to a relation",
                lsn=lsn,
                hint="the catalog and the WAL may be of different servers, or WAL between them is missing",
            )
        return -1

    def _xids(self, txn: int) -> frozenset[int]:
        if txn not in self._own_xids:
            self._own_xids[txn] = frozenset(int(x) for x in self.txns.members(txn))
        return self._own_xids[txn]

    def _command_id(self, txn: int, lsn: int) -> int:
        """The transaction's command id for changes at ``lsn``: it only grows."""
        if txn not in self._own_commands:
            self._own_commands[txn] = _running_maximum(self.history, self._xids(txn))
        lsns, ids = self._own_commands[txn]
        at = bisect_left(lsns, lsn)
        return ids[at - 1] if at else 0


def _running_maximum(history: History, xids: frozenset[int]) -> tuple[list[int], list[int]]:
    commands: list[Command] = sorted(
        (c for xid in xids for c in history.commands.get(xid, ())), key=lambda command: command.lsn
    )
    ids: list[int] = []
    for command in commands:
        ids.append(max(command.command_id, ids[-1] if ids else 0))
    return [command.lsn for command in commands], ids


def wanted_kinds(wants: Int64s) -> Int64s:
    """The ``kinds`` bits of change rows for which a relation's WANT_* bits give a message."""
    kinds: Int64s = (
        np.where(wants & WANT_INSERT, INSERTS | CONFIRMS, 0)
        | np.where(wants & WANT_UPDATE, UPDATES, 0)
        | np.where(wants & WANT_DELETE_OLD, DELETES_OLD, 0)
        | np.where(wants & WANT_DELETE_BARE, DELETES_BARE, 0)
    ).astype(np.int64)
    return kinds
