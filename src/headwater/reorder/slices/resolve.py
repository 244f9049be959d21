"""The version of a relation that each row of changes is decoded with, and which of its changes are wanted.

The relation of a change is looked up as of the change: other transactions' catalog changes count from their commit
on, the transaction's own from the command on that follows them. As no row of the index crosses either, one look-up
serves a whole row, and rows of a file share it. Rows of transactions without catalog changes share it between two
commits of catalog changes. Those of a transaction with them share it only between two of its own commands, too. Mirrors
ReorderBufferProcessTXN (relation checks) and the historic snapshots of snapbuild.c.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from headwater.catalog.relation import RelationSchema
from headwater.catalog.store.catalog_store import CatalogStore
from headwater.catalog.store.historic_catalog import HistoricCatalog
from headwater.catalog.versions import OwnCommands
from headwater.errors import DecodingError, HeadwaterError
from headwater.option_names import option
from headwater.pg.catalogs import FIRST_NORMAL_OBJECT_ID, FIRST_UNPINNED_OBJECT_ID
from headwater.pg.lsn import Lsn
from headwater.reorder.commits.replays import Replays
from headwater.reorder.integer_keys import distinct, distinct_rows, grouped_places, lower, or_together
from headwater.reorder.plan import RelationUse
from headwater.reorder.slices.spans import joined
from headwater.reorder.wanted_changes import WANT_BARE_DELETE, WANT_DELETE, WANT_INSERT, WANT_UPDATE, Description
from headwater.rmgr.index.index_codes import (
    COMMAND_SPAN,
    CONFIRMS,
    DELETES_BARE,
    DELETES_OLD,
    INSERTS,
    SPECULATIVE,
    UPDATES,
)
from headwater.rmgr.index.index_rows import CommandTable

Int64s = NDArray[np.int64]
Int32s = NDArray[np.int32]
Bytes = NDArray[np.uint8]
Bools = NDArray[np.bool_]


class Describe(Protocol):
    """A call to the plugin."""

    def __call__(self, schema: RelationSchema, catalog: Any) -> Description:
        """Return the plugin's description of a relation that is shown so, as of a view."""

    def shown(self, schema: RelationSchema, catalog: Any) -> RelationSchema:
        """Return the relation without columns that nobody wants, with what the plugin looks up of it."""


class Resolved(NamedTuple):
    """The resolutions that rows of changes are decoded as.

    Attributes:
        resolution: int64[n] numbers of relations, -1 for rows that decoding passes over.
        spans: int64[4, s] (transaction or -1 for all without catalog changes, file, from LSN, resolution), sorted: the
            same as a function of the change; where there is none, decoding passes over it too.
    """

    resolution: Int64s
    spans: Int64s


Answer = Callable[[int, int, int, int], int]
"""The resolution of a row by (transaction or -1, file, first LSN, kinds)."""


class Asked(NamedTuple):
    """Rows of changes whose relations are asked for, in order of (transaction, LSN), n of them.

    Attributes:
        txn: int64[n]; locator: int32[n]; first: int64[n] first LSN; kinds: uint8[n].
        command: int64[n] grows whenever a transaction that changes the catalog sees more of its own changes; the same
            for all rows of any other.
    """

    txn: Int64s
    locator: Int32s
    first: Int64s
    kinds: Bytes
    command: Int64s

    def take(self, which: Int64s | Bools) -> Asked:
        """Return some of the rows, in the same order."""
        columns: Iterable[Any] = (column[which] for column in self)
        return Asked(*columns)


def resolve_rows(changes_catalog: Bools, commits: Int64s, asked: Asked, answer: Answer) -> Resolved:
    """Ask for the relation of each row; once for all rows of a file between which no view of it changes.

    Args:
        changes_catalog: bool[t] of the committed transactions.
        commits: int64[c] sorted LSNs of all commits after the first of the rows that changed the catalog.
        asked: the rows.
        answer: asks for one of them.
    """
    owned = changes_catalog[asked.txn]
    if not owned.any():
        return Resolved(*_resolve_plain(commits, asked, answer))
    resolution = np.empty(len(owned), np.int64)
    resolution[~owned], shared = _resolve_plain(commits, asked.take(~owned), answer)
    resolution[owned], own = _resolve_owned(commits, asked.take(owned), answer)
    return Resolved(resolution, np.concatenate([shared, own], axis=1))


def _resolve_plain(commits: Int64s, asked: Asked, answer: Answer) -> tuple[Int64s, Int64s]:
    """Resolve rows of transactions without catalog changes, by (file, number of commits before)."""
    locator = asked.locator
    key = locator * np.int64(len(commits) + 1) + np.searchsorted(commits, asked.first) if len(commits) else locator
    keys = distinct(key)
    together = or_together(asked.kinds, keys.number, len(keys.values))
    each = zip(locator[keys.first].tolist(), asked.first[keys.first].tolist(), together.tolist(), strict=True)
    answers = np.array([answer(-1, *question) for question in each], np.int64)
    since = np.append(-1, commits)[keys.values % (len(commits) + 1)] + 1
    spans = np.stack([np.full(len(answers), -1, np.int64), locator[keys.first], since, answers])
    return answers[keys.number], joined(spans)


def _resolve_owned(commits: Int64s, asked: Asked, answer: Answer) -> tuple[Int64s, Int64s]:
    """Resolve rows of those that change the catalog, by (transaction, file, commits before, own commands before).

    Both numbers grow with the LSN, so that groups of one transaction and file come in the order of the log.
    """
    before = np.searchsorted(commits, asked.first)
    groups, number = distinct_rows(np.stack([asked.txn, asked.locator.astype(np.int64), before, asked.command]))
    together = or_together(asked.kinds, number, groups.shape[1])
    first = np.full(groups.shape[1], np.iinfo(np.int64).max)
    lower(first, number, asked.first)
    each = zip(groups[0].tolist(), groups[1].tolist(), first.tolist(), together.tolist(), strict=True)
    answers = np.array([answer(*question) for question in each], np.int64)
    return answers[number], joined(np.stack([groups[0], groups[1], first, answers]))


@dataclass
class Resolver:
    """The look-up of relations as of a place in the log, each place once.

    Attributes:
        store: the catalog, rolled forward.
        commands: of any transactions.
        txns: what is replayed.
        catalog_commits: int64[c] sorted LSNs of commits that changed the catalog: of these, and of all before them
            that are after the first change of one.
        describe: asks the plugin.
        is_tentative: the plugin goes by what it remembers, and is asked again with that: what it refuses to say as of
            the change is no error yet.
        resolutions: all distinct answers, numbered by first use.
    """

    store: CatalogStore
    commands: CommandTable
    txns: Replays
    catalog_commits: Int64s
    describe: Describe
    is_tentative: bool = False
    resolutions: list[RelationUse] = field(default_factory=list)
    _numbers: dict[RelationUse, int] = field(default_factory=dict)
    _own_xids: dict[int, frozenset[int]] = field(default_factory=dict)

    def rows(self, txn: Int64s, locator: Int32s, first_lsn: Int64s, kinds: Bytes, locators: Int64s) -> Resolved:
        """Find the relation of each row of changes.

        Args:
            txn: int64[n]; locator: int32[n] index into ``locators``; first_lsn: int64[n]; kinds: uint8[n]; rows in
                order of (transaction, LSN).
            locators: int64[m, 3] files.

        Returns:
            their resolutions.

        Raises:
            DecodingError: a file belongs to no relation the catalog knows.
        """

        def answer(of: int, file: int, lsn: int, kind: int) -> int:
            return self._row(of, locators[file], lsn, kind)

        decoded = ~self._is_system(locator, first_lsn, locators)[locator]
        asked = Asked(txn, locator, first_lsn, kinds, self._commands_before(txn, first_lsn))
        if decoded.all():
            return self._resolve(asked, answer)
        resolution = np.full(len(txn), -1, np.int64)
        resolution[decoded], spans = self._resolve(asked.take(decoded), answer)
        return Resolved(resolution, spans)

    def _resolve(self, asked: Asked, answer: Answer) -> Resolved:
        return resolve_rows(self.txns.changes_catalog, self.catalog_commits, asked, answer)

    def _is_system(self, locator: Int32s, first: Int64s, locators: Int64s) -> Bools:
        """Find files of catalogs and of their TOAST tables, as initdb numbered them; no other relation gets them.

        Args:
            locator: int32[n] of rows; first: int64[n] their first LSNs.
            locators: int64[m, 3].
        """
        is_system = np.zeros(len(locators), np.bool_)
        followed, met = self.store.files.locators(), distinct(locator)
        for file, at in zip(met.values.tolist(), first[met.first].tolist(), strict=True):
            tablespace, database, number = locators[file].tolist()
            if number < FIRST_NORMAL_OBJECT_ID:
                is_system[file] = (tablespace, database, number) in followed or self._is_catalog(tablespace, number, at)
        return is_system

    def _is_catalog(self, tablespace: int, filenode: int, lsn: int) -> bool:
        schema = self.store.view(lsn).relation_by_filenode(tablespace, filenode)
        return schema is not None and schema.oid < FIRST_UNPINNED_OBJECT_ID

    def view(self, txn: int, lsn: int) -> HistoricCatalog:
        """Return the catalog as transaction ``txn`` (-1: any without catalog changes) sees it at ``lsn``."""
        if txn < 0 or not self.txns.changes_catalog[txn]:
            return self.store.view(lsn)
        self._check_span(int(self.txns.first_lsn[txn]), lsn)
        return self.store.view(lsn, OwnCommands(self._xids(txn), self._command_id(txn, lsn)))

    def _check_span(self, first: int, lsn: int) -> None:
        """Check that the numbers have grown all the time, where commands are numbered by LSN."""
        if not self.store.redo.numbers_commands and first // COMMAND_SPAN != lsn // COMMAND_SPAN:
            raise DecodingError(
                f"a transaction that changes the catalog crosses {Lsn(lsn - lsn % COMMAND_SPAN)}",
                lsn=first,
                hint="below wal_level logical it cannot be told what such a transaction sees: leave it out with "
                + option("end"),
            )

    def number(self, schema: RelationSchema, catalog: HistoricCatalog, lsn: int) -> int:
        """Return the number of a relation's resolution, -1 if its changes are never decoded."""
        if schema.oid < FIRST_UNPINNED_OBJECT_ID or schema.persistence != "p" or schema.kind == "S":
            return -1
        is_toast = schema.kind == "t"
        try:
            schema = schema if is_toast else self.describe.shown(schema, catalog)
            wants, messages, filters = Description() if is_toast else self.describe(schema, catalog)
        except HeadwaterError as error:
            if self.is_tentative:
                return self.numbered(RelationUse(schema, 0, is_decided=False))
            error.lsn = error.lsn if error.lsn is not None else lsn
            raise
        return self.numbered(RelationUse(schema, wants, is_toast, messages, filters=filters))

    def numbered(self, resolution: RelationUse) -> int:
        """Return the number of a resolution, a new one if need be."""
        number = self._numbers.setdefault(resolution, len(self.resolutions))
        if number == len(self.resolutions):
            self.resolutions.append(resolution)
        return number

    def _row(self, txn: int, locator: Int64s, lsn: int, kinds: int) -> int:
        tablespace, _, filenode = locator.tolist()
        catalog = self.view(txn, lsn)
        schema = catalog.relation_by_filenode(tablespace, filenode)
        if schema is not None:
            return self.number(schema, catalog, lsn)
        if not self.store.redo.numbers_commands and self.store.mapped_oid(filenode, is_shared=False) is not None:
            # Below logical no flag says that an insert is one into a mapped catalog, or its TOAST table.
            return -1
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
        return int(self._commands_before(np.array([txn]), np.array([lsn]))[0])

    def _commands_before(self, txn: Int64s, lsn: Int64s) -> Int64s:
        """Find a transaction's command id for changes at an LSN; it only grows: int64[n]."""
        keys, highest, lsns = self._own_commands
        commands = np.zeros(len(txn), np.int64)
        if len(keys) > 1:
            which = np.flatnonzero(self.txns.changes_catalog[txn])
            base = self.txns.family[txn[which]] * (len(lsns) + 1)
            at = np.searchsorted(keys, base + np.searchsorted(lsns, lsn[which]), "right") - 1
            commands[which] = np.where(keys[at] >= base, highest[at], 0)
        return commands

    @cached_property
    def _own_commands(self) -> tuple[Int64s, Int64s, Int64s]:
        """Sort keys of (transaction, LSN), with the transaction's highest command so far at each, and all LSNs.

        The first key is before all transactions.
        """
        at, txn = grouped_places(self.txns.family_of(self.commands.xid), len(self.txns.xid))
        highest = np.maximum.accumulate(txn << 32 | self.commands.command[at]) & 0xFFFFFFFF
        lsns = self.commands.lsn
        keys = txn * (len(lsns) + 1) + at + 1
        return np.concatenate([[-1], keys]), np.concatenate([[0], highest]), lsns


def wanted_kinds(wants: Int64s) -> NDArray[np.uint8]:
    """Return the ``kinds`` bits of change rows for which a relation's WANT_* bits give a message."""
    kinds: NDArray[np.uint8] = (
        np.where(wants & WANT_INSERT, INSERTS | CONFIRMS, 0)
        | np.where(wants & WANT_UPDATE, UPDATES, 0)
        | np.where(wants & WANT_DELETE, DELETES_OLD, 0)
        | np.where(wants & WANT_BARE_DELETE, DELETES_BARE, 0)
    ).astype(np.uint8)
    return kinds
