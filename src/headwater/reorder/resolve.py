"""Which version of which relation each row of changes is decoded with, and which of its changes are wanted.

The relation of a change is looked up as of the change: other transactions' catalog changes count from their commit
on, the transaction's own from the command on that follows them. As no row of the index crosses a catalog event, one
look-up serves a whole row, and rows of transactions without catalog changes share their look-ups between two commits
of catalog changes. Mirrors ReorderBufferProcessTXN (relation checks) and the historic snapshots of snapbuild.c.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from headwater.catalog.history import HistoricCatalog
from headwater.catalog.relation import RelationSchema
from headwater.catalog.store import CatalogStore
from headwater.catalog.versions import OwnCommands
from headwater.errors import DecodingError, HeadwaterError
from headwater.reorder.keys import distinct, grouped_places, or_together
from headwater.reorder.plan import RelationUse
from headwater.reorder.transactions import CommittedTransactions
from headwater.reorder.wants import WANT_BARE_DELETE, WANT_DELETE, WANT_INSERT, WANT_UPDATE
from headwater.rmgr.index_codes import CONFIRMS, DELETES_BARE, DELETES_OLD, INSERTS, SPECULATIVE, UPDATES
from headwater.rmgr.index_rows import CommandTable

Int64s = NDArray[np.int64]
Int32s = NDArray[np.int32]
Bytes = NDArray[np.uint8]

FIRST_NORMAL_CATALOG = 12000
"""Relations below are catalogs, whose changes are never logged logically (FirstUnpinnedObjectId)."""

FIRST_NORMAL_FILE = 16384
"""Files numbered below were made by initdb; a user's table never has one (FirstNormalObjectId)."""

Describe = Callable[[RelationSchema, Any], tuple[int, tuple[bytes, ...]]]
"""Which changes of a relation the plugin wants, and its schema messages, as of a view."""


class Resolved(NamedTuple):
    """What rows of changes are decoded as.

    Attributes:
        resolution: int64[n] numbers of relations, -1 for rows that decoding passes over.
        spans: int64[4, s] (transaction or -1 for all without catalog changes, file, from LSN, resolution), sorted: the
            same as a function of the change, -1 included.
    """

    resolution: Int64s
    spans: Int64s


Answer = Callable[[int, int, int, int], int]
"""The resolution of a row by (transaction or -1, file, first LSN, kinds)."""


def resolve_rows(
    txns: CommittedTransactions, txn: Int64s, locator: Int32s, first: Int64s, kinds: Bytes, answer: Answer
) -> Resolved:
    """Ask for the relation of each row; once for all rows of a file between two commits of catalog changes.

    Args:
        txns: the committed transactions.
        txn: int64[n]; locator: int32[n]; first: int64[n]; kinds: uint8[n] the rows.
        answer: asks for one of them.
    """
    owned = np.flatnonzero(txns.changes_catalog[txn])
    if not len(owned):
        return Resolved(*_resolve_plain(txns, locator, first, kinds, answer))
    plain = np.flatnonzero(~txns.changes_catalog[txn])
    answers, shared = _resolve_plain(txns, locator[plain], first[plain], kinds[plain], answer)
    own_answers = np.array(
        [answer(int(txn[i]), int(locator[i]), int(first[i]), int(kinds[i])) for i in owned], np.int64
    )
    resolution = np.empty(len(txn), np.int64)
    resolution[plain], resolution[owned] = answers, own_answers
    spans = np.stack([txn[owned], locator[owned], first[owned], own_answers])
    order = np.argsort(spans[0] * (int(locator.max()) + 1) + spans[1], kind="stable")
    return Resolved(resolution, np.concatenate([shared, _joined(spans[:, order])], axis=1))


def _resolve_plain(
    txns: CommittedTransactions, locator: Int32s, first: Int64s, kinds: Bytes, answer: Answer
) -> tuple[Int64s, Int64s]:
    """Resolutions and spans of rows of transactions without catalog changes."""
    commits = np.sort(txns.commit_lsn[txns.changes_catalog])
    # By (file, number of commits before it).
    key = locator * np.int64(len(commits) + 1) + np.searchsorted(commits, first) if len(commits) else locator
    keys = distinct(key)
    together = or_together(kinds, keys.number, len(keys.values))
    asked = zip(keys.first, together.tolist(), strict=True)
    answers = np.array([answer(-1, int(locator[i]), int(first[i]), bits) for i, bits in asked], np.int64)
    since = np.append(-1, commits)[keys.values % (len(commits) + 1)] + 1
    spans = np.stack([np.full(len(answers), -1, np.int64), locator[keys.first], since, answers])
    return answers[keys.number], _joined(spans)


def spans_by_unit(spans: Int64s, unit_of: Int64s) -> Int64s:
    """Spans with units instead of transactions, without those of transactions that are not output.

    Args:
        spans: int64[4, s] of :class:`Resolved`.
        unit_of: int64[t] the unit of each transaction, -1 if it is not output.
    """
    own = spans[0] >= 0
    unit = np.full(spans.shape[1], -1, np.int64)
    unit[own] = unit_of[spans[0, own]]
    kept = np.concatenate([unit[np.newaxis], spans[1:]])
    return kept[:, ~own | (unit >= 0)]


def _joined(spans: Int64s) -> Int64s:
    """Spans without those that go on as the one before."""
    keep = np.ones(spans.shape[1], np.bool_)
    keep[1:] = (spans[[0, 1, 3], 1:] != spans[[0, 1, 3], :-1]).any(axis=0)
    return spans[:, keep]


@dataclass
class Resolver:
    """Looks relations up as of a place in the log, each place once.

    Attributes:
        store: the catalog, rolled forward.
        commands: of any transactions.
        txns: the committed transactions.
        describe: asks the plugin.
        is_tentative: the plugin goes by what it keeps in mind, and is asked again with that: what it refuses to say as
            of the change is no error yet.
        resolutions: all distinct answers, numbered by first use.
    """

    store: CatalogStore
    commands: CommandTable
    txns: CommittedTransactions
    describe: Describe
    is_tentative: bool = False
    resolutions: list[RelationUse] = field(default_factory=list)
    _numbers: dict[RelationUse, int] = field(default_factory=dict)
    _own_xids: dict[int, frozenset[int]] = field(default_factory=dict)

    @cached_property
    def _catalogs(self) -> frozenset[tuple[int, int, int]]:
        """The files that are followed as catalogs."""
        return self.store.locators()

    def rows(self, txn: Int64s, locator: Int32s, first_lsn: Int64s, kinds: Bytes, locators: Int64s) -> Resolved:
        """The relation of each row of changes.

        Args:
            txn: int64[n]; locator: int32[n] index into ``locators``; first_lsn: int64[n]; kinds: uint8[n].
            locators: int64[m, 3] files.

        Returns:
            their resolutions.

        Raises:
            DecodingError: a file belongs to no relation the catalog knows.
        """
        return resolve_rows(
            self.txns,
            txn,
            locator,
            first_lsn,
            kinds,
            lambda of, file, lsn, kind: self._row(of, locators[file], lsn, kind),
        )

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
            if self.is_tentative:
                return self.numbered(RelationUse(schema, 0, is_decided=False))
            error.lsn = error.lsn if error.lsn is not None else lsn
            raise
        return self.numbered(RelationUse(schema, wants, is_toast, messages))

    def numbered(self, resolution: RelationUse) -> int:
        """The number of a resolution, a new one if need be."""
        number = self._numbers.setdefault(resolution, len(self.resolutions))
        if number == len(self.resolutions):
            self.resolutions.append(resolution)
        return number

    def _row(self, txn: int, locator: Int64s, lsn: int, kinds: int) -> int:
        tablespace, database, filenode = (int(x) for x in locator)
        if filenode < FIRST_NORMAL_FILE and (tablespace, database, filenode) in self._catalogs:
            return -1
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
        lsns, commands, starts = self._own_commands
        low, high = int(starts[txn]), int(starts[txn + 1])
        at = low + int(np.searchsorted(lsns[low:high], lsn))
        return int(commands[at - 1]) if at > low else 0

    @cached_property
    def _own_commands(self) -> tuple[Int64s, Int64s, Int64s]:
        """LSNs by transaction, the highest command so far at each, and where each transaction's begin."""
        at, txn = grouped_places(self.txns.txn_of(self.commands.xid), len(self.txns.xid))
        highest = np.maximum.accumulate(txn << 32 | self.commands.command[at]) & 0xFFFFFFFF
        return self.commands.lsn[at], highest, np.searchsorted(txn, np.arange(len(self.txns.xid) + 1))


def wanted_kinds(wants: Int64s) -> NDArray[np.uint8]:
    """The ``kinds`` bits of change rows for which a relation's WANT_* bits give a message."""
    kinds: NDArray[np.uint8] = (
        np.where(wants & WANT_INSERT, INSERTS | CONFIRMS, 0)
        | np.where(wants & WANT_UPDATE, UPDATES, 0)
        | np.where(wants & WANT_DELETE, DELETES_OLD, 0)
        | np.where(wants & WANT_BARE_DELETE, DELETES_BARE, 0)
    ).astype(np.uint8)
    return kinds
