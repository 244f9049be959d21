"""The extended query protocol: messages to the service and to a server, answered alike; drivers that speak it."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from psycopg import pq

from bad_input.servers import run, small_server
from headwater.local_servers.server_programs import program_version
from serving.answers import conninfo_at, places
from serving.raw_queries import (
    FLUSH,
    SYNC,
    bind,
    close,
    describe,
    execute,
    message,
    parse,
    query,
    raw_connection,
)
from serving.service import Serving, backup_of

pytestmark = pytest.mark.server

FAILING = (
    "SELECT pg_drop_replication_slot('nothing')",
    "SELECT 1, 1/0",
    "SELECT 1/0 WHERE false",
    "SELECT 1 WHERE 1/0 > 0",
    "SELECT * FROM pg_logical_slot_get_changes('nothing', NULL, NULL)",
    "SELECT 1/0 FROM pg_replication_slots",
    "SELECT 1/0 + count(*) FROM pg_replication_slots",
    "SELECT 1/(pg_backend_pid()*0)",
    "SELECT 1/0, pg_backend_pid()",
    "SELECT pg_create_logical_replication_slot('Bad Name', 'test_decoding')",
    "SELECT current_setting('nothing')",
    "SELECT set_config('nothing', 'x', false)",
    "SELECT 1 LIMIT -1",
    "SELECT get_byte('\\x00', 5)",
    "SELECT pg_wal_lsn_diff('0/1', 'x')",
    "SELECT 5; SELECT current_setting('nothing'); SELECT 6",
    "SHOW nothing",
)
"""Queries that fail: before they run, or behind the description of their rows."""

LONG = "Ab" * 32
WITH_LONG_NAMES = (
    f'SELECT 1 AS {LONG}, 2 AS "{LONG}" -- {LONG}',
    f"SELECT /* {LONG} */ $a$ {LONG} $a$, '{LONG}'",
    f"SELECT 1 AS {LONG} FROM",
    f"SELECT 1 + {LONG}",
    f"SELECT relname AS {LONG} FROM pg_class WHERE relname = 'pg_class'",
    f"BEGIN; SAVEPOINT {LONG}; ROLLBACK TO {LONG}; COMMIT",
    f"SET application_name TO '{LONG}'",
    "SHOW application_name",
    "SET client_min_messages TO warning",
    f"SELECT 1 AS {LONG}",
    "RESET client_min_messages",
)
_NUMBERS = ("NaN", "Infinity", "-inf", "0", "-2")
OF_SPECIALS = [
    (left, sign, right)
    for sign in ("+", "-", "*", "/", "%", "=", "<", ">=")
    for left in _NUMBERS
    for right in _NUMBERS
    if sign not in ("/", "%") or right != "0"
]
SPECIALS = (
    "SELECT ' nan '::numeric, '+Infinity'::numeric::text, - 'inf'::numeric",
    "SELECT '-nan'::numeric",
    "SELECT 'Infinity'::numeric / 0",
    "SELECT 'NaN'::numeric::int",
    "SELECT 1.5::numeric::oid",
    "SELECT 0 * -2.5, '-0.00'::numeric",
    "SELECT '-inf'::numeric::bigint",
    "SELECT '0/1'::pg_lsn + 'NaN'::numeric",
    "SELECT '0/1'::pg_lsn - 'NaN'::numeric",
    "SELECT '0/1'::pg_lsn + 'Infinity'::numeric",
    "SELECT 'NaN'::numeric IN (1, 'NaN'), 'NaN'::numeric BETWEEN 1 AND 'NaN', nullif('NaN'::numeric, 'NaN')",
    "SELECT pg_wal_lsn_diff('0/2', '0/1') < 'NaN'",
)
WITH_SETTINGS = (
    "SET enable_seqscan TO off",
    "SET enable_seqscan TO perhaps",
    "RESET enable_seqscan",
    "SET shared_buffers TO 1",
    "SET fsync TO off",
    "SET default_transaction_isolation TO 'x'",
    "SET Nothing_Of_The_Kind TO 1",
    "SET jit TO 'yes'",
    "SHOW jit",
    "SET log_statement TO 'ALL'",
    "SET work_mem TO 'x'",
)

EXCHANGES: tuple[tuple[bytes, ...], ...] = (
    (parse("SELECT 1"), bind(), describe(), execute(), SYNC),
    (parse("SELECT $1::text, $2::int4", types=(0, 0)), describe("S"), bind([b"x", b"5"]), describe(), execute(), SYNC),
    (
        parse("SELECT slot_name FROM pg_replication_slots WHERE slot_name = $1"),
        describe("S"),
        bind([b"x"]),
        describe(),
        execute(),
        SYNC,
    ),
    (parse("SELECT $1"), describe("S"), bind([b"x"]), describe(), execute(), SYNC),
    (parse("SELECT $1 IS NULL"), describe("S"), SYNC),
    (parse("SELECT $2::int"), describe("S"), SYNC),
    (parse("SELECT 1", types=(23, 23)), describe("S"), bind([b"1", b"2"]), execute(), SYNC),
    (parse("SELECT 1; SELECT 2"), SYNC),
    (parse(""), describe("S"), bind(), describe(), execute(), SYNC),
    (parse("SELECT 1"), bind([b"x"]), execute(), SYNC),
    (parse("SELECT 1"), bind(results=(1, 1)), execute(), SYNC),
    (parse("SELECT 1"), bind(results=(2,)), execute(), SYNC),
    (parse("SELECT $1::int"), bind([b"x"]), execute(), SYNC),
    (parse("SELECT $1::int"), bind([b"\0\0\0\5"], (1,), (1,)), execute(), SYNC),
    (parse("SELECT $1::int"), bind([b"\0\0\5"], (1,), (1,)), execute(), SYNC),
    (parse("SELECT $1::int"), bind([b"5"], (0, 0), (1,)), execute(), SYNC),
    (parse("SELECT $1::int"), bind([None]), execute(), SYNC),
    (bind(statement="nothing"), SYNC),
    (execute(portal="nothing"), SYNC),
    (describe("S", "nothing"), SYNC),
    (describe("P", "nothing"), SYNC),
    (describe("X", "nothing"), SYNC),
    (close("S", "nothing"), close("P", "nothing"), SYNC),
    (parse("SELECT 1 AS a", "s1"), describe("S", "s1"), SYNC),
    (parse("SELECT 1 AS a", "s1"), SYNC),
    (bind(statement="s1", portal="p1"), execute(portal="p1"), execute(portal="p1"), SYNC),
    (execute(portal="p1"), SYNC),
    (query("BEGIN"),),
    (bind(statement="s1", portal="p1"), SYNC),
    (bind(statement="s1", portal="p1"), SYNC),
    (execute(portal="p1"), SYNC),
    (query("ROLLBACK"),),
    (query("DEALLOCATE s1"),),
    (bind(statement="s1"), SYNC),
    (parse("BEGIN"), describe("S"), bind(), describe(), execute(), SYNC),
    (parse("SELECT * FROM (SELECT pg_create_physical_replication_slot('x'||'1')) x"), bind(), execute(), SYNC),
    (parse("SELECT slot_name FROM pg_replication_slots"), bind(portal="c"), execute(1, "c"), SYNC),
    (execute(1, "c"), SYNC),
    (execute(1, "c"), SYNC),
    (parse("COMMIT"), bind(), execute(), SYNC),
    (execute(1, "c"), SYNC),
    (parse("SELECT 1"), SYNC),
    (parse("SELECT pg_drop_replication_slot($1)"), describe("S"), bind([b"x1"]), describe(), execute(), SYNC),
    (parse("SELECT pg_drop_replication_slot($1)"), bind([b"x1"]), execute(), SYNC),
    (parse("SET datestyle = 'German'"), describe("S"), bind(), describe(), execute(), SYNC),
    (parse("SHOW datestyle"), describe("S"), bind(), describe(), execute(), execute(), SYNC),
    (parse("RESET datestyle"), bind(), execute(), execute(), SYNC),
    (query("BEGIN"),),
    (parse("SELECT pg_drop_replication_slot('none')"), bind(), execute(), parse("SELECT 1"), bind(), execute(), SYNC),
    (parse("SELECT 1"), bind(), execute(), SYNC),
    (parse("ROLLBACK", "r"), describe("S", "r"), bind(statement="r"), describe(), execute(), SYNC),
    (
        parse(
            "SELECT true, 5::int2, 5::int8, 5::oid, 'a'::text, 'b'::name, '0/10'::pg_lsn, 1.5, -0.00012, "
            "123456789.0123, 0.0, '7'::xid, 'x'::\"char\", ARRAY['a', NULL], '{}'::text[], NULL, 'x', 10000.0, "
            "100000000, "
            "ARRAY[1, 2]"
        ),
        bind(results=(1,)),
        describe(),
        execute(),
        SYNC,
    ),
    (
        parse("SELECT * FROM pg_create_physical_replication_slot('bin', false)"),
        bind(results=(1,)),
        describe(),
        execute(),
        SYNC,
    ),
    (
        parse("SELECT pg_create_physical_replication_slot('bin2', false)"),
        bind(results=(1,)),
        describe(),
        execute(),
        SYNC,
    ),
    (parse("SELECT pg_drop_replication_slot('bin2')"), bind(results=(1,)), describe(), execute(), SYNC),
    (
        parse(
            "SELECT slot_name, plugin, slot_type, datoid, database, temporary, active, active_pid, xmin, restart_lsn, "
            "confirmed_flush_lsn, wal_status, safe_wal_size, two_phase, conflicting FROM pg_replication_slots"
        ),
        bind(results=(1,)),
        describe(),
        execute(),
        SYNC,
    ),
    (parse("SELECT * FROM pg_replication_slots"), describe("S"), SYNC),
    (parse("SELECT * FROM pg_stat_replication"), describe("S"), SYNC),
    (parse("SELECT * FROM pg_stat_activity"), describe("S"), SYNC),
    (parse("SELECT * FROM pg_stat_replication_slots"), describe("S"), SYNC),
    (
        parse("SELECT slot_name FROM pg_replication_slots WHERE slot_name = ANY($1)"),
        describe("S"),
        bind([b"{bin}"]),
        execute(),
        SYNC,
    ),
    (parse("SELECT slot_name FROM pg_replication_slots LIMIT $1"), describe("S"), bind([b"1"]), execute(), SYNC),
    (
        parse("SELECT * FROM pg_logical_slot_peek_changes($1, $2, $3, $4, $5)"),
        describe("S"),
        bind([b"nothing", None, None, b"a", b"b"]),
        execute(),
        SYNC,
    ),
    (
        parse("SELECT * FROM pg_logical_slot_peek_changes($1, $2, $3, VARIADIC $4)"),
        describe("S"),
        bind([b"nothing", None, None, b"{a,b}"]),
        execute(),
        SYNC,
    ),
    (FLUSH, SYNC),
    (SYNC,),
    (parse("SELECT 1"), SYNC),
    (bind(), execute(), SYNC),
    (parse("DISCARD ALL"), bind(), execute(), SYNC),
    (bind(), SYNC),
    (message(b"P", b"abc"), SYNC),
    (message(b"B", b"\0\0\0\1"), SYNC),
    (message(b"E", b"\0"), SYNC),
    (parse("SELECT pg_is_in_recovery()"), bind(results=(1,)), describe(), execute(), SYNC),
    (parse("SELECT pg_catalog.set_config('search_path', '', false)"), bind(results=(1,)), describe(), execute(), SYNC),
    (query("SHOW search_path"),),
    (
        parse("SELECT now() - now(), pg_postmaster_start_time() < now()"),
        bind(results=(1,)),
        describe(),
        execute(),
        SYNC,
    ),
    (parse("SELECT now() - now()"), bind(), describe(), execute(), SYNC),
    (parse("COPY pg_class TO STDOUT WHERE"), SYNC),
    (parse(f"SELECT 1 AS {LONG}"), bind(), describe(), execute(), SYNC),
    *((query(text),) for text in WITH_LONG_NAMES),
    (query("SELECT " + ", ".join(f"'{left}'::numeric {sign} '{right}'" for left, sign, right in OF_SPECIALS)),),
    *((query(text),) for text in SPECIALS),
    (parse("SELECT 'NaN'::numeric, 'inf'::numeric, '-inf'::numeric"), bind(results=[1]), execute(), SYNC),
    (parse("SELECT 1 + $1", types=[1700]), bind([struct.pack(">hhHh", 0, 0, 0xF000, 0)], [1], [0]), execute(), SYNC),
    *((query(text),) for text in WITH_SETTINGS),
    *((query(text),) for text in FAILING),
    (query("SELECT 1; COMMIT; SELECT 2"),),
    (query("BEGIN; SELECT 1; SELECT 1/0; SELECT 2"),),
    (query("SELECT 5"),),
    (query("ROLLBACK; SELECT 6"),),
)
"""Messages that are sent at once; none after a Sync or a Query."""

OF_REPLICATION: tuple[tuple[bytes, ...], ...] = (
    (parse("SELECT 1"), bind(), execute(), SYNC),
    (SYNC,),
    (query("SELECT 1"),),
    (query("COPY public.rights TO STDOUT WITH (FORMAT binary)"),),
    (query(f"COPY public.{LONG} TO STDOUT"),),
    (query(f"SELECT {LONG}"),),
    (query(f'DROP_REPLICATION_SLOT "{LONG}"'),),
    (query(f"CREATE_REPLICATION_SLOT s {LONG}"),),
)


@pytest.mark.parametrize("major", [14, 16, 18, pytest.param(19, marks=pytest.mark.slow)])
def test_messages_are_answered_alike(tmp_path: Path, major: int) -> None:
    with small_server(major) as server:
        run(server, "CREATE TABLE rights (one aclitem)")
        catalog = backup_of(server, tmp_path / "base")
        release = program_version(server.programs.program("postgres"))
        different: list[object] = []
        with Serving(server.wal_directory, catalog, tmp_path / "slots", "--server-version", release) as serving:
            for words, exchanges in (({}, EXCHANGES), ({"replication": "database"}, OF_REPLICATION)):
                theirs, ours = places(server, serving)
                parameters = {"database": "postgres", **words}
                with (
                    raw_connection(theirs, {"user": theirs["user"], **parameters}) as server_side,
                    raw_connection(ours, {"user": ours["user"], **parameters}) as our_side,
                ):
                    for messages in exchanges:
                        answers = [side.answers(*messages) for side in (server_side, our_side)]
                        if answers[0] != answers[1]:
                            different.append((messages, *answers))
    assert different == [], "\n".join(map(str, different))


@contextmanager
def serving_with_changes(directory: Path) -> Iterator[tuple[dict[str, str], dict[str, str]]]:
    """Serve a server with a slot of each side and some changes; give what clients of both connect with."""
    with small_server(16) as server:
        run(server, "CREATE TABLE t (a int PRIMARY KEY, b text)")
        catalog = backup_of(server, directory / "base")
        with Serving(server.wal_directory, catalog, directory / "slots") as serving:
            theirs, ours = places(server, serving)
            for place in (ours, theirs):
                with psycopg.connect(conninfo_at(place)) as connection:
                    connection.execute("SELECT pg_create_logical_replication_slot(%s, %s)", ["s", "test_decoding"])
            run(server, *(f"INSERT INTO t VALUES ({i}, 'b{i}')" for i in range(20)))
            yield theirs, ours


CHANGES = "SELECT lsn::text, xid::text, data FROM pg_logical_slot_peek_changes(%s, %s::pg_lsn, %s)"


def used_by_psycopg(place: dict[str, str]) -> Iterator[object]:
    """Give what psycopg gets by each of its ways to ask."""
    with psycopg.connect(conninfo_at(place)) as connection:
        yield connection.execute("SELECT 1").fetchall()
        yield connection.execute("SHOW datestyle").fetchall()
        for is_binary in (False, True):
            cursor = connection.cursor(binary=is_binary)
            yield cursor.execute(CHANGES, ["s", None, 7]).fetchall()
            columns = "slot_name, plugin, active, active_pid, datoid, two_phase, confirmed_flush_lsn > '0/0'"
            yield cursor.execute(f"SELECT {columns} FROM pg_replication_slots WHERE slot_name = %s", ["s"]).fetchall()
            yield cursor.execute(
                "SELECT slot_name FROM pg_replication_slots WHERE slot_name = ANY(%s)", [["s"]]
            ).fetchall()
            yield cursor.execute("SELECT pg_wal_lsn_diff('0/10', %s), %s::int8, %s::text", ["0/1", 5, "x"]).fetchall()
        for _ in range(3):
            yield connection.execute(CHANGES, ["s", None, 3], prepare=True).fetchall()
        yield connection.info.transaction_status
        connection.commit()
        with connection.cursor("c") as cursor:
            cursor.execute(CHANGES, ["s", None, None])
            yield cursor.fetchone()
            yield cursor.fetchmany(5)
            yield list(cursor)
        connection.rollback()
        with connection.pipeline():
            first, second = (connection.execute("SELECT %s::int4", [i]) for i in (1, 2))
            yield first.fetchall(), second.fetchall()
        connection.rollback()
        try:
            with connection.pipeline():
                connection.execute("SELECT 1")
                connection.execute("SELECT pg_drop_replication_slot('none')")
                connection.execute("SELECT 2")
        except psycopg.Error as error:
            yield type(error), error.sqlstate
        yield connection.info.transaction_status
        connection.rollback()
        with connection.transaction(), connection.transaction():
            yield connection.execute("SHOW transaction_isolation").fetchall()
        connection.read_only = True
        yield connection.execute("SHOW transaction_read_only").fetchall()


def test_psycopg_uses_it_as_a_server(tmp_path: Path) -> None:
    with serving_with_changes(tmp_path) as (theirs, ours):
        assert list(used_by_psycopg(ours)) == list(used_by_psycopg(theirs))


def test_a_client_asks_what_it_needs_of_a_writable_primary(tmp_path: Path) -> None:
    """Libpq with ``target_session_attrs`` connects as to a primary."""
    with small_server(16) as server:
        catalog = backup_of(server, tmp_path / "base")
        with Serving(server.wal_directory, catalog, tmp_path / "slots") as serving:
            ours = places(server, serving, target_session_attrs="primary")[1]
            with psycopg.connect(conninfo_at(ours)) as connection:
                assert connection.info.status == pq.ConnStatus.OK
