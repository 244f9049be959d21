"""Transactions applied several at a time, wherever the outcome is that of applying them one by one.

What has come is cut into runs of transactions. Those that only insert, update and delete rows of tables whose changes
can be folded (:mod:`headwater.apply.batches.bulk_table`) are one transaction of the target: the origin moves to the end
of the last. All others, and whatever a batch meets that is not as it was taken for, are applied one by one, which is
exact: a row that is not there, a value that is refused, a table that has changed. So do all while a transaction runs
ahead of its end, which a batch might wait for.

While a batch is on the target (:mod:`headwater.apply.batches.batch_sender`) the next one is taken apart and folded.
Whatever else needs the connection waits for that batch first. So does what follows a batch that has failed.

Invariants: a batch is committed whole, or not at all. It never waits for more to come.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from headwater.apply.batches.batch import Messages, last_commit, whole_part
from headwater.apply.batches.batch_sender import BatchSender
from headwater.apply.batches.bulk_tables import BulkTables
from headwater.apply.batches.folded_batch import FoldedBatch, fold_batch
from headwater.apply.batches.left_out import are_empty, without_left_out
from headwater.apply.batches.net_changes import RepeatedError, Unfoldable
from headwater.apply.progress.positions import FlushPositions
from headwater.apply.progress.table_states import AppliedTables
from headwater.apply.target.relation_map import RelationMap
from headwater.errors import DecodingError
from headwater.plugins.pgoutput.definitions import PREFIX
from headwater.remote_slots.announced_relations import SentRelation
from headwater.remote_slots.framed_messages import COMMIT, HEADER_BYTES, RELATION, TYPE

LOGICAL_MESSAGE, _PREFIX_AT = ord("M"), 10
"""The kind of a logical message, and where its prefix is."""

MOST_CHANGES = 32_768
"""Changes after which a batch ends; while one is on the target the next one is folded."""

FEW_CHANGES = 16
"""Changes that are applied one by one as soon: arrays would not pay."""

MOST_BYTES = 32 << 20
"""Bytes of a transaction that has not come whole from which on it is applied as it comes."""


@dataclass
class BatchCounts:
    """Counts of batches.

    Attributes:
        tried: how many there were; fallbacks: how many of them were applied one by one after all.
    """

    tried: int = 0
    fallbacks: int = 0


class OneByOne(Protocol):
    """The applier of what is in no batch."""

    @property
    def is_inside(self) -> bool:
        """Whether a transaction, or a block of one, has begun to come and has not ended."""

    @property
    def has_open(self) -> bool:
        """Whether a transaction runs ahead of its end, or waits for it."""

    @property
    def comes_apart(self) -> bool:
        """Whether transactions have to come one by one."""

    @property
    def leaves_out(self) -> bool:
        """Whether changes may be left out that are not applied."""

    def apply_all(self, messages: Messages) -> None:
        """Apply messages."""

    def flush(self) -> None:
        """Wait until all that was sent is applied."""

    def look_for_flushed(self) -> None:
        """Ask the target how far its WAL is durable."""


class BatchApplier:
    """The applier.

    Args:
        relations: the source's relations, and tables for them.
        positions: gets what is durable; serial: applies what cannot be folded.
        applied: says of which tables changes are applied.
        tables: those whose changes can be folded.
        sender: has batches applied; it is closed by whom it is from.
        batches: False: all is applied one by one.
        counts: counts batches.
    """

    def __init__(
        self,
        relations: RelationMap,
        positions: FlushPositions,
        serial: OneByOne,
        applied: AppliedTables,
        tables: BulkTables,
        sender: BatchSender,
        *,
        batches: bool = True,
        counts: BatchCounts | None = None,
    ) -> None:
        self._relations, self._positions, self._serial = relations, positions, serial
        self._applied, self._tables, self._sender, self._batches = applied, tables, sender, batches
        self._rest, self._rest_bytes = list[bytes](), 0
        self._counts = counts or BatchCounts()

    def apply(self, data: bytes) -> None:
        """Apply a piece of the stream; the beginning of a transaction that is not whole waits for the rest of it.

        Raises:
            TargetError: the target refuses a change; its context says which.
            DecodingError: a message is malformed, or out of place.
            ConnectionLostError: the target is lost.
        """
        if not self._batches:
            self._one_by_one(Messages.parse(data))
            return
        self._tables.next_piece()
        messages = Messages.parse(data)
        if self._rest:
            if self._only_goes_on(messages):
                self._rest.append(data)
                self._rest_bytes += len(data)
                return
            messages = Messages.parse(b"".join([*self._rest, data]))
        taken = 0
        if self._serial.is_inside:
            taken = self._go_on(messages)
        part = messages.part(taken, len(messages.kind))
        whole = whole_part(part)
        if whole:
            self._apply_whole(part.part(0, whole))
            taken += whole
        taken += self._ahead(messages.part(taken, len(messages.kind)))
        rest = messages.data[self._bytes_before(messages, taken) :].tobytes()
        self._rest, self._rest_bytes = [rest] if rest else [], len(rest)

    def _only_goes_on(self, messages: Messages) -> bool:
        """Tell whether the beginning of a transaction goes on, and is still no reason to look at it."""
        ends = bool((messages.kind == COMMIT).any())
        return not ends and _are_of_transactions(messages) and self._rest_bytes + len(messages.data) < MOST_BYTES

    def flush(self) -> None:
        """Wait until all that was sent is applied; as of the serial applier."""
        self._finish()
        self._serial.flush()

    def look_for_flushed(self) -> None:
        """Ask the target how far its WAL is durable, if that is waited for, and the target has no batch."""
        if self._sender.is_busy:
            return
        self._finish()
        if self._positions.waits:
            self._serial.look_for_flushed()

    @staticmethod
    def _bytes_before(messages: Messages, number: int) -> int:
        return len(messages.data) if number == len(messages.kind) else int(messages.start[number]) - HEADER_BYTES

    def _go_on(self, messages: Messages) -> int:
        """Go on with a transaction that is applied as it comes; return how many messages that are."""
        ends = np.flatnonzero(~np.isin(messages.kind, _INSIDE))
        count = int(ends[0]) + 1 if len(ends) else len(messages.kind)
        self._one_by_one(messages.part(0, count))
        return count

    def _ahead(self, messages: Messages) -> int:
        """Apply what is not a whole transaction as it comes, if it is of another kind, or large."""
        if _are_of_transactions(messages) and int((messages.end - messages.start).sum()) < MOST_BYTES:
            return 0
        self._one_by_one(messages)
        return len(messages.kind)

    def _apply_whole(self, messages: Messages) -> None:
        _mark_definitions(messages)
        while len(messages.kind):
            self._pass_over_known(messages)
            if not self._tables.are_known:
                self._finish()
            if self._serial.leaves_out:
                messages = without_left_out(messages, self._relations, self._applied)
            mapped = self._relations.times_mapped
            count = 0
            for run, is_foldable in messages.runs(messages.is_odd(self._tables.foldable), self._most_changes()):
                count += len(run.kind)
                if self._is_batch(run, is_foldable=is_foldable):
                    self._batch(run)
                elif self._serial.leaves_out and are_empty(run):
                    self._pass_over(run)
                else:
                    self._one_by_one(run)
                if self._relations.times_mapped != mapped:
                    # What was announced just now may be folded from here on, or no more.
                    break
            messages = messages.part(count, len(messages.kind))

    def _most_changes(self) -> int:
        """Return how many changes a run of transactions has at most."""
        return MOST_CHANGES

    def _is_batch(self, run: Messages, *, is_foldable: bool) -> bool:
        serial = self._serial
        return is_foldable and run.changes >= FEW_CHANGES and not serial.has_open and not serial.comes_apart

    def _pass_over_known(self, messages: Messages) -> None:
        """Take announcements of what is known for nothing, up to the first that tells something new of the relation."""
        changed: set[int] = set()
        for number in np.flatnonzero(messages.kind == RELATION).tolist():
            with suppress(DecodingError):
                sent = SentRelation.parse(messages.message(number), int(messages.lsn[number]))
                if sent.oid not in changed and self._relations.sent(sent.oid) == sent:
                    messages.kind[number] = TYPE
                else:
                    changed.add(sent.oid)

    def _pass_over(self, messages: Messages) -> None:
        """Note transactions without changes."""
        start, end, _ = last_commit(messages)
        self._applied.begins(start)
        self._finish()
        self._serial.flush()
        self._positions.passed(end)

    def _one_by_one(self, messages: Messages) -> None:
        self._finish()
        self._serial.apply_all(messages)

    def _batch(self, messages: Messages) -> None:
        """Have a batch applied, as soon as the one before is; it is folded meanwhile."""
        self._counts.tried += 1
        # The target is not asked about tables while it has a batch: that one's thread has the connection.
        is_same = self._tables.are_known or self._finish()
        folded = self._folded(messages) if is_same else None
        if not (self._finish() and is_same):
            # Tables may have changed by now, or be set aside.
            folded = self._folded(messages) if self._is_batch(messages, is_foldable=True) else None
        if folded is None:
            self._counts.fallbacks += 1
            self._one_by_one(messages)
            return
        self._serial.flush()
        self._applied.begins(last_commit(messages)[0])
        self._sender.begin(messages, folded)

    def _folded(self, messages: Messages) -> FoldedBatch | None:
        """Fold a batch; None if it has to be applied one by one."""
        tables = self._tables.of(messages)
        if len(tables) < len(messages.relations):
            return None
        try:
            return fold_batch(messages, tables)
        except RepeatedError as error:
            self._tables.rest(error.table)
        except (Unfoldable, DecodingError):
            pass
        return None

    def _finish(self) -> bool:
        """Wait for the batch that is on the target; false if it was applied one by one after all."""
        sent = self._sender.finish()
        if sent is None:
            return True
        if sent.committed is None:
            self._counts.fallbacks += 1
            self._tables.forget()
            self._serial.apply_all(sent.messages)
            return False
        self._positions.committed(sent.committed.end_lsn, sent.committed.local_end)
        self._positions.flushed(sent.committed.flushed)
        return True


def _are_of_transactions(messages: Messages) -> bool:
    """Tell whether all messages are such as ordinary transactions are made of."""
    return bool(np.isin(messages.kind, _OF_TRANSACTIONS).all())


def _mark_definitions(messages: Messages) -> None:
    """Let DDL be of a kind that no batch takes."""
    prefix = f"{PREFIX}\0".encode()
    for number in np.flatnonzero(messages.kind == LOGICAL_MESSAGE).tolist():
        if messages.message(number)[_PREFIX_AT:].startswith(prefix):
            messages.kind[number] = 0


_INSIDE = np.frombuffer(b"BbSIUDTRYOM", np.uint8)
"""Messages after which a transaction, or a block, goes on."""

_OF_TRANSACTIONS = np.frombuffer(b"BIUDTRYOMC", np.uint8)
"""Messages that ordinary transactions are made of."""
