"""Row filters that the catalog stores out of line: the server sends the same bytes, whoever brings their chunks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from arrow_types import values_of
from headwater import DecodeRequest, decode
from headwater.demo.stream_comparison import first_difference, joined, messages_table
from headwater.errors import UnsupportedFilterError
from headwater.jobs.engine import Engine
from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.local_servers.server_programs import find_programs
from headwater.receiver.catalog_export import export_catalog
from headwater.slots.value_file import save_value

pytestmark = [pytest.mark.server]

MAJORS = [pytest.param(15, marks=pytest.mark.slow), pytest.param(16, marks=pytest.mark.slow), 18]
EARLY, LATE, EXPORTED, BY_A_ROLE = "backup of before", "backup of behind", "exported", "exported by a role"
IS_LONG = "SELECT count(*) FROM pg_publication_rel WHERE pg_column_size(prqual) > 2000"


def long_filter(first: int) -> str:
    """Write a filter of which some texts are there; they do not compress well."""
    return " OR ".join(f"x = md5('{number}')" for number in range(first, first + 250))


SETUP = f"""
CREATE TABLE t (id int PRIMARY KEY, x text);
CREATE TABLE u (id int PRIMARY KEY, x text);
CREATE PUBLICATION p FOR TABLE u WITH (publish = 'insert');
CREATE PUBLICATION old FOR TABLE t WHERE ({long_filter(0)}), u WITH (publish = 'insert');
CREATE ROLE exporter LOGIN REPLICATION;
"""
ROWS = "INSERT INTO t SELECT {0} * 1000 + i, md5(i::text) FROM generate_series(1, 600) i"
WORK = f"""
{ROWS.format(1)};
ALTER PUBLICATION p ADD TABLE t WHERE ({long_filter(100)});
{ROWS.format(2)};
BEGIN;
{ROWS.format(3)};
SAVEPOINT s;
ALTER PUBLICATION p SET TABLE t WHERE ({long_filter(300)}), u;
{ROWS.format(4)};
ROLLBACK TO s;
{ROWS.format(5)};
ALTER PUBLICATION p SET TABLE t WHERE ({long_filter(400)});
{ROWS.format(6)};
COMMIT;
VACUUM FULL pg_publication_rel;
{ROWS.format(7)};
ALTER PUBLICATION p ADD TABLE u WHERE (id > 5);
VACUUM FULL pg_toast.pg_toast_6106;
{ROWS.format(8)};
INSERT INTO u VALUES (5, 'no'), (6, 'yes');
ALTER PUBLICATION p DROP TABLE t;
{ROWS.format(9)};
"""


@dataclass(frozen=True)
class Server:
    """A stopped server: where its WAL is, catalogs by their kind, and what it said with each publication."""

    wal: Path
    catalogs: dict[str, Path]
    start: dict[str, int]
    sent: dict[str, list[tuple[int, int, bytes]]]

    def request(self, kind: str, publication: str) -> DecodeRequest:
        options = (("proto_version", "1"), ("publication_names", publication))
        return DecodeRequest(
            str(self.wal), str(self.catalogs[kind]), plugin="pgoutput", options=options, start=self.start[kind]
        )


@pytest.fixture(scope="module", params=MAJORS)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    place = tmp_path_factory.mktemp("long_filters")
    with EmbeddedPostgres(find_programs(request.param), autovacuum=False) as running:
        run(running, SETUP)
        catalogs = {EARLY: copied(running, place / "early")}
        with running.connect() as connection:
            query = "SELECT lsn - '0/0' FROM pg_create_logical_replication_slot('s', 'pgoutput')"
            first = int(connection.execute(query).fetchall()[0][0])
        before, behind = WORK.split("VACUUM FULL pg_publication_rel;")
        run(running, before)
        with running.connect() as connection:
            assert connection.execute(IS_LONG).fetchone() == (2,)
            catalogs |= {EXPORTED: exported(running, place / "exported", "postgres")}
            catalogs |= {BY_A_ROLE: exported(running, place / "by_a_role", "exporter")}
        catalogs[LATE] = copied(running, place / "late")
        with running.connect() as connection:
            late = int(connection.execute("SELECT pg_current_wal_lsn() - '0/0'").fetchall()[0][0])
        run(running, f"VACUUM FULL pg_publication_rel;{behind}")
        with running.connect() as connection:
            sent = {publication: messages(connection, publication) for publication in ("p", "old")}
        running.stop()
        start = {EARLY: first, LATE: late, EXPORTED: late, BY_A_ROLE: late}
        yield Server(running.wal_directory, catalogs, start, sent)


def run(server: EmbeddedPostgres, statements: str) -> None:
    with server.connect() as connection:
        for statement in filter(str.strip, statements.split(";\n")):
            connection.execute(statement.encode())


def copied(server: EmbeddedPostgres, place: Path) -> Path:
    """Copy the stopped server's files."""
    server.stop()
    copy = server.copy_data_directory(place)
    server.start()
    return copy


def exported(server: EmbeddedPostgres, place: Path, role: str) -> Path:
    info = server.connection_info() | {"user": role}
    save_value(place, export_catalog(" ".join(f"{name}={value}" for name, value in info.items())))
    return place


def messages(connection: Any, publication: str) -> list[tuple[int, int, bytes]]:
    query = (
        "SELECT lsn - '0/0', xid::text::int8, data FROM pg_logical_slot_peek_binary_changes('s', NULL, NULL, "
        "'proto_version', '1', 'publication_names', %s)"
    )
    rows = connection.execute(query, (publication,)).fetchall()
    return [(int(lsn), xid, bytes(data)) for lsn, xid, data in rows]


@pytest.mark.parametrize("publication", ["p", "old"])
@pytest.mark.parametrize("kind", [EARLY, LATE, EXPORTED, BY_A_ROLE])
def test_a_long_filter_lets_the_same_rows_pass(server: Server, engine: Engine, kind: str, publication: str) -> None:
    begins = [lsn for lsn, _, data in server.sent[publication] if lsn >= server.start[kind] and data[:1] == b"B"]
    expected = messages_table(message for message in server.sent[publication] if message[0] >= begins[0])
    assert sum(data[:1] == b"I" for data in values_of(expected.column("data"))) > 200
    with decode(engine, server.request(kind, publication)) as result:
        actual = joined(result.tables())
    assert first_difference(expected, actual) is None, first_difference(expected, actual)


def test_chunks_that_nobody_has_brought(engine: Engine, tmp_path: Path) -> None:
    """A role that may not read them has the filter all the same, until the WAL brings its row, without its chunks."""
    with EmbeddedPostgres(find_programs(18), autovacuum=False) as running:
        run(running, SETUP)
        run(running, f"CREATE PUBLICATION last FOR TABLE u WHERE ({long_filter(0)})")
        run(running, "CHECKPOINT")
        catalog = exported(running, tmp_path / "catalog", "exporter")
        run(running, "INSERT INTO u VALUES (1, md5('7')), (2, 'no')")
        with running.connect() as connection:
            end = int(connection.execute("SELECT pg_current_wal_lsn() - '0/0'").fetchall()[0][0])
        run(running, "ALTER PUBLICATION p SET TABLE u, t;\nINSERT INTO t VALUES (1, md5('7'))")
        running.stop()
        options = (("proto_version", "1"), ("publication_names", "old"))
        request = DecodeRequest(str(running.wal_directory), str(catalog), plugin="pgoutput", options=options)
        with decode(engine, replace(request, end=end)) as result:
            assert joined(result.tables()).num_rows > 0
        with pytest.raises(UnsupportedFilterError, match="not all of its chunks"), decode(engine, request) as result:
            joined(result.tables())
