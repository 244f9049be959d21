"""SQL on slots, the log and the session: the service answers as the server does, field by field, row by row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from bad_input.servers import run, small_server
from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.local_servers.server_programs import program_version
from headwater.walsender.access.users import User, Users, write_users
from serving.answers import ALL_FIELDS, answer_in, connected, conninfo_at, places
from serving.service import Serving, Streaming, backup_of, wait_until

pytestmark = pytest.mark.server

STATEMENTS = (
    "SELECT 1; SELECT 2",
    "SELECT 1; SELECT nothing_here; SELECT 2",
    "SELCT 1",
    "SELECT $1",
    "SELECT slot_name FROM pg_replication_slots WHERE nothing = 1",
    "SELECT s.nothing FROM pg_replication_slots s",
    "SELECT x.slot_name FROM pg_replication_slots s",
    "SELECT pg_create_logical_replication_slot('a', 'test_decoding')",
    "SELECT pg_create_logical_replication_slot('a', 'test_decoding')",
    "SELECT pg_create_logical_replication_slot('Bad', 'test_decoding')",
    "SELECT pg_create_logical_replication_slot('', 'test_decoding')",
    "SELECT pg_create_logical_replication_slot(NULL, 'test_decoding')",
    "SELECT * FROM pg_create_logical_replication_slot(NULL, 'test_decoding')",
    "SELECT pg_create_logical_replication_slot('temp', 'test_decoding', temporary := true)",
    "SELECT slot_name, temporary FROM pg_replication_slots ORDER BY 1",
    "SELECT 1/0",
    "SELECT slot_name, temporary FROM pg_replication_slots ORDER BY 1",
    "SELECT pg_create_physical_replication_slot('p')",
    "SELECT * FROM pg_create_physical_replication_slot('q', true)",
    "SELECT lsn IS NULL AS a, slot_name FROM pg_create_physical_replication_slot('r', true, true)",
    "SELECT slot_name, slot_type, plugin, datoid, database, temporary, active, restart_lsn IS NULL, "
    "confirmed_flush_lsn IS NULL, wal_status FROM pg_replication_slots ORDER BY slot_name DESC",
    "SELECT pg_copy_logical_replication_slot('a', 'c')",
    "SELECT pg_copy_logical_replication_slot('a', 'c')",
    "SELECT pg_copy_logical_replication_slot('a', 'd', true, 'pgoutput')",
    "SELECT pg_copy_logical_replication_slot('nothing', 'e')",
    "SELECT pg_copy_logical_replication_slot('q', 'e')",
    "SELECT pg_copy_physical_replication_slot('a', 'e')",
    "SELECT pg_copy_physical_replication_slot('p', 'e')",
    "SELECT pg_copy_physical_replication_slot('q', 'e', false)",
    "SELECT slot_name, plugin, temporary FROM pg_replication_slots ORDER BY slot_name",
    "SELECT pg_replication_slot_advance('a', '0/0')",
    "SELECT pg_replication_slot_advance('a', '0/1')",
    "SELECT pg_replication_slot_advance('p', '0/1000')",
    "SELECT pg_replication_slot_advance('nothing', '0/1000')",
    "SELECT end_lsn FROM pg_replication_slot_advance('a', pg_current_wal_lsn())",
    "SELECT pg_replication_slot_advance('a', 'x')",
    "SELECT * FROM pg_logical_slot_get_changes('a', NULL, NULL)",
    "SELECT * FROM pg_logical_slot_get_changes('a', NULL, NULL, 'include-xids', '0')",
    "SELECT * FROM pg_logical_slot_peek_changes('a', NULL, NULL, 'include-xids')",
    "SELECT * FROM pg_logical_slot_peek_changes('a', NULL, NULL, 'include-xids', 'maybe')",
    "SELECT * FROM pg_logical_slot_peek_changes('a', NULL, NULL, 'nothing', '1')",
    "SELECT * FROM pg_logical_slot_peek_changes('a', NULL, NULL, VARIADIC ARRAY['include-xids', NULL])",
    "SELECT * FROM pg_logical_slot_peek_changes('a', NULL, NULL, VARIADIC NULL)",
    "SELECT * FROM pg_logical_slot_peek_changes(NULL, NULL, NULL)",
    "SELECT * FROM pg_logical_slot_peek_changes('p', NULL, NULL)",
    "SELECT * FROM pg_logical_slot_peek_changes('nothing', NULL, NULL)",
    "SELECT pg_create_logical_replication_slot('o', 'pgoutput')",
    "SELECT * FROM pg_logical_slot_peek_changes('o', NULL, NULL, 'proto_version', '1', 'publication_names', 'x')",
    "SELECT * FROM pg_logical_slot_peek_binary_changes('o', NULL, NULL, 'proto_version', '1', "
    "'publication_names', 'x')",
    "SELECT * FROM pg_logical_slot_peek_binary_changes('o', NULL, NULL)",
    "SELECT count(*) FROM pg_logical_slot_peek_changes('a', NULL, NULL)",
    "SELECT data FROM pg_logical_slot_peek_changes('a', NULL, NULL)",
    "SELECT pg_logical_slot_peek_changes('a', NULL, NULL)",
    "SELECT count(*), max(slot_name::text), min(slot_name::text) FROM pg_replication_slots",
    "SELECT slot_name, count(*) FROM pg_replication_slots",
    "SELECT slot_name FROM pg_replication_slots WHERE slot_name IN ('a', 'b', 'c') AND NOT active AND "
    "slot_type = 'logical' ORDER BY slot_name LIMIT 1 OFFSET 1",
    "SELECT slot_name FROM pg_replication_slots WHERE slot_name = ANY ('{a,c}') ORDER BY slot_name",
    "SELECT slot_name FROM pg_replication_slots WHERE slot_name = ANY (ARRAY['a','c']) ORDER BY slot_name",
    "SELECT slot_name::text, active::text, plugin || '!' AS p FROM pg_catalog.pg_replication_slots AS s "
    "WHERE s.slot_name LIKE 'a%' OR slot_name = 'c' ORDER BY s.slot_name",
    "SELECT slot_name FROM pg_replication_slots ORDER BY plugin NULLS FIRST, slot_name DESC",
    "SELECT slot_name FROM pg_replication_slots ORDER BY 5",
    "SELECT pg_wal_lsn_diff('0/20', '0/10'), '0/20'::pg_lsn - '0/10', '0/20'::pg_lsn + 16, "
    "pg_wal_lsn_diff('0/10', '0/20')",
    "SELECT pg_is_in_recovery(), pg_last_wal_receive_lsn(), current_database(), current_user, "
    "session_user, current_catalog, pg_last_wal_replay_lsn(), user",
    "SELECT current_setting('nothing.x', true), current_setting('wal_level')",
    "SELECT current_setting('nothing_x')",
    "SELECT current_setting('nothing.x')",
    "SELECT (CASE pg_is_in_recovery() WHEN 't' THEN pg_last_wal_receive_lsn() ELSE pg_current_wal_lsn() "
    "END) AS pg_current_wal_lsn",
    "SELECT (CASE pg_is_in_recovery() WHEN true THEN 1 ELSE 2 END), CASE WHEN false THEN 'x' END, "
    "coalesce(NULL, 'x'), nullif(1, 1), NOT true, 1 BETWEEN 0 AND 2",
    "SELECT pg_size_pretty(10::bigint), pg_size_pretty(100000::bigint), "
    "pg_size_pretty(pg_wal_lsn_diff('1/0', '0/0')), pg_size_pretty(-123456789::bigint)",
    "SELECT get_byte('\\x0102ff', 2), get_byte('\\x01'::bytea, 0), int2send(2::smallint), int8send(-1)",
    "SELECT get_byte('\\x01', 1)",
    "SELECT get_byte('\\x01', -1)",
    "SELECT substr('\\x010203'::bytea, 2), substr('\\x010203'::bytea, -1, 3), substr('\\x010203'::bytea, 3, 5), "
    "substr('\\x01'::bytea, 7, 2), substr('\\x010203'::bytea, -5, 2)",
    "SELECT substr('\\x01'::bytea, 1, -1)",
    "SELECT encode('\\x00415c7fe4', 'escape'), encode('\\x00ff', 'HEX'), encode('\\x0102', 'base64'), "
    "length('\\x0102'::bytea), octet_length('\\x0102'::bytea), "
    "encode(substr('\\x0102030405060708090a0b0c0d0e0f'::bytea, 1), 'base64')",
    "SELECT encode('\\x00', 'rot13')",
    *(f"SELECT encode('\\x{'ab' * count}', 'base64')" for count in (56, 57, 58, 114)),
    *(f"SELECT encode('\\x{'00fffe' * 5}'::bytea, '{form}')" for form in ("base64url", "base32hex")),
    "SELECT encode('\\x01', 'Base64URL'), encode('\\x01', 'base32hex'), encode('\\x', 'base32hex')",
    "SELECT '\\x0102'::bytea = int2send(258::smallint), '\\x01'::bytea < '\\x0100'::bytea, '3'::xid = 3, "
    "'3'::xid <> -1",
    "SELECT get_byte(data, 0), encode(substr(data, 11, 8), 'escape') FROM "
    "pg_logical_slot_peek_binary_changes('o', NULL, NULL, 'proto_version', '1', 'publication_names', 'x') "
    "WHERE xid = 0 OFFSET 1 LIMIT 1",
    "SELECT EXISTS (SELECT 1 FROM pg_replication_slots WHERE slot_name = 'a' AND active_pid IS NULL)",
    "SELECT NOT EXISTS (SELECT 1/0 FROM pg_replication_slots ORDER BY 1), EXISTS (SELECT WHERE false) AS x",
    "SELECT slot_name FROM pg_replication_slots WHERE EXISTS (SELECT count(*) FROM pg_stat_replication) ORDER BY 1",
    "SELECT EXISTS (SELECT 1 FROM pg_replication_slots LIMIT 0), EXISTS (SELECT nothing FROM pg_replication_slots)",
    "SELECT 7/2, -7/2, 7%3, -7%3, 7.0/2, 1.0/3, 100000.0/3, 1/3.0, 2147483647 + 1",
    "SELECT 2147483648 + 1, 1.5 * 2, 10 - 1.25, 9223372036854775807 + 1",
    "SELECT 'abc'::int",
    "SELECT 'abc'::pg_lsn",
    "SELECT * FROM (SELECT slot_name AS n FROM pg_replication_slots) x WHERE n = 'a'",
    "SELECT a.slot_name, b.plugin FROM pg_replication_slots a JOIN pg_replication_slots b ON a.slot_name = "
    "b.slot_name WHERE a.slot_name = 'a'",
    "SELECT a.slot_name, b.pid FROM pg_replication_slots a LEFT JOIN pg_stat_replication b ON a.active_pid "
    "= b.pid WHERE a.slot_name = 'a'",
    "SELECT DISTINCT slot_type FROM pg_replication_slots ORDER BY slot_type",
    "SELECT slot_name FROM pg_replication_slots, pg_stat_replication",
    "SELECT 1 WHERE false",
    "SELECT 1 WHERE 'x'",
    "SELECT 1 WHERE 1",
    "SELECT 1 LIMIT -1",
    "SELECT",
    "SET client_encoding TO 'LATIN1'",
    "SELECT 'ä'",
    "SET client_encoding TO 'UTF8'",
    "SELECT set_config('application_name', 'z', false), current_setting('application_name')",
    "SELECT 'a' 'b'",
    'SELECT "slot_name" FROM "pg_replication_slots" WHERE slot_name = E\'a\'',
    "SELECT -- comment",
    "SELECT 1 -- comment",
    "/* x */ SELECT 1 /* y */ ;",
    ";",
)
OF_THE_SESSION = (
    "SHOW TimeZone",
    "SHOW transaction_isolation",
    "SHOW nothing_x",
    "BEGIN",
    "SHOW transaction_isolation",
    "SHOW TRANSACTION ISOLATION LEVEL",
    "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE",
    "SHOW transaction_isolation",
    "SET LOCAL datestyle TO 'German'",
    "SHOW datestyle",
    "SAVEPOINT x",
    "SELECT 1/0",
    "SELECT 1",
    "ROLLBACK TO SAVEPOINT x",
    "SELECT 1",
    "RELEASE SAVEPOINT x",
    "RELEASE SAVEPOINT x",
    "COMMIT",
    "SHOW datestyle",
    "BEGIN; SET datestyle TO 'SQL'",
    "ROLLBACK",
    "SHOW datestyle",
    "SET datestyle TO 'SQL'; SELECT 1/0",
    "SHOW datestyle",
    "SAVEPOINT x",
    "COMMIT",
    "ROLLBACK",
    "COMMIT AND CHAIN",
    "START TRANSACTION READ ONLY",
    "START TRANSACTION",
    "SHOW transaction_read_only",
    "COMMIT AND CHAIN",
    "SHOW transaction_read_only",
    "ROLLBACK",
    "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY",
    "SHOW transaction_read_only",
    "RESET default_transaction_read_only",
    "RESET nothing_x",
    "SET application_name = 'x y'",
    "SHOW application_name",
    "RESET ALL",
    "SHOW application_name",
    "SET TIME ZONE 'UTC'",
    "SHOW timezone",
    'SET search_path TO a, "B c"',
    "SHOW search_path",
    "SET search_path TO DEFAULT",
    "DISCARD ALL",
    "DISCARD PLANS",
    "DEALLOCATE ALL",
    "DEALLOCATE nothing",
    "DECLARE c CURSOR FOR SELECT 1",
    "BEGIN",
    "DECLARE c CURSOR FOR SELECT slot_name FROM pg_replication_slots ORDER BY 1",
    "DECLARE c CURSOR FOR SELECT 1",
    "ROLLBACK",
    "BEGIN",
    "DECLARE c CURSOR FOR SELECT slot_name FROM pg_replication_slots ORDER BY 1",
    "FETCH 2 FROM c",
    "MOVE 1 FROM c",
    "FETCH ALL FROM c",
    "FETCH c",
    "CLOSE c",
    "CLOSE c",
    "ROLLBACK",
    "DECLARE c CURSOR WITH HOLD FOR SELECT 5",
    "FETCH ALL FROM c",
    "CLOSE ALL",
    "FETCH 1 FROM c",
)
VIEWS = ("pg_replication_slots", "pg_stat_replication", "pg_stat_replication_slots", "pg_stat_activity")

WORK = (
    "CREATE TABLE t (a int PRIMARY KEY, b text)",
    "CREATE PUBLICATION p FOR TABLE t",
    "INSERT INTO t SELECT i, repeat('x', i) FROM generate_series(1, 20) i",
    "UPDATE t SET b = NULL WHERE a = 3",
    "BEGIN; INSERT INTO t VALUES (100, 'a'); DELETE FROM t WHERE a = 1; COMMIT",
    "BEGIN; INSERT INTO t VALUES (101, 'b'); ROLLBACK",
    "SELECT pg_logical_emit_message(false, 'here', 'between')",
    "BEGIN; SELECT pg_logical_emit_message(true, 'here', 'within'); INSERT INTO t VALUES (102, 'c'); COMMIT",
    "INSERT INTO t VALUES (103, E'ä \\\\ \"')",
    "TRUNCATE t",
    "INSERT INTO t VALUES (1, 'z')",
)
PEEK, GET = "pg_logical_slot_peek_changes", "pg_logical_slot_get_changes"
CHANGES = (
    f"SELECT * FROM {PEEK}('s', NULL, NULL)",
    f"SELECT * FROM {PEEK}('s', NULL, NULL, 'include-xids', '0', 'skip-empty-xacts', '1')",
    f"SELECT data FROM {PEEK}('s', NULL, NULL, VARIADIC ARRAY['include-timestamp', 'on']::text[])",
    f"SELECT count(*) FROM {PEEK}('s', NULL, NULL)",
    *(f"SELECT * FROM {PEEK}('s', NULL, {count})" for count in (1, 2, 3, 22, 23, 24, 25, 26, 27, 28, 29, 34, 1000)),
    f"SELECT {PEEK}('s', NULL, 5)",
    "SELECT * FROM pg_logical_slot_peek_binary_changes('s', NULL, 3)",
    f"SELECT lsn, data FROM {PEEK}('s', '0/1', NULL)",
    f"SELECT * FROM {PEEK}('s', NULL, -1)",
    f"SELECT xid, data FROM {GET}('s', NULL, 3)",
    f"SELECT lsn, xid, data FROM {GET}('s', NULL, 1)",
    f"SELECT * FROM {PEEK}('s', NULL, NULL)",
    "SELECT slot_name, lsn > '0/0' FROM pg_copy_logical_replication_slot('s', 'c')",
    f"SELECT * FROM {GET}('s', pg_current_wal_lsn(), NULL)",
    f"SELECT * FROM {PEEK}('s', NULL, NULL)",
    f"SELECT * FROM {PEEK}('c', NULL, NULL)",
    "SELECT * FROM pg_replication_slot_advance('c', pg_current_wal_lsn())",
    f"SELECT * FROM {GET}('c', NULL, NULL)",
    "SELECT lsn, data FROM pg_logical_slot_peek_binary_changes"
    "('o', NULL, NULL, 'proto_version', '1', 'publication_names', 'none_of_this_name')",
    "SELECT lsn, data FROM pg_logical_slot_get_binary_changes"
    "('o', NULL, NULL, 'proto_version', '1', 'publication_names', 'p')",
    "SELECT lsn, xid, data FROM pg_logical_slot_peek_binary_changes"
    "('o', NULL, NULL, 'proto_version', '1', 'publication_names', 'p')",
)


@contextmanager
def served(server: EmbeddedPostgres, directory: Path, *flags: str) -> Iterator[Serving]:
    """Serve a server's WAL, as its release."""
    catalog = backup_of(server, directory / "base")
    release = program_version(server.programs.program("postgres"))
    log, slots = server.wal_directory, directory / "slots"
    with Serving(log, catalog, slots, "--server-version", release, *flags) as serving:
        yield serving


def differing(
    places: Sequence[dict[str, str]], statements: Sequence[str], *, are_plain: bool = True
) -> list[tuple[object, ...]]:
    """Run statements at both places, and return those that are answered otherwise, with both answers."""
    different: list[tuple[object, ...]] = []
    with connected(**places[0]) as server_side, connected(**places[1]) as our_side:
        for statement in statements:
            answers = [
                answer_in(side.exec_(statement.encode()), side, are_plain=are_plain, fields=ALL_FIELDS)
                for side in (server_side, our_side)
            ]
            if answers[0] != answers[1]:
                different.append((statement, *answers))
    return different


@pytest.mark.parametrize("major", [14, 16, 18, pytest.param(19, marks=pytest.mark.slow)])
def test_statements(tmp_path: Path, major: int) -> None:
    views = [f"SELECT * FROM {view} WHERE false" for view in VIEWS]
    columns = [f"SELECT v.* FROM pg_catalog.{view} AS v LIMIT 0" for view in VIEWS]
    with small_server(major) as server, served(server, tmp_path) as serving:
        both = places(server, serving)
        different = differing(both, [*STATEMENTS, *views, *columns])
        different += differing(both, OF_THE_SESSION)
        of_replication = places(server, serving, replication="database")
        different += differing(of_replication, [*views, "SELECT pg_drop_replication_slot('a')", "SELECT 1; SELECT 2"])
    assert different == [], "\n".join(map(str, different))


@pytest.mark.parametrize("major", [14, 16, 18, pytest.param(19, marks=pytest.mark.slow)])
def test_changes(tmp_path: Path, major: int) -> None:
    """Rows are the server's with their places in the log, whatever the limits and options."""
    with small_server(major) as server, served(server, tmp_path) as serving:
        both = places(server, serving)
        made = [f"SELECT pg_create_logical_replication_slot('{name}', '{plugin}')" for name, plugin in SLOTS]
        for place in both[::-1]:
            with connected(**place) as connection:
                assert [connection.exec_(statement.encode()).error_message for statement in made] == [b"", b""]
        run(server, *WORK)
        run(server, "SELECT pg_switch_wal()")
        different = differing(both, CHANGES, are_plain=False)
    assert different == [], "\n".join(map(str, different))


SLOTS = (("s", "test_decoding"), ("o", "pgoutput"))


def test_as_many_slots_as_there_may_be(tmp_path: Path) -> None:
    statements = [f"SELECT pg_create_physical_replication_slot('{name}')" for name in ("a", "b", "c")]
    statements.insert(2, "SHOW max_replication_slots")
    flags = "--max-replication-slots", "1"
    with small_server(16, max_replication_slots="1") as server, served(server, tmp_path, *flags) as serving:
        different = differing(places(server, serving), statements)
        of_replication = places(server, serving, replication="database")
        different += differing(of_replication, ["CREATE_REPLICATION_SLOT d PHYSICAL"])
    assert different == [], "\n".join(map(str, different))


ENCODED = (
    'SELECT slot_name AS "n\u00e9" FROM pg_replication_slots WHERE false',
    'SELECT "n\u00e9" FROM pg_replication_slots',
    "SELECT pg_drop_replication_slot('n\u00e9')",
    'SHOW "n\u00e9"',
    "SELECT 1",
)
"""Statements whose names and errors have a character beyond ASCII."""

ESCAPED = (r"SELECT pg_drop_replication_slot(U&'n\00e9')", r'SELECT 1 AS U&"n\00e9"', "SELECT 2")
"""Statements of characters that come by an escape, as the client's encoding has none of them."""


def test_names_and_errors_are_in_the_clients_encoding(tmp_path: Path) -> None:
    """An encoding that lacks a character is an error of its own; one that has it is used."""
    codecs = {"LATIN1": "latin-1", "EUC_JIS_2004": "euc_jis_2004", "UTF8": "utf-8", "WIN1251": "ascii"}
    different = []
    with small_server(16) as server, served(server, tmp_path) as serving:
        for encoding, codec in codecs.items():
            theirs, ours = places(server, serving, client_encoding=encoding)
            with connected(**theirs) as server_side, connected(**ours) as our_side:
                for text in (statement.encode(codec) for statement in (ESCAPED if codec == "ascii" else ENCODED)):
                    answers = [answer_in(side.exec_(text), side) for side in (server_side, our_side)]
                    if answers[0] != answers[1]:
                        different.append((encoding, text, *answers))
    assert different == [], "\n".join(map(str, different))


def test_what_cannot_be_answered(tmp_path: Path) -> None:
    """A statement that no layer can answer is refused with a hint that names what it lacks."""
    asked = {
        "INSERT INTO t VALUES (1)": "",
        "SELECT count(last_vacuum) FROM pg_stat_user_tables GROUP BY relname": "pg_stat_get",
    }
    with (
        small_server(16) as server,
        served(server, tmp_path) as serving,
        connected(**places(server, serving)[1]) as ours,
    ):
        for statement, what in asked.items():
            answer = answer_in(ours.exec_(statement.encode()), ours, fields=ALL_FIELDS)
            assert answer.error[1] == b"0A000", answer
            assert what.encode() in (answer.error[4] or b""), answer


def test_a_stream_is_seen(tmp_path: Path) -> None:
    query = (
        "SELECT r.application_name, r.state, sync_state, sync_priority, sent_lsn = pg_current_wal_lsn(), s.slot_name, "
        "backend_type, r.client_port > 0 FROM pg_stat_replication r "
        "JOIN pg_replication_slots s ON s.active_pid = r.pid JOIN pg_stat_activity a ON a.pid = r.pid"
    )
    with small_server(16) as server, served(server, tmp_path) as serving:
        ours = places(server, serving)[1]
        with psycopg.connect(conninfo_at(ours), autocommit=True) as connection:
            connection.execute("SELECT pg_create_logical_replication_slot('s', 'test_decoding')")
            arguments = ("--slot", "s", "-f", str(tmp_path / "out"))
            streaming = Streaming(serving.environment(), 16, *arguments)
            row = ("pg_recvlogical", "streaming", "async", 0, True, "s", "walsender", True)
            wait_until(lambda: connection.execute(query).fetchall() == [row])
            assert streaming.end() == 0
            wait_until(lambda: connection.execute(query).fetchall() == [])


def test_a_user_who_is_limited_to_publications(tmp_path: Path) -> None:
    """What others do is hidden from it, and it reads no more of a slot than by a stream."""
    options = "'o', NULL, NULL, 'proto_version', '1', 'publication_names'"
    read = f"SELECT count(*) FROM pg_logical_slot_peek_binary_changes({options}, '%s')"
    refused = {
        f"SELECT * FROM {PEEK}('s', NULL, NULL)": "permission denied for output plugin test_decoding",
        read % "everything": "permission denied for publication everything",
    }
    with small_server(16) as server:
        run(server, "CREATE TABLE t (a int)", "CREATE PUBLICATION p FOR TABLE t", "CREATE PUBLICATION everything")
        catalog = backup_of(server, tmp_path / "base")
        serving = Serving(server.wal_directory, catalog, tmp_path / "slots")
        users = Users().with_user(User("postgres", may_copy_all=True)).with_user(User("narrow", publications=("p",)))
        write_users(tmp_path / "users.toml", users)
        with serving:
            ours = places(server, serving)[1]
            with (
                psycopg.connect(conninfo_at(ours), autocommit=True) as all_of_it,
                psycopg.connect(conninfo_at({**ours, "user": "narrow"}), autocommit=True) as narrow,
            ):
                for name, plugin in SLOTS:
                    all_of_it.execute("SELECT pg_create_logical_replication_slot(%s, %s)", [name, plugin])
                query = "SELECT usename, query = '<insufficient privilege>', state IS NULL FROM pg_stat_activity"
                assert set(narrow.execute(query).fetchall()) == {("narrow", False, False), ("postgres", True, True)}
                assert (True,) not in {row[1:2] for row in all_of_it.execute(query).fetchall()}
                assert narrow.execute(read % "p").fetchone() == (0,)
                for statement, message in refused.items():
                    with pytest.raises(psycopg.errors.InsufficientPrivilege, match=message):
                        narrow.execute(statement)
