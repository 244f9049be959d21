"""What a slot's session is sent: WAL at hand decoded from where the slot stands, pass by pass as it grows.

In: a request, the state where it begins. Out: messages ready to be framed, and the state after each window, from which
the slot can go on. Calls come one after the other, in one thread that is not the event loop's.

PostgreSQL: StartLogicalReplication, XLogSendLogical (walsender.c). Small windows are decoded in this process.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from headwater.pipeline.requests.open_request import OpenRequest, open_request
from headwater.pipeline.requests.request import DecodeRequest
from headwater.pipeline.requests.scope import Scope
from headwater.pipeline.slices.decode_job import SliceDecoder
from headwater.pipeline.slices.tentative_messages import Settlement
from headwater.pipeline.windows.run_index import WindowBounds
from headwater.pipeline.windows.windows import windows_in_threads
from headwater.protocol._copy_frames import FRAME_BYTES, frame_messages
from headwater.protocol.replication_messages import present
from headwater.reorder.slices.cutting import cut_slices
from headwater.rows.items import Messages
from headwater.slots.kept_state import KeptState
from headwater.wal.records.growing_directory import has_record, unbroken
from headwater.wal.segments.directory import WalDirectory
from headwater.walsender.served_cluster import ServedCluster

WINDOW = WindowBounds(64 << 20)
SLICE_BYTES = 4 << 20
"""Bytes of WAL that are decoded before anything of them is sent."""

PIECE_BYTES = 256 << 10
"""Bytes after which something else, such as a reply, may go between messages."""


@dataclass(frozen=True)
class Piece:
    """Messages in CopyData, ready to be sent.

    Attributes:
        data: the bytes; count: of messages.
        lsn: the highest that one of them carries, 0 for none.
    """

    data: memoryview
    count: int
    lsn: int


@dataclass(frozen=True)
class Reached:
    """The end of a window: all before its state has been given."""

    kept: KeptState


class SlotDecoder:
    """The decoder of one session of a slot.

    Args:
        cluster: has the WAL.
        request: what is decoded; its start is where the session begins.
        kept: the state where decoding begins, None for the catalog.

    Raises:
        HeadwaterError: the plugin, one of its options or a setting is refused, or WAL is missing.
    """

    def __init__(self, cluster: ServedCluster, request: DecodeRequest, kept: KeptState | None) -> None:
        self._cluster, self._request, self._kept = cluster, request, kept
        self._settlement = Settlement()
        self._first: OpenRequest | None = self._open()

    def has_more(self) -> bool:
        """Tell whether there is WAL that was not decoded yet.

        Raises:
            WalError: it cannot be read.
        """
        return self._kept is None or has_record(self._look(), self._kept.state.lsn)

    def decoded(self) -> Iterator[Piece | Reached]:
        """Decode what is there.

        Raises:
            HeadwaterError: it cannot be decoded.
        """
        opened, self._first = self._first or self._open(), None
        request = opened.request
        scope = Scope(opened.directory.segment_size, request.start or 0, request.tables)
        plans = windows_in_threads(opened, scope, WINDOW, goes_on=True)
        decoder = SliceDecoder(opened.directory, opened.plugin, opened.session)
        for window in plans:
            for piece in cut_slices(window.assembly.plan, SLICE_BYTES):
                messages = self._settlement.settled(decoder.messages(piece))
                yield from framed(messages, sent_lsns(opened, messages))
            self._kept = KeptState(plans.state_behind(window.behind), opened.server_settings)
            yield Reached(self._kept)

    def _open(self) -> OpenRequest:
        return open_request(self._request, kept_state=self._kept, directory=self._look())

    def _look(self) -> WalDirectory:
        if self._kept is None:
            return self._cluster.look()
        return unbroken(self._cluster.look(self._kept.state.restart_lsn), self._kept.state.lsn)


def sent_lsns(opened: OpenRequest, messages: Messages) -> NDArray[np.int64]:
    """Return int64[k]: the LSNs that a walsender sends messages with."""
    return np.where(opened.plugin.without_place(messages), 0, messages.lsn)


def framed(messages: Messages, lsn: NDArray[np.int64]) -> Iterator[Piece]:
    """Give messages in CopyData, some at a time; none is cut.

    Args:
        messages: k of them.
        lsn: int64[k] as they are sent.
    """
    count = len(lsn)
    if not count:
        return
    offsets = messages.offsets - messages.offsets[0]
    ends = offsets + FRAME_BYTES * np.arange(count + 1)
    out = np.empty(int(ends[-1]), np.uint8)
    frame_messages(lsn, messages.offsets, messages.data, present(), out)
    data, start = memoryview(out.data), 0
    while start < count:
        stop = max(int(np.searchsorted(ends, ends[start] + PIECE_BYTES, "right")) - 1, start + 1)
        yield Piece(data[int(ends[start]) : int(ends[stop])], stop - start, int(lsn[start:stop].max()))
        start = stop


def of_session(request: DecodeRequest, start: int, two_phase: bool) -> DecodeRequest:
    """Return a slot's request as a session asks for it: from an LSN on."""
    return replace(request, start=start, two_phase=two_phase)
