"""Rows of an initial copy, made of a backup and WAL: byte for byte what the server sends in a snapshot at the same LSN.

The snapshot is that of a slot: its consistent point is the LSN. Both sides have the settings of subscribers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from psycopg import pq

from bad_input.servers import conninfo_of, run, small_server
from headwater.errors import SessionError
from headwater.jobs.local_engine import LocalEngine
from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.pg.lsn import Lsn
from headwater.pg.version import VERSIONS
from headwater.pipeline.requests.request import DecodeRequest
from headwater.pipeline.slot_moves import kept_at
from headwater.plugins.rows.plugin import RowChanges
from headwater.slots.kept_state import KeptState
from headwater.wal.segments.directory import WalDirectory
from headwater.walsender.copying.copied_rows import CopySource, copied_rows
from headwater.walsender.sql.copy_shapes import parse_copy
from landing.busy_servers import BUSY, EAGER, Load
from landing.existing_rows import run as run_script
from landing.existing_rows import server_of
from serving.service import backup_of, wait_until

pytestmark = pytest.mark.server

MAJORS = (14, 16, 18)
SETTINGS = {"datestyle": "ISO", "intervalstyle": "postgres", "extra_float_digits": "3", "search_path": ""}
BINARY = " WITH (FORMAT binary)"

Answer = list[bytes] | tuple[str, str, str | None, str | None]
"""Payloads of CopyData, or an error: SQLSTATE, message, detail, hint."""


class Snapshot:
    """A slot's snapshot on a server, in a session that reads by it."""

    def __init__(self, server: EmbeddedPostgres) -> None:
        self._slot = pq.PGconn.connect(f"{conninfo_of(server)} replication=database".encode())
        made = self._slot.exec_(b"CREATE_REPLICATION_SLOT s TEMPORARY LOGICAL pgoutput EXPORT_SNAPSHOT")
        self.lsn = Lsn.parse(_value(made, 1))
        name = _value(made, 2)
        self._session = pq.PGconn.connect(f"{conninfo_of(server)} client_encoding=UTF8".encode())
        for setting, value in SETTINGS.items():
            self._session.exec_(f"SET {setting} = '{value}'".encode())
        self._session.exec_(b"SET synchronize_seqscans = off")
        self._session.exec_(b"BEGIN ISOLATION LEVEL REPEATABLE READ")
        self._session.exec_(f"SET TRANSACTION SNAPSHOT '{name}'".encode())

    def copy(self, statement: str) -> Answer:
        """Copy, in a subtransaction so that errors end nothing."""
        session = self._session
        session.exec_(b"SAVEPOINT before")
        result = session.exec_(statement.encode())
        if result.status != pq.ExecStatus.COPY_OUT:
            answer = _error(result)
            session.exec_(b"ROLLBACK TO before")
            return answer
        payloads = []
        while True:
            size, data = session.get_copy_data(0)
            if size < 0:
                break
            payloads.append(bytes(data))
        last = session.get_result()
        assert last is not None
        if last.status == pq.ExecStatus.COMMAND_OK:
            assert session.get_result() is None
            return payloads
        session.get_result()
        session.exec_(b"ROLLBACK TO before")
        return _error(last)

    def close(self) -> None:
        self._session.finish()
        self._slot.finish()


def _value(result: pq.abc.PGresult, column: int) -> str:
    value = result.get_value(0, column)
    assert value is not None, result.error_message
    return value.decode()


def _error(result: pq.abc.PGresult) -> Answer:
    field = pq.DiagnosticField
    state, message, detail, hint = (
        result.error_field(name)
        for name in (field.SQLSTATE, field.MESSAGE_PRIMARY, field.MESSAGE_DETAIL, field.MESSAGE_HINT)
    )
    assert state is not None
    assert message is not None
    return (
        state.decode(),
        message.decode(),
        None if detail is None else detail.decode(),
        None if hint is None else hint.decode(),
    )


@dataclass(frozen=True)
class Copies:
    """A backup that rows are copied from, as of the LSN of a snapshot."""

    server: EmbeddedPostgres
    major: int
    backup: Path
    snapshot: Snapshot
    settings: Mapping[str, str]

    def state(self) -> KeptState:
        """Follow the catalog to the LSN."""
        request = DecodeRequest(
            wal=str(self.server.wal_directory),
            catalog=str(self.backup),
            database="postgres",
            plugin=RowChanges.name,
            with_definitions=False,
        )
        return kept_at(request, None, self.snapshot.lsn)

    def ours(self, at: KeptState, statement: str) -> Answer:
        copy = parse_copy(statement)
        assert copy is not None, statement
        directory = WalDirectory.scan(str(self.server.wal_directory))
        source = CopySource(str(self.backup), directory, VERSIONS[self.major])
        try:
            out = copied_rows(source, at, copy, LocalEngine(), self.settings)
            payloads: list[bytes] = []
            for batch in out.batches:
                data, offsets = batch.data.tobytes(), batch.offsets.tolist()
                payloads += [data[low:high] for low, high in pairwise(offsets)]
        except SessionError as error:
            return error.sqlstate, error.message, error.detail, error.hint
        return payloads

    def compare(self, *statements: str) -> None:
        """Copy by statements, in text and in binary form."""
        at = self.state()
        for statement in statements:
            for form in ("", BINARY):
                expected = self.snapshot.copy(statement + form)
                assert self.ours(at, statement + form) == expected, statement + form


@contextmanager
def copies(server: EmbeddedPostgres, major: int, backup: Path, **settings: Any) -> Iterator[Copies]:
    snapshot = Snapshot(server)
    try:
        yield Copies(server, major, backup, snapshot, {**SETTINGS, **settings})
    finally:
        snapshot.close()


TYPES = """CREATE TABLE types (
    b bool, i2 int2, i4 int4, i8 int8, f4 float4, f8 float8, n numeric, m money, t text, v varchar(20), c char(8),
    name name, ch "char", by bytea, d date, tm time, tz timetz, ts timestamp, tsz timestamptz, iv interval, u uuid,
    j json, jb jsonb, ip inet, cd cidr, mac macaddr, bit bit(5), vb varbit, p point, bx box, pl polygon, x xml,
    ia int[], ta text[], r int4range, mr numrange, tv tsvector, tq tsquery, oid oid, cls regclass,
    mood mood, pair pair, dom dom)"""
VALUES = """INSERT INTO types SELECT i % 2 = 0, i, -i, i * 10000000000, i / 3.0, i / 7.0, i / 9.0, i,
    'text ' || i, E'a\\tb\\nc\\\\d\\re\\be\\fv\\v' || chr(1) || chr(127), 'pad', 'name', 'x', decode('00ff5c0a', 'hex'),
    '2020-01-01'::date + i, '01:02:03.5', '01:02:03+02', '2020-01-01 01:02:03.456', '2020-01-01 01:02:03+03',
    '1 mon 2 days 03:04:05.6',
    'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', '{"a": "\\\\\\n"}', '{"a": [1, null, "é"]}', '10.0.0.1/8', '10.0.0.0/8',
    '08:00:2b:01:02:03',
    '10101', '1011', '(1,2)', '((0,0),(1,1))', '((0,0),(1,1),(2,0))', '<a>b</a>', '{1,NULL,3}',
    ARRAY['a', E'b\\t"', NULL], '[1,5)', '(1.5,]', 'a:1 b:2', 'a & b', 4000000000, 'pg_class', 'sad',
    ROW(i, E'x\\t'::text)::pair, i
    FROM generate_series(1, 40) i"""
NULLS = "INSERT INTO types (i4) VALUES (1), (NULL)"
OF_TYPES = (
    "CREATE TYPE mood AS ENUM ('happy', 'sad')",
    "CREATE TYPE pair AS (a int, b text)",
    "CREATE DOMAIN dom AS int CHECK (VALUE > 0)",
    TYPES,
)
LONG = "(SELECT string_agg(md5((i * j)::text), E'\\t') FROM generate_series(1, 200) j)"
TABLES = (
    "CREATE TABLE toasted (id int PRIMARY KEY, body text, raw bytea)",
    "ALTER TABLE toasted ALTER body SET STORAGE EXTERNAL",
    f"INSERT INTO toasted SELECT i, {LONG}, decode(repeat('00ff', 3000), 'hex') FROM generate_series(1, 60) i",
    "CREATE TABLE altered (a int, b text, c int)",
    "INSERT INTO altered SELECT i, 'b' || i, i FROM generate_series(1, 50) i",
    "ALTER TABLE altered DROP COLUMN b",
    "ALTER TABLE altered ADD COLUMN d text DEFAULT 'fast', ADD COLUMN \"E e\" int",
    "CREATE TABLE made (a int, b int GENERATED ALWAYS AS (a * 2) STORED, c text)",
    "INSERT INTO made (a, c) SELECT i, 'c' FROM generate_series(1, 20) i",
    "CREATE TABLE nothing (a int, b text)",
    "CREATE TABLE bare ()",
    "INSERT INTO bare DEFAULT VALUES",
    "INSERT INTO bare DEFAULT VALUES",
    "CREATE TABLE parent (a int, b text)",
    "CREATE TABLE child (c int) INHERITS (parent)",
    "CREATE TABLE other (b text, a int)",
    "ALTER TABLE other INHERIT parent",
    "INSERT INTO parent SELECT i, 'parent' FROM generate_series(1, 5) i",
    "INSERT INTO child SELECT i, 'child', i FROM generate_series(1, 5) i",
    "INSERT INTO other SELECT 'other', i FROM generate_series(1, 5) i",
)
PARTS = (
    'CREATE TABLE parts (id int, region text COLLATE "C", v text) PARTITION BY LIST (region)',
    "CREATE TABLE parts_rest PARTITION OF parts DEFAULT",
    "CREATE TABLE parts_null PARTITION OF parts FOR VALUES IN (NULL)",
    "CREATE TABLE parts_c PARTITION OF parts FOR VALUES IN ('c', 'a')",
    "CREATE TABLE parts_b PARTITION OF parts FOR VALUES IN ('b') PARTITION BY RANGE (id)",
    "CREATE TABLE parts_b_high PARTITION OF parts_b FOR VALUES FROM (50) TO (MAXVALUE)",
    'CREATE TABLE parts_b_low (v text, dropped int, region text COLLATE "C", id int)',
    "ALTER TABLE parts_b_low DROP COLUMN dropped",
    "ALTER TABLE parts_b ATTACH PARTITION parts_b_low FOR VALUES FROM (MINVALUE) TO (0)",
    "CREATE TABLE parts_b_middle PARTITION OF parts_b FOR VALUES FROM (0) TO (50)",
    "INSERT INTO parts SELECT i, substr('abcdx', 1 + abs(i) % 5, 1), 'v' || i FROM generate_series(-100, 100) i",
    "INSERT INTO parts VALUES (1, NULL, 'null')",
    "CREATE TABLE hashed (id int, v text) PARTITION BY HASH (id)",
    "CREATE TABLE hashed_1 PARTITION OF hashed FOR VALUES WITH (MODULUS 4, REMAINDER 1)",
    "CREATE TABLE hashed_0 PARTITION OF hashed FOR VALUES WITH (MODULUS 2, REMAINDER 0)",
    "CREATE TABLE hashed_3 PARTITION OF hashed FOR VALUES WITH (MODULUS 4, REMAINDER 3)",
    "INSERT INTO hashed SELECT i, 'v' || i FROM generate_series(1, 100) i",
)
COPIES = (
    "COPY public.types TO STDOUT",
    "COPY public.toasted TO STDOUT",
    "COPY public.toasted (raw, id) TO STDOUT",
    'COPY public.altered (a, c, d, "E e") TO STDOUT',
    "COPY public.altered TO STDOUT",
    "COPY public.made TO STDOUT",
    "COPY (SELECT a, b, c FROM ONLY public.made) TO STDOUT",
    "COPY public.nothing (a, b) TO STDOUT",
    "COPY public.bare TO STDOUT",
    "COPY (SELECT FROM ONLY public.bare) TO STDOUT",
    "COPY (SELECT b, b, a FROM ONLY public.parent) TO STDOUT",
    "COPY (SELECT a, b FROM public.parent) TO STDOUT",
    "COPY public.parent TO STDOUT",
    "COPY (SELECT id, region, v FROM public.parts) TO STDOUT",
    "COPY (SELECT v, id FROM ONLY public.parts) TO STDOUT",
    "COPY public.parts_b_low (id, v) TO STDOUT",
    "COPY (SELECT id, v FROM public.hashed) TO STDOUT",
    "COPY public.renamed TO STDOUT",
)
AFTERWARDS = (
    VALUES,
    NULLS,
    "UPDATE types SET t = upper(t) WHERE i2 % 3 = 0",
    "DELETE FROM types WHERE i2 % 5 = 0",
    f"UPDATE toasted SET body = (SELECT {LONG} FROM (SELECT id AS i) i) WHERE id % 4 = 0",
    "UPDATE toasted SET id = id + 1000 WHERE id % 7 = 0",
    "DELETE FROM toasted WHERE id % 9 = 0",
    "BEGIN; INSERT INTO toasted VALUES (-1, 'gone'); DELETE FROM toasted WHERE id = 2; ROLLBACK",
    "BEGIN; SAVEPOINT s; INSERT INTO toasted VALUES (-2); ROLLBACK TO s; INSERT INTO toasted VALUES (-3); COMMIT",
    "VACUUM altered",
    "UPDATE altered SET d = 'clears the bit of the visibility map' WHERE c < 5",
    "VACUUM altered",
    "DELETE FROM altered WHERE c = 7",
    "ALTER TABLE altered ADD COLUMN f int DEFAULT 7",
    "INSERT INTO altered SELECT i, i, 'new', i, i FROM generate_series(100, 120) i",
    "ALTER TABLE altered DROP COLUMN a",
    "TRUNCATE nothing",
    "UPDATE parts SET region = 'b' WHERE region = 'x' AND id > 10",
    "CREATE TABLE renamed_later AS SELECT i, 'x' AS x FROM generate_series(1, 3000) i",
    "DELETE FROM renamed_later WHERE i % 2 = 0",
    "VACUUM renamed_later",
    "INSERT INTO renamed_later SELECT i, 'again' FROM generate_series(1, 500) i",
    "ALTER TABLE renamed_later RENAME TO renamed",
)


@pytest.mark.parametrize("major", MAJORS)
def test_rows_are_those_of_the_server(tmp_path: Path, major: int) -> None:
    with small_server(major, wal_level="logical", max_prepared_transactions="10") as server:
        run(server, *OF_TYPES, VALUES, NULLS, *TABLES, *PARTS)
        run(
            server,
            "BEGIN",
            "INSERT INTO toasted VALUES (-10)",
            "DELETE FROM toasted WHERE id = 3",
            "PREPARE TRANSACTION 'a'",
        )
        run(server, "BEGIN", "DELETE FROM toasted WHERE id = 5", "PREPARE TRANSACTION 'b'")
        backup = backup_of(server, tmp_path / "base")
        run(server, *(statement for line in AFTERWARDS for statement in line.split("; ")))
        run(server, "COMMIT PREPARED 'a'", "ROLLBACK PREPARED 'b'")
        with copies(server, major, backup) as compared:
            run(server, "UPDATE toasted SET body = 'later'", "DELETE FROM types", "DELETE FROM renamed", "VACUUM")
            compared.compare(*COPIES)


FILTERED = (
    "CREATE TABLE t (id int, name text, is_on bool)",
    "INSERT INTO t SELECT i, 'n' || i, i % 3 = 0 FROM generate_series(1, 100) i",
    "CREATE PUBLICATION p1 FOR TABLE t WHERE (id > 90 AND name <> 'n95')",
    "CREATE PUBLICATION p2 FOR TABLE t WHERE (is_on)",
    "CREATE PUBLICATION p3 FOR TABLE t WHERE (id < 4 OR name LIKE 'n5%'), TABLE parts WHERE (id % 2 = 0)"
    " WITH (publish_via_partition_root)",
)
WHERES = (
    "COPY (SELECT id, name FROM ONLY public.t WHERE ((id > 90) AND (name <> 'n95'::text))) TO STDOUT",
    "COPY (SELECT id FROM ONLY public.t WHERE is_on) TO STDOUT",
    "COPY (SELECT name FROM ONLY public.t WHERE is_on OR ((id < 4) OR (name ~~ 'n5%'::text))) TO STDOUT",
    "COPY (SELECT FROM ONLY public.t WHERE is_on OR is_on) TO STDOUT",
    "COPY (SELECT id, v FROM public.parts WHERE ((id % 2) = 0)) TO STDOUT",
)


@pytest.mark.parametrize("major", [16, 18])
def test_row_filters(tmp_path: Path, major: int) -> None:
    with small_server(major, wal_level="logical") as server:
        run(server, *PARTS, *FILTERED[:2])
        backup = backup_of(server, tmp_path / "base")
        run(server, "UPDATE t SET is_on = NOT is_on WHERE id > 50", "UPDATE parts SET id = id + 1 WHERE id = 7")
        run(server, *FILTERED[2:])
        with copies(server, major, backup) as compared:
            compared.compare(*WHERES)
            at, text = compared.state(), "COPY (SELECT id FROM ONLY public.t WHERE (id > 0)) TO STDOUT"
            refused = compared.ours(at, text)
            assert refused[0] == "0A000"
            assert refused[1] == 'the condition is not of row filters of table "public.t": (id > 0)'


REFUSED_ALIKE = (
    "COPY public.missing TO STDOUT",
    "COPY nowhere.missing TO STDOUT",
    "COPY (SELECT a FROM ONLY nowhere.missing) TO STDOUT",
    "COPY (SELECT a FROM public.missing) TO STDOUT",
    "COPY public.t (id, other) TO STDOUT",
    "COPY public.t (id, id) TO STDOUT",
    "COPY public.t (ctid) TO STDOUT",
    "COPY public.t (twice) TO STDOUT",
    "COPY (SELECT id, other FROM ONLY public.t) TO STDOUT",
    "COPY public.v TO STDOUT",
    "COPY public.s TO STDOUT",
    "COPY public.parts TO STDOUT",
)
REFUSED_HERE = (
    "COPY (SELECT id FROM public.v) TO STDOUT",
    "COPY (SELECT last_value FROM public.s) TO STDOUT",
    "COPY (SELECT ctid FROM public.t) TO STDOUT",
    "COPY public.unlogged TO STDOUT",
    "COPY pg_catalog.pg_class TO STDOUT",
)


@pytest.mark.parametrize("major", MAJORS)
def test_refusals(tmp_path: Path, major: int) -> None:
    with small_server(major, wal_level="logical") as server:
        made = "CREATE TABLE t (id int, twice int GENERATED ALWAYS AS (id * 2) STORED, acl aclitem)"
        run(server, made, "CREATE VIEW v AS SELECT id FROM t", "CREATE SEQUENCE s", *PARTS)
        run(server, "CREATE UNLOGGED TABLE unlogged (a int)")
        backup = backup_of(server, tmp_path / "base")
        with copies(server, major, backup) as compared:
            compared.compare(*REFUSED_ALIKE)
            at = compared.state()
            statement = f"COPY public.t (acl) TO STDOUT{BINARY}"
            assert compared.ours(at, statement) == compared.snapshot.copy(statement)
            for statement in REFUSED_HERE:
                assert compared.ours(at, statement)[0] == "0A000", statement


@pytest.mark.parametrize("major", MAJORS)
def test_a_plain_table(tmp_path: Path, major: int) -> None:
    with small_server(major, wal_level="logical") as server:
        run(
            server,
            "CREATE TABLE t (id int, name text)",
            "INSERT INTO t VALUES (1, 'one'), (2, NULL), (3, E'a\\tb\\\\')",
        )
        backup = backup_of(server, tmp_path / "base")
        run(
            server,
            "INSERT INTO t VALUES (4, 'four')",
            "DELETE FROM t WHERE id = 1",
            "UPDATE t SET name = 'two' WHERE id = 2",
        )
        with copies(server, major, backup) as compared:
            run(server, "INSERT INTO t VALUES (5, 'later')", "DELETE FROM t WHERE id = 3")
            compared.compare("COPY public.t TO STDOUT", "COPY public.t (name, id) TO STDOUT")


def test_virtual_columns_and_foreign_partitions(tmp_path: Path) -> None:
    made = "CREATE TABLE t (a int, b int GENERATED ALWAYS AS (a * 2), c int GENERATED ALWAYS AS (a + 1) STORED)"
    with small_server(18, wal_level="logical") as server:
        run(server, made, "INSERT INTO t SELECT i FROM generate_series(1, 9) i", *PARTS)
        run(server, "CREATE FOREIGN DATA WRAPPER w", "CREATE SERVER f FOREIGN DATA WRAPPER w")
        run(server, "CREATE FOREIGN TABLE parts_far PARTITION OF parts FOR VALUES IN ('far') SERVER f")
        backup = backup_of(server, tmp_path / "base")
        with copies(server, 18, backup) as compared:
            compared.compare("COPY public.t TO STDOUT", "COPY (SELECT c, a FROM ONLY public.t) TO STDOUT")
            compared.compare("COPY public.parts_c TO STDOUT", "COPY public.parts_far TO STDOUT")
            at = compared.state()
            for query in ("SELECT b FROM ONLY public.t", "SELECT id FROM public.parts"):
                assert compared.ours(at, f"COPY ({query}) TO STDOUT")[0] == "0A000"


def test_an_lsn_before_the_end_of_the_backup(tmp_path: Path) -> None:
    with small_server(16, wal_level="logical", wal_keep_size="1GB") as server:
        run(server, "CREATE TABLE t (a int)", "INSERT INTO t VALUES (1)")
        earlier = backup_of(server, tmp_path / "earlier")
        with copies(server, 16, earlier) as compared:
            at = compared.state()
            run(server, "INSERT INTO t VALUES (2)", "CHECKPOINT")
            later = replace(compared, backup=backup_of(server, tmp_path / "later"))
            assert compared.ours(at, "COPY public.t TO STDOUT") == [b"1\n"]
            sqlstate, message, _, hint = later.ours(at, "COPY public.t TO STDOUT")
            assert (sqlstate, message) == (
                "0A000",
                f"rows are asked for as of {Lsn(at.state.lsn)}, before the end of the base backup",
            )
            assert "--upstream" in str(hint)


def test_a_copy_that_is_given_up_leaves_no_files(tmp_path: Path) -> None:
    with small_server(16, wal_level="logical") as server:
        run(server, "CREATE TABLE t AS SELECT i, repeat('x', 1000) AS x FROM generate_series(1, 5000) i")
        backup, scratch = backup_of(server, tmp_path / "base"), tmp_path / "scratch"
        scratch.mkdir()
        with copies(server, 16, backup) as compared:
            copy = parse_copy("COPY public.t TO STDOUT" + BINARY)
            assert copy is not None
            directory = WalDirectory.scan(str(server.wal_directory))
            source = CopySource(str(backup), directory, VERSIONS[16], str(scratch))
            out = copied_rows(source, compared.state(), copy, LocalEngine(), SETTINGS)
            assert (out.column_count, out.is_binary) == (2, True)
            assert next(out.batches).rows > 0
            assert list(scratch.iterdir()) != []
            out.batches.close()
            assert list(scratch.iterdir()) == []


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("major", [16, 17, 18])
def test_a_busy_server(tmp_path: Path, major: int, seed: int) -> None:
    with server_of(major, **EAGER) as server:
        with server.connect() as connection:
            run_script(connection, BUSY)
        with Load(server, seed) as load:
            backup = backup_of(server, tmp_path / "base")
            done = load.done
            wait_until(lambda: load.done > done + 100)
            with copies(server, major, backup) as compared:
                wait_until(lambda: load.done > done + 150)
                compared.compare(*(f"COPY public.{table} TO STDOUT" for table in ("busy", "child", "quiet")))
                compared.compare("COPY (SELECT id, region FROM public.split) TO STDOUT")
