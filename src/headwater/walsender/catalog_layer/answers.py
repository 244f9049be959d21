"""SQL about the catalogs, answered by a standby: the last layer but for rows of tables.

A statement runs in a transaction of its own, read only, as the role of the user's name. Where none may log in, or where
it is a superuser, ``pg_monitor`` stands in for it, and what depends on who asks is refused. Settings of the client are
set in that transaction. A connection goes back to a clean state before somebody else gets it. A client's transaction
that reads by one snapshot is one there, too: at the LSN that its rows and its shapes are read at.

A statement is first parsed only. What it is about is told by its tree, before anything is planned: if it reads a
relation of a user that is no view, the client is told where rows can be had. From there on until it is planned nothing
is replayed, so that what is looked at is what runs. Planning computes what is constant: it has a limit of time, so that
it does not hold up all others.

PostgreSQL: postgres.c (exec_parse_message, exec_bind_message), md.c (mdopenfork).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial

from headwater.catalog.copy.server_settings import SESSION_SETTINGS
from headwater.errors import CatalogError, SessionError
from headwater.local_servers.server_errors import LocalServerError
from headwater.pg.catalogs import FIRST_NORMAL_OBJECT_ID
from headwater.pg.sqlstates import INSUFFICIENT_PRIVILEGE, QUERY_CANCELED, SYNTAX_ERROR, UNDEFINED_FILE
from headwater.protocol.backend_messages import Column
from headwater.slots.kept_state import KeptState
from headwater.walsender.catalog_layer.rows_elsewhere import PortalRows, ReadRows
from headwater.walsender.catalog_layer.service_functions import with_values
from headwater.walsender.catalog_layer.table_rows import TableRows, table_rows
from headwater.walsender.catalog_server.asked_connection import Arguments, AskedConnection, Parsed
from headwater.walsender.catalog_server.catalog_servers import CatalogServers
from headwater.walsender.catalog_server.function_rules import refusal
from headwater.walsender.catalog_server.stand_in import STAND_IN
from headwater.walsender.catalog_server.standby import Standby
from headwater.walsender.catalog_server.statement_facts import facts_of, names_table
from headwater.walsender.catalog_server.statement_tree import StatementTree, statement_tree
from headwater.walsender.copying.copied_rows import CopySource
from headwater.walsender.elsewhere import Answered, AskingSession, Described, NotAnsweredError, Parameter

ROWS_REASON = "of rows only SELECT of columns of one table, named with its schema, is answered here; ask the primary"
PLANNING_MILLISECONDS = 10_000
_SELECT = re.compile(r"(?:\s|--[^\n]*+\n|/\*(?:[^*]|\*(?!/))*+\*/|\()*+(?:SELECT|WITH|VALUES|TABLE)\b", re.I)
_NOT_SENT = frozenset(("client_encoding", "logical_decoding_work_mem", "debug_logical_replication_streaming"))


@dataclass(frozen=True)
class _Asked:
    """A connection at a standby, in a transaction.

    Attributes:
        connection, standby: they. stack: gives the connection back.
        is_marked: the transaction goes on behind the statement, also where that fails.
    """

    connection: AskedConnection
    standby: Standby
    stack: ExitStack
    is_marked: bool


class CatalogAnswers:
    """The layer that asks standbys; see :class:`headwater.walsender.elsewhere.Elsewhere`.

    Args:
        servers: the standbys.
        rows: gives what rows are read from; state_at_end: the state of a database at the end of the log.
    """

    def __init__(
        self, servers: CatalogServers, rows: Callable[[], CopySource], state_at_end: Callable[[str], KeptState]
    ) -> None:
        self._servers, self._rows, self._state_at_end = servers, rows, state_at_end

    def describe(self, sql: str, parameters: Sequence[int], session: AskingSession) -> Described:
        """Describe a statement; see the protocol."""
        with self._asked(sql, session) as asked, asked.standby.steadiness.held():
            parsed, tree = _looked_at(sql, parameters, asked)
            if names_table(tree, asked.standby.ask):
                _rows_of(sql, parsed.columns)
            return Described(parsed.parameters, parsed.columns)

    def answer_elsewhere(
        self, sql: str, parameters: Sequence[Parameter], formats: Sequence[int], session: AskingSession
    ) -> Answered:
        """Answer a statement; see the protocol."""
        arguments = _arguments(parameters)
        with self._asked(sql, session) as asked:
            connection, standby = asked.connection, asked.standby
            with standby.steadiness.held():
                parsed, tree = _looked_at(sql, arguments.types, asked)
                if names_table(tree, standby.ask):
                    return self._table_rows(_rows_of(sql, parsed.columns), formats, session, asked)
                _valued(sql, tree, arguments, asked, session)
                with _planned(session) as milliseconds:
                    portal = connection.bind(arguments, formats, milliseconds)
            translated = partial(_translated, standby.is_stood_in_for(session.user))
            notices, connection.notices = b"".join(connection.notices), []
            source = PortalRows(
                *(connection, portal, session.interruption, asked.stack.pop_all(), translated),
                is_marked=asked.is_marked,
            )
            return Answered(parsed.columns, source, notices)

    def _table_rows(self, rows: TableRows, formats: Sequence[int], session: AskingSession, asked: _Asked) -> Answered:
        if session.publications is not None:
            raise NotAnsweredError("the user is limited to publications, whose tables COPY gives")
        if asked.standby.is_stood_in_for(session.user):
            raise NotAnsweredError("rows are read by a role of the source that may log in and is no superuser")
        rows.check_rights(asked.connection)
        at = self._state_at_end(session.database) if session.snapshot is None else session.snapshot
        settings = {name: value for name, value in session.settings if name.lower() in SESSION_SETTINGS}
        return Answered(rows.columns, ReadRows(rows.rows(self._rows(), at, formats, settings), session.interruption))

    def close(self) -> None:
        """Stop the standbys."""
        self._servers.close()

    @contextmanager
    def _asked(self, sql: str, session: AskingSession) -> Iterator[_Asked]:
        """Open a transaction in which a statement is asked.

        Raises:
            NotAnsweredError: it is none that a standby answers, or there is no standby.
        """
        if _SELECT.match(sql) is None:
            raise NotAnsweredError
        with ExitStack() as stack:
            try:
                asked = self._held(session) if session.snapshot is not None else self._alone(session, stack)
            except (LocalServerError, CatalogError) as error:
                raise NotAnsweredError(str(error)) from error
            connection = asked.connection
            is_stood_in_for = asked.standby.is_stood_in_for(session.user)
            with _translated(is_stood_in_for), session.interruption.ended_by(connection.cancel):
                if not asked.is_marked:
                    yield asked
                    return
                asked.standby.renew(connection, session.user, _settings(session))
                with connection.marked():
                    yield asked

    def _alone(self, session: AskingSession, stack: ExitStack) -> _Asked:
        """Open a transaction for one statement, at the end of the log."""
        standby = stack.enter_context(self._servers.lent(session.database, None))
        connection = stack.enter_context(standby.connection(session.user, _settings(session)))
        return _Asked(connection, standby, stack, is_marked=False)

    def _held(self, session: AskingSession) -> _Asked:
        """Return the transaction of a session that reads by one snapshot; it is opened once."""
        opened = session.held.opened
        if not isinstance(opened, _Asked):
            opened = self._opened(session, is_apart=False) or self._opened(session, is_apart=True)
            assert opened is not None
            session.held.opened = opened
            session.held.stack = opened.stack
        if not opened.connection.is_open:
            raise SessionError("the catalogs' server has ended the transaction", sqlstate="40001")
        return replace(opened, stack=ExitStack())

    def _opened(self, session: AskingSession, *, is_apart: bool) -> _Asked | None:
        """Open a transaction at a standby that stands at the session's snapshot; None if it has gone on meanwhile."""
        assert session.snapshot is not None
        with ExitStack() as stack:
            standby = stack.enter_context(self._servers.lent(session.database, session.snapshot, is_apart=is_apart))
            with standby.steadiness.held():
                if not is_apart and standby.feed.end != session.snapshot.state.lsn:
                    return None
                connection = stack.enter_context(standby.connection(session.user, _settings(session)))
                connection.run("SELECT 1")
            return _Asked(connection, standby, stack.pop_all(), is_marked=True)


def _looked_at(sql: str, types: Sequence[int], asked: _Asked) -> tuple[Parsed, StatementTree]:
    """Parse a statement, and look at what it is about; nobody runs yet what users have made.

    Raises:
        NotAnsweredError: parsing might do so already.
    """
    standby = asked.standby
    if standby.leading_names().are_in(sql):
        raise NotAnsweredError("it has a name that leads to a type whose values are read by code of users")
    parsed = asked.connection.parse(sql, types)
    tree = statement_tree(parsed.tree)
    given = {type for type in parsed.parameters if type >= FIRST_NORMAL_OBJECT_ID}
    return parsed, replace(tree, types=tree.types | given)


def _valued(sql: str, tree: StatementTree, arguments: Arguments, asked: _Asked, session: AskingSession) -> None:
    """Parse a statement with the values of our functions in it, and check that it may be answered.

    Raises:
        NotAnsweredError: it may not.
    """
    valued = with_values(sql, tree, asked.standby.feed.end, asked.connection.next_xid)
    if valued != sql:
        try:
            _, tree = _looked_at(valued, arguments.types, asked)
        except SessionError as error:
            if error.sqlstate != SYNTAX_ERROR:
                raise
            raise NotAnsweredError("it calls a function of the log in FROM") from None
    is_limited = session.publications is not None
    asking = asked.standby.asking(session.user, asked.connection, is_limited=is_limited)
    reason = refusal(valued, tree, facts_of(tree, asked.standby.ask), asking)
    if reason is not None:
        raise NotAnsweredError(reason)


@contextmanager
def _translated(is_stood_in_for: bool) -> Iterator[None]:
    """Let errors of a standby be what the client is told.

    Raises:
        NotAnsweredError: the standby lacks what the source has.
    """
    try:
        yield
    except SessionError as error:
        if error.sqlstate == UNDEFINED_FILE:
            raise NotAnsweredError(ROWS_REASON) from error
        if error.sqlstate == INSUFFICIENT_PRIVILEGE and is_stood_in_for:
            raise NotAnsweredError(f"{STAND_IN} stands in for the user: {error.message}") from error
        raise


@contextmanager
def _planned(session: AskingSession) -> Iterator[int]:
    """Give the milliseconds in which a statement must be planned: no more than it may take as a whole.

    Raises:
        NotAnsweredError: it was not, and no limit of the client's is the reason.
    """
    limit = session.milliseconds
    try:
        yield min(limit or PLANNING_MILLISECONDS, PLANNING_MILLISECONDS)
    except SessionError as error:
        is_ours = error.sqlstate == QUERY_CANCELED and "timeout" in error.message
        if is_ours and not 0 < limit <= PLANNING_MILLISECONDS:
            raise NotAnsweredError("to plan it takes too long, which would hold up others") from error
        raise


def _rows_of(sql: str, columns: tuple[Column, ...]) -> TableRows:
    """Return a statement as one that reads rows of one table.

    Raises:
        NotAnsweredError: it does something else.
    """
    rows = table_rows(sql, columns)
    if rows is None:
        raise NotAnsweredError(ROWS_REASON)
    return rows


def _arguments(parameters: Sequence[Parameter]) -> Arguments:
    return Arguments(
        [parameter.type for parameter in parameters],
        [parameter.value for parameter in parameters],
        [int(parameter.is_binary) for parameter in parameters],
    )


def _settings(session: AskingSession) -> list[tuple[str, str]]:
    return [(name.lower(), value) for name, value in session.settings if name.lower() not in _NOT_SENT]
