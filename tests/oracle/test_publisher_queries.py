"""The queries of subscribers of all majors, answered from a backup and WAL, compared with the server's own answers."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest

from bad_input.servers import run, small_server, value
from catalog.recording import roll_forward
from headwater.catalog.store.bootstrap import open_catalog
from headwater.errors import SessionError
from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.pg.sqlstates import FEATURE_NOT_SUPPORTED
from headwater.pg.version import VERSIONS
from headwater.rows.session import SessionSettings
from headwater.walsender.sql.publisher_answers import PublisherAnswers
from oracle.published_schema import changes_of, setup_of
from oracle.sql_answers import Answer, answers_of, differences
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
    if "publisher" in metafunc.fixturenames:
        metafunc.parametrize("publisher", majors, indirect=True, ids=[f"pg{major}" for major in majors], scope="module")


@pytest.fixture(scope="module")
def publisher(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Publisher:
    major, directory = request.param, tmp_path_factory.mktemp("publisher")
    asked = []
    with small_server(major) as server:
        server.stop()
        backup = server.copy_data_directory(directory / "backup")
        server.start()
        run(server, *setup_of(major))
        asked.append(ask(server, major))
        run(server, *changes_of(major))
        leave_a_partition_half_detached(server)
        asked.append(ask(server, major))
        server.stop()
        wal = Path(shutil.copytree(server.wal_directory, directory / "pg_wal"))
    return Publisher(major, backup, wal, asked)


def ask(server: EmbeddedPostgres, major: int) -> Asked:
    """Ask a server all queries."""
    with server.connect() as connection:
        relations = connection.execute(RELATIONS.encode()).fetchall()
        names = [name for (name,) in connection.execute("SELECT pubname FROM pg_publication ORDER BY 1").fetchall()]
        row = connection.execute("SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn").fetchone()
    assert row is not None
    return Asked(int(row[0]), answers_of(server, all_queries(major, relations, names)))


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


def leave_a_partition_half_detached(server: EmbeddedPostgres) -> None:
    """Cancel DETACH CONCURRENTLY while it waits for a transaction that has looked at the table."""
    with server.connect() as reader, server.connect() as session:
        reader.execute("BEGIN")
        reader.execute("SELECT FROM root")
        session.execute("SET statement_timeout = 200")
        with pytest.raises(psycopg.errors.QueryCanceled):
            session.execute("ALTER TABLE root DETACH PARTITION root_a CONCURRENTLY")


def test_answers_are_the_servers(publisher: Publisher) -> None:
    store = roll_forward(publisher.backup, publisher.wal).store
    for asked in publisher.asked:
        wrong = differences(store.view(asked.lsn), asked.answers)
        assert not wrong, (len(wrong), wrong[0])


LATIN = """
CREATE SCHEMA "schéma";
CREATE TABLE "schéma"."tàble" ("é" int PRIMARY KEY, "ß,{" text);
CREATE PUBLICATION "pùb" FOR TABLE "schéma"."tàble" WITH (publish = 'insert')
"""


@pytest.mark.parametrize("encoding", ["LATIN1", "EUC_JIS_2004"])
def test_names_of_another_encoding(tmp_path: Path, encoding: str) -> None:
    major = 16
    with small_server(major) as server:
        run(server, f"CREATE DATABASE other ENCODING '{encoding}' LOCALE 'C' TEMPLATE template0")
        with server.connect("other", client_encoding="utf8") as connection:
            for statement in LATIN.split(";\n"):
                connection.execute(statement.encode())
            row = connection.execute("SELECT 'schéma.tàble'::regclass::oid::int").fetchone()
        assert row is not None
        names = ("pùb",)
        texts = [text for client in CLIENTS for text in subscription_queries(client, major, names)]
        texts += [text for client in CLIENTS for text in table_queries(client, major, row[0], names)]
        answers = answers_of(server, [*texts, relation_query("schéma", "tàble")], "other")
        server.stop()
        catalog = open_catalog(server.copy_data_directory(tmp_path / "copy"), "other").view((1 << 63) - 1)
    assert not differences(catalog, answers, "other")


PRINTED = {
    "timezone": "Europe/Berlin",
    "datestyle": "German, DMY",
    "intervalstyle": "sql_standard",
    "extra_float_digits": "0",
    "bytea_output": "escape",
}
CONSTANTS = (
    "at > '2020-07-01 00:00+00' AND day > '2020-07-01'",
    "lasts > interval '1 day 2 hours' AND raw = '\\x0041'",
    "real > '1.23456789'::float4",
)


def test_constants_are_printed_by_the_settings_of_the_session(tmp_path: Path) -> None:
    major = 16
    with small_server(major, **PRINTED) as server:
        run(server, "CREATE TABLE t (at timestamptz, day date, lasts interval, raw bytea, real float4)")
        for number, condition in enumerate(CONSTANTS):
            run(server, f"CREATE PUBLICATION p{number} FOR TABLE t WHERE ({condition}) WITH (publish = 'insert')")
        oid = int(value(server, "SELECT 't'::regclass::oid"))
        texts = [text for number in range(len(CONSTANTS)) for text in table_queries(16, major, oid, [f"p{number}"])]
        answers = answers_of(server, texts)
        server.stop()
        catalog = open_catalog(server.copy_data_directory(tmp_path / "copy"), "postgres").view((1 << 63) - 1)
    settings = SessionSettings(
        timezone=PRINTED["timezone"],
        datestyle=PRINTED["datestyle"],
        intervalstyle=PRINTED["intervalstyle"],
        extra_float_digits=int(PRINTED["extra_float_digits"]),
        bytea_output=PRINTED["bytea_output"],
        major=major,
    )
    assert not differences(catalog, answers, settings=settings)
    assert len(differences(catalog, answers)) == len(CONSTANTS)


def test_a_filter_that_cannot_be_printed(tmp_path: Path) -> None:
    with small_server(18) as server:
        run(server, "CREATE TABLE t (x xml)")
        run(server, "CREATE PUBLICATION p FOR TABLE t WHERE (x IS DOCUMENT) WITH (publish = 'insert')")
        oid = int(value(server, "SELECT 't'::regclass::oid"))
        server.stop()
        catalog = open_catalog(server.copy_data_directory(tmp_path / "copy"), "postgres").view((1 << 63) - 1)
    answers = PublisherAnswers(catalog, VERSIONS[18], "postgres")
    _, lists, filters = table_queries(18, 18, oid, ["p"])
    assert answers.answer(lists) is not None
    with pytest.raises(SessionError, match=r'table "public\.t" in publication "p" cannot be printed') as error:
        answers.answer(filters)
    assert error.value.sqlstate == FEATURE_NOT_SUPPORTED
    assert error.value.hint is not None
