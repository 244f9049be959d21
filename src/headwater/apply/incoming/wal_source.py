"""The log itself as source: decoded here, as ``pgoutput`` would send it, with no server between.

In: a slot of Headwater's own, over WAL at hand. Out: the same pieces as a server's slot gives. The stream is that of a
served slot: a fold in this process, window by window. Where a slot is far behind, Spark decodes first, a gigabyte of
WAL at a time. How far that is the request says, as what is applied meanwhile wants processors, too.

Invariants: the slot is this process's as long as the feed lasts. It moves to what is confirmed, never further.

Known gap: large transactions are not streamed while they run; they come when they commit.
"""

from __future__ import annotations

import threading
from collections import deque
from contextlib import ExitStack
from dataclasses import replace
from types import TracebackType
from typing import Self

import numpy as np

from headwater.apply.incoming.requests import WalSlot
from headwater.base.arrow_buffers import buffer_numbers
from headwater.errors import HeadwaterError
from headwater.jobs.unforeseen import unforeseen
from headwater.pipeline.decode import decode_run
from headwater.pipeline.open_run import open_run
from headwater.pipeline.outputs import Output
from headwater.pipeline.requests.request import DecodeRequest
from headwater.pipeline.requests.slot_request import kept_in_slot
from headwater.pipeline.slices.message_files import MessageForm, message_table
from headwater.pipeline.slot_moves import begin, slot_at
from headwater.protocol.copy_frames import Piece as Messages
from headwater.protocol.copy_frames import framed
from headwater.remote_slots.slot_feed import Heard, Piece
from headwater.slots.kept_state import KeptState
from headwater.slots.slot_directory import OpenSlot, create_slot, is_slot, open_slot
from headwater.walsender.folds.items import Reached
from headwater.walsender.folds.subscription import Folds, Subscription
from headwater.walsender.slot_progress import SlotProgress

PASS_BYTES = 1 << 30
"""Bytes of WAL that the engine goes through before a slot can move."""

MOST_BYTES = 64 << 20
"""Bytes of messages that wait to be taken."""


class WalFeed:
    """The feed of a slot over WAL; a context manager, whose end lets go of the slot.

    Args:
        slot: the slot; it is made, if it is missing, where decoding can begin after the catalog.
        reached: LSN up to which the target has everything, 0 for where the slot is.

    Attributes:
        start: LSN before whose commit records no transaction comes.
        definitions_at: LSN up to which the slot's file has followed the definitions of objects, at most that.
        heard: nothing, as there is no server.

    Raises:
        HeadwaterError: any reason not to decode.
    """

    def __init__(self, slot: WalSlot, reached: int) -> None:
        self.heard = Heard(reached)
        self._slot, self.start = slot, reached
        self._block = ExitStack()
        self._changed = threading.Condition()
        # Messages as they came, and up to which LSN all has come with them, None for in between.
        self._pieces = deque[tuple[memoryview | bytes, int | None]]()
        self._bytes = 0
        self._error: HeadwaterError | None = None
        self._is_ending, self._arrived = False, threading.Event()
        self._thread = threading.Thread(target=self._run, name="wal feed", daemon=True)

    def __enter__(self) -> Self:
        request = self._slot.request
        if not is_slot(self._slot.path):
            create_slot(self._slot.path, slot_at(request, begin(request)))
        try:
            opened = self._block.enter_context(open_slot(self._slot.path))
            self._cluster = self._slot.cluster.open(request, self._slot.slots)
            self._progress = SlotProgress(opened, self._cluster.segment_size)
            self._block.callback(self._progress.write)
            self._begin(opened)
        except BaseException:
            self._block.close()
            raise
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._changed:
            self._is_ending = True
            self._changed.notify_all()
        self._arrived.set()
        self._thread.join()
        self._block.close()

    @property
    def end(self) -> int:
        """LSN at which the WAL ends now."""
        return self._cluster.end()[1]

    def take(self, seconds: float, most_bytes: int = MOST_BYTES) -> Piece:
        """Take what has come; wait for some time until there is anything.

        Args:
            seconds: how long to wait at most.
            most_bytes: it ends with the piece that goes beyond.

        Raises:
            HeadwaterError: the WAL cannot be decoded.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._pieces or self._error, seconds)
            if self._error is not None and not self._pieces:
                raise self._error
            parts, size, reached = list[memoryview | bytes](), 0, None
            while self._pieces and size < most_bytes:
                data, reached = self._pieces.popleft()
                parts.append(data)
                size += len(data)
            self._bytes -= size
            self._changed.notify_all()
        return Piece(b"".join(parts), reached is not None, reached or 0, 0)

    def confirm(self, lsn: int) -> None:
        """Let the slot move up to an LSN."""
        if self._progress.confirm(lsn):
            self._progress.write()

    def _begin(self, opened: OpenSlot) -> None:
        slot = opened.slot
        self._kept = kept_in_slot(slot)
        self._position = self.start = max(self.start, slot.confirmed_lsn)
        state = slot.state if self._slot.request.with_definitions else None
        self.definitions_at = self.start if state is None else min(self.start, state.lsn)
        # Nothing comes before: who waits for no more than that has it.
        self._put(b"", self.start)
        own = self._slot.request
        request = self._cluster.request_of(slot, own.settings)
        self._request = replace(request, plugin=own.plugin, options=own.options, slot=self._slot.name)
        self._request = replace(self._request, with_ddl=own.with_ddl, with_definitions=own.with_definitions)

    def _run(self) -> None:
        try:
            bulk_bytes = self._slot.bulk_bytes
            while not self._is_ending and bulk_bytes is not None and self._bytes_behind() >= bulk_bytes:
                self._go_through()
            if not self._is_ending:
                self._follow()
        except HeadwaterError as error:
            self._fail(error)
        except Exception as error:
            self._fail(unforeseen("decoding", error))

    def _bytes_behind(self) -> int:
        return self._cluster.end()[1] - max(self._position, 0 if self._kept is None else self._kept.state.lsn)

    def _request_now(self, end: int | None) -> DecodeRequest:
        return replace(self._request, start=self._position, end=end)

    def _go_through(self) -> None:
        """Decode a stretch of WAL in an engine's tasks."""
        last = self._position if self._kept is None else self._kept.state.lsn
        request = self._request_now(min(last + PASS_BYTES, self._cluster.end()[1]))
        output = Output(request, MessageForm.ARROW, lambda _: self._deliver)
        with decode_run(self._slot.engine(), open_run([request], None, self._kept), [output]) as decoded:
            ((result,),) = decoded.databases.values()
            self._kept = KeptState(result.state().in_new_session, result.server_settings)
        self._note(self._kept)

    def _deliver(self, path: str) -> None:
        for batch in message_table(path).to_batches():
            lsn, _, data = batch.columns
            if not len(lsn):
                continue
            _, places, texts = data.buffers()
            offsets = buffer_numbers(places, np.int32)[data.offset : data.offset + len(data) + 1].astype(np.int64)
            for piece in framed(lsn.to_numpy(), offsets, buffer_numbers(texts, np.uint8)):
                self._put(piece.data, None)

    def _follow(self) -> None:
        """Take what a fold makes of the WAL, as it grows."""
        arrived = self._arrived
        request = self._request_now(None)
        assert request.database is not None
        folds = Folds(self._cluster, request.source, self._cluster.shelves, request.catalog)
        subscription = folds.subscription(request, self._kept, arrived.set)
        subscription.start()
        try:
            while not self._is_ending:
                arrived.clear()
                if not self._take_all(subscription):
                    arrived.wait(1.0)
        finally:
            subscription.stop()

    def _take_all(self, subscription: Subscription) -> bool:
        """Take the items that are there; tell whether there were any."""
        count = 0
        while not self._is_ending and (item := subscription.take()) is not None:
            count += 1
            if isinstance(item, HeadwaterError):
                raise item
            if isinstance(item, Reached):
                self._note(item.kept)
            elif isinstance(item, Messages):
                self._put(item.data, None)
        return count > 0

    def _note(self, kept_state: KeptState) -> None:
        """Note that all before a state was given."""
        self._progress.reached(kept_state.state)
        self._put(b"", kept_state.state.lsn)

    def _put(self, data: memoryview | bytes, reached: int | None) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._is_ending or not self._bytes or self._bytes < MOST_BYTES)
            self._pieces.append((data, reached))
            self._bytes += len(data)
            self._changed.notify_all()

    def _fail(self, error: HeadwaterError) -> None:
        with self._changed:
            self._error = error
            self._changed.notify_all()
