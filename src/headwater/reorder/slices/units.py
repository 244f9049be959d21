"""Units of the output, in order: transactions where they are replayed, and among them non-transactional messages."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from headwater.reorder.commits.replays import Replays
from headwater.reorder.commits.streamed_blocks import Streamed
from headwater.reorder.integer_keys import stable_order
from headwater.reorder.plan import StreamedUnits, Units
from headwater.rmgr.index.index_rows import MessageTable

Int64s = NDArray[np.int64]


def make_units(
    txns: Replays,
    output: NDArray[np.bool_],
    own: NDArray[np.bool_],
    bare: MessageTable,
) -> tuple[Units, Int64s]:
    """Put transactions and bare messages in output order.

    Args:
        txns: what is replayed.
        output: bool[t] replays that are output.
        own: bool[t] those whose rows have resolutions of their own.
        bare: messages that are not transactional.

    Returns:
        the units, and int64[t] the unit of each replay (-1: not output).
    """
    chosen = np.flatnonzero(output)
    every = slice(None) if len(chosen) == len(output) else chosen
    order = np.argsort(np.concatenate([txns.place[every], bare.lsn]), kind="stable")
    txn = np.concatenate([chosen, np.full(len(bare), -1, np.int64)])[order]
    unit_of = np.full(len(output), -1, np.int64)
    unit_of[txn[txn >= 0]] = np.flatnonzero(txn >= 0)
    is_bare = np.append(~txns.has_changes, True)[txn]
    member_xid, member_unit = _members(txns, unit_of)

    def column(of_txns: Int64s, of_bare: Int64s) -> Int64s:
        of_chosen = of_txns[every]
        return np.concatenate([of_chosen, of_bare])[order] if len(bare) else of_chosen

    zeros = np.zeros(len(bare), np.int64)
    units = Units(
        txn=txn,
        is_bare=is_bare,
        xid=column(txns.xid, bare.xid),
        first_lsn=column(_shown_first(txns), bare.lsn),
        commit_lsn=column(txns.final_lsn, bare.lsn),
        end_lsn=column(txns.end_lsn, bare.end),
        commit_time=column(txns.time, zeros),
        own=column(own.astype(np.int64), zeros) != 0,
        member_xid=member_xid,
        member_unit=member_unit,
        streamed=None if txns.streamed is None else _streamed_units(txns.streamed, txn),
    )
    return units, unit_of


def _streamed_units(streamed: Streamed, txn: Int64s) -> StreamedUnits | None:
    """Find those of some units, by their replays, that are blocks."""
    block = np.append(streamed.block, -1)[txn]
    unit = np.flatnonzero(block >= 0)
    if not len(unit):
        return None
    blocks, at = streamed.blocks, block[unit]
    return StreamedUnits(unit, blocks.lo[at], blocks.lo_taken[at], blocks.hi[at], blocks.hi_taken[at])


def _shown_first(txns: Replays) -> Int64s:
    """Find the LSN that a replay's first message shows, of a block that of its first change: int64[t]."""
    streamed = txns.streamed
    if streamed is None:
        return txns.first_lsn
    return np.where(streamed.block >= 0, np.append(streamed.blocks.first, 0)[streamed.block], txns.first_lsn)


def _members(txns: Replays, unit_of: Int64s) -> tuple[Int64s, Int64s]:
    """List the xids of each unit but the blocks, by unit."""
    unit = unit_of[txns.member_txn]
    order = stable_order(unit)
    order = order[np.searchsorted(unit[order], 0) :]
    return txns.member_xid[order], unit[order]
