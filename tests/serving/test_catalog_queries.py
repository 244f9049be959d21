"""SQL about the catalogs: the service answers as the server does, word by word, now and as of the past."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest

from bad_input.servers import run
from headwater.local_servers.server_programs import find_programs
from headwater.local_servers.server_user import give_to_server
from packaged_servers import is_packaged
from serving.catalogs import CATALOGS, answer, connected, pair_of

pytestmark = pytest.mark.server

LATER = (
    "CREATE TABLE shop.later (a int PRIMARY KEY, b shop.mood DEFAULT 'ok')",
    "ALTER TABLE shop.orders ADD note text DEFAULT 'none', ALTER price TYPE bigint",
    "ALTER TYPE shop.mood ADD VALUE 'new' BEFORE 'sad'",
    "ALTER TABLE shop.lines RENAME line TO number",
    "DROP VIEW shop.open",
    "CREATE ROLE late LOGIN",
    "COMMENT ON TABLE shop.later IS 'from the WAL'",
    "ALTER PUBLICATION few ADD TABLE shop.later",
    "VACUUM FULL pg_catalog.pg_class",
    "REINDEX TABLE pg_catalog.pg_attribute",
    "VACUUM FULL pg_catalog.pg_type",
    "CHECKPOINT",
    "ALTER ROLE late CREATEROLE",
    "ANALYZE shop.orders",
)

COMMANDS = (
    *(r"\d", r"\dt *.*", r"\d shop.*", r"\d+ shop.*", r"\d pg_catalog.pg_class", r"\dn+", r"\du+", r"\dg reader"),
    *(r"\df shop.*", r"\df+ shop.*", r"\da shop.*", r"\do shop.*", r"\dRp+", r"\dRs", r"\dT+ shop.*", r"\dD+ shop.*"),
    *(r"\dO+ shop.*", r"\l", r"\dp shop.*", r"\ddp", r"\drds", r"\di shop.*", r"\dv shop.*", r"\dm shop.*"),
    *(r"\ds shop.*", r"\dE shop.*", r"\dP shop.*", r"\dX", r"\dy", r"\dF shop.*", r"\dL+", r"\dA+", r"\des+"),
    *(r"\dew+", r"\dC", r"\dAc btree", r"\dAf btree int4", r"\dd shop.*"),
)

OF_ROLES = (
    r"\sf shop.touch",
    r"\sv shop.seen",
    "SELECT * FROM information_schema.columns WHERE table_schema = 'shop' ORDER BY table_name, ordinal_position",
    "SELECT * FROM information_schema.table_privileges ORDER BY table_name, grantee, privilege_type, grantor",
    "SELECT tablename, attname, most_common_vals FROM pg_stats ORDER BY 1, 2",
    "SELECT current_user, session_user, current_schemas(true), current_database() LIMIT 1",
    "SELECT 'shop.orders'::regclass::oid, has_table_privilege('shop.orders', 'SELECT'), pg_has_role('Owner', 'MEMBER')",
    "SELECT * FROM pg_authid",
    "SELECT * FROM nothing_of_the_kind",
    "SELEC 1",
)
"""Statements that depend on who asks."""

MAJORS = [
    *filter(is_packaged, (14, 15, 16, 17, 18)),
    *(pytest.param(major, marks=pytest.mark.slow) for major in (19,) if is_packaged(major)),
]


@pytest.mark.parametrize("major", MAJORS)
def test_psql_shows_the_same(tmp_path: Path, major: int) -> None:
    with pair_of(major, tmp_path) as pair:
        pair.check("reader", r"\d shop.*")
        run(pair.server, *LATER)
        pair.check("reader", *COMMANDS)
        pair.check("reader", *OF_ROLES)
        pair.check("member", *OF_ROLES)
        assert pair.serving.stop() == 0


@pytest.mark.slow
@pytest.mark.parametrize("major", MAJORS)
def test_psql_shows_the_same_to_the_superuser(tmp_path: Path, major: int) -> None:
    with pair_of(major, tmp_path) as pair:
        run(pair.server, *LATER)
        pair.check("postgres", *COMMANDS)


@pytest.mark.parametrize("major", MAJORS)
def test_all_rows_of_all_catalogs_are_the_same(tmp_path: Path, major: int) -> None:
    with pair_of(major, tmp_path, wal_compression="on") as pair:
        run(pair.server, *LATER)
        with connected(pair.places("reader")[0]) as theirs, connected(pair.places("reader")[1]) as ours:
            names = [name for (name,) in theirs.execute(CATALOGS).fetchall()]
            assert len(names) > 60
            for name in names:
                query = f'SELECT c::text COLLATE "C" FROM pg_catalog.{name} c ORDER BY 1'.encode()
                assert answer(theirs, query) == answer(ours, query), name


REFUSED = {
    "SELECT count(*) FROM shop.orders": "SELECT of columns of one table",
    "SELECT * FROM shop.open": "rows of view",
    "SELECT a FROM shop.loose": "rows of unlogged table",
    "SELECT a FROM shop.away": "rows of foreign table",
    "SELECT id FROM shop.seen": "rows of materialized view",
    "SELECT * FROM pg_largeobject": "SELECT of columns of one table",
    "SELECT total FROM shop.orders": "row security",
    "SELECT * FROM pg_stat_user_tables": "pg_stat_get",
    "SELECT pg_relation_size(oid) FROM pg_class": "pg_relation_size",
    "SELECT relname FROM pg_class LIMIT pg_backend_pid()": "pg_backend_pid",
    "SELECT current_setting(relname) FROM pg_class": "current_setting",
    "SELECT set_config('role', relname, false) FROM pg_class": "set_config",
    "SELECT shop.total(oid::int) FROM pg_class": "total",
    "SELECT query_to_xml('SELECT 1', true, true, relname) FROM pg_class": "query_to_xml",
    'SELECT U&"\\0070g_backend_pid"() FROM pg_class': "pg_backend_pid",
    "SELECT relname FROM pg_class UNION VALUES (version/**/()), ('')": "version",
    'SELECT version() AS "it\'s", relname AS "it\'s too" FROM pg_class': "version",
    "SELECT $a$'$a$, relname FROM pg_class WHERE txid_current() > 0": "txid_current",
    "SELECT E'\\'', relname FROM pg_class ORDER BY pg_current_xact_id()::text": "pg_current_xact_id",
    "SELECT relname FROM pg_class, pg_current_wal_lsn()": "in FROM",
    "SELECT relname, pg_is_in_recovery(/* of course */) FROM pg_class": "pg_is_in_recovery",
    "SELECT user FROM shop.parts": "SELECT of columns of one table",
    "SELECT setting FROM pg_settings WHERE name = 'max_index_keys'": "pg_show_all_settings",
    "INSERT INTO shop.orders DEFAULT VALUES": "",
    "CREATE TABLE t (a int)": "",
}
"""Statements that are refused, and a word of the reason."""


def test_refusals(tmp_path: Path) -> None:
    with pair_of(16, tmp_path) as pair, connected(pair.places("reader")[1]) as ours:
        for statement, reason in REFUSED.items():
            with pytest.raises(psycopg.errors.FeatureNotSupported) as refused:
                ours.execute(statement.encode())
            assert reason in f"{refused.value} {refused.value.diag.message_hint}", statement
        with connected(pair.places("postgres")[1]) as superuser:
            with pytest.raises(psycopg.errors.FeatureNotSupported) as refused:
                superuser.execute("SELECT has_table_privilege(oid, 'SELECT') FROM pg_class")
            assert "has_table_privilege depends on who asks" in str(refused.value.diag.message_hint)
            with pytest.raises(psycopg.errors.FeatureNotSupported):
                superuser.execute("SELECT id FROM shop.orders")


NAMES_OF_USERS = (
    "CREATE FUNCTION public.less(oid, int) RETURNS bool LANGUAGE plpgsql AS $$BEGIN RAISE 'not this one'; END$$",
    "CREATE OPERATOR public.< (LEFTARG = oid, RIGHTARG = int, FUNCTION = public.less)",
    "CREATE OPERATOR public.>= (LEFTARG = oid, RIGHTARG = int, FUNCTION = public.less)",
    "CREATE OPERATOR public.= (LEFTARG = oid, RIGHTARG = int, FUNCTION = public.less)",
    "CREATE FUNCTION public.unnest(text[]) RETURNS SETOF text LANGUAGE plpgsql AS $$BEGIN RAISE 'nor this'; END$$",
    "ALTER ROLE reader SET work_mem = '8MB'",
    "ALTER DATABASE postgres SET search_path = public, pg_catalog",
)


def test_names_of_users_do_not_come_before_the_servers(tmp_path: Path) -> None:
    """What the service itself asks calls nothing that users of the source have made."""
    with pair_of(16, tmp_path) as pair:
        run(pair.server, *NAMES_OF_USERS)
        for user in ("reader", "postgres"):
            with connected(pair.places(user)[0]) as theirs, connected(pair.places(user)[1]) as ours:
                query = b"SELECT relname FROM pg_catalog.pg_class ORDER BY 1"
                assert answer(ours, query) == answer(theirs, query), user


def test_rows_of_tables(tmp_path: Path) -> None:
    """Rows are those of the server, as text and in binary form, with the rights of the user's role."""
    queries = (
        'SELECT "Order", line FROM shop.lines',
        "SELECT * FROM shop.lines",
        "SELECT line FROM ONLY shop.lines",
        "SELECT b, a FROM shop.parts",
    )
    with pair_of(16, tmp_path) as pair:
        run(
            pair.server,
            "INSERT INTO shop.lines SELECT NULL, n FROM generate_series(1, 3) n",
            r"INSERT INTO shop.parts VALUES (1, 'x'), (2, NULL)",
            "INSERT INTO shop.child VALUES (NULL, 7, 8)",
            "GRANT SELECT ON shop.parts TO member",
        )
        with connected(pair.places("member")[0]) as theirs, connected(pair.places("member")[1]) as ours:
            for query in queries:
                for is_binary in (False, True):
                    rows, expected = (c.execute(query.encode(), binary=is_binary).fetchall() for c in (ours, theirs))
                    assert rows == expected, query
        with connected(pair.places("member")[1]) as ours, pytest.raises(psycopg.errors.InsufficientPrivilege):
            ours.execute("SELECT id FROM shop.orders")


def test_the_past(tmp_path: Path) -> None:
    """A session that reads by a slot's snapshot sees the catalogs as they were there; others see them now."""
    query = b"SELECT relname, relnatts FROM pg_class WHERE relnamespace = 'shop'::regnamespace ORDER BY 1"
    with pair_of(16, tmp_path) as pair:
        ours = pair.places("reader")[1]
        with psycopg.connect(**ours, autocommit=True, replication="database") as maker, connected(ours) as reader:  # type: ignore[arg-type]
            row = maker.execute("CREATE_REPLICATION_SLOT s LOGICAL pgoutput (SNAPSHOT 'export')").fetchone()
            assert row is not None
            with connected(pair.places("reader")[0]) as server:
                then = server.execute(query).fetchall()
            run(pair.server, *LATER)
            reader.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
            reader.execute(f"SET TRANSACTION SNAPSHOT '{row[2]}'".encode())
            assert reader.execute(query).fetchall() == then
            with connected(pair.places("reader")[0]) as server, connected(ours) as present:
                now = server.execute(query).fetchall()
                assert present.execute(query).fetchall() == now != then
            assert reader.execute(query).fetchall() == then
            reader.execute("COMMIT")
            assert reader.execute(query).fetchall() == now


def test_a_compressed_page_of_roles(tmp_path: Path) -> None:
    """Nobody is stood in for behind it: users must be roles of the source."""
    with pair_of(16, tmp_path, wal_compression="on") as pair:
        run(pair.server, "CHECKPOINT", "CREATE ROLE another")
        with connected(pair.places("postgres")[1]) as superuser:
            with pytest.raises(psycopg.errors.FeatureNotSupported) as refused:
                superuser.execute("SELECT relname FROM pg_class LIMIT 1")
            assert "cannot stand in" in str(refused.value.diag.message_hint)
        pair.check("reader", r"\du")


def test_a_promotion(tmp_path: Path) -> None:
    """The catalogs' server goes on with the next timeline, and one that begins behind it goes through both."""
    query = r"\dt public.*"
    with pair_of(16, tmp_path) as pair:
        run(pair.server, "CREATE TABLE public.first (a int)")
        pair.check("reader", query)
        pair.server.stop()
        signal = pair.server.data_directory / "standby.signal"
        signal.touch()
        give_to_server(signal)
        pair.server.start()
        run(pair.server, "SELECT pg_promote()", "CREATE TABLE public.second (a int)", "SELECT pg_switch_wal()")
        run(pair.server, "CREATE TABLE public.third (a int)")
        pair.check("reader", query)
        pair.serving.stop()
        pair.serving.start()
        pair.check("reader", query)


def test_named_programs(tmp_path: Path) -> None:
    """Programs of another major are refused where they are needed, and all else is answered."""
    directories = {major: str(find_programs(major).root / "bin") for major in (16, 18)}
    wrong = ["--postgres-bin", directories[18]]
    with pair_of(16, tmp_path, wrong) as pair, connected(pair.places("reader")[1]) as ours:
        with pytest.raises(psycopg.errors.FeatureNotSupported) as refused:
            ours.execute("SELECT relname FROM pg_class GROUP BY 1")
        assert "expected 16" in str(refused.value.diag.message_hint)
        assert ours.execute("SELECT current_user").fetchall() == [("reader",)]
    (tmp_path / "again").mkdir()
    with pair_of(16, tmp_path / "again", ["--postgres-bin", directories[16]]) as pair:
        pair.check("reader", r"\d shop.orders")
        with connected(pair.places("reader")[1]) as ours:
            ours.execute("SET statement_timeout = '50ms'")
            with pytest.raises(psycopg.errors.QueryCanceled):
                ours.execute("SELECT pg_sleep(9), relname FROM pg_class GROUP BY 2")
