"""One session: from the first packet to the end of the connection; what messages ask for is done by others.

Lives in the event loop, as one coroutine. What takes time is done in threads, one thing at a time.

PostgreSQL: PostgresMain (postgres.c), backend_startup.c. Known gap: errors are told in UTF-8.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from asyncio import to_thread
from contextlib import ExitStack
from functools import cached_property

from headwater.errors import HeadwaterError, SessionError
from headwater.jobs.unforeseen import unforeseen
from headwater.pg.sqlstates import ADMIN_SHUTDOWN, FEATURE_NOT_SUPPORTED, PROTOCOL_VIOLATION
from headwater.protocol.backend_messages import (
    backend_key_data,
    negotiate_protocol_version,
    parameter_status,
    report_of,
)
from headwater.protocol.frontend_messages import (
    BIND,
    CLOSE,
    COPY_DATA,
    COPY_DONE,
    COPY_FAIL,
    DESCRIBE,
    EXECUTE,
    FLUSH,
    FUNCTION_CALL,
    PARSE,
    QUERY,
    SYNC,
    TERMINATE,
    BrokenMessageError,
    Message,
    text_of,
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
from headwater.walsender.access.authentication import Pending
from headwater.walsender.access.tls import ALPN
from headwater.walsender.access.users import User
from headwater.walsender.connection import Connection, ConnectionClosedError
from headwater.walsender.operating.activity import SessionActivity
from headwater.walsender.operating.session_log import log_report
from headwater.walsender.queries.functions import Known
from headwater.walsender.served import Served
from headwater.walsender.session_context import SessionContext
from headwater.walsender.session_knowledge import SessionKnowledge
from headwater.walsender.sessions.extended_queries import ExtendedQueries
from headwater.walsender.sessions.session_settings import ClientSettings, is_cut
from headwater.walsender.simple_queries import SimpleQueries
from headwater.walsender.statements import Statements

log = logging.getLogger("headwater.walsender")

_EXTENDED = {PARSE, BIND, DESCRIBE, EXECUTE, CLOSE}
_OLDEST_PROTOCOL = b"\0\3"
"""Packets of clients that do not understand errors of today are less."""

_IGNORED = {FLUSH, COPY_DATA, COPY_DONE, COPY_FAIL}
"""Messages that mean nothing here; a client may not have heard yet that its stream has failed."""

MOST_AT_ONCE = 32
"""Messages of a client that are taken before others have their turn."""

PROBE_SECONDS = 0.5
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
        self.activity = SessionActivity(pid)
        self._begun: SessionContext | None = None
        self._place = ExitStack()
        self._is_old = self._has_left = False

    def end(self) -> None:
        """Let the session end as the service does; a stream is finished first, a statement is not."""
        self._interrupt()
        self._connection.interrupt(_terminated())

    def terminate(self) -> None:
        """Let the session end at once, whatever it does."""
        if self._begun is not None:
            self._begun.termination = _terminated()
        self.end()

    def cancel(self) -> None:
        """Let the command that runs end with an error."""
        if self._begun is not None:
            self._begun.is_canceled = True
            self._interrupt(for_good=False)
        self._connection.wake.set()

    def _interrupt(self, *, for_good: bool = True) -> None:
        """End the statement that runs, wherever it does; for good all that come behind it, too."""
        if self._begun is None:
            return
        interruption = self._begun.statements.interruption
        interruption.want(for_good=for_good)
        if interruption.is_running:
            self._begun.loop.run_in_executor(None, interruption.interrupt)

    def _probe(self) -> None:
        """Find out whether a client that says no more has gone, as long as a statement runs: it takes nothing then."""
        if self._begun is None or self._has_left:
            return
        if self._begun.statements.interruption.is_running:
            self._connection.send(parameter_status("application_name", self.activity.application_name))
        self._begun.loop.call_later(PROBE_SECONDS, self._probe)

    async def run(self) -> None:
        """Serve the client until it goes, or is sent away."""
        try:
            async with asyncio.timeout(self._served.limits.authentication_seconds):
                has_begun = await self._start_up()
            if has_begun:
                await self._serve(SimpleQueries(self._context))
        except TimeoutError:
            if self.request is not None:
                log.critical("canceling authentication due to timeout")
        except ConnectionClosedError:
            log.debug("the client has gone")
        except HeadwaterError as error:
            report = report_of(error, "FATAL")
            self._served.counts.failed(report.sqlstate)
            log_report(report)
            self._connection.send(report.as_old_bytes() if self._is_old else report.as_bytes())
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
        self._show(self.request)
        end = self._served.starting.get(self.pid, self.end)
        self._place.enter_context(self._served.places.taken(self.pid, self.request.is_replication, end))
        user = await self._log_in(self.request)
        self._served.places.settle(self.pid)
        if self.request.database:
            await asyncio.to_thread(self._served.find_database, self.request.database)
        self._begin(self.request, user, minor)
        self._connection.trust()
        self._connection.when_lost, self._connection.when_silent = self._interrupt, self._probe
        self._served.starting.pop(self.pid, None)
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
        user = state.user
        log.info("connection authorized: user=%s database=%s", request.user, request.database)
        return user

    def _show(self, request: SessionRequest) -> None:
        """Show who is connected."""
        peer, activity = self._connection.peer(), self.activity
        activity.host, activity.is_encrypted = None if peer.address is None else peer.host, peer.is_encrypted
        activity.port, activity.is_replication = self._connection.port, request.is_replication
        activity.user, activity.database = request.user, request.database

    async def _first_packet(self) -> StartupMessage | None:
        self._check_application_protocol()
        may_ask = {"may_ask_ssl": True, "may_ask_gss": True}
        while True:
            body = await self._connection.first_packet(LEAST_PACKET, MOST_PACKET)
            if body is None:
                return None
            self._is_old = bytes(4) < body[:4] < _OLDEST_PROTOCOL
            try:
                packet = parse_first_packet(body, self._served.cluster.version, **may_ask)
            except BrokenMessageError as error:
                log.info("%s", error)
                return None
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
        settings.begin()
        self._begun = self._new_context(request, user, settings)
        self.key = secrets.token_bytes(_WIDE_KEY if minor >= 2 else _NARROW_KEY)
        cut = [value for name, value in request.settings if is_cut(name, value)]
        self._connection.send(self._context.statements.cut_notices(cut))
        self._connection.send(self._context.changed_settings() + backend_key_data(self.pid, self.key))
        self._context.ready()

    def _new_context(self, request: SessionRequest, user: User, settings: ClientSettings) -> SessionContext:
        served = self._served

        def known(statements: Statements) -> Known:
            return SessionKnowledge(served, statements, request, self.pid).known()

        statements = Statements(served, request, user, settings, known)
        self.activity.user = user.name
        self.activity.transaction_started = lambda: statements.transaction.block_started
        return SessionContext(served, self._connection, self.pid, request, statements, self.activity)

    @cached_property
    def _extended(self) -> ExtendedQueries:
        return ExtendedQueries(self._context.statements)

    @property
    def _context(self) -> SessionContext:
        assert self._begun is not None
        return self._begun

    async def _serve(self, queries: SimpleQueries) -> None:
        """Take messages until the client goes."""
        count = 0
        while True:
            message = await self._next_message()
            if message.kind == TERMINATE or not await self._take(message, queries):
                return
            await self._connection.drained()
            self._connection.check_open()
            count += 1
            if count % MOST_AT_ONCE == 0:
                await asyncio.sleep(0)  # Others come in between, also where all that is said needs no thread.

    async def _next_message(self) -> Message:
        """Wait for the client.

        Raises:
            SessionError: it has said nothing for longer than it allows itself.
        """
        limit = self._context.idle_limit()
        if limit is None:
            return await self._connection.message()
        try:
            async with asyncio.timeout(limit.seconds):
                return await self._connection.message()
        except TimeoutError:
            raise limit.error from None

    async def _take(self, message: Message, queries: SimpleQueries) -> bool:
        """Take one message; False: the session ends."""
        try:
            text = self._checked(message)
        except SessionError as error:
            self._context.failed(error)
            self._context.ready()
            return True
        if message.kind == QUERY:
            return await queries.answer(text)
        if message.kind in _EXTENDED and not self._context.request.is_replication:
            return await self._answer_extended(message)
        if message.kind in _EXTENDED or message.kind == FUNCTION_CALL:
            self._refuse_extended(message.kind)
            while message.kind in _EXTENDED:
                message = await self._connection.message()
                if message.kind == TERMINATE:
                    return False
            self._context.ready()
        elif message.kind == SYNC:
            self._context.ready()
        elif message.kind not in _IGNORED:
            raise SessionError(f"invalid frontend message type {message.kind[0]}", sqlstate=PROTOCOL_VIOLATION)
        return True

    def _checked(self, message: Message) -> str:
        """Return the text of a query; of others check that they have nothing that they must not have.

        Raises:
            SessionError: the message is malformed.
        """
        if message.kind == QUERY:
            return text_of(message.body, self._context.statements.settings.client_encoding)
        if message.kind in (SYNC, FLUSH) and message.body:
            raise SessionError("invalid message format", sqlstate=PROTOCOL_VIOLATION)
        return ""

    async def _answer_extended(self, message: Message) -> bool:
        """Answer a message of the extended protocol; after an error skip to the next Sync. False: the session ends."""
        self._context.is_canceled = False
        self._context.statements.interruption.begin(self._context.statements.settings.milliseconds["statement_timeout"])
        try:
            if self._served.is_ending:
                raise SessionError("terminating connection due to administrator command", sqlstate=ADMIN_SHUTDOWN)
            pieces = self._extended.answer(message)
            self._connection.send(await to_thread(self._context.send_pieces, pieces))
            return True
        except HeadwaterError as error:
            self._context.failed(error)
            await self._context.drop_temporary()
        except ConnectionClosedError:
            raise
        except Exception as error:
            log.exception("a message has failed")
            self._context.failed(unforeseen("answering", error))
        while (message := await self._connection.message()).kind != SYNC:
            if message.kind == TERMINATE:
                return False
        self._context.ready()
        return True

    def _refuse_extended(self, kind: bytes) -> None:
        what = "fastpath function calls" if kind == FUNCTION_CALL else "extended query protocol"
        if self._context.request.is_replication:
            error = SessionError(f"{what} not supported in a replication connection", sqlstate=PROTOCOL_VIOLATION)
        else:
            error = SessionError(f"{what} are not supported here", sqlstate=FEATURE_NOT_SUPPORTED)
        self._context.failed(error)

    async def _leave(self) -> None:
        self._has_left = True
        try:
            if self._begun is not None:
                await self._begun.leave()
        finally:
            self._place.close()
            self._connection.close()


def _terminated() -> SessionError:
    return SessionError("terminating connection due to administrator command", sqlstate=ADMIN_SHUTDOWN)
