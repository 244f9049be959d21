"""The queries of subscribers of all majors, answered from a backup and WAL, compared with the server's own answers."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from psycopg import pq

from bad_input.servers import conninfo_of, run, small_server
from catalog.recording import roll_forward
from headwater.demo.embedded_postgres import EmbeddedPostgres
from headwater.pg.version import VERSIONS
from headwater.walsender.sql.publisher_answers import PublisherAnswers
from headwater.walsender.sql.results import Result
from oracle.published_schema import changes_of, setup_of
from oracle.subscriber_queries import (
    CLIENTS,
    SEARCH_PATH,
    relation_query,
    subscription_queries,
    table_queries,
)

pytestmark = pytest.mark.server

RELATIONS = """
SELECT c.oid::text, n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
 WHERE c.relkind IN ('r', 'p') AND c.oid >= 16384 ORDER BY c.oid
"""
GROUPS = (
    ("pub_leaves", "pub_root"),
    ("pub_all", "pub_root"),
    ("pub_leaf", "pub_root"),
    ("pub_leaf", "pub_mid", "pub_mid_root"),
    ("nobody",),
    ("nobody", "pub_some", "pub_some", "it's"),
    ("pub_list", "pub_list_2"),
    ("pub_list", "pub_some"),
    ("pub_list", "pub_list_root"),
    ("pub_rows", "pub_rows_2"),
    ("pub_rows", "pub_rows_root", "pub_some"),
    ("pub_schema", "pub_schema_table", "pub_rows"),
    ("pub_schema_root", "pub_public_root"),
    ("pub_generated", "pub_not_generated"),
    ("l" * 70,),
)
"""Publications that are asked for together; some exist in some majors only, some in none."""

OTHERS = (
    SEARCH_PATH,
    "SELECT pg_is_in_recovery()",
    "select  pg_catalog.pg_is_in_recovery ( ) ;",
    "SELECT current_database();",
    "SELECT 1",
    "SELECT puballtables FROM pg_publication WHERE pubname = 'pub_all'",
    "SELECT puballtables FROM pg_publication WHERE pubname = 'nobody'",
    "SELECT schemaname, tablename FROM pg_publication_tables WHERE pubname = 'pub_some'",
    *(relation_query("public", name) for name in ("seen", "numbers", "plain_pkey", "seen_once", "missing")),
    relation_query("pg_catalog", "pg_class"),
    relation_query("missing", "plain"),
)

Rows = list[tuple[bytes | None, ...]]
Answer = tuple[list[tuple[str, int, int, int]], Rows, str]
"""Names, types, sizes and modifiers of columns; rows; the tag."""


@dataclass(frozen=True)
class Asked:
    """The server's answers at an LSN, by query."""

    lsn: int
    answers: dict[str, Answer]


@dataclass(frozen=True)
class Publisher:
    """A server's answers at two LSNs, and its files: before all, and the WAL."""

    major: int
    backup: Path
    wal: Path
    asked: list[Asked]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    majors = (14, 15, 16, 17, 18, 19) if metafunc.config.getoption("--all-majors") else (14, 15, 16, 18)
    metafunc.parametrize("publisher", majors, indirect=True, ids=[f"pg{major}" for major in majors], scope="module")


@pytest.fixture(scope="module")
def publisher(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Publisher]:
    major, directory = request.param, tmp_path_factory.mktemp("publisher")
    asked = []
    with small_server(major) as server:
        server.stop()
        backup = server.copy_data_directory(directory / "backup")
        server.start()
        for statements in (setup_of(major), changes_of(major)):
            run(server, *statements)
            asked.append(ask(server, major))
        server.stop()
        wal = Path(shutil.copytree(server.wal_directory, directory / "pg_wal"))
    yield Publisher(major, backup, wal, asked)


def ask(server: EmbeddedPostgres, major: int) -> Asked:
    """Ask a server all queries."""
    with server.connect() as connection:
        relations = connection.execute(RELATIONS.encode()).fetchall()
        names = [name for (name,) in connection.execute("SELECT pubname FROM pg_publication ORDER BY 1").fetchall()]
        row = connection.execute("SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn").fetchone()
    assert row is not None
    connected = connect(server)
    texts = dict.fromkeys(all_queries(major, relations, names))
    answers = {text: said_by(connected, text) for text in texts}
    connected.finish()
    return Asked(int(row[0]), answers)


def connect(server: EmbeddedPostgres) -> pq.PGconn:
    """Open a replication connection, as a subscriber does."""
    connection = pq.PGconn.connect(f"{conninfo_of(server)} replication=database".encode())
    assert connection.status == pq.ConnStatus.OK, connection.error_message
    connection.exec_(SEARCH_PATH.encode())
    return connection


def all_queries(major: int, relations: Iterable[tuple[str, str, str]], names: list[str]) -> Iterator[str]:
    """Give the queries of all clients for all tables and publications."""
    groups = [*((name,) for name in names), *GROUPS, tuple(name for name in names if not name.startswith("f"))]
    yield from OTHERS
    yield from (relation_query(schema, table) for _, schema, table in relations)
    for client in CLIENTS:
        for group in groups:
            yield from subscription_queries(client, major, group)
            # Each row filter has a publication of its own.
            for oid, _, table in relations:
                if group[0][0] != "f" or table == "filtered":
                    yield from table_queries(client, major, int(oid), group)


def said_by(connection: pq.PGconn, text: str) -> Answer:
    """Return the server's answer."""
    result = connection.exec_(text.encode())
    assert result.status == pq.ExecStatus.TUPLES_OK, (text, result.error_message)
    fields = range(result.nfields)
    columns = [
        ((result.fname(field) or b"").decode(), result.ftype(field), result.fsize(field), result.fmod(field))
        for field in fields
    ]
    rows = [tuple(result.get_value(row, field) for field in fields) for row in range(result.ntuples)]
    return columns, ordered(text, rows), (result.command_status or b"").decode()


def ours(text: str, result: Result) -> Answer:
    """Return our answer in the same form."""
    columns = [(column.name, column.type, column.size, column.modifier) for column in result.columns]
    return columns, ordered(text, list(result.rows)), result.tag


def ordered(text: str, rows: Rows) -> Rows:
    """Sort the rows of a query that leaves their order open."""
    if "ORDER BY" in text:
        return rows
    return sorted(rows, key=lambda row: [(value is None, value or b"") for value in row])


def test_answers_are_the_servers(publisher: Publisher) -> None:
    store = roll_forward(publisher.backup, publisher.wal).store
    wrong, count = [], 0
    for asked in publisher.asked:
        answers = PublisherAnswers(store.view(asked.lsn), VERSIONS[publisher.major], "postgres")
        for text, expected in asked.answers.items():
            result = answers.answer(text)
            actual = None if result is None else ours(text, result)
            count += 1
            if actual != expected:
                wrong.append((text, expected, actual))
    print(f"{count} queries")
    assert not wrong, (len(wrong), wrong[0])
