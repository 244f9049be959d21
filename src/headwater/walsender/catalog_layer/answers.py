"""SQL about the catalogs, answered by a standby: the last layer but for rows of tables.

A statement runs in a transaction of its own, read only, as the role of the user's name. Where none may log in, or where
it is a superuser, ``pg_monitor`` stands in for it, and what depends on who asks is refused. Settings of the client are
set in that transaction. A connection goes back to a clean state before somebody else gets it.

A statement is first parsed only. By then it has a lock on each relation that it names: if one of them is a user's, but
no view, nothing is planned, and the client is told where rows can be had. What a plan reads in addition has no file.

Known gap: transactions of a client are not ours: each statement sees the end of the log, or the client's snapshot.

PostgreSQL: parse_relation.c (parserOpenTable), md.c (mdopenfork).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import psycopg
from psycopg.pq.abc import PGresult

from headwater.catalog.copy.server_settings import SESSION_SETTINGS
from headwater.errors import CatalogError, SessionError
from headwater.local_servers.server_errors import LocalServerError
from headwater.pg.sqlstates import INSUFFICIENT_PRIVILEGE, UNDEFINED_FILE
from headwater.protocol.backend_messages import Column, Value
from headwater.slots.kept_state import KeptState
from headwater.walsender.catalog_layer.service_functions import with_values
from headwater.walsender.catalog_layer.table_rows import TableRows, table_rows
from headwater.walsender.catalog_server.asked_connection import Arguments, AskedConnection
from headwater.walsender.catalog_server.catalog_servers import CatalogServers
from headwater.walsender.catalog_server.stand_in import STAND_IN
from headwater.walsender.catalog_server.standby import Standby
from headwater.walsender.copying.copied_rows import CopySource
from headwater.walsender.elsewhere import Answered, AskingSession, Described, NotAnsweredError, Parameter

ROWS_REASON = "of rows only SELECT of columns of one table, named with its schema, is answered here; ask the primary"
_SELECT = re.compile(r"(?:\s|--[^\n]*+\n|/\*(?:[^*]|\*(?!/))*+\*/|\()*+(?:SELECT|WITH|VALUES|TABLE)\b", re.I)
_MAY_DIFFER = re.compile(r"random|uuid|clock_timestamp|timeofday|shuffle|sample", re.I)
"""A statement is executed once for each format."""

_NOT_SENT = frozenset(("client_encoding", "logical_decoding_work_mem", "debug_logical_replication_streaming"))

_TABLES_LOCKED = b"""
SELECT 1 FROM pg_catalog.pg_locks l JOIN pg_catalog.pg_class c ON c.oid OPERATOR(pg_catalog.=) l.relation
WHERE l.locktype OPERATOR(pg_catalog.=) 'relation'::pg_catalog.text
AND l.pid OPERATOR(pg_catalog.=) pg_catalog.pg_backend_pid()
AND l.relation OPERATOR(pg_catalog.>=) 16384::pg_catalog.oid
AND c.relkind OPERATOR(pg_catalog.<>) 'v'::pg_catalog."char"
"""
"""Finds relations of users, but no views, that the statement in hand has named."""


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
        with self._asked(sql, session) as (connection, _):
            described = connection.prepare(sql, parameters)
            columns = _columns(described)
            if _names_table(connection):
                _rows_of(sql, columns)
            types = tuple(described.param_type(i) for i in range(described.nparams))
            return Described(types, columns or None)

    def answer_elsewhere(
        self, sql: str, parameters: Sequence[Parameter], formats: Sequence[int], session: AskingSession
    ) -> Answered:
        """Answer a statement; see the protocol."""
        with self._asked(sql, session) as (connection, standby):
            arguments = _arguments(parameters)
            columns = _columns(connection.prepare(sql, arguments.types))
            if _names_table(connection):
                return self._table_rows(_rows_of(sql, columns), formats, session, standby, connection)
            valued = with_values(sql, standby.feed.end, connection.next_xid())
            if valued != sql:
                connection.prepare(valued, arguments.types)
            asking, rules = standby.asking(session.user, connection), standby.function_rules()
            # Planning runs functions: the text is looked at before.
            refusal = rules.refusal(valued, "", asking) or rules.refusal(
                valued, connection.plan(valued, arguments), asking
            )
            if refusal is not None:
                raise NotAnsweredError(refusal)
            if len(set(formats)) > 1 and _MAY_DIFFER.search(valued) is not None:
                raise NotAnsweredError("values that differ from call to call are told in one format")
            results = {form: connection.execute(arguments, form) for form in sorted(set(formats) or {0})}
            return _answered(columns, results, formats, b"".join(connection.messages))

    def _table_rows(
        self,
        rows: TableRows,
        formats: Sequence[int],
        session: AskingSession,
        standby: Standby,
        connection: AskedConnection,
    ) -> Answered:
        if session.publications is not None:
            raise NotAnsweredError("the user is limited to publications, whose tables COPY gives")
        if standby.is_stood_in_for(session.user):
            raise NotAnsweredError("rows are read by a role of the source that may log in and is no superuser")
        rows.check_rights(connection)
        at = self._state_at_end(session.database) if session.snapshot is None else session.snapshot
        settings = {name: value for name, value in session.settings if name.lower() in SESSION_SETTINGS}
        return rows.answer(self._rows(), at, formats, settings)

    def close(self) -> None:
        """Stop the standbys."""
        self._servers.close()

    @contextmanager
    def _asked(self, sql: str, session: AskingSession) -> Iterator[tuple[AskedConnection, Standby]]:
        """Open a transaction in which a statement is asked.

        Raises:
            NotAnsweredError: it is none that a standby answers, or there is no standby.
        """
        if _SELECT.match(sql) is None:
            raise NotAnsweredError
        try:
            standby = self._servers.standby(session.database, session.snapshot)
            with standby.connection(session.user, _settings(session)) as connection:
                yield connection, standby
        except (LocalServerError, CatalogError, psycopg.Error) as error:
            raise NotAnsweredError(str(error)) from error
        except SessionError as error:
            if error.sqlstate == UNDEFINED_FILE:
                raise NotAnsweredError(ROWS_REASON) from error
            if error.sqlstate == INSUFFICIENT_PRIVILEGE and standby.is_stood_in_for(session.user):
                raise NotAnsweredError(f"{STAND_IN} stands in for the user: {error.message}") from error
            raise


def _names_table(connection: AskedConnection) -> bool:
    """Tell whether the statement that was parsed names a table of a user."""
    return connection.run(_TABLES_LOCKED).ntuples > 0


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


def _columns(result: PGresult) -> tuple[Column, ...]:
    return tuple(
        Column(
            (result.fname(i) or b"").decode("utf-8", "surrogateescape"),
            result.ftype(i),
            result.fsize(i),
            result.fmod(i),
            result.ftable(i),
            result.ftablecol(i),
        )
        for i in range(result.nfields)
    )


def _answered(
    columns: tuple[Column, ...], results: dict[int, PGresult], formats: Sequence[int], messages: bytes
) -> Answered:
    """Put an answer together from results that are each in one format."""
    first = next(iter(results.values()))
    count = first.nfields
    forms = list(formats) if len(formats) == count else [formats[0] if formats else 0] * count
    by_column = [results[form] for form in forms]
    rows: list[tuple[Value, ...]] = [
        tuple(by_column[i].get_value(row, i) for i in range(count)) for row in range(first.ntuples)
    ]
    tag = (first.command_status or b"").decode()
    return Answered(columns or None, rows, tag, messages)
