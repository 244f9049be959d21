"""The changes of one slice, picked out of the WAL it names and put in output order.

In: a :class:`~headwater.reorder.plan.Slice` and the framed records of its ranges. Out: :class:`Items`, transactions and
literals for the plugin. One pass over the records; nothing is allocated per record.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headwater.errors import DecodingError, RecordError
from headwater.reorder.plan import RelationUse, Slice
from headwater.rmgr._index import fill_locators
from headwater.rows._collect import (
    COLUMNS,
    MALFORMED,
    NEED_SPACE,
    OK,
    UNCONFIRMED,
    announce,
    collect_items,
    fill_members,
    group_items,
)
from headwater.rows.items import LITERAL, Items, Literals, Transactions
from headwater.wal.frames import Frames


@dataclass(frozen=True)
class SliceChanges:
    """What a plugin renders: items, their transactions, literals, and the relation versions that items use."""

    items: Items
    transactions: Transactions
    literals: Literals
    relations: tuple[RelationUse, ...]


def collect(plan: Slice, frames: Frames, local_only: bool) -> SliceChanges:
    """Pick a slice's changes out of its records.

    Args:
        plan: the slice.
        frames: the records of its ranges, in LSN order.
        local_only: leave out changes that came from a replication origin.

    Returns:
        the changes, in output order.

    Raises:
        RecordError: a record is malformed.
        DecodingError: the records contradict the plan.
    """
    order = np.argsort(plan.event_place, kind="stable")
    raw, count = _scan(plan, frames, local_only, order)
    items, transactions, place = _group(plan, raw, count)
    items, used = _compact_layouts(items, len(plan.relations))
    literals = _literals(plan, order)
    _announce(plan, items, transactions, place, used)
    relations = tuple(plan.relations[i] for i in np.flatnonzero(used >= 0))
    return SliceChanges(items, transactions, literals, relations)


def _scan(plan: Slice, frames: Frames, local_only: bool, order: NDArray[np.int64]) -> tuple[NDArray[np.int64], int]:
    slots, slot_xids = _member_hash(plan.member_xid)
    files = np.ascontiguousarray(plan.files.T.reshape(3, -1))
    units = len(plan.unit_xid)
    parked, pending = np.full(units, -1, np.int64), np.zeros(units, np.bool_)
    wants = np.array([use.wants for use in plan.relations], np.int64)
    toasts = np.array([use.is_toast for use in plan.relations], np.bool_)
    state = np.zeros(3, np.int64)
    raw = np.empty((COLUMNS, len(frames.positions) + len(order) + 1024), np.int64)
    while True:
        status = collect_items(
            frames.data,
            frames.positions,
            frames.lsns,
            slots,
            slot_xids,
            plan.member_unit,
            plan.unit_lo,
            plan.unit_hi,
            plan.unit_own,
            files,
            _file_hash(files),
            plan.spans,
            wants,
            toasts,
            local_only,
            plan.event_unit[order],
            plan.event_place[order],
            plan.event_lsn[order],
            parked,
            pending,
            raw,
            state,
        )
        if status != NEED_SPACE:
            break
        wider = np.empty((COLUMNS, 2 * raw.shape[1] + 65536), np.int64)
        wider[:, : raw.shape[1]] = raw
        raw = wider
    if status != OK:
        raise _scan_error(status, int(frames.lsns[state[0]]))
    return raw, int(state[1])


def _scan_error(status: int, lsn: int) -> RecordError | DecodingError:
    if status == UNCONFIRMED:
        return DecodingError("invalid ordering of speculative insertion changes", lsn=lsn)
    assert status == MALFORMED
    return RecordError("malformed heap record: its lengths disagree", lsn=lsn)


def _member_hash(xids: NDArray[np.int64]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    size = 1 << int(2 * len(xids) + 1).bit_length()
    slots, keys = np.full(size, -1, np.int32), np.zeros(size, np.int64)
    fill_members(xids, slots, keys)
    return slots, keys


def _file_hash(files: NDArray[np.int64]) -> NDArray[np.int32]:
    slots = np.full(1 << int(2 * files.shape[1] + 1).bit_length(), -1, np.int32)
    fill_locators(files, files.shape[1], slots)
    return slots


def _group(plan: Slice, raw: NDArray[np.int64], count: int) -> tuple[Items, Transactions, NDArray[np.int64]]:
    units = len(plan.unit_xid)
    start, end = np.empty(units, np.int64), np.empty(units, np.int64)
    kind, flags = np.empty(count, np.uint8), np.empty(count, np.uint8)
    txn, layout = np.empty(count, np.int32), np.empty(count, np.int32)
    xid, lsn, place = np.empty(count, np.uint32), np.empty(count, np.int64), np.empty(count, np.int64)
    refs = np.empty((4, count), np.int64)
    group_items(raw, count, start, end, kind, txn, xid, lsn, layout, refs, flags, place)
    items = Items(
        kind, txn, xid, lsn, layout, refs[0], refs[1].astype(np.int32), refs[2], refs[3].astype(np.int32), flags
    )
    transactions = Transactions(
        plan.unit_xid.astype(np.uint32),
        plan.unit_first,
        plan.unit_commit,
        plan.unit_end,
        plan.unit_time,
        start,
        end,
        plan.unit_flags.astype(np.uint8),
        np.where(plan.unit_origin > 0, plan.unit_origin + len(plan.event_unit), 0).astype(np.int32),
    )
    return items, transactions, place


def _compact_layouts(items: Items, relations: int) -> tuple[Items, NDArray[np.int64]]:
    """Number only the relation versions whose rows are printed, so that others are never compiled."""
    changes = items.kind < LITERAL
    used = np.full(relations, -1, np.int64)
    present = np.unique(items.layout[changes])
    used[present] = np.arange(len(present))
    layout = np.where(items.kind == LITERAL, items.layout, np.int32(-1))
    layout[changes] = used[items.layout[changes]]
    return items._replace(layout=layout), used


def _literals(plan: Slice, order: NDArray[np.int64]) -> Literals:
    """Literal i is event ``order[i]``; the origin announcements follow."""
    groups = [plan.event_messages[i] for i in order] + list(plan.origin_messages)
    messages = [message for group in groups for message in group]
    first = np.cumsum([0] + [len(group) for group in groups])
    offsets = np.cumsum([0] + [len(message) for message in messages])
    data = np.frombuffer(b"".join(messages) or b"\0", np.uint8)
    return Literals(first.astype(np.int64), offsets.astype(np.int64), data)


def _announce(
    plan: Slice,
    items: Items,
    transactions: Transactions,
    place: NDArray[np.int64],
    used: NDArray[np.int64],
) -> None:
    wanted = plan.announcements.copy()
    wanted[2] = used[wanted[2]]
    missing = announce(
        np.ascontiguousarray(wanted),
        transactions.item_start,
        transactions.item_end,
        items.kind,
        items.layout,
        place,
        items.flags,
    )
    if missing >= 0:
        raise DecodingError("a planned change is not in the WAL any more", lsn=int(plan.announcements[1, missing]))
