"""A thread that makes what one stream is sent, pass by pass, and puts it into the stream's queue.

The thread waits for WAL, makes of it what is to be sent, and waits again; it also waits while the queue is full.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Protocol

from headwater.errors import AwaitedSegmentError, HeadwaterError
from headwater.jobs.unforeseen import unforeseen
from headwater.protocol.copy_frames import Piece
from headwater.wal.segments.arrivals import Arrivals
from headwater.wal.segments.place import WalSource
from headwater.walsender.folds.bell import Bell
from headwater.walsender.folds.items import Item, TimelineEnd
from headwater.walsender.folds.outbox import Outbox


class Feed(Protocol):
    """The source of what a stream is sent."""

    def start(self) -> None:
        """Begin; call from another thread than the loop's, as threads take their time to begin."""

    def stop(self) -> None:
        """End as soon as may be; call from another thread than the loop's, as it waits for that."""

    def take(self) -> Item | None:
        """Return the next item, None if there is none yet."""

    def look_again(self) -> None:
        """Let what is there now be given before it counts as all."""

    @property
    def is_drained(self) -> bool:
        """Whether all there is has been taken."""

    @property
    def has_items(self) -> bool:
        """Whether something can be taken."""


class Producer(Protocol):
    """The maker of what is streamed, pass by pass; called in the feed's thread."""

    def has_more(self) -> bool:
        """Tell whether there is more."""

    def decoded(self) -> Iterable[Piece | TimelineEnd]:
        """Give what there is."""


class LoneFeed:
    """The feed of one stream that shares nothing.

    Args:
        producer: makes what is streamed.
        source: where WAL comes to.
        wake: called when there is something to take, from another thread.
    """

    def __init__(self, producer: Producer, source: WalSource, wake: Callable[[], None]) -> None:
        self._producer, self._source = producer, source
        self._outbox = Outbox(wake)
        self._stopped = threading.Event()
        self._bell: Bell | None = None
        self._thread = threading.Thread(target=self._run, name="walsender-feed", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End as soon as may be; call from another thread than the loop's, as it waits for that."""
        self._stopped.set()
        self._outbox.close()
        self._wake()
        if self._thread.is_alive():
            self._thread.join()

    def take(self) -> Item | None:
        """Return the next item, None if there is none yet."""
        return self._outbox.take()

    def look_again(self) -> None:
        """Let what is there now be given before it counts as all."""
        self._outbox.expect_more()
        self._wake()

    @property
    def is_drained(self) -> bool:
        """Whether all WAL that is there has been given and taken."""
        return self._outbox.is_drained

    @property
    def has_items(self) -> bool:
        """Whether something can be taken."""
        return self._outbox.has_items

    def _wake(self) -> None:
        if self._bell is not None:
            self._bell.ring()

    def _run(self) -> None:
        try:
            with Bell() as self._bell, Arrivals(self._source.places, self._bell.fileno()) as arrivals:
                while not self._stopped.is_set():
                    self._bell.silence()
                    self._outbox.begin_look()
                    self._give_what_is_there()
                    self._outbox.note_end()
                    if not self._stopped.is_set():
                        arrivals.wait()
        except HeadwaterError as error:
            self._outbox.offer(error)
        except Exception as error:
            self._outbox.offer(unforeseen("decoding", error))

    def _give_what_is_there(self) -> None:
        try:
            while not self._stopped.is_set() and self._producer.has_more():
                for item in self._producer.decoded():
                    self._outbox.offer(item)
                    if self._stopped.is_set():
                        return
        except AwaitedSegmentError:
            return
