"""The way from the thread that decodes to the event loop: pieces in their order, no more bytes of them than a budget.

The thread waits for WAL, decodes it, and waits again; it also waits while the budget is used up. The loop never waits:
it takes what is there, and is woken when there is something.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable
from typing import Protocol

from headwater.errors import AwaitedCatalogError, AwaitedSegmentError, HeadwaterError
from headwater.jobs.unforeseen import unforeseen
from headwater.pipeline.windows.following import Stopping
from headwater.protocol.copy_frames import Piece
from headwater.wal.segments.arrivals import Arrivals
from headwater.wal.segments.place import WalSource
from headwater.walsender.physical_wal import TimelineEnd
from headwater.walsender.slot_decoder import Reached

BUDGET = 8 << 20
"""Bytes of pieces that wait to be taken, at most."""

Item = Piece | Reached | TimelineEnd | HeadwaterError


class Producer(Protocol):
    """The maker of what is streamed, pass by pass; called in the feed's thread."""

    def has_more(self) -> bool:
        """Tell whether there is more."""

    def decoded(self) -> Iterable[Piece | Reached | TimelineEnd]:
        """Give what there is."""


class Feed:
    """The feed of one stream.

    Args:
        producer: makes what is streamed.
        source: where WAL comes to.
        wake: called when there is something to take, from another thread.
    """

    def __init__(self, producer: Producer, source: WalSource, wake: Callable[[], None]) -> None:
        self._producer, self._source, self._wake = producer, source, wake
        self._stopping = Stopping()
        self._changed = threading.Condition()
        self._items: deque[Item] = deque()
        self._bytes = 0
        self._is_at_end = False
        self._thread = threading.Thread(target=self._run, name="walsender-feed", daemon=True)

    def start(self) -> None:
        """Begin to decode."""
        self._thread.start()

    def stop(self) -> None:
        """End decoding as soon as may be; call from another thread than the loop's, as it waits for that."""
        self._stopping.tell()
        with self._changed:
            self._changed.notify_all()
        if self._thread.is_alive():
            self._thread.join()
        self._stopping.close()

    def take(self) -> Item | None:
        """Return the next item, None if there is none yet."""
        with self._changed:
            if not self._items:
                return None
            item = self._items.popleft()
            if isinstance(item, Piece):
                self._bytes -= len(item.data)
                self._changed.notify_all()
            return item

    @property
    def is_drained(self) -> bool:
        """Whether all WAL that is there has been decoded and taken."""
        with self._changed:
            return self._is_at_end and not self._items

    @property
    def has_items(self) -> bool:
        """Whether something can be taken."""
        return bool(self._items)

    def _run(self) -> None:
        try:
            with Arrivals(self._source.places, self._stopping.fileno()) as arrivals:
                while not self._stopping.is_told:
                    self._decode_what_is_there()
                    self._note_end()
                    arrivals.wait()
        except HeadwaterError as error:
            self._put(error)
        except Exception as error:
            self._put(unforeseen("decoding", error))

    def _decode_what_is_there(self) -> None:
        try:
            while not self._stopping.is_told and self._producer.has_more():
                for item in self._producer.decoded():
                    self._put(item)
                    if self._is_stopped():
                        return
        except (AwaitedSegmentError, AwaitedCatalogError):
            return

    def _is_stopped(self) -> bool:
        return self._stopping.is_told

    def _note_end(self) -> None:
        with self._changed:
            self._is_at_end = True
        self._wake()

    def _put(self, item: Item) -> None:
        size = len(item.data) if isinstance(item, Piece) else 0
        with self._changed:
            self._changed.wait_for(lambda: self._bytes + size <= BUDGET or not self._bytes or self._stopping.is_told)
            self._is_at_end = False
            self._items.append(item)
            self._bytes += size
        self._wake()
