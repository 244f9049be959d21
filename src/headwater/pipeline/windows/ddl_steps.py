"""DDL of the transactions of a window as events, in commit order, each with its place.

In: the index of a window, the transactions that committed in it, and the catalog rolled forward over it, with
definitions. Out: what each transaction has changed of the catalog. Events are made of the catalog's versions, for
the transactions that changed it, by the keys of the rows that they touched.

Place. A transaction's DDL is reported in steps: one ends before each change of a row that follows DDL, the last one
with the transaction. So a table that is created and filled comes before its rows, and each row after the commands that
altered its table. A step's view is that of the commit, with the commands of the transaction that came before the row's
change; its place is that of the last of these.

Known gap: below wal_level logical nothing numbers commands, and all of a transaction's DDL stands at its commit.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from headwater.base.constant_columns import taken
from headwater.catalog.store.catalog_store import CatalogStore
from headwater.catalog.store.historic_catalog import HistoricCatalog
from headwater.catalog.versions import INVALID_COMMAND_ID, Dependency, OwnCommands
from headwater.definitions.events import DdlEvent, ddl_events, rests_on
from headwater.errors import CatalogError
from headwater.pg.catalogs import FIRST_NORMAL_OBJECT_ID, FIRST_UNPINNED_OBJECT_ID
from headwater.reorder.commits.transactions import CommittedTransactions
from headwater.rmgr.index.index_rows import Rows

Int64s = NDArray[np.int64]


class PlacedDdl(NamedTuple):
    """An event with its place in the log.

    Attributes:
        lsn: where it takes its place among the changes of its transaction.
        number: among the events of its transaction, from 0 on.
        txn: the transaction's number in its window.
        xid: the transaction's, 32 bits.
        commit_lsn: where the commit record starts; commit_time: microseconds since 2000-01-01.
        event: the event.
        behind: the catalog as the transaction saw it after the event.
    """

    lsn: int
    number: int
    txn: int
    xid: int
    commit_lsn: int
    commit_time: int
    event: DdlEvent
    behind: HistoricCatalog


def ddl_of_window(
    rows: Rows, txns: CommittedTransactions, store: CatalogStore, wanted: NDArray[np.bool_]
) -> Iterator[PlacedDdl]:
    """Give the DDL of transactions, in commit order.

    Args:
        rows: the index of the window that they committed in.
        txns: all that committed there.
        store: the catalog, rolled forward over it; it follows definitions.
        wanted: bool[t] the transactions that are wanted.

    Raises:
        CatalogError: the catalog is inconsistent, or does not follow definitions.
    """
    if not store.has_definitions:
        raise CatalogError("the catalog does not have the definitions of objects, which DDL is told by")
    chosen = np.flatnonzero(wanted & txns.changes_catalog)
    grouped = _RowsByTransaction(rows, txns, chosen)
    for number in chosen.tolist():
        lsn, time = int(txns.commit_lsn[number]), int(txns.commit_time[number])
        transaction = _Transaction(store, txns, number, grouped)
        xid = int(txns.xid[number])
        for at, (place, event, behind) in enumerate(transaction.events()):
            yield PlacedDdl(place, at, number, xid, lsn, time, event, behind)


class _RowsByTransaction:
    """The commands, and the first changes of index rows, of some transactions, each in the order of the log."""

    def __init__(self, rows: Rows, txns: CommittedTransactions, chosen: Int64s) -> None:
        count = len(txns.xid)
        self._of_commands = _grouped(txns.txn_of(rows.commands.xid), chosen, count)
        self._of_changes = _grouped(txns.txn_of(rows.changes.xid), chosen, count)
        self._rows = rows

    def commands(self, txn: int) -> tuple[list[int], list[int]]:
        """Return LSNs of a transaction's commands, and what it sees after each: the highest one so far."""
        positions = self._of_commands.get(txn, _NONE)
        table = self._rows.commands
        return table.lsn[positions].tolist(), np.maximum.accumulate(table.command[positions]).tolist()

    def changes(self, txn: int) -> list[tuple[int, tuple[int, ...]]]:
        """Return LSN and file of the first change of each index row of a transaction.

        Catalogs as initdb made them are left out.
        """
        positions = self._of_changes.get(txn, _NONE)
        numbers = self._rows.locators[np.asarray(taken(self._rows.changes.locator, positions)), 2]
        changes = self._rows.changes.take(positions[numbers >= FIRST_NORMAL_OBJECT_ID])
        files = map(tuple, self._rows.locators[np.asarray(changes.locator)].tolist())
        return sorted(zip(np.asarray(changes.first).tolist(), files, strict=True))


_NONE = np.empty(0, np.int64)


def _grouped(txn: Int64s, chosen: Int64s, count: int) -> dict[int, Int64s]:
    """Return the rows of each chosen transaction, by its number."""
    is_chosen = np.zeros(count + 1, np.bool_)
    is_chosen[chosen] = True
    positions = np.flatnonzero(is_chosen[txn])
    order = positions[np.argsort(txn[positions], kind="stable")]
    values, first = np.unique(txn[order], return_index=True)
    return dict(zip(values.tolist(), np.split(order, first[1:]), strict=True)) if len(order) else {}


class _Transaction:
    """A transaction's DDL, step by step."""

    def __init__(self, store: CatalogStore, txns: CommittedTransactions, number: int, rows: _RowsByTransaction) -> None:
        self._store = store
        self._xids = frozenset(txns.members(number).tolist())
        self._commit = int(txns.commit_lsn[number])
        self._lsns, self._highest = rows.commands(number) if self._store.redo.numbers_commands else ([], [])
        self._changes = rows.changes(number) if self._lsns else []

    def events(self) -> Iterator[tuple[int, DdlEvent, HistoricCatalog]]:
        """Give the events, each with its place and the view after it."""
        touched = {key for key in self._store.touched_by(self._xids) if rests_on(key)}
        if not touched:
            return
        steps = list(self._steps())
        before = self._store.view(self._commit)
        behind = self._store.view(self._commit + 1)
        for (place, command), keys in zip(steps, self._shares(steps, touched), strict=True):
            after = behind if command is None else self._seen(command)
            yield from ((place, event, after) for event in ddl_events(before, after, keys))
            before = after

    def _seen(self, command: int) -> HistoricCatalog:
        return self._store.view(self._commit, OwnCommands(self._xids, command))

    def _steps(self) -> Iterator[tuple[int, int | None]]:
        """Give the place of each step, and the command that sees it; of the last one the transaction's end."""
        done = 0
        for first, file in self._changes:
            at = bisect_left(self._lsns, first)
            if at > done and self._is_of_table(file, self._highest[at - 1]):
                yield self._lsns[at - 1], self._highest[at - 1]
                done = at
        yield (self._lsns[-1] if done < len(self._lsns) else self._commit), None

    def _is_of_table(self, file: Sequence[int], command: int) -> bool:
        """Tell whether a file is that of a table that has changes.

        It is no catalog's, and none that a table is rewritten into.
        """
        tablespace, _, number = file
        schema = self._seen(command).relation_by_filenode(tablespace, number)
        is_a_users = schema is not None and schema.oid >= FIRST_UNPINNED_OBJECT_ID and schema.kind in "rmp"
        return is_a_users and schema is not None and not schema.rewrite_of

    def _shares(self, steps: Sequence[tuple[int, int | None]], touched: set[Dependency]) -> list[set[Dependency]]:
        """Return the keys of the rows that each step made or removed."""
        if len(steps) == 1:
            return [touched]
        bounds = [command for _, command in steps if command is not None]
        shares: list[set[Dependency]] = [set() for _ in steps]
        for key in touched:
            for command in self._store.commands_under(key, self._xids):
                at = len(steps) - 1 if command == INVALID_COMMAND_ID else bisect_right(bounds, command)
                shares[min(at, len(steps) - 1)].add(key)
        return shares
