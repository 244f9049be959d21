"""Stock subscribers that connect to the service: what they have is what the publisher has."""

from __future__ import annotations

import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import psycopg
import pytest

from bad_input.servers import conninfo_of, now, run, small_server, value
from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.slots.slot_directory import is_slot
from packaged_servers import is_packaged
from serving.killed_parts import Subscribers, options_of, subscriber_of, wait_for_work
from serving.large_work import SESSIONS, LargeWork, make_publisher
from serving.service import Serving, backup_of, content, wait_until
from serving.subscribing import TABLES, subscribe, sums

pytestmark = pytest.mark.server

WORK = (
    "INSERT INTO t SELECT i, 'name ' || i, i / 4.0 FROM generate_series(1, 2000) i",
    "INSERT INTO parts SELECT i, CASE WHEN i % 2 = 0 THEN 'a' ELSE 'b' END FROM generate_series(1, 100) i",
    "UPDATE t SET name = upper(name) WHERE id % 3 = 0",
    "DELETE FROM t WHERE id % 7 = 0",
    "BEGIN; INSERT INTO t VALUES (-1, 'gone', 1); ROLLBACK",
    "UPDATE parts SET region = 'b' WHERE id % 10 = 0",
    "INSERT INTO t SELECT -i, repeat('x', 1000), NULL FROM generate_series(2, 3000) i",
)


ALL_READY = "SELECT bool_and(srsubstate = 'r') FROM pg_subscription_rel"
NEWEST_PAIRS = ((19, 19), (16, 19), (19, 16))
ODD_PAIRS = ((15, 14), (15, 18), (17, 15), (17, 18))
SLOW_PAIRS = ((16, 16), (18, 18), (14, 18), (18, 14), *NEWEST_PAIRS, *ODD_PAIRS)
PAIRS = [
    (16, 18),
    *(pytest.param(*pair, marks=pytest.mark.slow) for pair in SLOW_PAIRS if all(map(is_packaged, pair))),
]


@pytest.mark.parametrize(("major", "subscriber_major"), PAIRS)
def test_without_a_copy(tmp_path: Path, major: int, subscriber_major: int) -> None:
    with small_server(major) as publisher, small_server(subscriber_major) as subscriber:
        run(publisher, *TABLES, "CREATE PUBLICATION p FOR ALL TABLES")
        run(subscriber, *TABLES)
        catalog = backup_of(publisher, tmp_path / "base")
        with Serving(publisher.wal_directory, catalog, tmp_path / "slots", "-v") as serving:
            subscribe(subscriber, serving, "copy_data = false")
            run(publisher, *WORK)
            expected = sums(publisher)
            wait_until(lambda: sums(subscriber) == expected)
            run(subscriber, "DROP SUBSCRIPTION s")
            assert serving.stop() == 0
        log = serving.log.read_text()
        assert 'LOG:  received replication command: START_REPLICATION SLOT "s" LOGICAL' in log
        assert "LOG:  statement: SELECT pg_catalog.set_config('search_path', '', false)" in log


@pytest.mark.slow
def test_who_retains_dead_tuples_goes_on_without_an_answer(tmp_path: Path) -> None:
    """A subscriber of 19 asks for the primary's status; what it applies does not wait for the answer."""
    settings = {"track_commit_timestamp": "on"}
    with small_server(19) as publisher, small_server(19, **settings) as subscriber:
        run(publisher, *TABLES, "CREATE PUBLICATION p FOR ALL TABLES")
        run(subscriber, *TABLES)
        catalog = backup_of(publisher, tmp_path / "base")
        with Serving(publisher.wal_directory, catalog, tmp_path / "slots", "-v") as serving:
            subscribe(subscriber, serving, "retain_dead_tuples = true")
            wait_until(lambda: b"a subscriber asks for the primary's status" in content(serving.log))
            run(publisher, *WORK)
            expected = sums(publisher)
            wait_until(lambda: sums(subscriber) == expected)
            run(subscriber, "DROP SUBSCRIPTION s")
            assert serving.stop() == 0
            assert content(serving.log).count(b"a subscriber asks for the primary's status") == 1


@pytest.mark.parametrize("has_upstream", [True, False], ids=["rows of the primary", "rows of the backup"])
@pytest.mark.parametrize(("major", "subscriber_major"), PAIRS)
def test_with_its_defaults(tmp_path: Path, major: int, subscriber_major: int, has_upstream: bool) -> None:
    """Rows come from the primary, or the backup and WAL, and what follows from WAL, while work goes on."""
    with small_server(major) as publisher, small_server(subscriber_major) as subscriber:
        run(publisher, *TABLES, "CREATE PUBLICATION p FOR ALL TABLES", *WORK[:4])
        run(subscriber, *TABLES)
        catalog = backup_of(publisher, tmp_path / "base")
        upstream = ("--upstream", conninfo_of(publisher)) if has_upstream else ()
        with Serving(publisher.wal_directory, catalog, tmp_path / "slots", *upstream, "-v") as serving:
            subscribe(subscriber, serving, "connect = true")
            run(publisher, *WORK[4:])
            expected = sums(publisher)
            wait_until(lambda: sums(subscriber) == expected)
            run(publisher, "CREATE TABLE later (a int PRIMARY KEY, b text)", "INSERT INTO later SELECT 1, 'x'")
            run(subscriber, "CREATE TABLE later (a int PRIMARY KEY, b text)")
            run(subscriber, "ALTER SUBSCRIPTION s REFRESH PUBLICATION")
            run(publisher, "INSERT INTO later SELECT 2, 'y'")
            wait_until(lambda: value(subscriber, "SELECT count(*) FROM later") == "2")
            wait_until(
                lambda: value(subscriber, "SELECT bool_and(srsubstate = 'r') FROM pg_subscription_rel") == "True"
            )
            run(subscriber, "DROP SUBSCRIPTION s")
            assert [path.name for path in (tmp_path / "slots").iterdir() if is_slot(path)] == []
            assert serving.stop() == 0


@pytest.mark.slow
@pytest.mark.parametrize(("major", "subscriber_major"), [(15, 16), (15, 19), (17, 16), (17, 19)])
def test_large_work_beside_copies(tmp_path: Path, major: int, subscriber_major: int) -> None:
    """Transactions are large, nested, rolled back, streamed and prepared, while tables are copied, and after that."""
    with small_server(major) as publisher, subscriber_of(subscriber_major) as server:
        make_publisher(publisher, has_rows=True)
        catalog = backup_of(publisher, tmp_path / "base")
        with Serving(publisher.wal_directory, catalog, tmp_path / "slots") as serving:
            with LargeWork(lambda: publisher, major) as work:
                subscribers = Subscribers(server, serving, options_of(major, subscriber_major), copies=True)
                wait_for_work(work, 50)
            subscribers.wait_for_copies()
            with LargeWork(lambda: publisher, major, SESSIONS) as work:
                wait_for_work(work, 50)
            subscribers.wait_for_equal(publisher)
            subscribers.drop()
            assert serving.stop() == 0


def test_the_primary_is_stopped(tmp_path: Path) -> None:
    """A new subscriber gets the tables, from a backup and WAL alone."""
    with small_server(16) as publisher, small_server(18) as subscriber:
        run(publisher, *TABLES, "CREATE PUBLICATION p FOR TABLE t WHERE (id > 5), parts", *WORK[:3])
        run(subscriber, *TABLES)
        catalog = backup_of(publisher, tmp_path / "base")
        run(publisher, *WORK[3:])
        run(publisher, "DELETE FROM t WHERE id <= 5")
        expected = sums(publisher)
        publisher.stop()
        with Serving(publisher.wal_directory, catalog, tmp_path / "slots") as serving:
            subscribe(subscriber, serving, "connect = true")
            wait_until(lambda: sums(subscriber) == expected)
            run(subscriber, "DROP SUBSCRIPTION s")
            assert serving.stop() == 0


def test_from_a_slot_of_the_past(tmp_path: Path) -> None:
    """A slot that was made at yesterday's LSN, the primary stopped: what followed is streamed, rows may be copied."""
    with small_server(16) as publisher, small_server(18) as subscriber, small_server(16) as copied:
        run(publisher, *TABLES, "CREATE PUBLICATION p FOR ALL TABLES")
        for server in (subscriber, copied):
            run(server, *TABLES)
        catalog = backup_of(publisher, tmp_path / "base")
        run(publisher, *WORK[:3])
        yesterday = now(publisher)
        copy_rows(publisher, copied)
        run(publisher, *WORK[3:])
        expected = sums(publisher)
        assert sums(copied) != expected
        publisher.stop()
        with Serving(publisher.wal_directory, catalog, tmp_path / "slots") as serving:
            for server, slot, options in ((subscriber, "a", "copy_data = true"), (copied, "b", "copy_data = false")):
                flags = ["--wal", publisher.wal_directory, "--catalog", catalog, "--at", yesterday]
                command = "slot", "create", tmp_path / "slots" / slot, *flags, "--plugin", "pgoutput"
                subprocess.run([sys.executable, "-m", "headwater.cli.main", *map(str, command)], check=True)
                subscribe(server, serving, f"create_slot = false, slot_name = {slot}, {options}")
                wait_until(lambda server=server: sums(server) == expected)  # type: ignore[misc]
            wait_until(lambda: value(subscriber, ALL_READY) == "True")
            for server in (subscriber, copied):
                run(server, "DROP SUBSCRIPTION s")
            assert serving.stop() == 0


COUNTING = (
    "CREATE TABLE counts (what text, number int DEFAULT 0)",
    "INSERT INTO counts VALUES ('INSERT'), ('UPDATE'), ('DELETE')",
    "CREATE FUNCTION counted() RETURNS trigger LANGUAGE plpgsql AS "
    "$$BEGIN UPDATE public.counts SET number = number + 1 WHERE what = TG_OP; RETURN NULL; END$$",
    "CREATE TRIGGER counted AFTER INSERT OR UPDATE OR DELETE ON t FOR EACH ROW EXECUTE FUNCTION counted()",
    "ALTER TABLE t ENABLE REPLICA TRIGGER counted",
)
COUNTS = "SELECT string_agg(what || ' ' || number, ', ' ORDER BY what) FROM counts"


@pytest.mark.parametrize(
    ("major", "subscriber_major"),
    [(16, 18), *(pytest.param(*pair, marks=pytest.mark.slow) for pair in ((14, 16), (18, 14), (15, 17)))],
)
def test_yesterdays_rows_and_what_followed(tmp_path: Path, major: int, subscriber_major: int) -> None:
    """A subscriber begins at an LSN that it names: with the rows of then, and each change since as a change."""
    with small_server(major) as publisher, small_server(subscriber_major) as subscriber:
        run(publisher, *TABLES, "CREATE PUBLICATION p FOR ALL TABLES")
        run(subscriber, *TABLES, *COUNTING)
        catalog = backup_of(publisher, tmp_path / "base")
        run(publisher, *WORK[:3])
        yesterday = now(publisher)
        run(publisher, *WORK[3:])
        expected = sums(publisher)
        publisher.stop()
        with Serving(publisher.wal_directory, catalog, tmp_path / "slots") as serving:
            place = f"host=127.0.0.1 port={serving.port} dbname=postgres user=postgres"
            at = f"options=''-c headwater.slots_at={yesterday}''"
            run(subscriber, f"CREATE SUBSCRIPTION s CONNECTION '{place} {at}' PUBLICATION p")
            wait_until(lambda: sums(subscriber) == expected)
            wait_until(lambda: value(subscriber, ALL_READY) == "True")
            # WORK[:3] left 2000 rows; then 285 were deleted, and 2999 inserted.
            assert value(subscriber, COUNTS) == "DELETE 285, INSERT 4999, UPDATE 0"
            run(subscriber, "DROP SUBSCRIPTION s")
            assert serving.stop() == 0


def test_where_a_slot_cannot_begin(tmp_path: Path) -> None:
    with small_server(16) as publisher:
        catalog = backup_of(publisher, tmp_path / "base")
        with Serving(publisher.wal_directory, catalog, tmp_path / "slots") as serving:
            place = f"host=127.0.0.1 port={serving.port} dbname=postgres user=postgres"
            with psycopg.connect(place, autocommit=True) as session:
                with pytest.raises(psycopg.errors.InvalidParameterValue, match="invalid value for parameter"):
                    session.execute("SET headwater.slots_at = 'yesterday'")
                for at in ("0/1", "FFFFFFFF/0"):
                    session.execute(f"SET headwater.slots_at = '{at}'".encode())
                    with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState, match="a slot cannot begin at"):
                        session.execute("SELECT pg_create_logical_replication_slot('s', 'pgoutput')")
                session.execute("RESET headwater.slots_at")
                session.execute("SELECT pg_create_logical_replication_slot('s', 'pgoutput')")
            assert serving.stop() == 0


def copy_rows(source: EmbeddedPostgres, target: EmbeddedPostgres) -> None:
    """Copy what the tables have now."""
    with source.connect() as reading, target.connect() as writing:
        for table in ("t", "parts"):
            with (
                reading.cursor().copy(f"COPY (SELECT * FROM {table}) TO STDOUT") as rows,
                writing.cursor().copy(f"COPY {table} FROM STDIN") as into,
            ):
                for row in rows:
                    into.write(row)


def test_the_primary_is_asked_for_rows_of_tables_alone(tmp_path: Path) -> None:
    """A condition that is no row filter, or a catalog, would be read with the rights of the service."""
    with small_server(16) as publisher:
        run(publisher, *TABLES, "CREATE PUBLICATION p FOR TABLE t WHERE (id > 5)")
        catalog = backup_of(publisher, tmp_path / "base")
        upstream = ("--upstream", conninfo_of(publisher))
        with Serving(publisher.wal_directory, catalog, tmp_path / "slots", *upstream) as serving:
            place = f"host=127.0.0.1 port={serving.port} dbname=postgres user=postgres replication=database"
            for slot, source, is_refused in (
                ("a", "public.t WHERE (id > 5)", False),
                ("b", "public.t WHERE EXISTS (SELECT 1 FROM pg_authid)", True),
                ("c", "pg_catalog.pg_authid", True),
            ):
                with psycopg.connect(place, autocommit=True) as session:
                    session.execute("BEGIN READ ONLY ISOLATION LEVEL REPEATABLE READ")
                    session.execute(
                        f"CREATE_REPLICATION_SLOT {slot} TEMPORARY LOGICAL pgoutput (SNAPSHOT 'use')".encode()
                    )
                    columns = "rolname" if "pg_authid" in source and "WHERE" not in source else "id"
                    expected = pytest.raises(psycopg.errors.FeatureNotSupported) if is_refused else nullcontext()
                    copy = f"COPY (SELECT {columns} FROM {source}) TO STDOUT".encode()
                    with expected, session.cursor().copy(copy) as rows:
                        assert list(rows) == []


def test_an_upstream_of_another_cluster_is_refused(tmp_path: Path) -> None:
    """Its rows would be taken for those of the WAL."""
    with small_server(16) as publisher, small_server(18) as other:
        run(publisher, *TABLES, "CREATE PUBLICATION p FOR ALL TABLES")
        catalog = backup_of(publisher, tmp_path / "base")
        upstream = ("--upstream", conninfo_of(other))
        with Serving(publisher.wal_directory, catalog, tmp_path / "slots", *upstream) as serving:
            place = f"host=127.0.0.1 port={serving.port} dbname=postgres user=postgres replication=database"
            with psycopg.connect(place, autocommit=True) as session:
                session.execute("BEGIN READ ONLY ISOLATION LEVEL REPEATABLE READ")
                with pytest.raises(psycopg.errors.InternalError_, match="the primary is another cluster"):
                    session.execute("CREATE_REPLICATION_SLOT s LOGICAL pgoutput (SNAPSHOT 'use')")
            assert [path for path in (tmp_path / "slots").iterdir() if is_slot(path)] == []


def test_a_source_that_subscribes_itself(tmp_path: Path) -> None:
    """Who asks for rows of no other origin is warned of tables that the source has from elsewhere."""
    with small_server(16) as publisher, small_server(16) as subscriber:
        run(publisher, *TABLES, "CREATE PUBLICATION p FOR TABLE t", "CREATE PUBLICATION q FOR TABLE parts")
        run(publisher, "SELECT pg_create_logical_replication_slot('own', 'pgoutput')")
        options = "create_slot = false, enabled = false, copy_data = false"
        own = f"CREATE SUBSCRIPTION own CONNECTION $${conninfo_of(publisher)}$$ PUBLICATION p WITH ({options})"
        catalog = backup_of(publisher, tmp_path / "base")
        run(publisher, own)
        run(subscriber, *TABLES)
        with Serving(publisher.wal_directory, catalog, tmp_path / "slots") as serving:
            warnings: list[str] = []
            with subscriber.connect() as session:
                session.add_notice_handler(lambda notice: warnings.append(str(notice.message_primary)))
                place = f"host=127.0.0.1 port={serving.port} dbname=postgres user=postgres"
                for name, publication in (("s", "p"), ("u", "q")):
                    statement = f"CREATE SUBSCRIPTION {name} CONNECTION '{place}' PUBLICATION {publication}"
                    session.execute(f"{statement} WITH (origin = none)".encode())
            run(subscriber, "DROP SUBSCRIPTION s", "DROP SUBSCRIPTION u")
            assert serving.stop() == 0
    expected = 'subscription "s" requested copy_data with origin = NONE but might copy data that had a different origin'
    assert [text for text in warnings if "origin" in text] == [expected]
