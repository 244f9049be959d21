"""Messages of whole transactions as flat arrays: what a batch is made of.

In: framed messages of pgoutput. Out: where each message lies, what relation it is about, which transaction it is in.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headwater.apply.batches._folding import relations_of
from headwater.errors import DecodingError
from headwater.remote_slots.framed_messages import COMMIT, HEADER_BYTES, Cells, Found, find_messages, take_changes
from headwater.rows.items import DELETE

PLAIN = np.frombuffer(b"BCIUDYOM", np.uint8)
"""Messages of which transactions are made that may be folded."""
_FOLDED = np.frombuffer(b"IUD", np.uint8)
_XID_BYTES = 4
_FINISH_AT = 2
"""Where a message of a commit has the LSN of its record's begin."""


@dataclass(frozen=True)
class Messages:
    """Messages, k of them.

    Attributes:
        data: uint8[], framed as a slot sends them.
        kind: uint8[k]; start, end: int64[k] where each lies; lsn: int64[k] that it was sent with.
        oid: int64[k] the relation of a change, 0 for none, -1 for an update that has an old tuple, or one that is cut.
    """

    data: NDArray[np.uint8]
    kind: NDArray[np.uint8]
    start: NDArray[np.int64]
    end: NDArray[np.int64]
    lsn: NDArray[np.int64]
    oid: NDArray[np.int64]

    @classmethod
    def parse(cls, data: bytes | bytearray) -> Messages:
        """Find the messages of a piece.

        Raises:
            DecodingError: they are not whole.
        """
        own = np.frombuffer(data, np.uint8)
        messages = find_messages(own)
        oid = np.empty(len(messages.kind), np.int64)
        relations_of(own, messages.kind, messages.start, messages.end, oid)
        return cls(own, *messages, oid)

    def part(self, first: int, last: int) -> Messages:
        """Return the messages from one up to another, over the same data."""
        chosen = slice(first, last)
        return Messages(
            self.data, self.kind[chosen], self.start[chosen], self.end[chosen], self.lsn[chosen], self.oid[chosen]
        )

    def chosen(self, which: NDArray[np.bool_] | NDArray[np.int64]) -> Messages:
        """Return some of the messages, by a mask or their numbers, over the same data."""
        return Messages(
            self.data, self.kind[which], self.start[which], self.end[which], self.lsn[which], self.oid[which]
        )

    def __iter__(self) -> Iterator[tuple[bytes, int]]:
        """Give each message with the LSN that it was sent with."""
        for start, end, lsn in zip(self.start.tolist(), self.end.tolist(), self.lsn.tolist(), strict=True):
            yield self.data[start:end].tobytes(), lsn

    def message(self, number: int) -> bytes:
        """Return a message, by its number."""
        return self.data[self.start[number] : self.end[number]].tobytes()

    @property
    def relations(self) -> list[int]:
        """The OIDs of the relations that it has changes of."""
        return [int(oid) for oid in np.unique(self.oid) if oid > 0]

    @property
    def framed(self) -> NDArray[np.uint8]:
        """uint8[] the messages as they came, one after the other; none of them is left out."""
        return self.data[int(self.start[0]) - HEADER_BYTES : int(self.end[-1])]

    @property
    def changes(self) -> int:
        """How many inserts, updates and deletes there are."""
        return int(np.count_nonzero(self.oid))

    def is_odd(self, foldable: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Tell of each message whether its transaction has to be applied by itself.

        Args:
            foldable: int64[] OIDs of the relations whose changes can be folded, in ascending order.
        """
        is_change = self.oid != 0
        odd: NDArray[np.bool_] = ~np.isin(self.kind, PLAIN) | (is_change & ~np.isin(self.oid, foldable))
        return odd

    def runs(self, odd: NDArray[np.bool_], most: int) -> Iterator[tuple[Messages, bool]]:
        """Give runs of transactions, and whether each is to be applied as a batch; others come one by one.

        Args:
            odd: see :meth:`is_odd`; most: changes after which a batch ends.
        """
        ends = np.flatnonzero(self.kind == COMMIT) + 1
        starts = np.concatenate([[0], ends[:-1]])
        is_odd = np.add.reduceat(odd, starts) > 0
        sizes = np.add.reduceat(self.oid != 0, starts)
        first, size = 0, 0
        for number in range(len(ends)):
            size += int(sizes[number])
            is_last = number + 1 == len(ends)
            if is_last or is_odd[number] or is_odd[number + 1] or size >= most:
                yield self.part(int(starts[first]), int(ends[number])), not is_odd[number]
                first, size = number + 1, 0


def runs_of_changes(messages: Messages, fewest: int, most: int) -> Iterator[tuple[Messages, bool]]:
    """Give runs of changes of one transaction, in no block, and whether each may be folded.

    Args:
        messages: of the transaction.
        fewest: changes of a run that may be folded; most: after which it ends.
    """
    is_plain = np.isin(messages.kind, _FOLDED) & (messages.oid > 0)
    for run, may_fold in _runs(messages, is_plain, is_plain, most):
        yield run, may_fold and len(run.kind) >= fewest


def _runs(
    messages: Messages, groups: NDArray[Any], is_plain: NDArray[np.bool_], most: int
) -> Iterator[tuple[Messages, bool]]:
    """Give runs of messages of one group, all plain or none of them."""
    cuts = np.flatnonzero((groups[1:] != groups[:-1]) | (is_plain[1:] != is_plain[:-1])) + 1
    for first, last in pairwise([0, *cuts.tolist(), len(groups)]):
        for begin in range(first, last, most):
            yield messages.part(begin, min(begin + most, last)), bool(is_plain[first])


def runs_in_block(messages: Messages, fewest: int, most: int) -> Iterator[tuple[int, Messages, Messages | None]]:
    """Give runs of changes of a block of a streamed transaction.

    Args:
        messages: that may stand in a block.
        fewest: changes of a run that may be folded; most: after which it ends.

    Returns:
        the transaction's or subtransaction's own ID; the messages; the same without that ID, as they stand outside of
        blocks, if they may be folded.
    """
    xids = numbers_in(messages)
    at = 0
    for run, is_plain in _runs(messages, xids, np.isin(messages.kind, _FOLDED), most):
        plain = _without_xids(run) if is_plain and len(run.kind) >= fewest else None
        yield int(xids[at]), run, plain
        at += len(run.kind)


def numbers_in(messages: Messages, at: int = 1) -> NDArray[np.int64]:
    """Return int64[k] the number of four bytes that each message has at a place; 0 for none.

    Args:
        messages: of streamed blocks begin with the transaction's ID, behind which the relation's OID stands; others
            with that OID.
        at: the place; behind the first byte if not given.
    """
    has_room = messages.end - messages.start >= at + _XID_BYTES
    places = np.where(has_room, messages.start, 0)[:, None] + np.arange(at, at + _XID_BYTES)
    numbers = messages.data[places].astype(np.int64) @ (1 << np.arange(24, -1, -8, dtype=np.int64))
    return np.where(has_room, numbers, 0)


def _without_xids(messages: Messages) -> Messages | None:
    """Return changes without their transaction's ID; None if one has an old tuple beside the new one."""
    start = messages.start + _XID_BYTES
    oid = np.empty(len(start), np.int64)
    relations_of(messages.data, messages.kind, start, messages.end, oid)
    if (oid < 0).any():
        return None
    return Messages(messages.data, messages.kind, start, messages.end, messages.lsn, oid)


@dataclass(frozen=True)
class TableChanges:
    """The changes of one table in a batch, n of them, in their order.

    Attributes:
        kind: uint8[n] as of ``rows/items.py``; first: int64[n] the first cell of the tuple that each is about.
    """

    kind: NDArray[np.uint8]
    first: NDArray[np.int64]


def table_changes(messages: Messages, columns: Mapping[int, int]) -> tuple[dict[int, TableChanges], Cells]:
    """Take the changes of plain transactions apart.

    Args:
        messages: of whole transactions; columns: how many columns each relation has as it is sent, by its OID.

    Returns:
        changes by relation; the cells of all tuples.

    Raises:
        DecodingError: a message is malformed.
    """
    oids = np.array(sorted(columns), np.int64)
    natts = np.array([columns[int(oid)] for oid in oids], np.int32)
    lying = Found(messages.kind, messages.start, messages.end, messages.lsn)
    changes = take_changes(messages.data, lying, oids, natts)
    first = np.where(changes.kind == DELETE, changes.old, changes.new)
    tables = {}
    for version in np.unique(changes.version).tolist():
        chosen = changes.version == version
        tables[int(oids[version])] = TableChanges(changes.kind[chosen], first[chosen])
    return tables, changes.cells


def is_row_change(messages: Messages) -> NDArray[np.bool_]:
    """Tell of each message whether it is an insert, an update or a delete."""
    return np.isin(messages.kind, _FOLDED)


def finish_lsns(messages: Messages) -> NDArray[np.int64]:
    """Return int64[] where the commit record of each transaction begins.

    Args:
        messages: of whole transactions.

    Raises:
        DecodingError: a message of a commit is too short.
    """
    is_commit = messages.kind == COMMIT
    starts = messages.start[is_commit]
    if (messages.end[is_commit] - starts < _FINISH_AT + 8).any():
        raise DecodingError("a COMMIT message is too short")
    places = starts[:, None] + np.arange(_FINISH_AT, _FINISH_AT + 8)
    return np.ascontiguousarray(messages.data[places]).view(">u8").ravel().astype(np.int64)


def last_commit(messages: Messages) -> tuple[int, int, int]:
    """Return START and END of the last commit record, and its time in microseconds since 2000."""
    message = messages.message(int(np.flatnonzero(messages.kind == COMMIT)[-1]))
    start, end, time = (int.from_bytes(message[at : at + 8], "big") for at in (2, 10, 18))
    return start, end, time


def whole_part(messages: Messages) -> int:
    """Return how many messages there are up to the last commit."""
    ends = np.flatnonzero(messages.kind == COMMIT)
    return int(ends[-1]) + 1 if len(ends) else 0
