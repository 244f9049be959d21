"""A session that is far behind catches up by an engine's tasks, stretch by stretch, before it has a fold.

In: its request, the state where it begins. Out: the messages that a fold would give it, in its queue, and a state for
each stretch. Which stretches it goes by makes no difference to what is sent.

One session at a time has the engine: others that lag share their folds meanwhile. What fails here is tried again by a
fold. It gives no message of the stretch once more, and tells the client if it fails, too.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from headwater.base.arrow_buffers import buffer_numbers
from headwater.errors import HeadwaterError, SessionError
from headwater.jobs.engine import Engine
from headwater.pipeline.decode import decode_run
from headwater.pipeline.open_run import OpenRun, open_run
from headwater.pipeline.outputs import Output
from headwater.pipeline.requests.open_request import OpenRequest
from headwater.pipeline.requests.request import DecodeRequest
from headwater.pipeline.slices.message_files import MessageForm, message_table
from headwater.protocol.copy_frames import framed
from headwater.rows.items import Messages
from headwater.slots.history import Position, position_in
from headwater.slots.kept_state import KeptState
from headwater.walsender.folds.fold_windows import ServedWal
from headwater.walsender.folds.items import Reached
from headwater.walsender.folds.member import Member
from headwater.walsender.folds.shared_output import sent_lsns

log = logging.getLogger("headwater.walsender")

STRETCH_BYTES = 256 << 20
"""WAL of a stretch, behind which a slot can move."""


@dataclass(frozen=True)
class Bulk:
    """The engine of sessions that are far behind.

    Attributes:
        engine: starts it, or gives the one that there is; called when it is needed.
        least: bytes of WAL behind which it is used.
    """

    engine: Callable[[], Engine]
    least: int
    _turn: threading.Lock = field(default_factory=threading.Lock)

    def catch_up(
        self, wal: ServedWal, request: DecodeRequest, kept_state: KeptState | None, member: Member
    ) -> KeptState | None:
        """Give a session messages until it is near the end of the log; return the state where it stands then.

        Args:
            wal: that is served; request: of the session; kept_state: where it begins, None for the catalog.
            member: gets the messages, and a state at the end of each stretch.
        """
        if not self._turn.acquire(blocking=False):
            return kept_state
        try:
            if _bytes_behind(wal, request, kept_state) >= self.least:
                log.info("an engine decodes for a subscriber that is far behind")
            while not member.is_stopped and _bytes_behind(wal, request, kept_state) >= self.least:
                kept_state = self._go_through(wal, request, kept_state, member)
        except HeadwaterError as error:
            if not member.is_stopped:
                log.info("a subscriber that is far behind goes on without an engine: %s", error)
        except Exception:
            log.exception("an engine has failed, a subscriber goes on without")
        finally:
            self._turn.release()
        return kept_state

    def _go_through(
        self, wal: ServedWal, request: DecodeRequest, kept_state: KeptState | None, member: Member
    ) -> KeptState:
        """Decode a stretch; return the state behind it."""
        end = min(_place(request, kept_state) + STRETCH_BYTES, wal.end()[1])
        run = open_run([replace(request, end=end)], None, kept_state)
        opened, read = run.plans[0].opened, position_in(wal.look(), end)
        output = Output(request, MessageForm.ARROW, lambda _: lambda path: _deliver(path, opened, member, read))
        reached = self._decoded(run, replace(output, request=replace(request, end=end)))
        member.given = 0
        member.outbox.offer(Reached(reached))
        return reached

    def _decoded(self, run: OpenRun, output: Output) -> KeptState:
        with decode_run(self.engine(), run, [output]) as decoded:
            ((result,),) = decoded.databases.values()
            return KeptState(result.state(), result.server_settings)


def _place(request: DecodeRequest, kept_state: KeptState | None) -> int:
    return (request.start or 0) if kept_state is None else kept_state.state.lsn


def _bytes_behind(wal: ServedWal, request: DecodeRequest, kept_state: KeptState | None) -> int:
    return wal.end()[1] - _place(request, kept_state)


def _deliver(path: str, opened: OpenRequest, member: Member, read: Position) -> None:
    """Put the messages of a file into a session's queue, as soon as there is room.

    Raises:
        SessionError: the session has ended.
    """
    for batch in message_table(path).to_batches():
        lsn, xid, data = batch.columns
        _, places, texts = data.buffers()
        if not len(lsn):
            continue
        offsets = buffer_numbers(places, np.int32)[data.offset : data.offset + len(data) + 1].astype(np.int64)
        messages = Messages(lsn.to_numpy(), xid.to_numpy(), offsets, buffer_numbers(texts, np.uint8))
        for piece in framed(sent_lsns(opened, messages), messages.offsets, messages.data):
            if member.is_stopped:
                raise SessionError("the session has ended")
            member.outbox.offer(piece)
            member.has_been_given(piece.count, read)
