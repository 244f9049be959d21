"""START_REPLICATION: a slot's stream, or that of the WAL itself, from the command to its end.

PostgreSQL: StartLogicalReplication, StartReplication (walsender.c).
"""

from __future__ import annotations

import logging
from asyncio import to_thread
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, nullcontext
from dataclasses import replace

from headwater.errors import OffHistoryError, SessionError
from headwater.pg.lsn import lsn_text
from headwater.pg.sqlstates import (
    ACTIVE_SQL_TRANSACTION,
    INSUFFICIENT_PRIVILEGE,
    OBJECT_NOT_IN_PREREQUISITE_STATE,
)
from headwater.pipeline.requests.slot_request import kept_in_slot
from headwater.plugins.options import split_identifiers
from headwater.protocol.backend_messages import COPY_BOTH_RESPONSE, IDLE, command_complete
from headwater.protocol.replication_commands import StartLogical, StartPhysical
from headwater.slots.invalidation import invalidation_of
from headwater.slots.slot import Slot
from headwater.slots.slot_directory import OpenSlot
from headwater.walsender.access.authentication import check_publications
from headwater.walsender.feed import Feed, LoneFeed
from headwater.walsender.folds.subscription import Subscription
from headwater.walsender.left_timelines import follow_left_timeline
from headwater.walsender.operating.activity import StreamActivity
from headwater.walsender.operating.invalidated_slots import check_decodable, check_usable
from headwater.walsender.physical_wal import PhysicalWal, sent_timeline
from headwater.walsender.plugin_errors import running, starting
from headwater.walsender.replies import next_timeline
from headwater.walsender.session_context import SessionContext
from headwater.walsender.slot_commands import is_true
from headwater.walsender.slot_progress import PhysicalProgress, Progress, SlotProgress
from headwater.walsender.streaming import Stream, StreamEnd

log = logging.getLogger("headwater.walsender")


class StreamCommands:
    """The streams of one session.

    Args:
        context: of the session.
    """

    def __init__(self, context: SessionContext) -> None:
        self._context = context

    async def logical(self, command: StartLogical) -> bool:
        """Stream from a slot; False: the session ends."""
        self._check_no_transaction()
        self._context.check_database()
        async with self._used(command.slot) as opened:
            check_decodable(
                command.slot, invalidation_of(opened.path), self._context.served.cluster.version, is_streamed=True
            )
            slot = self._marked(opened.slot, command)
            feed = await to_thread(lambda: self._subscription(slot, command))
            if slot != opened.slot:
                await to_thread(lambda: opened.write(slot))
            progress = SlotProgress(opened, self._context.served.cluster.segment_size)
            activity = StreamActivity(command.slot, is_logical=True)
            try:
                end = await self._streamed(feed, progress, activity)
            except OffHistoryError as error:
                await to_thread(follow_left_timeline, self._context.served.cluster, opened, error)
                raise
        return self._ended(end, None)

    @asynccontextmanager
    async def _used(self, name: str) -> AsyncIterator[OpenSlot]:
        """Use a slot; it is taken, and let go of, in threads."""
        block = ExitStack()
        try:
            yield await to_thread(block.enter_context, self._context.served.slots.used(name, self._context.pid))
        finally:
            await to_thread(block.close)

    async def _streamed(self, feed: Feed, progress: Progress, activity: StreamActivity) -> StreamEnd:
        served, connection = self._context.served, self._context.connection
        timeout = self._context.statements.settings.sender_timeout
        stream = Stream(
            *(connection, feed, progress, timeout, lambda: served.is_ending, self._context.check_canceled),
            *(activity, served.cluster.version),
        )
        connection.send(COPY_BOTH_RESPONSE)
        self._context.activity.stream = activity
        with nullcontext() if activity.slot is None else served.slots.shown(activity.slot, progress.current):
            try:
                await to_thread(feed.start)
                with running():
                    return await stream.run()
            finally:
                self._context.activity.stream = None
                await to_thread(feed.stop)
                await to_thread(progress.write)

    async def physical(self, command: StartPhysical) -> bool:
        """Stream the WAL itself; False: the session ends."""
        self._check_no_transaction()
        if not self._context.statements.user.may_copy_all:
            raise SessionError("permission denied to start WAL sender", sqlstate=INSUFFICIENT_PRIVILEGE)
        cluster, end = self._context.served.cluster, StreamEnd.AGREED
        async with AsyncExitStack() as block:
            opened = None
            if command.slot is not None:
                opened = await block.enter_async_context(self._used(command.slot))
                check_usable(command.slot, invalidation_of(opened.path), cluster.version)
                if not opened.slot.is_physical:
                    raise SessionError(
                        "cannot use a logical replication slot for physical replication",
                        sqlstate=OBJECT_NOT_IN_PREREQUISITE_STATE,
                    )
            timeline = await to_thread(lambda: sent_timeline(cluster, command.timeline, command.lsn))
            if timeline.left is None or command.lsn < timeline.left:
                progress = PhysicalProgress(opened, command.lsn)
                wal = PhysicalWal(cluster, timeline, command.lsn)
                feed = LoneFeed(wal, cluster.source.wal, self._context.connection.wake_from_thread)
                end = await self._streamed(feed, progress, StreamActivity(command.slot, is_logical=False))
                timeline = wal.timeline
        return self._ended(end, b"" if timeline.left is None else next_timeline(cluster.version, timeline))

    def _ended(self, end: StreamEnd, rows: bytes | None) -> bool:
        """Tell the client that the stream has ended; False: the session ends, too.

        Args:
            end: of the stream; rows: of a physical stream, the result that says where the log went on.
        """
        if end is StreamEnd.LOST or end is StreamEnd.TIMED_OUT:
            if end is StreamEnd.TIMED_OUT:
                log.info("terminating walsender process due to replication timeout")
                self._context.connection.abort()
            return False
        is_logical = rows is None
        if end is StreamEnd.SERVICE_ENDS:
            self._context.connection.send(command_complete("COPY 0"))
            return False
        first = command_complete("COPY 0") if is_logical else (rows or b"") + command_complete("START_STREAMING")
        self._context.connection.send(first + command_complete("START_REPLICATION"))
        return True

    def _marked(self, slot: Slot, command: StartLogical) -> Slot:
        """Return the slot as the command needs it; two_phase is set by the plugin's option of that name."""
        if slot.is_physical:
            raise SessionError(
                "cannot use physical replication slot for logical decoding", sqlstate=OBJECT_NOT_IN_PREREQUISITE_STATE
            )
        if slot.request.database != self._context.request.database:
            raise SessionError(
                f'replication slot "{command.slot}" was not created in this database',
                sqlstate=OBJECT_NOT_IN_PREREQUISITE_STATE,
            )
        self._check_rights(slot, command)
        asks = any(name == "two_phase" and is_true(name, value) for name, value in command.options)
        is_pgoutput = slot.request.plugin == "pgoutput"
        return replace(slot, two_phase=True) if asks and is_pgoutput and not slot.two_phase else slot

    def _check_rights(self, slot: Slot, command: StartLogical) -> None:
        """Check that the user may read what the stream has: who is limited to publications reads by pgoutput alone."""
        user = self._context.statements.user
        if user.publications is None:
            return
        if slot.request.plugin != "pgoutput":
            raise SessionError(
                f"permission denied for output plugin {slot.request.plugin}", sqlstate=INSUFFICIENT_PRIVILEGE
            )
        texts = (str(value or "") for name, value in command.options if name == "publication_names")
        check_publications(
            user, [name for text in texts for name in split_identifiers(text, self._context.served.cluster.major) or ()]
        )

    def _subscription(self, slot: Slot, command: StartLogical) -> Subscription:
        cluster = self._context.served.cluster
        start = max(command.lsn, slot.confirmed_lsn)
        options = tuple((name, None if value is None else str(value)) for name, value in command.options)
        request = cluster.request_of(slot, self._context.statements.settings.of_decoding())
        request = replace(request, options=options, slot=command.slot, start=start)
        log.info('starting logical decoding for slot "%s"', command.slot)
        log.info(
            "Streaming transactions committing after %s, reading WAL from %s.",
            lsn_text(start, cluster.version),
            lsn_text(slot.restart_lsn, cluster.version),
        )
        wake = self._context.connection.wake_from_thread
        with starting(command.slot, slot.request.plugin):
            return self._context.served.folds.subscription(request, kept_in_slot(slot), wake)

    def _check_no_transaction(self) -> None:
        if self._context.statements.transaction.status != IDLE:
            raise SessionError(
                "START_REPLICATION cannot run inside a transaction block", sqlstate=ACTIVE_SQL_TRANSACTION
            )
