"""Simple queries: a command of replication, or statements of SQL, with all answers and ReadyForQuery.

PostgreSQL: exec_replication_command (walsender.c), exec_simple_query (postgres.c).
"""

from __future__ import annotations

import logging
from asyncio import to_thread
from contextlib import closing

from headwater.errors import HeadwaterError, SessionError
from headwater.jobs.unforeseen import unforeseen
from headwater.pg.sqlstates import FEATURE_NOT_SUPPORTED, OBJECT_NOT_IN_PREREQUISITE_STATE
from headwater.protocol.backend_messages import COPY_DONE, EMPTY_QUERY, command_complete, copy_out_response
from headwater.protocol.replication_commands import Command, StartLogical, StartPhysical, parse_command
from headwater.walsender.commands import ReplicationCommands
from headwater.walsender.connection import ConnectionClosedError
from headwater.walsender.operating.answer_counts import Layer
from headwater.walsender.session_context import SessionContext
from headwater.walsender.stream_commands import StreamCommands

log = logging.getLogger("headwater.walsender")


class SimpleQueries:
    """The simple queries of one session.

    Args:
        context: of the session.
    """

    def __init__(self, context: SessionContext) -> None:
        self._context = context
        self._commands, self._streams = ReplicationCommands(context), StreamCommands(context)

    async def answer(self, text: str) -> bool:
        """Answer a simple query; False: the session ends."""
        self._context.begin(text)
        self._context.drop_exported()
        is_open = True
        try:
            self._check_not_ending()
            is_open = await self._done(text)
        except HeadwaterError as error:
            if error is self._context.termination:
                raise
            self._context.failed(error)
            await self._context.drop_temporary()
        except ConnectionClosedError:
            raise
        except Exception as error:
            log.exception("a command has failed")
            self._context.failed(unforeseen("answering", error))
        if is_open:
            self._context.ready()
        return is_open

    def _check_not_ending(self) -> None:
        if self._context.served.is_ending:
            raise SessionError(
                "cannot execute new commands while WAL sender is in stopping mode",
                sqlstate=OBJECT_NOT_IN_PREREQUISITE_STATE,
            )

    async def _done(self, text: str) -> bool:
        """Do what a query asks for; False: the session ends."""
        context = self._context
        command = self._command(text) if context.request.is_replication else None
        if log.isEnabledFor(logging.DEBUG):  # as a server with log_replication_commands and log_statement = all
            log.info("%s: %s", "statement" if command is None else "received replication command", text)
        if command is None:
            await self._answer_sql(text)
            return True
        context.statements.check_not_failed()
        if isinstance(command, StartLogical):
            return await self._streams.logical(command)
        if isinstance(command, StartPhysical):
            return await self._streams.physical(command)
        context.connection.send(await self._commands.answer(command))
        context.served.counts.answered(Layer.COMMANDS)
        return True

    def _command(self, text: str) -> Command | None:
        """Parse a command of replication, with notices of the names that are cut."""
        names = list[str]()
        try:
            return parse_command(text, self._context.served.cluster.version, names.append)
        finally:
            self._context.connection.send(self._context.statements.cut_notices(names))

    async def _answer_sql(self, text: str) -> None:
        if not self._context.request.database:
            raise SessionError(
                "cannot execute SQL commands in WAL sender for physical replication", sqlstate=FEATURE_NOT_SUPPORTED
            )
        copy = self._context.statements.copy_of(text)
        if copy is not None:
            await to_thread(lambda: self._send_copy(copy))
        else:
            last = await to_thread(lambda: self._context.send_pieces(self._context.statements.answers(text)))
            self._context.connection.send(last or EMPTY_QUERY)

    def _send_copy(self, statement: str) -> None:
        """Send the rows of a COPY; runs in a thread, which waits while the client does not take them."""
        for notices in self._context.statements.cut_names(statement):
            self._context.send_from_thread(notices)
        copied = self._context.statements.copied(statement)
        self._context.send_from_thread(copy_out_response(copied.column_count, copied.is_binary))
        count = 0
        with closing(copied.pieces) as pieces:
            for piece in pieces:
                self._context.check_deadline()
                self._context.send_from_thread(piece.data)
                count += piece.count
        self._context.send_from_thread(COPY_DONE + command_complete(f"COPY {count}"))
