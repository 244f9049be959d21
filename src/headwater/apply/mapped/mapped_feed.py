"""A feed whose pieces are mapped: what is behind it sees tables as the rules have them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from headwater.apply.incoming.feeds import Feed, FeedOfFeed
from headwater.apply.incoming.requests import ApplyRequest
from headwater.apply.mapped.source_facts import ask_source, open_asked
from headwater.apply.mapped.stream_map import StreamMap
from headwater.errors import HeadwaterError, TargetError
from headwater.remote_slots.slot_feed import Piece

MOST_BYTES = 16 << 20


def map_feed(feed: Feed, request: ApplyRequest) -> Feed:
    """Return a feed with its pieces mapped, if there are rules; asks the source.

    Raises:
        ServerError: its server refuses.
        ConnectionLostError: that is lost.
        HeadwaterError: the catalog at hand cannot be read.
    """
    if not request.maps:
        return feed
    with open_asked(request) as source:
        facts = ask_source(source, request.slot.publications, request.maps)
    return MappedFeed(feed, StreamMap(request.maps, facts))


def take_behind(feed: Feed, seconds: float, most_bytes: int, flush: Callable[[], None]) -> Piece:
    """Take what has come; if a rule fails for it, what came before is applied first.

    Args:
        feed, seconds, most_bytes: see :meth:`headwater.apply.incoming.feeds.Feed.take`.
        flush: waits until all that was sent is applied; if it raises, that error came first.
    """
    try:
        return feed.take(seconds, most_bytes)
    except TargetError:
        flush()
        raise


class MappedFeed(FeedOfFeed):
    """The feed; a context manager.

    Args:
        feed: what is mapped; stream: the map.
    """

    def __init__(self, feed: Feed, stream: StreamMap) -> None:
        super().__init__(feed)
        self._stream = stream
        self._error: HeadwaterError | None = None

    def take(self, seconds: float, most_bytes: int = MOST_BYTES) -> Piece:
        """Take what has come, mapped; see :meth:`headwater.apply.incoming.feeds.Feed.take`.

        Raises:
            HeadwaterError: the source has ended, or a rule fails for what came behind the last piece.
        """
        if self._error is not None:
            raise self._error
        piece = self._feed.take(seconds, most_bytes)
        if not piece.data:
            return piece
        data, self._error = self._stream.apply(piece.data)
        if self._error is not None:
            return Piece(data, False, 0, 0)
        return replace(piece, data=data)
