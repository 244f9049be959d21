"""One session: from the first packet to the end of the connection.

Lives in the event loop, as one coroutine. What takes time is done in threads, one thing at a time.

PostgreSQL: exec_replication_command, StartLogicalReplication (walsender.c), PostgresMain (postgres.c),
backend_startup.c. Known gaps: BASE_BACKUP; the extended protocol outside of replication; errors are told in UTF-8.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import replace
from typing import TypeVar

from headwater.errors import HeadwaterError, SessionError
from headwater.jobs.unforeseen import unforeseen
from headwater.pg.lsn import lsn_text
from headwater.pg.sqlstates import (
    ACTIVE_SQL_TRANSACTION,
    ADMIN_SHUTDOWN,
    FEATURE_NOT_SUPPORTED,
    INSUFFICIENT_PRIVILEGE,
    OBJECT_NOT_IN_PREREQUISITE_STATE,
    PROTOCOL_VIOLATION,
    QUERY_CANCELED,
)
from headwater.pipeline.requests.slot_request import kept_in_slot, request_of_slot
from headwater.plugins.options import split_identifiers
from headwater.protocol.backend_messages import (
    COPY_BOTH_RESPONSE,
    COPY_DONE,
    EMPTY_QUERY,
    IDLE,
    IN_FAILED_TRANSACTION,
    IN_TRANSACTION,
    backend_key_data,
    command_complete,
    copy_out_response,
    negotiate_protocol_version,
    parameter_status,
    ready_for_query,
    report_of,
)
from headwater.protocol.frontend_messages import (
    BIND,
    CLOSE,
    DESCRIBE,
    EXECUTE,
    FLUSH,
    FUNCTION_CALL,
    PARSE,
    QUERY,
    SYNC,
    TERMINATE,
    Message,
    text_of,
)
from headwater.protocol.replication_commands import (
    AlterReplicationSlot,
    Command,
    CreateReplicationSlot,
    DropReplicationSlot,
    IdentifySystem,
    ReadReplicationSlot,
    Show,
    StartLogical,
    StartPhysical,
    TimelineHistory,
    parse_command,
)
from headwater.protocol.startup import (
    LEAST_PACKET,
    MOST_PACKET,
    CancelRequest,
    GssEncRequest,
    SessionRequest,
    SslRequest,
    StartupMessage,
    negotiated,
    parse_first_packet,
    session_request,
)
from headwater.slots.slot import Slot
from headwater.walsender.access.authentication import Pending, check_publications
from headwater.walsender.access.tls import ALPN
from headwater.walsender.access.users import User
from headwater.walsender.connection import Connection, ConnectionClosedError
from headwater.walsender.feed import Feed, LoneFeed
from headwater.walsender.folds.subscription import Subscription
from headwater.walsender.physical_wal import PhysicalWal, sent_timeline
from headwater.walsender.replies import created_slot, identify_system, next_timeline, read_slot, shown, timeline_history
from headwater.walsender.served import Served
from headwater.walsender.session_settings import ClientSettings
from headwater.walsender.slot_commands import (
    EXPORT,
    USE,
    alter_slot,
    create_physical_slot,
    create_slot,
    is_true,
    new_slot,
)
from headwater.walsender.slot_progress import PhysicalProgress, Progress, SlotProgress
from headwater.walsender.statements import Statements
from headwater.walsender.streaming import Stream, StreamEnd

T = TypeVar("T")

log = logging.getLogger("headwater.walsender")

START_UP_SECONDS = 60.0
"""For all that comes before the session has begun (authentication_timeout)."""

_EXTENDED = {PARSE, BIND, DESCRIBE, EXECUTE, CLOSE}
_NARROW_KEY, _WIDE_KEY = 4, 32
"""Bytes of a cancel key: before protocol 3.2, and from it on."""


class Session:
    """A session.

    Args:
        served: what is served, to all sessions.
        connection: the client's.
        pid: the session's number, which its client is told.
    """

    def __init__(self, served: Served, connection: Connection, pid: int) -> None:
        self._served, self._connection, self.pid = served, connection, pid
        self.key = b""
        self.request: SessionRequest | None = None
        self._statements: Statements | None = None
        self._own_slots: list[str] = []
        self._is_canceled = False
        self._exported: str | None = None
        self._loop = asyncio.get_running_loop()

    def end(self) -> None:
        """Let the session end as the service does; a stream is finished first."""
        self._connection.interrupt(
            SessionError("terminating connection due to administrator command", sqlstate=ADMIN_SHUTDOWN)
        )

    def cancel(self) -> None:
        """Let the command that runs end with an error."""
        self._is_canceled = True
        self._connection.wake.set()

    def _check_canceled(self) -> None:
        if self._is_canceled:
            raise SessionError("canceling statement due to user request", sqlstate=QUERY_CANCELED)

    async def run(self) -> None:
        """Serve the client until it goes, or is sent away."""
        try:
            async with asyncio.timeout(START_UP_SECONDS):
                has_begun = await self._start_up()
            if has_begun:
                await self._serve()
        except TimeoutError:
            log.warning("canceling authentication due to timeout")
        except ConnectionClosedError:
            log.debug("the client has gone", extra={"pid": self.pid})
        except HeadwaterError as error:
            self._connection.send(report_of(error, "FATAL").as_bytes())
        finally:
            await self._leave()

    async def _start_up(self) -> bool:
        """Take packets until the session has begun; False: nothing else comes."""
        packet = await self._first_packet()
        if packet is None:
            return False
        minor, unknown = negotiated(packet, self._served.cluster.version)
        if unknown:
            self._connection.send(negotiate_protocol_version(unknown))
        self.request = session_request(packet)
        user = await self._log_in(self.request)
        if self.request.database:
            self._served.cluster.database(self.request.database)
        self._begin(self.request, user, minor)
        return True

    async def _log_in(self, request: SessionRequest) -> User:
        """Let the client prove who it is.

        Raises:
            SessionError: it may not come in.
        """
        state = self._served.access.begin(request, self._connection.peer())
        while isinstance(state, Pending):
            self._connection.send(state.messages)
            state.check_header(*await self._connection.message_header())
            state = state.step(*await self._connection.message())
        self._connection.send(state.messages)
        log.info("connection authorized: user=%s database=%s", request.user, request.database)
        return state.user

    async def _first_packet(self) -> StartupMessage | None:
        self._check_application_protocol()
        may_ask = {"may_ask_ssl": True, "may_ask_gss": True}
        while True:
            body = await self._connection.first_packet(LEAST_PACKET, MOST_PACKET)
            if body is None:
                return None
            packet = parse_first_packet(body, self._served.cluster.version, **may_ask)
            if isinstance(packet, StartupMessage):
                return packet
            if isinstance(packet, CancelRequest):
                self._served.cancel(packet)
                return None
            is_encrypted = isinstance(packet, SslRequest) and await self._answer_ssl()
            if isinstance(packet, GssEncRequest):
                self._connection.send(b"N")
            may_ask["may_ask_ssl"] &= not isinstance(packet, SslRequest)
            may_ask["may_ask_gss"] &= not isinstance(packet, GssEncRequest) and not is_encrypted

    def _check_application_protocol(self) -> None:
        """Let go of a client that began with TLS and did not say that it wants PostgreSQL."""
        encryption = self._connection.encryption
        if encryption is not None and encryption.selected_alpn_protocol() != ALPN:
            log.warning("received direct SSL connection request without ALPN protocol negotiation extension")
            raise ConnectionClosedError

    async def _answer_ssl(self) -> bool:
        """Answer an SSLRequest; return whether the connection is encrypted from here on."""
        encryption = self._served.encryption
        is_local = self._connection.peer().address is None
        if encryption is None or is_local or self._connection.encryption is not None:
            self._connection.send(b"N")
            return False
        self._connection.send(b"S")
        await self._connection.encrypt(encryption.context)
        return True

    def _begin(self, request: SessionRequest, user: User, minor: int) -> None:
        served = self._served
        encoding = served.encoding_of(request.database)
        fixed = served.fixed_settings(request, encoding)
        settings = ClientSettings(served.cluster.version, encoding, {}, fixed)
        for name, value in request.settings:
            settings.set(name, value)
        self._statements = Statements(served, request, user, settings)
        self.key = secrets.token_bytes(_WIDE_KEY if minor >= 2 else _NARROW_KEY)
        reports = b"".join(parameter_status(name, value) for name, value in settings.reported())
        self._connection.send(reports + backend_key_data(self.pid, self.key))
        self._ready()

    @property
    def _sql(self) -> Statements:
        assert self._statements is not None
        return self._statements

    @property
    def _session(self) -> SessionRequest:
        assert self.request is not None
        return self.request

    def _ready(self) -> None:
        self._connection.send(ready_for_query(self._sql.status))

    async def _serve(self) -> None:
        """Take messages until the client goes."""
        while True:
            message = await self._connection.message()
            if message.kind == TERMINATE or not await self._take(message):
                return
            await self._connection.drained()

    async def _take(self, message: Message) -> bool:
        """Take one message; False: the session ends."""
        if message.kind == QUERY:
            return await self._query(text_of(message.body, self._sql.settings.client_encoding))
        if message.kind in _EXTENDED or message.kind == FUNCTION_CALL:
            self._refuse_extended(message.kind)
            while message.kind in _EXTENDED:
                message = await self._connection.message()
                if message.kind == TERMINATE:
                    return False
            self._ready()
        elif message.kind == SYNC:
            self._ready()
        elif message.kind != FLUSH:
            raise SessionError(f"invalid frontend message type {message.kind[0]}", sqlstate=PROTOCOL_VIOLATION)
        return True

    def _refuse_extended(self, kind: bytes) -> None:
        what = "fastpath function calls" if kind == FUNCTION_CALL else "extended query protocol"
        error = SessionError(f"{what} not supported in a replication connection", sqlstate=PROTOCOL_VIOLATION)
        self._failed(error)

    def _failed(self, error: HeadwaterError, context: str | None = None) -> None:
        if self._sql.status == IN_TRANSACTION:
            self._sql.status = IN_FAILED_TRANSACTION
        self._connection.send(report_of(error, context=context).as_bytes())

    async def _query(self, text: str) -> bool:
        """Answer a simple query; False: the session ends."""
        self._is_canceled = False
        self._drop_exported()
        try:
            if self._served.is_ending:
                raise SessionError(
                    "cannot execute new commands while WAL sender is in stopping mode",
                    sqlstate=OBJECT_NOT_IN_PREREQUISITE_STATE,
                )
            command = parse_command(text, self._served.cluster.version) if self._session.is_replication else None
            if command is not None:
                self._sql.check_not_failed()
            if isinstance(command, StartLogical):
                if not await self._stream(command):
                    return False
            elif isinstance(command, StartPhysical):
                if not await self._stream_physical(command):
                    return False
            elif command is not None:
                log.debug("received replication command: %s", text)
                self._connection.send(await self._answer(command))
            else:
                await self._answer_sql(text)
        except HeadwaterError as error:
            self._failed(error)
            await self._drop_temporary()
        except ConnectionClosedError:
            raise
        except Exception as error:
            log.exception("a command has failed")
            self._failed(unforeseen("answering", error))
        self._ready()
        return True

    async def _answer_sql(self, text: str) -> None:
        if not self._session.database:
            raise SessionError(
                "cannot execute SQL commands in WAL sender for physical replication", sqlstate=FEATURE_NOT_SUPPORTED
            )
        if not text.strip(" \t\r\n;"):
            self._connection.send(EMPTY_QUERY)
            return
        copy = self._sql.copy_of(text)
        if copy is not None:
            await _in_thread(lambda: self._send_copy(copy))
        else:
            self._connection.send(await _in_thread(lambda: self._sql.answer(text)))

    def _send_copy(self, statement: str) -> None:
        """Send the rows of a COPY; runs in a thread, which waits while the client does not take them."""
        copied = self._sql.copied(statement)
        self._send_from_thread(copy_out_response(copied.column_count, copied.is_binary))
        count = 0
        with closing(copied.pieces) as pieces:
            for piece in pieces:
                self._send_from_thread(piece.data)
                count += piece.count
        self._send_from_thread(COPY_DONE + command_complete(f"COPY {count}"))

    def _send_from_thread(self, data: bytes | memoryview) -> None:
        async def send() -> None:
            self._connection.send(data)
            await self._connection.drained()

        asyncio.run_coroutine_threadsafe(send(), self._loop).result()

    async def _answer(self, command: Command) -> bytes:
        """Return the answer to a command of replication."""
        cluster, slots = self._served.cluster, self._served.slots
        if isinstance(command, IdentifySystem):
            timeline, end = await _in_thread(cluster.end)
            lsn = lsn_text(end, cluster.version)
            return identify_system(cluster.version, cluster.system_identifier, timeline, lsn, self._session.database)
        if isinstance(command, Show):
            return shown(*self._sql.settings.show(command.name))
        if isinstance(command, CreateReplicationSlot):
            return await self._create(command)
        if isinstance(command, AlterReplicationSlot):
            await _in_thread(lambda: alter_slot(slots, command, cluster.version, self.pid))
            return command_complete("ALTER_REPLICATION_SLOT")
        if isinstance(command, DropReplicationSlot):
            await _in_thread(lambda: slots.drop(command.slot, self.pid, command.waits))
            return command_complete("DROP_REPLICATION_SLOT")
        if isinstance(command, ReadReplicationSlot):
            return await _in_thread(lambda: self._read(command))
        if isinstance(command, TimelineHistory):
            file = await _in_thread(lambda: cluster.timeline_history(command.timeline))
            return timeline_history(cluster.version, *file)
        raise SessionError(f"{type(command).__name__} is not supported", sqlstate=FEATURE_NOT_SUPPORTED)

    def _read(self, command: ReadReplicationSlot) -> bytes:
        cluster, slots = self._served.cluster, self._served.slots
        if command.slot not in slots.names():
            return read_slot([None, None, None])
        slot = slots.read(command.slot)
        if not slot.is_physical:
            raise SessionError(
                "cannot use READ_REPLICATION_SLOT with a logical replication slot", sqlstate=FEATURE_NOT_SUPPORTED
            )
        if not slot.confirmed_lsn:
            return read_slot(["physical", None, None])
        timeline = cluster.look().timeline_at(slot.confirmed_lsn)
        return read_slot(["physical", lsn_text(slot.confirmed_lsn, cluster.version), str(timeline)])

    def _check_no_transaction(self) -> None:
        if self._sql.status != IDLE:
            raise SessionError(
                "START_REPLICATION cannot run inside a transaction block", sqlstate=ACTIVE_SQL_TRANSACTION
            )

    def _check_database(self) -> None:
        if not self._session.database:
            raise SessionError(
                "logical decoding requires a database connection", sqlstate=OBJECT_NOT_IN_PREREQUISITE_STATE
            )

    async def _create(self, command: CreateReplicationSlot) -> bytes:
        served = self._served
        asked = new_slot(command, served.cluster.version)
        if command.plugin is None:
            await _in_thread(lambda: create_physical_slot(served.cluster, served.slots, command))
            if command.is_temporary:
                self._own_slots.append(command.slot)
            return created_slot(command.slot, lsn_text(0, served.cluster.version), None, None)
        self._check_database()
        self._check_snapshot(asked.snapshot)
        database = self._session.database
        settings = self._sql.settings.of_decoding()
        snapshot = await _in_thread(
            lambda: create_slot(served.cluster, served.slots, database, command, asked, settings)
        )
        lsn = snapshot.kept.state.lsn
        if command.is_temporary:
            self._own_slots.append(command.slot)
        if asked.snapshot == USE:
            self._sql.snapshot = snapshot
        elif asked.snapshot == EXPORT:
            self._exported = served.export_snapshot(database, snapshot)
        return created_slot(command.slot, lsn_text(lsn, served.cluster.version), self._exported, command.plugin)

    def _drop_exported(self) -> None:
        """Take back the snapshot that was exported: the next command does, whatever it is."""
        if self._exported is not None:
            self._served.snapshots.pop(self._exported)
            self._exported = None

    def _check_snapshot(self, snapshot: str) -> None:
        words = f"CREATE_REPLICATION_SLOT ... (SNAPSHOT '{snapshot}')"
        if snapshot == EXPORT and self._sql.status != IDLE:
            raise SessionError(f"{words} must not be called inside a transaction")
        if snapshot == USE:
            self._sql.check_uses_snapshot(words)

    async def _stream(self, command: StartLogical) -> bool:
        """Stream from a slot; False: the session ends."""
        self._check_no_transaction()
        self._check_database()
        with ExitStack() as block:
            use = self._served.slots.used(command.slot, self.pid)
            opened = await _in_thread(lambda: block.enter_context(use))
            slot = self._marked(opened.slot, command)
            feed = await _in_thread(lambda: self._subscription(slot, command))
            if slot != opened.slot:
                await _in_thread(lambda: opened.write(slot))
            progress = SlotProgress(opened, self._served.cluster.segment_size)
            end = await self._streamed(feed, progress, shows_position=True)
        return self._ended(end, None)

    async def _streamed(self, feed: Feed, progress: Progress, *, shows_position: bool) -> StreamEnd:
        served, connection = self._served, self._connection
        timeout = self._sql.settings.sender_timeout
        stream = Stream(
            *(connection, feed, progress, timeout, lambda: served.is_ending, self._check_canceled), shows_position
        )
        connection.send(COPY_BOTH_RESPONSE)
        feed.start()
        try:
            return await stream.run()
        finally:
            await _in_thread(feed.stop)
            await _in_thread(progress.write)

    async def _stream_physical(self, command: StartPhysical) -> bool:
        """Stream the WAL itself; False: the session ends."""
        self._check_no_transaction()
        if not self._sql.user.may_copy_all:
            raise SessionError("permission denied to start WAL sender", sqlstate=INSUFFICIENT_PRIVILEGE)
        cluster, end = self._served.cluster, StreamEnd.AGREED
        with ExitStack() as block:
            opened = None
            if command.slot is not None:
                use = self._served.slots.used(command.slot, self.pid)
                opened = await _in_thread(lambda: block.enter_context(use))
                if not opened.slot.is_physical:
                    raise SessionError(
                        "cannot use a logical replication slot for physical replication",
                        sqlstate=OBJECT_NOT_IN_PREREQUISITE_STATE,
                    )
            timeline = await _in_thread(lambda: sent_timeline(cluster, command.timeline, command.lsn))
            if timeline.left is None or command.lsn < timeline.left:
                progress = PhysicalProgress(opened, command.lsn)
                wal = PhysicalWal(cluster, timeline, command.lsn)
                feed = LoneFeed(wal, cluster.source.wal, self._connection.wake_from_thread)
                end = await self._streamed(feed, progress, shows_position=False)
        return self._ended(end, b"" if timeline.left is None else next_timeline(cluster.version, timeline))

    def _ended(self, end: StreamEnd, rows: bytes | None) -> bool:
        """Tell the client that the stream has ended; False: the session ends, too.

        Args:
            end: of the stream; rows: of a physical stream, the result that says where the log went on.
        """
        if end is StreamEnd.LOST or end is StreamEnd.TIMED_OUT:
            if end is StreamEnd.TIMED_OUT:
                log.info("terminating walsender process due to replication timeout")
            return False
        is_logical = rows is None
        if end is StreamEnd.SERVICE_ENDS:
            self._connection.send(command_complete("COPY 0"))
            return False
        first = command_complete("COPY 0") if is_logical else (rows or b"") + command_complete("START_STREAMING")
        self._connection.send(first + command_complete("START_REPLICATION"))
        return True

    def _marked(self, slot: Slot, command: StartLogical) -> Slot:
        """Return the slot as the command needs it; two_phase is set by the plugin's option of that name."""
        if slot.is_physical:
            raise SessionError(
                "cannot use physical replication slot for logical decoding", sqlstate=OBJECT_NOT_IN_PREREQUISITE_STATE
            )
        if slot.request.database != self._session.database:
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
        user = self._sql.user
        if user.publications is None:
            return
        if slot.request.plugin != "pgoutput":
            raise SessionError(
                f"permission denied for output plugin {slot.request.plugin}", sqlstate=INSUFFICIENT_PRIVILEGE
            )
        texts = (str(value or "") for name, value in command.options if name == "publication_names")
        check_publications(
            user, [name for text in texts for name in split_identifiers(text, self._served.cluster.major) or ()]
        )

    def _subscription(self, slot: Slot, command: StartLogical) -> Subscription:
        cluster = self._served.cluster
        start = max(command.lsn, slot.confirmed_lsn)
        options = tuple((name, None if value is None else str(value)) for name, value in command.options)
        request = request_of_slot(slot)
        settings = {**dict(request.settings), **dict(self._sql.settings.of_decoding())}
        if cluster.source.server_version is not None:
            settings["server_version"] = cluster.source.server_version
        request = replace(
            request,
            wal=cluster.source.wal,
            options=options,
            settings=tuple(settings.items()),
            slot=command.slot,
            start=start,
            two_phase=slot.two_phase,
        )
        log.info('starting logical decoding for slot "%s"', command.slot)
        log.info(
            "Streaming transactions committing after %s, reading WAL from %s.",
            lsn_text(start, cluster.version),
            lsn_text(slot.restart_lsn, cluster.version),
        )
        return self._served.folds.subscription(request, kept_in_slot(slot), self._connection.wake_from_thread)

    async def _drop_temporary(self) -> None:
        """Drop the temporary slots of this session, as the server does after any error of it."""
        while self._own_slots:
            name = self._own_slots.pop()
            if name in self._served.slots.names():
                await _in_thread(lambda name=name: self._served.slots.drop(name, self.pid, waits=False))  # type: ignore[misc]

    async def _leave(self) -> None:
        self._drop_exported()
        try:
            if self._statements is not None:
                await _in_thread(self._statements.close)
            await self._drop_temporary()
        finally:
            self._connection.close()


async def _in_thread(work: Callable[[], T]) -> T:
    return await asyncio.to_thread(work)
