"""The decoding of what a slot's session is sent: of WAL at hand, from where the slot stands, pass by pass as it grows.

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
from headwater.protocol.copy_frames import Piece, framed
from headwater.reorder.slices.cutting import cut_slices
from headwater.rows.items import Messages
from headwater.slots.kept_state import KeptState
from headwater.wal.records.growing_directory import has_record, unbroken
from headwater.wal.segments.directory import WalDirectory
from headwater.walsender.served_cluster import ServedCluster

WINDOW = WindowBounds(64 << 20)
SLICE_BYTES = 4 << 20
"""Bytes of WAL that are decoded before anything of them is sent."""


@dataclass(frozen=True)
class Reached:
    """The end of a window: all before its state has been given."""

    kept: KeptState


class SlotDecoder:
    """The decoder of one session of a slot.

    Args:
        cluster: has the WAL.
        request: what is decoded; its start is where the session begins.
        state: where decoding begins, None for the catalog.

    Raises:
        HeadwaterError: the plugin, one of its options or a setting is refused, or WAL is missing.
    """

    def __init__(self, cluster: ServedCluster, request: DecodeRequest, state: KeptState | None) -> None:
        self._cluster, self._kept = cluster, state
        opened = open_request(request, kept_state=state, directory=self._look())
        scope = Scope(opened.directory.segment_size, request.start or 0, request.tables)
        self._plans = windows_in_threads(opened, scope, WINDOW, goes_on=True)
        self._settlement = Settlement()

    def has_more(self) -> bool:
        """Tell whether there is WAL that was not decoded yet.

        Raises:
            WalError: it cannot be read.
        """
        return self._kept is None or has_record(self._look(), self._kept.state.lsn)

    def decoded(self) -> Iterator[Piece | Reached]:
        """Decode what is there. The session goes on: what the fold and the plugin know is kept from call to call.

        Raises:
            HeadwaterError: it cannot be decoded.
        """
        self._plans.go_on(self._look())
        opened = self._plans.opened
        decoder = SliceDecoder(opened.directory, opened.plugin, opened.session)
        for window in self._plans:
            for piece in cut_slices(window.assembly.plan, SLICE_BYTES):
                messages = self._settlement.settled(decoder.messages(piece))
                yield from framed(sent_lsns(opened, messages), messages.offsets, messages.data)
            self._kept = KeptState(self._plans.state_behind(window.behind), opened.server_settings)
            yield Reached(self._kept)

    def _look(self) -> WalDirectory:
        if self._kept is None:
            return self._cluster.look()
        return unbroken(self._cluster.look(self._kept.state.restart_lsn), self._kept.state.lsn)


def sent_lsns(opened: OpenRequest, messages: Messages) -> NDArray[np.int64]:
    """Return int64[k]: the LSNs that a walsender sends messages with."""
    return np.where(opened.plugin.without_place(messages), 0, messages.lsn)


def of_session(request: DecodeRequest, start: int, two_phase: bool) -> DecodeRequest:
    """Return a slot's request as a session asks for it: from an LSN on."""
    return replace(request, start=start, two_phase=two_phase)
