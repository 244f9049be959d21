"""All that stock subscribers of each major ask of a publisher, as its log has it, answered from a backup and WAL.

A publication is copied as a subscriber copies it, with every kind of COPY. Each SELECT must be recognised and answered
as the publisher does, each COPY must be read.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from bad_input.servers import conninfo_of, run, small_server
from headwater.catalog.store.bootstrap import open_catalog
from headwater.catalog.store.historic_catalog import HistoricCatalog
from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.walsender.sql.copy_shapes import CopyTable, parse_copy
from oracle.sql_answers import Answer, answers_of, differences
from oracle.subscriber_queries import CLIENTS

pytestmark = pytest.mark.server

TABLES = """
CREATE SCHEMA "Other one";
CREATE TABLE plain (id int PRIMARY KEY, "Na me" text, "select" int);
CREATE TABLE "Other one"."it's" (id int, body text);
CREATE TABLE nothing ();
CREATE TABLE filtered (id int PRIMARY KEY, name text);
CREATE TABLE listed (id int PRIMARY KEY, name text, secret text);
CREATE TABLE root (id int PRIMARY KEY) PARTITION BY RANGE (id);
CREATE TABLE leaf PARTITION OF root FOR VALUES FROM (0) TO (10);
"""
ROWS = """
INSERT INTO plain VALUES (1, 'a', 2);
INSERT INTO filtered VALUES (1, 'a'), (2, 'b');
INSERT INTO root VALUES (1);
CREATE PUBLICATION "it's" FOR TABLE plain, "Other one"."it's", nothing;
CREATE PUBLICATION root FOR TABLE root WITH (publish_via_partition_root = true);
"""
ROWS_15 = """
CREATE PUBLICATION filtered FOR TABLE filtered WHERE (id > 1 AND name <> ')') WITH (publish = 'insert');
CREATE PUBLICATION filtered_2 FOR TABLE filtered WHERE (CASE WHEN id = 1 THEN false END) WITH (publish = 'insert');
CREATE PUBLICATION listed FOR TABLE listed (id, name);
"""
COMPUTED = "CREATE TABLE computed (id int PRIMARY KEY, twice int GENERATED ALWAYS AS (id * 2) STORED)"
NOT_COMPUTED = "CREATE TABLE computed (id int PRIMARY KEY, twice int)"
ROWS_18 = "CREATE PUBLICATION computed FOR TABLE computed WITH (publish_generated_columns = stored)"

LEFT_TO_COPY = "SELECT count(*) FROM pg_subscription_rel WHERE srsubstate <> 'r'"

LOGGED = re.compile(r"^walsender\|LOG:  statement: (.*(?:\n\t.*)*)", re.MULTILINE)
"""A statement of a replication connection in the server's log."""

SECONDS = 120


@dataclass(frozen=True)
class Served:
    """A publisher that has served a subscriber of each major.

    Attributes:
        statements: what each asked, in order.
        answers: the publisher's answers to all SELECTs.
        catalog: of its stopped files.
    """

    statements: dict[int, list[str]]
    answers: dict[str, Answer]
    catalog: HistoricCatalog


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    everything = metafunc.config.getoption("--all-majors")
    cases = [(major, CLIENTS if everything else (14, 15, 16, 18)) for major in (CLIENTS if everything else (14, 18))]
    metafunc.parametrize("served", cases, indirect=True, ids=[f"pg{major}" for major, _ in cases], scope="module")


@pytest.fixture(scope="module")
def served(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Served:
    major, clients = request.param
    statements = {}
    with small_server(major, log_statement="all", log_line_prefix="%b|") as server:
        make_publisher(server, major)
        for client in clients:
            logged = server.log_file.stat().st_size
            subscribe(server, major, client)
            statements[client] = statements_in(server.log_file, logged)
        selects = [text for texts in statements.values() for text in texts if text.startswith("SELECT")]
        answers = answers_of(server, selects)
        server.stop()
        copy = server.copy_data_directory(tmp_path_factory.mktemp("served") / "copy")
    return Served(statements, answers, open_catalog(copy, "postgres").view((1 << 63) - 1))


def make_publisher(server: EmbeddedPostgres, major: int) -> None:
    """Make tables and publications."""
    scripts = [TABLES, ROWS, ROWS_15 if major >= 15 else ""]
    run(server, *(statement for script in scripts for statement in script.split(";\n") if statement.strip()))
    if major >= 18:
        run(server, COMPUTED, ROWS_18)


def subscribe(server: EmbeddedPostgres, major: int, client: int) -> None:
    """Let a server of a major subscribe, until all is copied, and unsubscribe."""
    names = ['"it\'s"', "root", *(["filtered", "filtered_2", "listed"] if major >= 15 else [])]
    names += ["computed"] if major >= 18 and client >= 18 else []
    options = ["binary = true" if client >= 16 else "binary = false", *(["origin = none"] if client >= 16 else [])]
    conninfo = conninfo_of(server).replace("'", "''")
    create = f"CREATE SUBSCRIPTION s CONNECTION '{conninfo}' PUBLICATION {', '.join(names)} WITH ({', '.join(options)})"
    with small_server(client) as subscriber:
        run(subscriber, *(statement for statement in TABLES.split(";\n") if statement.strip()), NOT_COMPUTED)
        run(subscriber, create, "ALTER SUBSCRIPTION s REFRESH PUBLICATION")
        until = time.monotonic() + SECONDS
        with subscriber.connect() as connection:
            while connection.execute(LEFT_TO_COPY).fetchone() != (0,):
                assert time.monotonic() < until, subscriber.log_file.read_text()[-3000:]
                connection.execute("SELECT pg_sleep(0.01)")
            rows = connection.execute("SELECT * FROM plain").fetchall()
        run(subscriber, "DROP SUBSCRIPTION s")
    assert rows == [(1, "a", 2)]


def statements_in(log: Path, start: int) -> list[str]:
    """List the statements that a server has logged from a place on."""
    text = log.read_bytes()[start:].decode()
    return [statement.replace("\n\t", "\n") for statement in LOGGED.findall(text)]


def test_all_queries_are_answered(served: Served) -> None:
    assert not differences(served.catalog, served.answers)
    assert all(len(texts) > 20 for texts in served.statements.values())


def test_all_copies_are_read(served: Served) -> None:
    for client, statements in served.statements.items():
        copies = [parse_copy(text) for text in statements if text.startswith("COPY")]
        tables = {copy.table for copy in copies if copy is not None}
        assert None not in copies
        assert {"plain", "it's", "nothing", "root"} <= tables
        filtered = [copy for copy in copies if copy is not None and copy.where is not None]
        assert bool(filtered) == (client >= 15 and "filtered" in tables)


def test_nothing_else_is_asked(served: Served) -> None:
    others = {
        text
        for statements in served.statements.values()
        for text in statements
        if not text.startswith(("SELECT", "COPY"))
    }
    assert others == {"BEGIN READ ONLY ISOLATION LEVEL REPEATABLE READ", "COMMIT"}


def test_the_copy_of_a_table(served: Served) -> None:
    client = max(served.statements)
    copies = [parse_copy(text) for text in served.statements[client] if text.startswith("COPY")]
    binary = served.catalog.major >= 16
    assert CopyTable("public", "plain", ("id", "Na me", "select"), is_binary=binary) in copies
