"""The stream that is applied, whatever it comes from: what a source gives, and what it is told."""

from __future__ import annotations

from types import TracebackType
from typing import Protocol, Self

from headwater.remote_slots.slot_feed import Heard, Piece


class Feed(Protocol):
    """A stream of pgoutput's messages, in pieces; a context manager. One thread calls it."""

    @property
    def heard(self) -> Heard:
        """What a server has said of itself; nothing where there is none."""

    def __enter__(self) -> Self:
        """Begin."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Let go of the source."""

    def take(self, seconds: float, most_bytes: int) -> Piece:
        """Take what has come; wait for some time until there is anything.

        Args:
            seconds: how long to wait at most; most_bytes: it ends with the transaction that goes beyond, if it can.

        Raises:
            HeadwaterError: the source has ended.
        """

    def confirm(self, lsn: int) -> None:
        """Let the source know that all up to an LSN is durable."""


class FeedOfFeed:
    """A feed whose pieces are made of another feed's; a context manager. Whoever extends it says how, by ``take``.

    Args:
        feed: the other one.
    """

    def __init__(self, feed: Feed) -> None:
        self._feed = feed

    @property
    def heard(self) -> Heard:
        """What the server has said of itself."""
        return self._feed.heard

    def __enter__(self) -> Self:
        self._feed.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._feed.__exit__(kind, error, trace)

    def confirm(self, lsn: int) -> None:
        """Let the source know that all up to an LSN is durable."""
        self._feed.confirm(lsn)
