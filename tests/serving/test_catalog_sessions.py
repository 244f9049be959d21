"""Sessions that ask the catalogs' server: transactions, cursors, statements that are cancelled, large results."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import psycopg
import pytest

from bad_input.servers import run
from headwater.walsender.catalog_server.catalog_servers import MOST_PAST
from serving.catalogs import Pair, answer, connected, pair_of
from serving.raw_queries import SYNC, bind, describe, execute, parse, query, raw_connection
from serving.service import wait_until

pytestmark = pytest.mark.server

LONG = b"SELECT pg_sleep(1000), relname FROM pg_class"
LARGE = "SELECT repeat('x', 100000) FROM pg_attribute, generate_series(1, 10) LIMIT 4000"
MOST_GROWTH = 100 << 20
STARTUP = {"user": "reader", "database": "postgres"}


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    with pair_of(16, tmp_path_factory.mktemp("sessions")) as pair:
        yield pair


def is_active(watching: psycopg.Connection[object], pid: int) -> bool:
    """Tell whether a session of the service runs a statement."""
    rows = watching.execute(f"SELECT 1 FROM pg_stat_activity WHERE pid = {pid} AND state = 'active'".encode())
    return bool(rows.fetchall())


def test_a_statement_is_cancelled(pair: Pair) -> None:
    """The statement ends at the catalogs' server, too, and the session goes on."""
    ours = pair.places("reader")[1]
    with connected(ours) as asking, connected(ours) as watching:
        errors: list[psycopg.Error] = []

        def ask() -> None:
            try:
                asking.execute(LONG)
            except psycopg.Error as error:
                errors.append(error)

        for _ in range(3):
            thread = threading.Thread(target=ask)
            thread.start()
            wait_until(lambda: is_active(watching, asking.info.backend_pid))
            asking.cancel_safe()
            thread.join()
        assert [error.sqlstate for error in errors] == ["57014"] * 3
        assert "due to user request" in str(errors[0])
        assert asking.execute("SELECT count(*) > 100 FROM pg_class").fetchall() == [(True,)]
        asking.execute("SET statement_timeout = '200ms'")
        with pytest.raises(psycopg.errors.QueryCanceled, match="statement timeout"):
            asking.execute(LONG)


def test_a_client_goes(pair: Pair) -> None:
    """Its statement ends, and its session with it."""
    ours = pair.places("reader")[1]
    with connected(ours) as watching:
        with raw_connection(ours, STARTUP) as client:
            client.connection.sendall(query(LONG.decode()) * 3)
            active = "SELECT pid FROM pg_stat_activity WHERE state = 'active' AND query LIKE 'SELECT pg_sleep(1000)%'"
            wait_until(lambda: bool(watching.execute(active.encode()).fetchall()))
        wait_until(lambda: not watching.execute(active.encode()).fetchall())
        with raw_connection(ours, STARTUP) as client:
            client.connection.sendall(parse(LARGE) + bind() + execute() + SYNC)
            client.connection.recv(1000)
        wait_until(lambda: watching.execute("SELECT count(*) FROM pg_stat_activity").fetchone() == (1,))
    assert "Traceback" not in pair.serving.log.read_text()


def peak_of(pid: int) -> int:
    """Return the most memory that a process has had, in bytes."""
    match = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert match is not None
    return int(match[1]) << 10


def test_a_large_result_costs_little_memory(pair: Pair) -> None:
    with connected(pair.places("reader")[1]) as asking:
        asking.execute("SELECT relname FROM pg_class ORDER BY 1").fetchall()
        before = peak_of(pair.serving.pid)
        with asking.cursor() as cursor:
            assert sum(len(row[0]) for row in cursor.stream(LARGE.encode())) == 400_000_000
        assert peak_of(pair.serving.pid) - before < MOST_GROWTH
        with asking.transaction(), asking.cursor("few") as cursor:
            cursor.execute(LARGE.encode())
            assert len(cursor.fetchmany(3)) == 3
            with asking.cursor() as rest:
                assert sum(1 for _ in rest.stream("FETCH ALL FROM few")) == 3997
        assert peak_of(pair.serving.pid) - before < MOST_GROWTH


def test_formats_and_limits(pair: Pair) -> None:
    """A statement is executed once, its columns in a format each, its rows as many at a time as the client wants."""
    listed = "SELECT oid, relname, oid AS again, relkind FROM pg_class WHERE oid < 16384 ORDER BY oid"
    other = "SELECT nspname FROM pg_namespace WHERE oid = 11"
    messages = [
        [query("BEGIN")],
        [parse(listed, "s"), bind(results=(0, 1, 1, 0), portal="p", statement="s"), describe("P", "p"), SYNC],
        [execute(3, "p"), SYNC],
        [parse(other), bind(), execute(), SYNC],
        [execute(2, "p"), execute(1, "p"), SYNC],
        [query(other)],
        [execute(0, "p"), execute(0, "p"), SYNC],
        [query("COMMIT")],
        [execute(0, "p"), SYNC],
        [parse("SELECT random(), random(), relname FROM pg_class LIMIT 0"), bind(results=(0, 1, 0)), execute(), SYNC],
        [bind(results=(0, 2, 0, 0), statement="s"), execute(), SYNC],
    ]
    theirs, ours = pair.places("reader")
    with raw_connection(theirs, STARTUP) as server, raw_connection(ours, STARTUP) as service:
        for sent in messages:
            assert service.answers(*sent) == server.answers(*sent), sent


NAMES = b"SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace ORDER BY 1"
PUBLISHED = b"SELECT pubname FROM pg_catalog.pg_publication ORDER BY 1"
ROWS = b"SELECT line FROM shop.lines"


@pytest.mark.parametrize("level", ["REPEATABLE READ", "SERIALIZABLE"])
def test_a_transaction_reads_by_one_snapshot(pair: Pair, level: str) -> None:
    """Whichever layer answers; what fails in it is undone as on the server."""
    places = pair.places("member")
    word = level[:3].lower()
    with connected(places[0]) as server, connected(places[1]) as service, connected(places[1]) as other:
        both = server, service
        for connection in both:
            connection.execute(f"BEGIN ISOLATION LEVEL {level}".encode())
        then = [[answer(connection, asked) for asked in (NAMES, ROWS)] for connection in both]
        assert then[0] == then[1]
        run(
            pair.server,
            f"CREATE TABLE public.{word}_new (a int)",
            f"CREATE PUBLICATION {word}_pub",
            "INSERT INTO shop.lines VALUES (NULL, 77)",
        )
        assert f"{word}_new" in str(answer(other, NAMES))
        for asked in (NAMES, ROWS):
            assert answer(service, asked) == answer(server, asked)
        for connection in both:
            connection.execute("SAVEPOINT s")
            with pytest.raises(psycopg.errors.UndefinedTable):
                connection.execute("SELECT * FROM pg_nothing")
            connection.execute("ROLLBACK TO s")
            connection.execute("SET LOCAL bytea_output = 'escape'")
        for asked in (NAMES, ROWS, rb"SELECT '\x01ff'::bytea, relname FROM pg_class WHERE oid = 1259"):
            assert answer(service, asked) == answer(server, asked)
        for connection in both:
            connection.execute("COMMIT")
        for asked in (NAMES, PUBLISHED, ROWS):
            assert answer(service, asked) == answer(server, asked)


def test_a_transaction_that_begins_with_a_shape(pair: Pair) -> None:
    """What the catalog answers first is where the catalogs' server stands afterwards, though it has gone on."""
    places = pair.places("member")
    with connected(places[1]) as service, connected(places[1]) as other:
        service.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        service.execute("SELECT 1")
        run(pair.server, "CREATE TABLE public.late_one (a int)", "INSERT INTO shop.lines VALUES (NULL, 78)")
        assert "late_one" in str(answer(other, NAMES))
        assert "late_one" not in str(answer(service, NAMES))
        assert "78" not in str(answer(service, ROWS))
        service.execute("COMMIT")
        assert "late_one" in str(answer(service, NAMES))


@pytest.mark.slow  # A server for each.
def test_past_lsns_are_a_few_at_a_time(pair: Pair) -> None:
    """Each has a server of its own; one more is refused until a transaction that reads one ends."""
    place, count = pair.places("member")[1], b"SELECT count(*) FROM pg_class WHERE relname LIKE 'past!_%' ESCAPE '!'"
    with ExitStack() as stack:
        present, *readers = (stack.enter_context(connected(place)) for _ in range(MOST_PAST + 2))
        for number, reader in enumerate(readers):
            reader.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
            reader.execute("SELECT 1")
            run(pair.server, f"CREATE TABLE public.past_{number} (a int)")
            assert present.execute(count).fetchone() == (number + 1,)
        *few, last = readers
        for number, reader in enumerate(few):
            assert reader.execute(count).fetchone() == (number,)
        last.execute("SAVEPOINT s")
        with pytest.raises(psycopg.errors.FeatureNotSupported) as refused:
            last.execute(count)
        assert f"as of {MOST_PAST} past LSNs already" in str(refused.value.diag.message_hint)
        last.execute("ROLLBACK TO s")
        few[0].execute("COMMIT")
        assert last.execute(count).fetchone() == (MOST_PAST,)
        assert few[1].execute(count).fetchone() == (1,)


def test_a_prepared_statement_whose_columns_change(pair: Pair) -> None:
    run(pair.server, "CREATE VIEW shop.listed AS SELECT oid FROM pg_class", "GRANT SELECT ON shop.listed TO reader")
    places = pair.places("reader")
    with connected(places[0]) as server, connected(places[1]) as service:
        expected = []
        for connection in (server, service):
            query = b"SELECT * FROM shop.listed ORDER BY 1 LIMIT 1"
            assert len(connection.execute(query, prepare=True).fetchall()[0]) == 1
        run(pair.server, "CREATE OR REPLACE VIEW shop.listed AS SELECT oid, relname FROM pg_class")
        for connection in (server, service):
            with pytest.raises(psycopg.errors.FeatureNotSupported) as refused:
                connection.execute(query, prepare=True)
            expected.append(str(refused.value))
        assert expected[0] == expected[1] == "cached plan must not change result type"


KIN = (
    "CREATE ROLE narrow LOGIN",
    "CREATE TABLE shop.parent (a int, secret int)",
    "CREATE TABLE shop.kid () INHERITS (shop.parent)",
    "INSERT INTO shop.parent VALUES (1, 2)",
    "INSERT INTO shop.kid VALUES (3, 4)",
    "CREATE PUBLICATION kin FOR TABLE ONLY shop.parent (a)",
    "GRANT SELECT ON ALL TABLES IN SCHEMA shop TO narrow",
    "GRANT USAGE ON SCHEMA shop TO narrow",
    "ANALYZE shop.parent",
)


def test_a_user_who_is_limited_to_publications(pair: Pair) -> None:
    """It reads no values of other tables: by statistics, by tables that inherit, by conditions."""
    run(pair.server, *KIN)
    with connected(pair.places("narrow")[1]) as narrow:
        for statistics in ("pg_stats", "pg_stats_ext", "pg_stats_ext_exprs"):
            with pytest.raises(psycopg.errors.FeatureNotSupported) as refused:
                narrow.execute(f"SELECT * FROM {statistics}".encode())
            assert "limited to publications" in str(refused.value.diag.message_hint)
        assert copied(narrow, "COPY (SELECT a FROM ONLY shop.parent) TO STDOUT") == b"1\n"
        for statement in (
            "COPY (SELECT a FROM shop.parent) TO STDOUT",
            "COPY (SELECT a FROM ONLY shop.parent WHERE secret = 2) TO STDOUT",
            "COPY shop.parent TO STDOUT",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                copied(narrow, statement)
        run(pair.server, "ALTER PUBLICATION kin ADD TABLE shop.kid (a)")
        assert copied(narrow, "COPY (SELECT a FROM shop.parent) TO STDOUT") == b"1\n3\n"


def copied(connection: psycopg.Connection[object], statement: str) -> bytes:
    """Return what a COPY gives."""
    with connection.cursor() as cursor, cursor.copy(statement.encode()) as copy:
        return b"".join(bytes(data) for data in copy)


SETTINGS_ASKED = (
    "SELECT to_tsvector('the cats'), 'cats'::regclass IS NULL OR true FROM pg_class WHERE oid = 1259",
    "SELECT pg_get_viewdef(oid), array_to_string('{a,NULL}'::text[], '-', '?') FROM pg_class WHERE relname = 'cats'",
    "SELECT now() > '02/03/2004'::timestamptz, '02/03/2004'::date::text FROM pg_class WHERE oid = 1259",
)


def test_settings_of_the_configuration(tmp_path: Path) -> None:
    """Those that change what a statement means are the source's; of the database as the WAL has them."""
    settings = {
        "default_text_search_config": "pg_catalog.english",
        "quote_all_identifiers": "on",
        "array_nulls": "off",
        "datestyle": "SQL, DMY",
    }
    with pair_of(16, tmp_path, **settings) as pair:
        run(
            pair.server,
            "CREATE VIEW public.cats AS SELECT oid FROM pg_class",
            "GRANT SELECT ON public.cats TO PUBLIC",
            "ALTER DATABASE postgres SET quote_all_identifiers = off",
        )
        for _ in range(2):
            for user in ("reader", "postgres"):
                with connected(pair.places(user)[0]) as server, connected(pair.places(user)[1]) as service:
                    for query in SETTINGS_ASKED:
                        assert answer(service, query.encode()) == answer(server, query.encode()), query
            run(
                pair.server,
                "ALTER DATABASE postgres RESET quote_all_identifiers",
                "ALTER ROLE reader SET array_nulls = on",
            )


OVER_VIEWS = (
    "SELECT slot_type, count(*) FROM pg_replication_slots GROUP BY 1 ORDER BY 1",
    "SELECT slot_name FROM pg_replication_slots UNION SELECT 'another' ORDER BY 1",
    "WITH s AS (SELECT * FROM pg_catalog.pg_replication_slots p) SELECT plugin, active FROM s WHERE s.slot_name = 'a'",
    "SELECT max(pg_replication_slots.plugin) FILTER (WHERE not active) FROM pg_replication_slots HAVING count(*) > 1",
    "SELECT d.datname, s.slot_name FROM pg_replication_slots s JOIN pg_database d ON d.datname = s.database ORDER BY 2",
    "SELECT row_number() OVER (ORDER BY slot_name), slot_name FROM pg_replication_slots WHERE slot_name = 'a'",
    "SELECT count(*), bool_or(state = 'streaming') FROM pg_stat_replication GROUP BY usename",
    "SELECT usename FROM pg_stat_activity WHERE query LIKE '%it''s \\%' GROUP BY 1",
    "WITH pg_stat_replication AS (SELECT 1 AS a) SELECT a, count(*) FROM pg_stat_replication GROUP BY 1",
    "SELECT slot_nam, count(*) FROM pg_replication_slots GROUP BY 1",
    "SELECT spill_txns, count(*) FROM pg_stat_replication_slots GROUP BY 1",
)


def test_statements_over_our_views(pair: Pair) -> None:
    """The catalogs' server evaluates what is beyond the service, over the rows that the service has."""
    theirs, ours = pair.places("member")
    with connected(theirs) as server, connected(ours) as service:
        for connection in (server, service):
            for name, plugin in (("a", "test_decoding"), ("b", "pgoutput")):
                connection.execute("SELECT pg_create_logical_replication_slot(%s, %s)", (name, plugin))
            connection.execute("SELECT pg_create_physical_replication_slot('c')")
        for query in OVER_VIEWS:
            assert shown(service, query) == shown(server, query), query
        prepared = "SELECT count(*) FROM pg_replication_slots GROUP BY slot_type HAVING slot_type = 'physical'"
        for connection in (server, service):
            assert connection.execute(prepared, prepare=True).fetchall() == [(1,)]
            connection.execute("SELECT pg_drop_replication_slot('c')")
            assert connection.execute(prepared, prepare=True).fetchall() == []


def shown(connection: psycopg.Connection[object], query: str) -> object:
    """Return what a query gives: columns and rows, or the error without its place."""
    try:
        cursor = connection.execute(query.encode())
    except psycopg.Error as error:
        return error.sqlstate, error.diag.message_primary
    return [(column.name, column.type_code) for column in cursor.description or ()], cursor.fetchall()


def test_the_service_ends_while_a_statement_runs(tmp_path: Path) -> None:
    with pair_of(16, tmp_path) as pair, raw_connection(pair.places("reader")[1], STARTUP) as client:
        with connected(pair.places("reader")[1]) as watching:
            client.connection.sendall(query(LONG.decode()))
            active = "SELECT pid FROM pg_stat_activity WHERE state = 'active' AND query LIKE 'SELECT pg_sleep(1000)%'"
            wait_until(lambda: bool(watching.execute(active.encode()).fetchall()))
        assert pair.serving.stop() == 0


def test_the_number_of_a_transaction(pair: Pair) -> None:
    """Debezium's connector notes it beside rows: it is told the next one. Who asks anything else is refused."""
    asked = b"select (case pg_is_in_recovery() when 't' then '0'::xid8 else pg_current_xact_id() end) AS id"
    run(pair.server, "CREATE TABLE public.numbered (a int)")
    with connected(pair.places("member")[0]) as server, connected(pair.places("member")[1]) as service:
        coming = server.execute("SELECT pg_snapshot_xmax(pg_current_snapshot())::text").fetchall()
        assert service.execute(asked).fetchall() == coming
        for refused in ("SELECT pg_current_xact_id()::text", "SELECT txid_current(), relname FROM pg_class"):
            with pytest.raises(psycopg.Error):
                service.execute(refused.encode())


def test_texts_in_the_clients_encoding(pair: Pair) -> None:
    """Whatever their format."""
    listed = "SELECT obj_description(oid), relname, oid FROM pg_class WHERE relname = 'accents'"
    run(pair.server, "CREATE TABLE public.accents (a int)", "COMMENT ON TABLE public.accents IS 'd\u00e9j\u00e0 vu'")
    theirs, ours = pair.places("reader")
    startup = {**STARTUP, "client_encoding": "LATIN1"}
    with raw_connection(theirs, startup) as server, raw_connection(ours, startup) as service:
        for form in (0, 1):
            sent = parse(listed), bind(results=(form,)), execute(), SYNC
            answers = service.answers(*sent)
            assert answers == server.answers(*sent)
            assert "d\u00e9j\u00e0 vu".encode("latin-1") in [row[0] for kind, row in answers if kind == "D"]  # type: ignore[index]
