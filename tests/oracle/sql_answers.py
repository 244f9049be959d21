"""Answers to SQL on a replication connection: the server's over libpq, and ours in the same form."""

from __future__ import annotations

from collections.abc import Iterable

from psycopg import pq
from psycopg.pq import abc

from bad_input.servers import conninfo_of
from headwater.catalog.store.historic_catalog import HistoricCatalog
from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.pg.version import VERSIONS
from headwater.rows.session import SessionSettings
from headwater.walsender.sql.publisher_answers import PublisherAnswers
from headwater.walsender.sql.results import Result
from oracle.subscriber_queries import SEARCH_PATH

Rows = list[tuple[bytes | None, ...]]
Answer = tuple[list[tuple[str, int, int, int, int, int]], Rows, str]
"""Columns: names, types, sizes, modifiers, and of which relation they are which; rows; the tag."""


def replication_connection(server: EmbeddedPostgres, database: str = "postgres") -> abc.PGconn:
    """Open a replication connection, as a subscriber does."""
    conninfo = f"{conninfo_of(server)} dbname={database} client_encoding=UTF8 replication=database"
    connection = pq.PGconn.connect(conninfo.encode())
    assert connection.status == pq.ConnStatus.OK, connection.error_message
    connection.exec_(SEARCH_PATH.encode())
    return connection


def said_by(connection: abc.PGconn, text: str) -> Answer:
    """Return the server's answer."""
    result = connection.exec_(text.encode())
    assert result.status == pq.ExecStatus.TUPLES_OK, (text, result.error_message)
    fields = range(result.nfields)
    columns = [
        (
            (result.fname(field) or b"").decode(),
            *(result.ftype(field), result.fsize(field), result.fmod(field)),
            *(result.ftable(field), result.ftablecol(field)),
        )
        for field in fields
    ]
    rows = [tuple(result.get_value(row, field) for field in fields) for row in range(result.ntuples)]
    return columns, ordered(text, rows), (result.command_status or b"").decode()


def ours(text: str, result: Result) -> Answer:
    """Return our answer in the same form."""
    columns = [
        (column.name, column.type, column.size, column.modifier, column.table, column.number)
        for column in result.columns
    ]
    return columns, ordered(text, list(result.rows)), result.tag


def ordered(text: str, rows: Rows) -> Rows:
    """Sort the rows of a query that leaves their order open."""
    if "ORDER BY" in text:
        return rows
    return sorted(rows, key=lambda row: [(value is None, value or b"") for value in row])


def differences(
    catalog: HistoricCatalog,
    answers: dict[str, Answer],
    database: str = "postgres",
    settings: SessionSettings | None = None,
) -> list[object]:
    """List the queries that are answered in another way than by the server, with both answers."""
    publisher = PublisherAnswers(catalog, VERSIONS[catalog.major], database, settings)
    wrong = list[object]()
    for text, expected in answers.items():
        result = publisher.answer(text)
        actual = None if result is None else ours(text, result)
        if actual != expected:
            wrong.append((text, expected, actual))
    return wrong


def answers_of(server: EmbeddedPostgres, texts: Iterable[str], database: str = "postgres") -> dict[str, Answer]:
    """Ask a server queries on one replication connection."""
    connection = replication_connection(server, database)
    answers = {text: said_by(connection, text) for text in dict.fromkeys(texts)}
    connection.finish()
    return answers
