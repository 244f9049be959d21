"""The tables of a decode slice: items (changes in output order), cells (their text), transactions, literals.

Every table is a :class:`typing.NamedTuple` of flat NumPy arrays, so that kernels take it as it is. Offsets are bytes,
times microseconds since 2000-01-01 00:00 UTC, LSNs bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

INSERT, UPDATE, DELETE, LITERAL, TOAST, SKIPPED, PARKED = 1, 2, 3, 4, 10, 11, 12
"""Kinds of items. Plugins skip kinds from :data:`TOAST` on; a SKIPPED change only drops pending chunks, a PARKED one is
a speculative insert that was not confirmed (yet): neither is rendered."""

OLD_IS_KEY, CLEAR_TOAST, SEND_SCHEMA, SHARES_OLD = 1, 2, 4, 8
"""Flags of items: only key columns were logged; pending chunks are dropped after it; the schema goes before it; bytes
at either end of the new tuple are as in the old one, and not known: four bytes before its header say how many."""

NULL, TEXT, UNCHANGED, ABSENT, BINARY, REFUSED, UNKNOWN = 0, 1, 2, 3, 5, 7, 8
"""Kinds of cells: NULL, a value's text, a TOAST value that was not written again, a dropped column, a value's binary
form, of which there are none unless it was asked for (``compile_layouts``), a value with a character that cannot be
sent to the client: its text begins with that one; and a value of which the log below wal_level logical has not all
bytes."""


class Items(NamedTuple):
    """Changes of one slice in output order, n of them.

    Attributes:
        kind: uint8[n].
        txn: int32[n] index into :class:`Transactions`.
        xid: uint32[n] the (sub)transaction that made the change.
        lsn: int64[n] start of the change's record.
        layout: int32[n] index into the slice's relation versions; for LITERAL an index into :class:`Literals`.
        new_at: int64[n] offset in the slice's data of the tuple's 5-byte ``xl_heap_header``, -1 absent.
        new_len: int32[n] bytes, header included.
        old_at: int64[n] the same for the old tuple or key.
        old_len: int32[n].
        flags: uint8[n].
    """

    kind: NDArray[np.uint8]
    txn: NDArray[np.int32]
    xid: NDArray[np.uint32]
    lsn: NDArray[np.int64]
    layout: NDArray[np.int32]
    new_at: NDArray[np.int64]
    new_len: NDArray[np.int32]
    old_at: NDArray[np.int64]
    old_len: NDArray[np.int32]
    flags: NDArray[np.uint8]


class Cells(NamedTuple):
    """The text, or binary form, of the items' tuples; a tuple has a cell per attribute in attnum order, dropped or not.

    Attributes:
        new_first: int64[n] index of the new tuple's first cell, -1 absent.
        old_first: int64[n] the same for the old tuple.
        kind: uint8[m].
        start: int64[m] offset into text.
        length: int32[m] bytes.
        text: uint8[k].
    """

    new_first: NDArray[np.int64]
    old_first: NDArray[np.int64]
    kind: NDArray[np.uint8]
    start: NDArray[np.int64]
    length: NDArray[np.int32]
    text: NDArray[np.uint8]


class Transactions(NamedTuple):
    """The slice's transactions in output order, t of them.

    Attributes:
        xid: uint32[t] toplevel xid.
        first_lsn: int64[t] where the transaction first showed in the WAL.
        commit_lsn: int64[t] START of its commit record.
        end_lsn: int64[t] END of its commit record.
        commit_time: int64[t].
        last_end: int64[t] where what is output before it ended, -1 if nothing is known of it.
        last_time: int64[t] the commit time of the last transaction before it, NO_TIME likewise.
        item_start: int64[t] its items are ``[item_start, item_end)``.
        item_end: int64[t].
        flags: uint8[t] (:mod:`headwater.reorder.unit_flags`).
        origin: int32[t] 1 + the literal to send after BEGIN (replication origin), 0 none.
        begin, end: int32[t] 1 + the literal to send instead of the plugin's BEGIN, and COMMIT; 0 for these.
    """

    xid: NDArray[np.uint32]
    first_lsn: NDArray[np.int64]
    commit_lsn: NDArray[np.int64]
    end_lsn: NDArray[np.int64]
    commit_time: NDArray[np.int64]
    last_end: NDArray[np.int64]
    last_time: NDArray[np.int64]
    item_start: NDArray[np.int64]
    item_end: NDArray[np.int64]
    flags: NDArray[np.uint8]
    origin: NDArray[np.int32]
    begin: NDArray[np.int32]
    end: NDArray[np.int32]


class Literals(NamedTuple):
    """Messages made before the kernels run (truncate, logical messages, origins, beginning and end of prepared ones).

    Attributes:
        first: int64[l+1] literal i is the messages ``[first[i], first[i+1])``.
        offsets: int64[k+1] byte offsets into data.
        data: uint8[].
    """

    first: NDArray[np.int64]
    offsets: NDArray[np.int64]
    data: NDArray[np.uint8]


GIVEN, HELD, DEPENDENT, COUNTED = 0, 1, 2, 3
"""Kinds of :class:`Conditions`: messages that are there, messages that are there unless an earlier slice has had such
with the same number, and messages that are there only if one has. And a place, without messages, from which on those
that were there with one number count as such with another."""


class Conditions(NamedTuple):
    """Messages of a slice on which those of others depend, or that depend on those, c groups of them in order.

    Attributes:
        kind: uint8[c] GIVEN, HELD, DEPENDENT or COUNTED.
        number: int64[c] the number they share with messages of other slices; counts_as: int64[c] the other one, if
            COUNTED.
        first: int64[c] the first message; messages: int64[c] how many.
    """

    kind: NDArray[np.uint8]
    number: NDArray[np.int64]
    counts_as: NDArray[np.int64]
    first: NDArray[np.int64]
    messages: NDArray[np.int64]


NO_CONDITIONS = Conditions(np.empty(0, np.uint8), *(np.empty(0, np.int64) for _ in range(4)))


@dataclass(frozen=True)
class Messages:
    """The messages that an output plugin wrote, in order, k of them.

    Attributes:
        lsn: int64[k] the location column of ``pg_logical_slot_peek_changes``.
        xid: int64[k] toplevel xid.
        offsets: int64[k+1] byte offsets into data.
        data: uint8[].
        conditions: of messages that depend on other slices.
        filtered: how many changes row filters have left out.
    """

    lsn: NDArray[np.int64]
    xid: NDArray[np.int64]
    offsets: NDArray[np.int64]
    data: NDArray[np.uint8]
    conditions: Conditions = NO_CONDITIONS
    filtered: int = 0

    @property
    def first_bytes(self) -> NDArray[np.uint8]:
        """uint8[k] the first byte of each message, 0 of an empty one."""
        starts, is_empty = self.offsets[:-1], self.offsets[1:] == self.offsets[:-1]
        return np.where(is_empty, np.uint8(0), np.append(self.data, np.uint8(0))[starts])

    def take(self, which: NDArray[np.int64]) -> Messages:
        """Take some of the messages, in their order, without conditions.

        Args:
            which: int64[j] ascending.
        """
        runs = np.split(which, np.flatnonzero(np.diff(which) > 1) + 1) if len(which) else []
        pieces = [self.data[self.offsets[run[0]] : self.offsets[run[-1] + 1]] for run in runs]
        offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(np.diff(self.offsets)[which])])
        data = np.concatenate(pieces) if pieces else np.empty(0, np.uint8)
        return Messages(self.lsn[which], self.xid[which], offsets, data)
