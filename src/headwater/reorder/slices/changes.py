"""The rows of changes that are decoded: those of output transactions that give messages, and those that these need.

In: the index's rows, the committed transactions, the rows' resolutions. Out: ``ChangeRows`` of the plan, in output
order. Needed beside wanted rows are TOAST chunks of relations that the same transaction has wanted changes of. So are
all other changes of those relations (they drop pending chunks), and speculative inserts that are confirmed elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from headwater.base.constant_columns import taken
from headwater.reorder.commits.replays import Replays
from headwater.reorder.integer_keys import grouped_places, lookup
from headwater.reorder.plan import Announcements, ChangeRows, RelationUse
from headwater.reorder.slices.resolve import wanted_kinds
from headwater.rmgr.index.index_codes import CONFIRMS, SPECULATIVE
from headwater.rmgr.index.index_rows import Rows

Int64s = NDArray[np.int64]
Bools = NDArray[np.bool_]


class Candidates(NamedTuple):
    """Rows of changes of output transactions, sorted by (transaction, LSN), c of them.

    Attributes:
        at: int64[c] row numbers of the index; txn: int64[c] their transactions.
        locator: int32[c]; kinds: uint8[c]; first: int64[c] their columns of the index.
    """

    at: Int64s
    txn: Int64s
    locator: NDArray[np.int32]
    kinds: NDArray[np.uint8]
    first: Int64s


def left_out_origins(origin: Int64s | NDArray[np.uint16], is_filtered: Callable[[int], bool]) -> tuple[int, ...]:
    """Return those of the origins (0: local) that the plugin leaves out."""
    others = np.unique(origin[origin != 0])
    return tuple(int(o) for o in [0, *others] if is_filtered(int(o)))


def has_origin_of(origin: Int64s | NDArray[np.uint16], is_filtered: Callable[[int], bool]) -> Bools:
    """Tell which rows came from an origin that the plugin leaves out: bool[n]."""
    filtered = left_out_origins(origin, is_filtered)
    return np.isin(origin, filtered) if filtered else np.zeros(len(origin), np.bool_)


def candidate_rows(rows: Rows, txns: Replays, output: Bools, is_filtered: Callable[[int], bool]) -> Candidates:
    """Find the rows whose changes could be output.

    Args:
        rows: the index.
        txns: what is replayed.
        output: bool[t] replays that are output.
        is_filtered: tells whether the plugin leaves an origin out.
    """
    itself = np.where(output, np.arange(len(output)), -1)
    replay = lookup(txns.member_xid, itself[txns.member_txn], rows.changes.xid)
    if txns.streamed is not None:
        of = np.flatnonzero(txns.streamed.is_streamed(rows.changes.xid))
        replay[of] = np.append(itself, -1)[txns.streamed.of_changes(rows.changes.take(of))]
    if rows.changes.origin.any() or is_filtered(0):
        replay[has_origin_of(rows.changes.origin, is_filtered)] = -1
    at, txn = grouped_places(replay, len(output))
    # A row's relation says which of its changes are TOAST chunks.
    kinds = rows.changes.kinds[at].astype(np.uint8)
    return Candidates(at, txn, rows.changes.locator[at], kinds, rows.changes.first[at])


class Choice(NamedTuple):
    """The candidates that are decoded.

    Attributes:
        wanted: bool[c] some of the row's changes give messages.
        used: bool[c] it is decoded.
    """

    wanted: Bools
    used: Bools


def choose(
    rows: Rows, candidates: Candidates, resolution: Int64s, relations: Sequence[RelationUse], txns: int
) -> Choice:
    """Choose among candidates by the relation each touches.

    Args:
        rows: the index.
        candidates: some of its rows.
        resolution: int64[c] the number of each row's relation, -1 none.
        relations: by number.
        txns: number of transactions.
    """
    kinds = candidates.kinds
    # Number -1 is the last element of each table.
    wants = np.array([x.wants for x in relations] + [0], np.int64)
    wanted: Bools = kinds & wanted_kinds(wants)[resolution] != 0
    used = wanted
    toast = np.array([x.is_toast for x in relations] + [False], np.bool_)
    if toast.any():
        used = used | _shares_toast(candidates.txn, resolution, relations, wanted, toast[resolution], txns)
    speculative = np.flatnonzero((kinds & SPECULATIVE != 0) & (resolution >= 0) & ~used)
    if len(speculative):
        confirms = np.flatnonzero(wanted & (kinds & CONFIRMS != 0))
        used = used.copy()
        key = candidates.txn * len(rows.locators) + candidates.locator
        used[speculative] = np.isin(key[speculative], key[confirms])
    return Choice(wanted, used)


def _shares_toast(
    txn: Int64s,
    resolution: Int64s,
    relations: Sequence[RelationUse],
    wanted: Bools,
    toast: Bools,
    txns: int,
) -> Bools:
    """Find chunk rows of relations that the same transaction has wanted changes of, and all rows of those relations."""
    oids = [x.schema.oid if x.is_toast else x.schema.toast_oid for x in relations]
    names = np.unique([oid for oid, x in zip(oids, relations, strict=True) if x.is_toast])
    # Number -1 is the last element: no TOAST relation that occurs.
    owner = np.array([int(np.searchsorted(names, oid)) if oid in names else -1 for oid in oids] + [-1], np.int64)
    rows = np.flatnonzero(owner[resolution] >= 0)
    key = owner[resolution[rows]] * txns + txn[rows]
    both = np.intersect1d(key[wanted[rows]], key[toast[rows]])
    shares = np.zeros(len(txn), np.bool_)
    shares[rows] = np.isin(key, both)
    return shares


def change_rows(
    rows: Rows, candidates: Candidates, unit_of: Int64s, resolution: Int64s, choice: Choice, announce: Announcements
) -> ChangeRows:
    """Put the chosen rows in output order, as the plan takes them.

    Args:
        rows: the index.
        candidates: some of its rows.
        unit_of: int64[t] the unit of each transaction, -1 if it is not output.
        resolution: int64[c] the number of each row's relation.
        choice: what is decoded of them.
        announce: before which of them the schema goes.
    """
    unit = unit_of[candidates.txn]
    chosen = choice.used & (unit >= 0)
    which = slice(None) if chosen.all() else np.flatnonzero(chosen)
    at = candidates.at[which]
    return ChangeRows(
        unit=unit[which],
        xid=rows.changes.xid[at],
        locator=candidates.locator[which],
        kinds=candidates.kinds[which],
        size=rows.changes.bytes[at],
        first=candidates.first[which],
        span=taken(rows.changes.span, at),
        resolution=resolution[which],
        wanted=choice.wanted[which],
        announce=announce.sends[which],
        tentative=taken(announce.tentative, which),
    )
